#include "encode/chunk_encoder.hpp"

#include <algorithm>
#include <utility>

namespace cfck::format {
namespace {

// Longer records gain hundredths of a per cent from a second stage, and take half the
// time again.
constexpr std::uint64_t kMaxElemsTriedTwice = std::uint64_t{1} << 15;
// So many values say how many bits each of a long record takes, about.
constexpr std::uint64_t kProbeElems = 4096;

bool wants_rans(const EncodePlan& plan) {
  return codec::find_encoder(CodecId::kLossless)->entropy_for(plan.dtype, plan.entropy) ==
         EntropyId::kRans;
}

Result<void> encode_values(const EncodePlan& plan, EntropyId entropy, std::uint64_t n_elems,
                           ByteView values, WorkerMemory& memory) {
  codec::ChunkInfo info;
  info.dtype = plan.dtype;
  info.entropy = entropy;
  info.n_elems = n_elems;
  info.level = plan.level;
  return codec::find_encoder(CodecId::kLossless)
      ->encode(info, values, memory.scratch, memory.encoded);
}

}  // namespace

Result<ByteView> range_of(const ByteSource& source, std::uint64_t offset_bytes,
                          std::uint64_t n_bytes, std::vector<std::byte>& buffer) {
  const ByteView mapped = source.mapped();
  if (!mapped.empty()) {
    return mapped.subspan(offset_bytes, n_bytes);
  }
  buffer.resize(n_bytes);
  CFCK_TRY(source.read_at(offset_bytes, buffer));
  return ByteView(buffer);
}

Result<ByteView> read_values(const EncodePlan& plan, std::uint64_t offset_bytes,
                             std::uint64_t n_bytes, WorkerMemory& memory) {
  const ByteView mapped = plan.source->mapped();
  if (!mapped.empty()) {
    return mapped.subspan(plan.offset_bytes + offset_bytes, n_bytes);
  }
  if (memory.values_bytes < n_bytes) {
    memory.values.reset();
    memory.values_bytes = 0;
    memory.values = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
    memory.values_bytes = n_bytes;
  }
  const MutableBytes values(memory.values.get(), n_bytes);
  CFCK_TRY(plan.source->read_at(plan.offset_bytes + offset_bytes, values));
  return ByteView(values);
}

Result<ByteView> read_chunk(const EncodePlan& plan, std::uint64_t chunk, WorkerMemory& memory) {
  const ChunkGeometry& geometry = plan.geometry;
  return read_values(plan, chunk * geometry.chunk_bytes, geometry.bytes_of(chunk), memory);
}

LeafEdges hash_leaves(DigestBuilder& digest, std::uint64_t offset_bytes, ByteView values) {
  const DigestBuilder::Edges found = digest.hash_whole_leaves(offset_bytes, values);
  LeafEdges edges;
  edges.head_offset = offset_bytes;
  edges.head.assign(found.head.begin(), found.head.end());
  edges.tail_offset = offset_bytes + values.size() - found.tail.size();
  edges.tail.assign(found.tail.begin(), found.tail.end());
  return edges;
}

void add_edges(DigestBuilder& digest, const LeafEdges& edges) {
  if (!edges.head.empty()) {
    digest.add_edge(edges.head_offset, edges.head);
  }
  if (!edges.tail.empty()) {
    digest.add_edge(edges.tail_offset, edges.tail);
  }
}

std::vector<EntropyId> stages_to_try(const EncodePlan& plan) {
  const EntropyId wanted =
      codec::find_encoder(CodecId::kLossless)->entropy_for(plan.dtype, plan.entropy);
  const bool tries_both = plan.level == EncodeLevel::kArchive ||
                          (plan.level == EncodeLevel::kDefault && plan.geometry.n_chunks == 1 &&
                           plan.geometry.n_elems <= kMaxElemsTriedTwice);
  if (wants_rans(plan) && tries_both) {
    return {wanted, EntropyId::kZstd};
  }
  return {wanted};
}

bool may_prefer_zstd(const EncodePlan& plan, std::uint64_t payload_bytes, std::uint64_t n_elems) {
  return plan.level == EncodeLevel::kDefault && wants_rans(plan) && payload_bytes < n_elems / 4;
}

Result<bool> may_prefer_zstd(const EncodePlan& plan, WorkerMemory& memory) {
  if (plan.level != EncodeLevel::kDefault || !wants_rans(plan)) {
    return false;
  }
  const std::uint64_t n_elems = std::min(kProbeElems, plan.geometry.elems_of(0));
  CFCK_TRY_ASSIGN(const ByteView values,
                  read_values(plan, 0, n_elems * bits_per_element(plan.dtype) / 8, memory));
  CFCK_TRY(encode_values(plan, EntropyId::kRans, n_elems, values, memory));
  return may_prefer_zstd(plan, memory.encoded.payload.size(), n_elems);
}

Result<void> encode_lossless(const EncodePlan& plan, EntropyId entropy, std::uint64_t chunk,
                             ByteView values, WorkerMemory& memory) {
  return encode_values(plan, entropy, plan.geometry.elems_of(chunk), values, memory);
}

std::vector<LossyTrial> lossy_trials(const EncodePlan& plan) {
  if (plan.spectral) {
    return {{plan.entropy, plan.level}};
  }
  std::vector<LossyTrial> trials;
  for (const EntropyId entropy : stages_to_try(plan)) {
    trials.push_back({entropy, plan.level});
    if (plan.level == EncodeLevel::kArchive) {
      trials.push_back({entropy, EncodeLevel::kDefault});
    }
  }
  return trials;
}

Result<codec::LossyDecision> plan_lossy(const EncodePlan& plan, const LossyTrial& trial,
                                        WorkerMemory& memory,
                                        const std::function<Result<void>()>& before_read) {
  codec::LossyRecord record;
  record.dtype = plan.dtype;
  record.shape = plan.shape;
  record.chunk_elems = plan.geometry.chunk_elems;
  record.bound = plan.choice.bound.value_or(ErrorBound{BoundKind::kNone, false, 0});
  // Whether lossless is smaller than codec spectral was found out with its step.
  record.is_forced = plan.choice.codec == CodecChoice::kDirect || plan.spectral;
  if (plan.spectral) {
    record.request = std::make_shared<codec::SpectralRequest>(*plan.spectral);
  }
  record.keeps_near_zero = plan.choice.keeps_near_zero;
  record.entropy = trial.entropy;
  record.level = trial.level;
  const std::uint64_t value_bytes = bits_per_element(plan.dtype) / 8;
  const codec::ReadValues read = [&](std::uint64_t first_elem, std::uint64_t n_elems,
                                     std::vector<std::byte>& workspace) -> Result<ByteView> {
    if (before_read) {
      CFCK_TRY(before_read());
    }
    return range_of(*plan.source, plan.offset_bytes + first_elem * value_bytes,
                    n_elems * value_bytes, workspace);
  };
  const CodecId codec = plan.spectral ? CodecId::kSpectral : CodecId::kDirect;
  return codec::find_lossy_encoder(codec)->plan(record, read, memory.scratch);
}

Result<codec::ErrorTotals> encode_lossy(const EncodePlan& plan, const codec::LossyPlan& lossy,
                                        std::uint64_t chunk, ByteView values,
                                        WorkerMemory& memory) {
  memory.decoded.resize(values.size());
  codec::ErrorTotals errors;
  CFCK_TRY(lossy.encode(chunk * plan.geometry.chunk_elems, values, memory.scratch, memory.decoded,
                        memory.encoded, errors));
  return errors;
}

ChunkExtent take_extent(codec::EncodedChunk& encoded, PayloadPool& payloads) {
  ChunkExtent extent;
  extent.payload = std::exchange(encoded.payload, payloads.take());
  store_frame_header(extent.header.data(), kChunkTag, kFrameHeaderBytes + encoded.body_bytes);
  return extent;
}

std::uint64_t single_chunk_cost(const ChunkGeometry& geometry, std::uint64_t payload_bytes) {
  return is_packed(geometry, payload_bytes) ? payload_bytes : payload_bytes + kFrameHeaderBytes;
}

std::uint64_t raw_cost(const ChunkGeometry& geometry) {
  const std::uint64_t n_frames =
      ceil_div(geometry.n_chunks, raw_chunks_per_frame(geometry.chunk_bytes));
  return geometry.n_bytes + n_frames * kFrameHeaderBytes;
}

std::uint64_t raw_bytes(const ChunkGeometry& geometry) {
  return geometry.n_chunks == 1 ? single_chunk_cost(geometry, geometry.n_bytes)
                                : raw_cost(geometry);
}

}  // namespace cfck::format

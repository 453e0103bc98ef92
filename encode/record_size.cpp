#include "encode/record_size.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "encode/record_encoder.hpp"

namespace cfck::format {
namespace {

StoredRecord entry_of(const EncodePlan& plan) {
  StoredRecord stored;
  Record& entry = stored.record;
  entry.name = plan.name;
  entry.dtype = plan.dtype;
  entry.shape = plan.shape;
  entry.n_elems = plan.geometry.n_elems;
  entry.decoded_bytes = plan.geometry.n_bytes;
  entry.chunk_elems = plan.geometry.chunk_elems;
  entry.n_chunks = plan.geometry.n_chunks;
  return stored;
}

RecordSize size_of(const Index& index, const StoredRecord& stored) {
  RecordSize size;
  size.codec = stored.record.codec;
  if (stored.record.kind == RecordKind::kPacked) {
    size.payload_bytes.push_back(stored.payload_bytes);
    return size;
  }
  const ChunkEntry* entry = index.chunks.data() + stored.first_chunk;
  if (stored.has_preamble) {
    size.preamble_bytes = entry++->n_bytes - kFrameHeaderBytes;
  }
  for (std::uint64_t chunk = 0; chunk < stored.record.n_chunks; ++chunk) {
    size.payload_bytes.push_back(entry[chunk].n_bytes - kFrameHeaderBytes);
  }
  return size;
}

}  // namespace

std::uint64_t RecordSize::stored_bytes(const ChunkGeometry& geometry) const {
  if (codec == CodecId::kRaw) {
    return raw_bytes(geometry);
  }
  if (geometry.n_chunks == 1) {
    return single_chunk_cost(geometry, payload_bytes.front());
  }
  std::uint64_t n_bytes = preamble_bytes == 0 ? 0 : kFrameHeaderBytes + preamble_bytes;
  for (const std::uint64_t payload : payload_bytes) {
    n_bytes += kFrameHeaderBytes + payload;
  }
  return n_bytes;
}

Result<std::vector<RecordSize>> record_sizes(std::span<const EncodePlan> plans, unsigned threads,
                                             const SizeProgress& progress) {
  Index index;
  for (const EncodePlan& plan : plans) {
    index.records.push_back(entry_of(plan));
  }
  DroppingSink sink;
  RecordLayout layout(sink, kHeadBytes, std::move(index));
  RecordEncoder encoder(layout, threads);
  std::optional<Error> stopped;
  encoder.set_progress([&](std::uint64_t done_bytes, std::string_view name) {
    const Result<void> going = progress(done_bytes, name);
    if (!going) {
      stopped = going.error();
    }
    return going.has_value();
  });
  Result<void> encoded;
  for (std::size_t i = 0; i < plans.size() && encoded; ++i) {
    encoded = encoder.encode(static_cast<std::uint32_t>(i), plans[i]);
  }
  if (encoded) {
    encoded = encoder.drain();
  }
  if (!encoded) {
    return stopped ? *stopped : encoded.error();
  }
  std::vector<RecordSize> sizes;
  for (const StoredRecord& stored : layout.index().records) {
    sizes.push_back(size_of(layout.index(), stored));
  }
  return sizes;
}

Result<void> lay_out(RecordLayout& layout, std::uint32_t record, const ChunkGeometry& geometry,
                     const RecordSize& size) {
  Record& entry = layout.index().records[record].record;
  entry.codec = size.codec;
  if (size.codec == CodecId::kDirect || size.codec == CodecId::kSpectral) {
    entry.error.emplace();
    if (size.codec == CodecId::kSpectral) {
      entry.error->quality.emplace();
    }
  }
  const bool is_raw = size.codec == CodecId::kRaw;
  std::vector<std::byte> zeros;
  const auto blank = [&](std::uint64_t n_bytes) {
    zeros.resize(std::max<std::size_t>(zeros.size(), n_bytes));
    return ByteView(zeros).first(n_bytes);
  };
  const std::uint64_t first_bytes = is_raw ? geometry.n_bytes : size.payload_bytes.front();
  if (is_packed(geometry, first_bytes)) {
    return layout.add_packed(record, blank(first_bytes));
  }
  CFCK_TRY(layout.begin_chunked(record, blank(size.preamble_bytes)));
  for (std::uint64_t chunk = 0; chunk < geometry.n_chunks; ++chunk) {
    if (!is_raw) {
      CFCK_TRY(layout.add_chunk(blank(kFrameHeaderBytes + size.payload_bytes[chunk]), 0));
    } else if (starts_raw_frame(geometry, chunk)) {
      FrameBytes values(geometry.bytes_of(chunk));
      CFCK_TRY(layout.add_first_raw_chunk(geometry, chunk, values));
    } else {
      CFCK_TRY(layout.add_chunk(blank(geometry.bytes_of(chunk)), 0));
    }
  }
  return {};
}

}  // namespace cfck::format

#include "format/write/record_emitter.hpp"

#include "base/hashing/hashing.hpp"

namespace cfck::format {
namespace {

using encode::ChosenRecord;
using encode::SealedChunk;

bool is_raw(const ChosenRecord& record) { return record.candidate.codec == CodecId::kRaw; }

ByteView payload_of(const ChosenRecord& record, const SealedChunk& sealed) {
  return is_raw(record) ? sealed.raw : ByteView(sealed.coded.payload);
}

}  // namespace

bool RecordEmitter::needs_headroom(const ChosenRecord& record, std::uint64_t chunk) const noexcept {
  const ChunkGeometry& geometry = record.plan.geometry;
  return is_raw(record) && !is_packed(geometry, geometry.n_bytes) &&
         starts_raw_frame(geometry, chunk);
}

std::uint64_t RecordEmitter::hash_of(const ChosenRecord& record, std::uint64_t chunk,
                                     const SealedChunk& sealed) const noexcept {
  const ByteView payload = payload_of(record, sealed);
  if (is_packed(record.plan.geometry, payload.size()) || needs_headroom(record, chunk)) {
    return 0;  // these are hashed with what stands in front of them
  }
  return is_raw(record) ? tiled_hash64(payload)
                        : tiled_hash64(chunk_frame_header(sealed.coded.body_bytes), payload);
}

Result<void> RecordEmitter::add_chunk(const ChosenRecord& record, std::uint64_t chunk,
                                      SealedChunk& sealed) {
  const ChunkGeometry& geometry = record.plan.geometry;
  const ByteView payload = payload_of(record, sealed);
  if (is_packed(geometry, payload.size())) {
    return layout_.add_packed(record.number, payload);
  }
  if (chunk == 0) {
    CFCK_TRY(layout_.begin_chunked(record.number, record.candidate.preamble()));
  }
  if (!is_raw(record)) {
    return layout_.add_coded_chunk(sealed.coded.body_bytes, payload, sealed.hash);
  }
  return needs_headroom(record, chunk) ? layout_.add_first_raw_chunk(geometry, chunk, sealed.buffer)
                                       : layout_.add_chunk(payload, sealed.hash);
}

void RecordEmitter::end_record(const ChosenRecord& record, const encode::RecordErrors& errors) {
  Record& entry = layout_.index().records[record.number].record;
  const encode::EncodePlan& plan = record.plan;
  entry.codec = record.candidate.codec;
  entry.entropy = record.candidate.entropy;
  if (record.candidate.lossy == nullptr) {
    return;
  }
  entry.error = RecordError{plan.choice.bound.value_or(ErrorBound{BoundKind::kNone, false, 0}),
                            errors.totals.max_error, errors.rmse()};
  if (plan.has_step) {
    entry.error->quality = plan.quality;
  }
  value_rms_[record.number] = entry.error->quality ? entry.error->quality->rms : errors.value_rms();
}

double RecordEmitter::value_rms(std::uint32_t number) const {
  const auto found = value_rms_.find(number);
  return found == value_rms_.end() ? 0 : found->second;
}

void RecordEmitter::set_digest(std::uint32_t number, const Digest& digest) {
  layout_.index().records[number].record.digest = digest;
}

void RecordEmitter::set_base_digest(std::uint32_t number, const Digest& digest) {
  layout_.index().records[number].record.base_digest = digest;
}

}  // namespace cfck::format

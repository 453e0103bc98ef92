#include "format/record_jobs.hpp"

#include <algorithm>

namespace cfck::format {
namespace {

// Adds the record's name to an error that has none.
Result<void> naming(Result<void> result, const EncodePlan& plan) {
  if (result || !result.error().record.empty()) {
    return result;
  }
  Error error = result.error();
  error.record = plan.name;
  return error;
}

}  // namespace

void set_codec(Record& record, CodecId codec) {
  record.codec = codec;
  record.entropy = codec == CodecId::kRaw
                       ? EntropyId::kNone
                       : codec::find_encoder(codec)->default_entropy(record.dtype);
}

Result<void> RecordEncoder::SingleJob::run(unsigned worker) {
  return naming(encode(encoder_.memory_[worker]), plan_);
}

Result<void> RecordEncoder::SingleJob::encode(WorkerMemory& memory) {
  const ChunkGeometry& geometry = plan_.geometry;
  CFCK_TRY_ASSIGN(const ByteView values, read_values(plan_, 0, geometry.n_bytes, memory));
  digest_ = digest_of(values);
  if (plan_.choice == CodecChoice::kRaw) {
    keep_raw(values);
    return {};
  }
  CFCK_TRY(encode_lossless(plan_, 0, values, memory));
  const std::uint64_t lossless_bytes = memory.encoded.payload.size();
  if (plan_.choice == CodecChoice::kAuto && single_chunk_cost(geometry, lossless_bytes) >=
                                                single_chunk_cost(geometry, geometry.n_bytes)) {
    keep_raw(values);
    return {};
  }
  codec_ = CodecId::kLossless;
  payload_bytes_ = lossless_bytes;
  bytes_ = chunk_extent(memory.encoded, encoder_.frames_);
  return {};
}

void RecordEncoder::SingleJob::keep_raw(ByteView values) {
  payload_bytes_ = values.size();
  if (is_packed(plan_.geometry, payload_bytes_) && !plan_.source->mapped().empty()) {
    in_place_ = values;
  } else {
    bytes_ = encoder_.frames_.take(values.size());
    std::copy(values.begin(), values.end(), bytes_.bytes().begin());
  }
}

Result<void> RecordEncoder::SingleJob::finish() {
  RecordLayout& layout = encoder_.layout_;
  Record& record = layout.index().records[record_].record;
  record.digest = digest_;
  set_codec(record, codec_);
  if (is_packed(plan_.geometry, payload_bytes_)) {
    CFCK_TRY(layout.add_packed(record_, in_place_.empty() ? ByteView(bytes_.bytes()) : in_place_));
  } else {
    CFCK_TRY(layout.begin_chunked(record_));
    if (codec_ == CodecId::kRaw) {
      CFCK_TRY(layout.add_first_raw_chunk(plan_.geometry, 0, bytes_));
    } else {
      const ByteView extent = bytes_.with_prefix(kFrameHeaderBytes);
      CFCK_TRY(layout.add_chunk(extent, hash64(extent)));
    }
  }
  if (in_place_.empty()) {
    encoder_.frames_.give_back(std::move(bytes_));
  }
  return encoder_.report(record_, plan_.geometry.n_bytes);
}

Result<void> RecordEncoder::DigestJob::run(unsigned worker) {
  const EncodePlan& plan = record_->plan;
  const std::uint64_t offset = chunk_ * plan.geometry.chunk_bytes;
  Result<ByteView> values =
      read_values(plan, offset, plan.geometry.bytes_of(chunk_), encoder_.memory_[worker]);
  if (!values) {
    return naming(std::move(values).error(), plan);
  }
  edges_ = hash_leaves(record_->digest, offset, *values);
  return {};
}

Result<void> RecordEncoder::DigestJob::finish() { return encoder_.finish_chunk(*record_, edges_); }

Result<void> RecordEncoder::LosslessJob::run(unsigned worker) {
  const EncodePlan& plan = record_->plan;
  WorkerMemory& memory = encoder_.memory_[worker];
  const std::uint64_t offset = chunk_ * plan.geometry.chunk_bytes;
  Result<ByteView> values = read_values(plan, offset, plan.geometry.bytes_of(chunk_), memory);
  if (!values) {
    return naming(std::move(values).error(), plan);
  }
  encoded_.edges = hash_leaves(record_->digest, offset, *values);
  CFCK_TRY(naming(encode_lossless(plan, chunk_, *values, memory), plan));
  encoded_.extent = chunk_extent(memory.encoded, encoder_.frames_);
  encoded_.hash = hash64(encoded_.extent.with_prefix(kFrameHeaderBytes));
  return {};
}

Result<void> RecordEncoder::LosslessJob::finish() {
  return encoder_.take(record_, chunk_, std::move(encoded_));
}

Result<void> RecordEncoder::RawJob::run(unsigned) {
  const EncodePlan& plan = record_->plan;
  const std::uint64_t offset = chunk_ * plan.geometry.chunk_bytes;
  const std::uint64_t n_bytes = plan.geometry.bytes_of(chunk_);
  const bool first = starts_raw_frame(plan.geometry, chunk_);
  const ByteView mapped = plan.source->mapped();
  if (!first && !mapped.empty()) {
    in_place_ = mapped.subspan(plan.offset_bytes + offset, n_bytes);
  } else {
    bytes_ = encoder_.frames_.take(n_bytes);
    CFCK_TRY(naming(plan.source->read_at(plan.offset_bytes + offset, bytes_.bytes()), plan));
    in_place_ = bytes_.bytes();
  }
  edges_ = hash_leaves(record_->digest, offset, in_place_);
  hash_ = first ? 0 : hash64(in_place_);
  return {};
}

Result<void> RecordEncoder::RawJob::finish() {
  CFCK_TRY(encoder_.begin_if_first(*record_));
  RecordLayout& layout = encoder_.layout_;
  set_codec(layout.index().records[record_->number].record, CodecId::kRaw);
  if (starts_raw_frame(record_->plan.geometry, chunk_)) {
    CFCK_TRY(layout.add_first_raw_chunk(record_->plan.geometry, chunk_, bytes_));
  } else {
    CFCK_TRY(layout.add_chunk(in_place_, hash_));
  }
  if (bytes_.size() != 0) {
    encoder_.frames_.give_back(std::move(bytes_));
  }
  return encoder_.finish_chunk(*record_, edges_);
}

}  // namespace cfck::format

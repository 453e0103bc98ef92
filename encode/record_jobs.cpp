#include "encode/record_jobs.hpp"

#include <algorithm>

#include "base/cpu/float_environment.hpp"
#include "encode/value_totals.hpp"

namespace cfck::format {
void RecordErrors::add(const codec::ErrorTotals& chunk) noexcept {
  const DefaultFloatEnvironment environment;
  totals.max_error = std::max(totals.max_error, chunk.max_error);
  totals.sum_of_squares += chunk.sum_of_squares;
  totals.n_finite += chunk.n_finite;
}

double RecordErrors::rmse() const noexcept {
  return encode::root_mean_square(totals.sum_of_squares, totals.n_finite, totals.max_error);
}

void set_codec(Record& record, CodecId codec, EntropyId entropy) {
  record.codec = codec;
  record.entropy = codec == CodecId::kRaw ? EntropyId::kNone : entropy;
}

void set_lossy(Record& record, const codec::LossyPlan& lossy, const EncodePlan& plan,
               const RecordErrors& errors) {
  record.codec = plan.spectral ? CodecId::kSpectral : CodecId::kDirect;
  record.entropy = lossy.entropy();
  record.error = RecordError{plan.choice.bound.value_or(ErrorBound{BoundKind::kNone, false, 0}),
                             errors.totals.max_error, errors.rmse()};
  if (plan.spectral) {
    record.error->quality = plan.quality;
  }
}

Result<void> RecordEncoder::SingleJob::run(unsigned worker) {
  return naming(encode(encoder_.memory_[worker]), plan_);
}

Result<void> RecordEncoder::SingleJob::encode(WorkerMemory& memory) {
  const ChunkGeometry& geometry = plan_.geometry;
  CFCK_TRY_ASSIGN(const ByteView values, read_values(plan_, 0, geometry.n_bytes, memory));
  if (plan_.choice.is_lossy()) {
    CFCK_TRY_ASSIGN(const bool is_lossy, encode_lossy_values(values, memory));
    if (is_lossy) {
      return {};
    }
  }
  digest_ = digest_of(values);
  if (plan_.choice.codec == CodecChoice::kRaw) {
    keep_raw(values);
    return {};
  }
  CFCK_TRY(encode_lossless_values(values, memory));
  const std::uint64_t lossless_bytes = memory.encoded.payload.size();
  if (plan_.choice.codec != CodecChoice::kLossless &&
      single_chunk_cost(geometry, lossless_bytes) >=
          single_chunk_cost(geometry, geometry.n_bytes)) {
    keep_raw(values);
    return {};
  }
  codec_ = CodecId::kLossless;
  payload_bytes_ = lossless_bytes;
  extent_ = take_extent(memory.encoded, encoder_.payloads_);
  return {};
}

Result<void> RecordEncoder::SingleJob::encode_lossless_values(ByteView values,
                                                              WorkerMemory& memory) {
  std::vector<EntropyId> stages = stages_to_try(plan_);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    std::swap(memory.encoded, memory.other);
    CFCK_TRY(encode_lossless(plan_, stages[i], 0, values, memory));
    const std::uint64_t n_bytes = memory.encoded.payload.size();
    if (i == 0 || n_bytes < memory.other.payload.size()) {
      entropy_ = stages[i];
    } else {
      std::swap(memory.encoded, memory.other);
    }
    if (stages.size() == 1 && may_prefer_zstd(plan_, n_bytes, plan_.geometry.n_elems)) {
      stages.push_back(EntropyId::kZstd);
    }
  }
  return {};
}

Result<bool> RecordEncoder::SingleJob::encode_lossy_values(ByteView values, WorkerMemory& memory) {
  for (const LossyTrial& trial : lossy_trials(plan_)) {
    CFCK_TRY_ASSIGN(codec::LossyDecision decision, plan_lossy(plan_, trial, memory));
    if (decision.plan == nullptr) {
      reason_ = decision.reason;
      if (decision.reason != LosslessReason::kNotSmaller) {
        return false;
      }
      continue;
    }
    std::swap(memory.encoded, memory.other);
    CFCK_TRY_ASSIGN(const codec::ErrorTotals errors,
                    encode_lossy(plan_, *decision.plan, 0, values, memory));
    if (lossy_ != nullptr && memory.encoded.payload.size() >= memory.other.payload.size()) {
      std::swap(memory.encoded, memory.other);
      continue;
    }
    errors_ = {};
    errors_.add(errors);
    digest_ = digest_of(memory.decoded);
    lossy_ = std::move(decision.plan);
  }
  // Without loss a stage may be shorter than another one with.
  if (reason_ && lossy_ != nullptr) {
    codec::EncodedChunk direct = std::move(memory.encoded);
    CFCK_TRY(encode_lossless_values(values, memory));
    if (std::min(memory.encoded.payload.size(), values.size()) <= direct.payload.size()) {
      lossy_.reset();
    } else {
      reason_.reset();
    }
    std::swap(memory.encoded, direct);
  }
  if (lossy_ == nullptr) {
    return false;
  }
  codec_ = plan_.spectral ? CodecId::kSpectral : CodecId::kDirect;
  payload_bytes_ = memory.encoded.payload.size();
  extent_ = take_extent(memory.encoded, encoder_.payloads_);
  return true;
}

void RecordEncoder::SingleJob::keep_raw(ByteView values) {
  payload_bytes_ = values.size();
  if (is_packed(plan_.geometry, payload_bytes_) && !plan_.source->mapped().empty()) {
    in_place_ = values;
  } else {
    bytes_ = encoder_.frames_.take();
    bytes_.resize(values.size());
    std::copy(values.begin(), values.end(), bytes_.bytes().begin());
  }
}

Result<void> RecordEncoder::SingleJob::finish() {
  RecordLayout& layout = encoder_.layout_;
  Record& record = layout.index().records[record_].record;
  record.digest = digest_;
  if (lossy_ != nullptr) {
    set_lossy(record, *lossy_, plan_, errors_);
  } else {
    set_codec(record, codec_, entropy_);
  }
  if (reason_) {
    encoder_.kept_lossless_.emplace(record_, *reason_);
  }
  if (is_packed(plan_.geometry, payload_bytes_)) {
    CFCK_TRY(layout.add_packed(record_, packed_payload()));
  } else {
    CFCK_TRY(layout.begin_chunked(record_));
    if (codec_ == CodecId::kRaw) {
      CFCK_TRY(layout.add_first_raw_chunk(plan_.geometry, 0, bytes_));
    } else {
      CFCK_TRY(layout.add_chunk(extent_, hash64(extent_.header, extent_.payload)));
    }
  }
  if (codec_ != CodecId::kRaw) {
    encoder_.payloads_.give_back(std::move(extent_.payload));
  } else if (in_place_.empty()) {
    encoder_.frames_.give_back(std::move(bytes_));
  }
  return encoder_.report(record_, plan_.geometry.n_bytes);
}

ByteView RecordEncoder::SingleJob::packed_payload() {
  if (codec_ != CodecId::kRaw) {
    return extent_.payload;
  }
  return in_place_.empty() ? ByteView(bytes_.bytes()) : in_place_;
}

Result<ByteView> RecordEncoder::ChunkJob::read(WorkerMemory& memory) const {
  return naming(read_values(plan(), offset_bytes(), n_bytes(), memory), plan());
}

RecordEncoder::EncodedChunk RecordEncoder::ChunkJob::seal(WorkerMemory& memory, ByteView decoded) {
  EncodedChunk sealed;
  sealed.edges = hash_leaves(record_->digest, offset_bytes(), decoded);
  sealed.extent = take_extent(memory.encoded, encoder_.payloads_);
  sealed.hash = hash64(sealed.extent.header, sealed.extent.payload);
  return sealed;
}

Result<void> RecordEncoder::DigestJob::run(unsigned worker) {
  CFCK_TRY_ASSIGN(const ByteView values, read(encoder_.memory_[worker]));
  edges_ = hash_leaves(record_->digest, offset_bytes(), values);
  return {};
}

Result<void> RecordEncoder::DigestJob::finish() { return encoder_.finish_chunk(*record_, edges_); }

Result<void> RecordEncoder::WeighJob::run(unsigned worker) {
  WorkerMemory& memory = encoder_.memory_[worker];
  CFCK_TRY_ASSIGN(const ByteView values, read(memory));
  for (const ChunkedRecord::Way& way : record_->ways) {
    if (way.lossy != nullptr) {
      CFCK_TRY(naming(encode_lossy(plan(), *way.lossy, chunk_, values, memory), plan()));
    } else {
      CFCK_TRY(naming(encode_lossless(plan(), way.entropy, chunk_, values, memory), plan()));
    }
    extent_bytes_.push_back(kFrameHeaderBytes + memory.encoded.payload.size());
  }
  return {};
}

Result<void> RecordEncoder::WeighJob::finish() {
  for (std::size_t i = 0; i < extent_bytes_.size(); ++i) {
    record_->ways[i].n_bytes += extent_bytes_[i];
  }
  return encoder_.report(record_->number, 0);
}

Result<void> RecordEncoder::LosslessJob::run(unsigned worker) {
  WorkerMemory& memory = encoder_.memory_[worker];
  CFCK_TRY_ASSIGN(const ByteView values, read(memory));
  CFCK_TRY(naming(encode_lossless(plan(), record_->entropy, chunk_, values, memory), plan()));
  encoded_ = seal(memory, values);
  return {};
}

Result<void> RecordEncoder::LosslessJob::finish() {
  return encoder_.take(record_, chunk_, std::move(encoded_));
}

Result<void> RecordEncoder::LossyJob::run(unsigned worker) {
  WorkerMemory& memory = encoder_.memory_[worker];
  CFCK_TRY_ASSIGN(const ByteView values, read(memory));
  CFCK_TRY_ASSIGN(errors_,
                  naming(encode_lossy(plan(), *record_->lossy, chunk_, values, memory), plan()));
  encoded_ = seal(memory, memory.decoded);
  return {};
}

Result<void> RecordEncoder::LossyJob::finish() {
  return encoder_.write_lossy(*record_, encoded_, errors_);
}

Result<void> RecordEncoder::RawJob::run(unsigned) {
  const bool first = starts_raw_frame(plan().geometry, chunk_);
  const std::uint64_t place = plan().offset_bytes + offset_bytes();
  const ByteView mapped = plan().source->mapped();
  if (!first && !mapped.empty()) {
    in_place_ = mapped.subspan(place, n_bytes());
  } else {
    bytes_ = encoder_.frames_.take();
    bytes_.resize(n_bytes());
    CFCK_TRY(naming(plan().source->read_at(place, bytes_.bytes()), plan()));
    in_place_ = bytes_.bytes();
  }
  edges_ = hash_leaves(record_->digest, offset_bytes(), in_place_);
  hash_ = first ? 0 : hash64(in_place_);
  return {};
}

Result<void> RecordEncoder::RawJob::finish() {
  CFCK_TRY(encoder_.begin_if_first(*record_));
  RecordLayout& layout = encoder_.layout_;
  set_codec(layout.index().records[record_->number].record, CodecId::kRaw, EntropyId::kNone);
  if (starts_raw_frame(plan().geometry, chunk_)) {
    CFCK_TRY(layout.add_first_raw_chunk(plan().geometry, chunk_, bytes_));
  } else {
    CFCK_TRY(layout.add_chunk(in_place_, hash_));
  }
  if (bytes_.size() != 0) {
    encoder_.frames_.give_back(std::move(bytes_));
  }
  return encoder_.finish_chunk(*record_, edges_);
}

}  // namespace cfck::format

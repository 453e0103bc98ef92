#include "tools/inspect/bands/scan.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "format/read/stored_payloads.hpp"

namespace cfck::tools {

const Record* spectral_record(const StoredTensor& tensor) {
  if (tensor.record == nullptr) return nullptr;
  const Record& record = *tensor.record;
  const bool is_own = record.kind == RecordKind::kChunked || record.kind == RecordKind::kPacked;
  return is_own && record.codec == CodecId::kSpectral ? &record : nullptr;
}

Result<void> describe_bands(const TensorSet& set, const TensorSet* reference_set,
                            const StoredTensor* original, BandReport& report,
                            const std::function<void(std::uint64_t n_bytes)>& add_done) {
  report.is_measured = original != nullptr;
  std::vector<std::byte> bytes;
  // The error is one of the reference; an offset in that file is not an offset in this one.
  std::optional<Error> failure;
  const auto take = [&](const format::StoredPayload& stored,
                        codec::Scratch& scratch) -> Result<void> {
    CFCK_TRY(check_interrupt());
    const codec::ChunkInfo& info = stored.info;
    if (original != nullptr) {
      bytes.resize(info.n_elems * bits_per_element(info.dtype) / 8);
      auto done = reference_set->read(*original, info.first_elem, info.n_elems, bytes);
      if (!done) return failure.emplace(std::move(done).error());
    }
    CFCK_TRY(
        report.description.add_chunk(info, stored.payload, stored.stored_bytes, bytes, scratch));
    add_done(info.n_elems * bits_per_element(info.dtype) / 8);
    return {};
  };
  const Result<std::uint64_t> shared_bytes =
      format::each_payload(*set.reader_of(*report.tensor), *report.record, take);
  if (!shared_bytes) return failure ? std::move(*failure) : shared_bytes.error();
  report.description.add_shared_bytes(*shared_bytes);
  return {};
}

}  // namespace cfck::tools

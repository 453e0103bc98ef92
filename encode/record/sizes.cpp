#include "encode/record/sizes.hpp"

#include <utility>

#include "encode/record/encoder.hpp"

namespace cfck::encode {
namespace {

// A sink that keeps lengths only.
class SizeSink final : public RecordSink {
 public:
  explicit SizeSink(std::size_t n_records) : sizes_(n_records) {}

  bool needs_headroom(const ChosenRecord&, std::uint64_t) const noexcept override { return false; }
  std::uint64_t hash_of(const ChosenRecord&, std::uint64_t,
                        const SealedChunk&) const noexcept override {
    return 0;
  }
  Result<void> add_chunk(const ChosenRecord& record, std::uint64_t, SealedChunk& sealed) override {
    sizes_[record.number].payload_bytes.push_back(
        record.candidate.codec == CodecId::kRaw ? sealed.raw.size() : sealed.coded.payload.size());
    return {};
  }
  void end_record(const ChosenRecord& record, const RecordErrors&) override {
    sizes_[record.number].codec = record.candidate.codec;
    sizes_[record.number].has_errors = record.candidate.lossy != nullptr;
    sizes_[record.number].preamble_bytes = record.candidate.preamble().size();
  }
  void set_digest(std::uint32_t, const Digest&) override {}
  void set_base_digest(std::uint32_t number, const Digest&) override {
    sizes_[number].has_base = true;
  }

  std::vector<RecordSize> take() { return std::move(sizes_); }

 private:
  std::vector<RecordSize> sizes_;
};

}  // namespace

Result<std::vector<RecordSize>> record_sizes(std::span<const EncodePlan> plans,
                                             const FrameCosts& costs, unsigned threads,
                                             Progress::Listener listener) {
  SizeSink sink(plans.size());
  RecordEncoder encoder(sink, costs, threads);
  encoder.progress().set_listener(std::move(listener));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    CFCK_TRY(encoder.encode(static_cast<std::uint32_t>(i), plans[i]));
  }
  CFCK_TRY(encoder.drain());
  return sink.take();
}

}  // namespace cfck::encode

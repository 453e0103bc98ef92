// Writes encoded records in the layout of the format. Everything is decided before.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "encode/record/sink.hpp"
#include "format/write/record_layout.hpp"

namespace cfck::format {

// Fills codec, entropy stage, errors, digest, place and hashes of the records in the index.
class RecordEmitter final : public encode::RecordSink {
 public:
  // `layout` outlives it.
  explicit RecordEmitter(RecordLayout& layout) : layout_(layout) {}

  // The first chunk of a raw frame gets its start in front when its offset is known.
  bool needs_headroom(const encode::ChosenRecord& record,
                      std::uint64_t chunk) const noexcept override;
  std::uint64_t hash_of(const encode::ChosenRecord& record, std::uint64_t chunk,
                        const encode::SealedChunk& sealed) const noexcept override;
  Result<void> add_chunk(const encode::ChosenRecord& record, std::uint64_t chunk,
                         encode::SealedChunk& sealed) override;
  void end_record(const encode::ChosenRecord& record, const encode::RecordErrors& errors) override;
  void set_digest(std::uint32_t number, const Digest& digest) override;
  void set_base_digest(std::uint32_t number, const Digest& digest) override;
  // Returns the root mean square of the finite values of a record that is lossy and owns its bytes;
  // 0 for others.
  double value_rms(std::uint32_t number) const;

 private:
  RecordLayout& layout_;
  std::unordered_map<std::uint32_t, double> value_rms_;  // of lossy records
};

}  // namespace cfck::format

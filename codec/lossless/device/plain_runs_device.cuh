// Long runs of plain groups of codec lossless on a device, whose raw bits are copied into shared
// memory in advance (codec/symboliser/device/staged_device.cuh). A warp that decodes all lane sets
// of a chunk goes through them, and each warp of a team, which decodes one.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/lossless/device/values_device.cuh"
#include "codec/symboliser/device/bins_device.cuh"
#include "codec/symboliser/device/staged_device.cuh"

namespace cfck::codec {

inline constexpr unsigned kLosslessStageBytes = 2976;
using LosslessStaged = StagesOf<kLosslessStageBytes>;

#if CFCK_HAS_STAGING

// How plain groups of a format are laid out: whole ones with signs and without trailing zero bits.
template <class Format>
struct PlainGroups {
  static constexpr unsigned kBytes = Format::kRawBits * (kGroupSize / 8);
  static constexpr unsigned kMaxRun = LosslessStaged::kMaxRunBytes / kBytes;  // groups
  static constexpr unsigned kRun = kMaxRun < 16 ? kMaxRun : 16;
  static constexpr std::uint32_t kRunBytes = kRun * kBytes;
};

// Facts of a plain group, in a number: the table of its values, and the field of symbol 0.
template <class Format>
CFCK_DEVICE std::uint32_t facts_of_group(std::uint32_t group) {
  const std::uint32_t scale_bin = bin_of(group);
  return LosslessValues<Format>::first_field(scale_bin) << 2 | scale_bin % kPhases;
}
CFCK_DEVICE std::uint32_t table_of_facts(std::uint32_t facts) { return facts % kPhases; }
CFCK_DEVICE std::uint32_t first_of_facts(std::uint32_t facts) {
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(facts) >> 2);
}

// Decodes whole groups with signs from `first` on until one is not plain, or up to `last`. The
// raw bits of `first` are at `raw`, those of all groups before `raw_end`. Calls
// `decode(words, g, facts, stage)` for each, whose raw bits are at `stage`. Returns the group after
// them, and moves `raw` behind their raw bits.
template <class Format, unsigned n_sets, class Decode>
CFCK_DEVICE std::uint32_t decode_plain_runs(LosslessStaged& shared, DeviceLanes<n_sets>& lanes,
                                            const std::uint32_t* groups, std::uint32_t first,
                                            std::uint32_t last, const std::uint8_t*& raw,
                                            const std::uint8_t* raw_end, Decode&& decode) {
  using Groups = PlainGroups<Format>;
  if (first + kUnstagedGroups > last) {
    return first;
  }
  const unsigned lane = simt::lane();
  const auto record_of = [&](std::uint32_t g) {
    const std::uint32_t at = g + lane;
    return lane >= Groups::kRun ? 0 : at < last ? groups[at] : 1;
  };
  std::uint32_t records = record_of(first);
  if (simt::any(!is_plain_group(records))) {
    return first;
  }
  StagedRaw staged(shared, raw, raw_end);
  staged.start(Groups::kRunBytes);
  staged.start(Groups::kRunBytes);
  WordStream<n_sets> words(lanes, shared.words);
  std::uint32_t g = first;
  CFCK_NO_UNROLL
  while (true) {
    const std::uint32_t others = simt::ballot(!is_plain_group(records));
    const unsigned n_plain = others == 0 ? Groups::kRun : simt::lowest_bit(others);
    if (n_plain == 0) {
      break;
    }
    const std::uint32_t facts = facts_of_group<Format>(records);  // of a group in each lane
    records = record_of(g + Groups::kRun);
    const std::uint8_t* stage = staged.await();
    CFCK_NO_UNROLL
    for (unsigned i = 0; i < n_plain; ++i) {
      decode(words, g + i, simt::shuffle(facts, i), stage);
      stage += Groups::kBytes;
    }
    g += n_plain;
    staged.free();
    if (n_plain < Groups::kRun) {
      break;
    }
    staged.start(Groups::kRunBytes);
  }
  staged.close();
  words.close();
  raw += (g - first) * Groups::kBytes;
  return g;
}

#endif

}  // namespace cfck::codec

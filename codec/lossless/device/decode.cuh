// Chunks of mode 2 with the stage `rans` on a device: one warp decodes a chunk
// (codec/lossless/spec.md, section 3). Accepts what decode.cpp accepts, with the same
// values.
#pragma once

#include <type_traits>

#include "base/simt/warp.cuh"
#include "codec/common/fields_device.cuh"
#include "codec/device_chunk.hpp"
#include "codec/entropy/rans/device.cuh"
#include "codec/entropy/rans/section.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "codec/lossless/device/plain_runs_device.cuh"
#include "codec/lossless/device/sections_device.cuh"
#include "codec/lossless/device/values_device.cuh"
#include "codec/symboliser/device/bins_device.cuh"
#include "codec/symboliser/device/raw_bits_device.cuh"
#include "codec/symboliser/float_format.hpp"

namespace cfck::codec {

// A value has at most 52 raw bits, and one group more than the lanes carry is in the tail.
inline constexpr unsigned kMaxGroupRawBytes = 52 * kGroupSize / 8;
inline constexpr unsigned kMaxTailBytes =
    kMaxGroupRawBytes + kMaxDeviceLaneSets * simt::kWarpLanes * kRansStateBits / 8;

// The shared memory of a warp that opens a chunk.
struct LosslessShared {
  DeviceTable tables[kLosslessPlaces];
  WordRing rings[kMaxDeviceLaneSets];
  std::uint8_t tail[kMaxTailBytes];
};
// A warp that decodes the values too has stages beside it.
struct LosslessWarpShared : LosslessShared {
  LosslessStaged staged;
};

// Decodes one chunk of a format with 32 symbols.
template <class Format, unsigned n_sets>
class LosslessWarp {
  using Word = typename Format::Word;
  using Values = LosslessValues<Format>;

 public:
  CFCK_DEVICE LosslessWarp(const DeviceChunk& chunk, const LosslessSections& sections,
                           LosslessShared& shared)
      : chunk_(chunk),
        s_(sections),
        shared_(shared),
        n_values_(chunk.n_values - sections.n_masked),
        n_groups_((n_values_ + kGroupSize - 1) / kGroupSize),
        has_signs_((sections.flags & kHasNoSigns) == 0) {}

  // Reads what comes before the symbols of the values.
  CFCK_DEVICE bool open(std::uint32_t words_at) {
    return open_device_lanes(s_.coded, words_at, shared_.rings, lanes_) && read_groups();
  }
  CFCK_DEVICE const DeviceLanes<n_sets>& lanes() const { return lanes_; }
  CFCK_DEVICE const DeviceTail& tail() const { return tail_; }

  CFCK_DEVICE bool decode(std::uint32_t words_at, LosslessStaged& stages) {
    if (!open(words_at)) {
      return false;
    }
    const bool has_mask = (s_.flags & kHasMask) != 0;
    values_ = reinterpret_cast<Word*>(has_mask ? chunk_.values : chunk_.out);
    if (!decode_values(stages)) {
      return false;
    }
    if (!has_mask) {
      return true;
    }
    simt::sync_warp();
    return spread_masked_chunk<Word>(chunk_);
  }

 private:
  // Bins, trailing zero bits, and which groups come after the end of the lanes.
  CFCK_DEVICE bool read_groups() {
    DeviceBins bins(s_.first_bin, max_bin<Format>(), s_.bin_escapes, chunk_.groups);
    decode_run(lanes_, shared_.tables[0], n_groups_,
               [&](std::uint32_t first, std::uint32_t symbol, bool is_active) {
                 bins.add(first, symbol, is_active, s_.trailing_zero_base);
               });
    bool fits = bins.all_valid();
    if (s_.flags & kHasTrailingZeroStream) {
      simt::sync_warp();
      decode_run(lanes_, shared_.tables[1], n_groups_,
                 [&](std::uint32_t first, std::uint32_t symbol, bool is_active) {
                   if (is_active) {
                     std::uint32_t& group = chunk_.groups[first + simt::lane()];
                     const std::uint32_t bits = s_.trailing_zero_base + symbol;
                     fits =
                         fits && bits < Format::kRawBits && !(is_zero_group(group) && symbol != 0);
                     group = with_trailing_zero_bits(group, bits);
                   }
                 });
    }
    simt::sync_warp();
    if (simt::any(!fits)) {
      return false;
    }
    const auto raw_bytes_of = [&](std::uint32_t g) {
      const std::uint32_t group = chunk_.groups[g];
      return is_zero_group(group)
                 ? 0
                 : Values::group_raw_bytes(has_signs_, trailing_zero_bits_of(group),
                                           size_of_group(n_values_, g));
    };
    const std::uint32_t raw_bytes = sum_of_groups(n_groups_, raw_bytes_of);
    tail_ = find_tail(n_groups_, raw_bytes, n_sets, raw_bytes_of);
    return raw_bytes == s_.raw.n_bytes + tail_.in_lanes;
  }

  // All groups but those whose raw bits the lanes carry, in long runs where they are plain; then
  // these, whose symbols are decoded twice: the raw bits are there when the states have come to
  // their end.
  CFCK_DEVICE bool decode_values([[maybe_unused]] LosslessStaged& stages) {
    const std::uint8_t* raw = s_.raw.data;
    std::uint32_t g = 0;
    CFCK_NO_UNROLL
    while (true) {
      std::uint32_t last = tail_.first_group;
#if CFCK_HAS_STAGING
      g = decode_staged_groups(stages, g, raw);
      last = last - g > kUnstagedGroups ? g + kUnstagedGroups : last;
#endif
      const bool is_tail = g == tail_.first_group;
      if (is_tail) {
        if (!fill_tail(raw)) {
          return false;
        }
        raw = shared_.tail;
        last = n_groups_;
      }
      raw = decode_groups(g, last, raw);
      g = last;
      if (is_tail) {
        return escape_at_ * sizeof(Word) == s_.escapes.n_bytes;
      }
    }
  }

#if CFCK_HAS_STAGING
  // Decodes whole plain groups from `first` on until one is not, or all are done that have their
  // raw bits in the section. Returns the group after them, and moves `raw` behind theirs.
  CFCK_DEVICE std::uint32_t decode_staged_groups(LosslessStaged& stages, std::uint32_t first,
                                                 const std::uint8_t*& raw) {
    const std::uint32_t n_whole = n_values_ / kGroupSize;
    const std::uint32_t last = tail_.first_group < n_whole ? tail_.first_group : n_whole;
    if (!has_signs_ || !simt::can_move_four(values_)) {
      return first;
    }
    Word* values = values_ + std::size_t{first} * kGroupSize;
    return decode_plain_runs<Format>(stages, lanes_, chunk_.groups, first, last, raw, s_.raw.end(),
                                     [&](WordStream<n_sets>& words, std::uint32_t,
                                         std::uint32_t facts, const std::uint8_t* stage) {
                                       decode_staged_group(words, facts, stage, values);
                                       values += kGroupSize;
                                     });
  }

  CFCK_DEVICE void decode_staged_group(WordStream<n_sets>& words, std::uint32_t facts,
                                       const std::uint8_t* stage, Word* values) {
    const typename Values::CommonBits bits(stage);
    const DeviceTable& table = shared_.tables[2 + table_of_facts(facts)];
    const std::uint32_t top_of_lane = Values::top_below(first_of_facts(facts), simt::lane());
    std::uint32_t symbols[kLaneValues];
    std::uint32_t tops[kLaneValues];
    bool has_escape = false;
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      if (t % n_sets == 0) {
        words.refill();
      }
      symbols[t] = words.step(t % n_sets, table);
      has_escape = has_escape || symbols[t] == Format::kSymbolEscape;
      tops[t] = simt::shuffle(top_of_lane, symbols[t]);
    }
    bits.store(tops, values + kLaneValues * simt::lane());
    if (simt::any(has_escape)) {
      std::uint32_t escapes = 0;
      CFCK_UNROLL
      for (unsigned t = 0; t < kLaneValues; ++t) {
        escapes |= (symbols[t] == Format::kSymbolEscape ? 1u : 0u) << t;
      }
      store_escapes(true, escapes, values);
    }
  }
#endif

  // Puts the raw bits of the last groups into shared memory; those in the section are at `raw`.
  CFCK_DEVICE bool fill_tail(const std::uint8_t* raw) {
    const LanesMark<n_sets> before = mark_of(lanes_);
    skip_groups(tail_.first_group);
    const std::uint32_t in_section = tail_.raw_bytes - tail_.in_lanes;
    for (std::uint32_t i = simt::lane(); i < in_section; i += simt::kWarpLanes) {
      shared_.tail[i] = static_cast<std::uint8_t>(simt::load_byte(raw + i));
    }
    const bool fits = finish_device_lanes(lanes_, tail_.in_lanes, shared_.tail + in_section);
    go_back(lanes_, before);
    return fits;
  }

  // Decodes the symbols of the groups from `first` on.
  CFCK_DEVICE void skip_groups(std::uint32_t first) {
    for (std::uint32_t g = first; g < n_groups_; ++g) {
      const std::uint32_t group = chunk_.groups[g];
      if (!is_zero_group(group)) {
        decode_run(lanes_, shared_.tables[2 + bin_of(group) % kPhases], size_of_group(n_values_, g),
                   [](std::uint32_t, std::uint32_t, bool) {});
      }
    }
  }

  // Decodes groups [first, last), whose raw bits are at `raw`; returns what follows these.
  CFCK_DEVICE const std::uint8_t* decode_groups(std::uint32_t first, std::uint32_t last,
                                                const std::uint8_t* raw) {
    const std::uint32_t* const groups = chunk_.groups;
    const std::uint32_t n_whole = n_values_ / kGroupSize;
    const bool are_common = has_signs_ && simt::can_move_four(values_);
    Word* values = values_ + std::size_t{first} * kGroupSize;
    CFCK_NO_UNROLL
    for (std::uint32_t g = first; g < last; ++g, values += kGroupSize) {
      const std::uint32_t group = groups[g];
      if (are_common && g < n_whole && is_plain_group(group)) {
        raw = decode_group<true>(group, kGroupSize, raw, values);
      } else if (is_zero_group(group)) {
        store_zeros(values, size_of_group(n_values_, g));
      } else {
        raw = decode_group<false>(group, size_of_group(n_values_, g), raw, values);
      }
    }
    return raw;
  }

  CFCK_DEVICE static void store_zeros(Word* values, unsigned n) {
    for (unsigned i = simt::lane(); i < n; i += simt::kWarpLanes) {
      values[i] = 0;
    }
  }

  // Decodes a group of n values. Almost all groups are whole and have signs and no trailing zero
  // bits, and their values can be stored at once: is_common.
  template <bool is_common>
  CFCK_DEVICE const std::uint8_t* decode_group(std::uint32_t group, unsigned n,
                                               const std::uint8_t* raw, Word* values) {
    const bool is_whole = is_common || n == kGroupSize;
    const unsigned trailing_zero_bits = is_common ? 0 : trailing_zero_bits_of(group);
    const bool has_signs = is_common || has_signs_;
    const std::uint32_t scale_bin = bin_of(group);
    const DeviceTable& table = shared_.tables[2 + scale_bin % kPhases];
    const std::uint32_t top_of_lane = Values::top_of_symbol(scale_bin, simt::lane());
    std::conditional_t<is_common, typename Values::CommonBits, NoBits> bits(raw);
    std::uint32_t tops[kLaneValues] = {};
    std::uint32_t escapes = 0;
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const unsigned i = t * simt::kWarpLanes + simt::lane();
      if (is_common || t * simt::kWarpLanes < n) {
        if (t % n_sets == 0) {
          fill_rings(lanes_);
        }
        const bool is_active = is_common || i < n;
        const std::uint32_t symbol = decode_step(lanes_, t % n_sets, table, is_active);
        escapes |= (is_active && symbol == Format::kSymbolEscape ? 1u : 0u) << t;
        const std::uint32_t top = simt::shuffle(top_of_lane, symbol);
        if constexpr (is_common) {
          tops[t] = top;
        } else if (is_active) {
          const unsigned place = place_in_group(is_whole, t, simt::lane());
          values[place] = Values::value_of(
              Values::raw_bits_of(raw, has_signs, trailing_zero_bits, n, place), top);
        }
      }
    }
    if constexpr (is_common) {
      bits.store(tops, values + kLaneValues * simt::lane());
    }
    if (simt::any(escapes != 0)) {
      store_escapes(is_whole, escapes, values);
    }
    return raw + Values::group_raw_bytes(has_signs, trailing_zero_bits, n);
  }

  struct NoBits {
    CFCK_DEVICE explicit NoBits(const std::uint8_t*) {}
  };
  // Stores escaped values of a group in order, over what is there. Bit t of `escapes` is for number
  // t of the lane.
  CFCK_DEVICE void store_escapes(bool is_whole, std::uint32_t escapes, Word* values) {
    escape_at_ += each_marked(is_whole, escapes, [&](unsigned t, std::uint32_t number) {
      number += escape_at_;
      if ((number + 1) * sizeof(Word) <= s_.escapes.n_bytes) {
        values[place_in_group(is_whole, t, simt::lane())] =
            load_value<Word>(s_.escapes.data + number * sizeof(Word));
      }
    });
  }

  const DeviceChunk& chunk_;
  const LosslessSections& s_;
  LosslessShared& shared_;
  const std::uint32_t n_values_;  // not masked
  const std::uint32_t n_groups_;
  const bool has_signs_;
  DeviceLanes<n_sets> lanes_;
  DeviceTail tail_;
  Word* values_ = nullptr;
  std::uint32_t escape_at_ = 0;  // number of escapes stored
};

// Decodes a chunk whose payload begins with mode 2. False for one that the CPU refuses; then what
// was written is unspecified.
template <class Format>
CFCK_DEVICE bool decode_lossless_chunk(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                       LosslessWarpShared& shared) {
  const LosslessSections sections = lossless_sections(chunk);
  std::uint32_t at = 0;
  unsigned n_sets = 0;
  simt::sync_warp();  // whoever still reads tables of the chunk before
  if (!open_device_section(sections.coded, sections.tables, static_tables,
                           {shared.tables, kLosslessPlaces, kLosslessValueTables.first}, at,
                           n_sets)) {
    return false;
  }
  switch (n_sets) {
    case 1:
      return LosslessWarp<Format, 1>(chunk, sections, shared).decode(at, shared.staged);
    case 2:
      return LosslessWarp<Format, 2>(chunk, sections, shared).decode(at, shared.staged);
    default:
      return LosslessWarp<Format, 4>(chunk, sections, shared).decode(at, shared.staged);
  }
}

}  // namespace cfck::codec

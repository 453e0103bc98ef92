// Chunks of the direct codec with the stage `rans` on a device: one warp decodes a chunk
// (codec/direct/spec.md). Accepts what codec/direct/chunk/decode.cpp accepts, with the same values.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/float_values.hpp"
#include "codec/device_chunk.hpp"
#include "codec/direct/chunk/header.hpp"
#include "codec/direct/device/escapes_device.cuh"
#include "codec/direct/device/index_passes_device.cuh"
#include "codec/direct/device/runs_device.cuh"
#include "codec/direct/device/sections_device.cuh"
#include "codec/entropy/rans/device.cuh"
#include "codec/entropy/rans/section.hpp"
#include "codec/symboliser/device/bins_device.cuh"
#include "codec/symboliser/device/raw_bits_device.cuh"

namespace cfck::codec {

// A value has at most 30 low bits; one group more than the lanes carry is in the tail.
inline constexpr unsigned kMaxDirectTailBytes =
    30 * kGroupSize / 8 + kMaxDeviceLaneSets * simt::kWarpLanes * kRansStateBits / 8;

// The shared memory of a warp that opens a chunk.
struct DirectShared {
  DeviceTable tables[kDirectPlaces];
  WordRing rings[kMaxDeviceLaneSets];
  DirectSectionsOnDevice sections;  // here, since registers are scarce
  std::uint32_t next_of_bin[kBinCounters];
  std::uint8_t tail[kMaxDirectTailBytes];
};

// A warp that decodes the values too has stages beside it.
struct DirectWarpShared : DirectShared {
  DirectStaged staged;
};

// Returns 1 for an escape, and 0 for other symbols, without a predicate: WordStream::step_all()
// says what these cost.
CFCK_DEVICE std::uint32_t escape_bit(std::uint32_t symbol) {
  static_assert(kSymbolEscape == kRansSymbols - 1);
  return (symbol + 1) / kRansSymbols;
}

// Whether an index is that of a symbol whose low bits may have made it overflow, and in range.
template <bool to_values>
CFCK_DEVICE bool is_index_of(std::int32_t index, std::uint32_t symbol, unsigned low_bits) {
  const auto high = static_cast<std::int32_t>(symbol - kSymbolOfZero);
  return index > kMasked && index >> low_bits == high && (!to_values || is_valid_index(index));
}

// Sets `mask` to the mask of a chunk, or to nullptr. False where it is not as the header says.
CFCK_DEVICE bool find_direct_mask(const DeviceChunk& chunk, const DirectSectionsOnDevice& s,
                                  const std::uint8_t*& mask) {
  if ((s.flags & kDirectMask) == 0) {
    return true;
  }
  const bool is_plain = s.mask.n_bytes == (std::uint64_t{chunk.n_values} + 7) / 8;
  mask = is_plain ? s.mask.data : chunk.mask;
  return mask != nullptr && is_device_mask_of(mask, chunk.n_values, s.n_masked);
}

// Decodes one chunk.
template <class Value, unsigned n_sets>
class DirectWarp {
  using Word = typename Value::Word;

 public:
  CFCK_DEVICE DirectWarp(const DeviceChunk& chunk, DirectShared& shared)
      : chunk_(chunk),
        s_(shared.sections),
        shared_(shared),
        parameters_(*chunk.parameters),
        n_unmasked_(chunk.n_values - s_.n_masked),
        n_groups_((n_unmasked_ + kGroupSize - 1) / kGroupSize),
        step_(parameters_.step),
        has_row_steps_(parameters_.row_steps != nullptr) {}

  // Reads what comes before the symbols of the values. A field's bins have been counted.
  CFCK_DEVICE bool open(std::uint32_t words_at) {
    // Lanes take registers: what does without them comes first.
    return read_device_escapes(chunk_, s_) &&
           open_device_lanes(s_.coded, words_at, shared_.rings, lanes_) && read_groups();
  }
  CFCK_DEVICE const DeviceLanes<n_sets>& lanes() const { return lanes_; }
  CFCK_DEVICE const DeviceTail& tail() const { return tail_; }

  CFCK_DEVICE bool decode(std::uint32_t words_at, DirectStaged& stages) {
    const bool has_field = parameters_.bands != nullptr;
    if (!find_direct_mask(chunk_, s_, mask_)) {
      return false;
    }
    if (has_field) {
      count_bins(parameters_, mask_, chunk_.n_values, {0, chunk_.n_values}, shared_.next_of_bin);
    }
    if (!open(words_at)) {
      return false;
    }
    const bool has_prediction = parameters_.coefficients != nullptr;
    if (!has_field && !has_prediction && mask_ == nullptr) {
      out_ = chunk_.out;
      return decode_values<true>(stages) && n_exact_ == s_.n_exact;
    }
    out_ = indices().merged;
    if (!decode_values<false>(stages)) {
      return false;
    }
    simt::sync_warp();
    return pass_indices();
  }

 private:
  // The groups, by their symbols or by the field, and where their raw bits are.
  CFCK_DEVICE bool read_groups() {
    bool fits = true;
    if (parameters_.bands != nullptr) {
      find_first_of_bins(shared_.next_of_bin);
      set_device_groups(shared_.next_of_bin, n_unmasked_, chunk_.groups);
    } else {
      DeviceBins bins(s_.first_bin, kMaxDirectBin, s_.bin_escapes, chunk_.groups);
      decode_run(lanes_, shared_.tables[0], n_groups_,
                 [&](std::uint32_t first, std::uint32_t symbol, bool is_active) {
                   bins.add(first, symbol, is_active, 0);
                 });
      fits = bins.all_valid();
      simt::sync_warp();
      for (std::uint32_t g = simt::lane(); g < n_groups_; g += simt::kWarpLanes) {
        fits = fits && (bin_of(chunk_.groups[g]) != 0 || is_zero_group(chunk_.groups[g]));
      }
    }
    if (simt::any(!fits)) {
      return false;
    }
    const auto raw_bytes_of = [&](std::uint32_t g) {
      const std::uint32_t group = chunk_.groups[g];
      return is_zero_group(group)
                 ? 0
                 : static_cast<std::uint32_t>(
                       packed_bytes(low_bits_of_bin(bin_of(group)), size_of_group(n_unmasked_, g)));
    };
    const std::uint32_t raw_bytes = sum_of_groups(n_groups_, raw_bytes_of);
    tail_ = find_tail(n_groups_, raw_bytes, n_sets, raw_bytes_of);
    return raw_bytes == s_.raw.n_bytes + tail_.in_lanes;
  }

  // Decodes all groups to values or to indices, the last ones twice
  // (codec/lossless/device/decode.cuh).
  template <bool to_values>
  CFCK_DEVICE bool decode_values(DirectStaged& stages) {
    const std::uint32_t* const groups = chunk_.groups;
    const std::uint8_t* raw = s_.raw.data;
    RingSteps<n_sets> steps(lanes_);
    std::uint32_t g = 0;
    bool is_tail = false;
    CFCK_NO_UNROLL
    while (true) {
      if (!is_tail && g == tail_.first_group) {
        if (!fill_tail(raw, stages)) {
          return false;
        }
        raw = shared_.tail;
        is_tail = true;
      }
      std::uint32_t last = is_tail ? n_groups_ : tail_.first_group;
#if CFCK_HAS_STAGING
      if constexpr (to_values) {
        g = decode_staged_groups(stages, g, raw, is_tail);
        last = last - g > kUnstagedGroups ? g + kUnstagedGroups : last;
      }
#endif
      CFCK_NO_UNROLL
      for (; g < last; ++g) {
        const std::uint32_t group = groups[g];
        raw = is_common_group(group) && size_of_group(n_unmasked_, g) == kGroupSize
                  ? decode_group<to_values, true>(steps, g, group, raw)
                  : decode_group<to_values, false>(steps, g, group, raw);
      }
      if (is_tail && g == n_groups_) {
        return !simt::any(!fits_) && escape_at_ == s_.n_escapes;
      }
    }
  }

#if CFCK_HAS_STAGING
  // Decodes whole common groups to values as codec lossless does
  // (codec/lossless/device/decode.cuh), where one step is for all.
  CFCK_DEVICE std::uint32_t decode_staged_groups(DirectStaged& stages, std::uint32_t first,
                                                 const std::uint8_t*& raw, bool is_tail) {
    const std::uint32_t n_whole = n_unmasked_ / kGroupSize;
    const std::uint32_t last = is_tail || n_whole < tail_.first_group ? n_whole : tail_.first_group;
    if (has_row_steps_ || !simt::can_move_four(static_cast<Word*>(out_))) {
      return first;
    }
    RunBits bits{raw, s_.raw.end(), shared_.tail, is_tail};
    first = decode_common_runs(stages, lanes_, chunk_.groups, first, last, bits,
                               [&](WordStream<n_sets>& words, std::uint32_t g, std::uint32_t group,
                                   const std::uint8_t* stage) {
                                 return decode_group<true, true, true>(words, g, group, stage);
                               });
    raw = bits.raw;
    return first;
  }
#endif

  CFCK_DEVICE bool fill_tail(const std::uint8_t* raw, DirectStaged& stages) {
    const LanesMark<n_sets> before = mark_of(lanes_);
    std::uint32_t g = skip_whole_groups<kLaneValues>(
        stages, lanes_, chunk_.groups, tail_.first_group, n_unmasked_ / kGroupSize,
        [&](std::uint32_t group) -> const DeviceTable& {
          return shared_.tables[2 + table_of_bin(bin_of(group))];
        });
    for (; g < n_groups_; ++g) {
      const std::uint32_t group = chunk_.groups[g];
      if (!is_zero_group(group)) {
        decode_run(lanes_, shared_.tables[2 + table_of_bin(bin_of(group))],
                   size_of_group(n_unmasked_, g), [](std::uint32_t, std::uint32_t, bool) {});
      }
    }
    const std::uint32_t in_section = tail_.raw_bytes - tail_.in_lanes;
    for (std::uint32_t i = simt::lane(); i < in_section; i += simt::kWarpLanes) {
      shared_.tail[i] = static_cast<std::uint8_t>(simt::load_byte(raw + i));
    }
    const bool fits = finish_device_lanes(lanes_, tail_.in_lanes, shared_.tail + in_section);
    go_back(lanes_, before);
    return fits;
  }

  // Decodes a group, whose raw bits are at `raw`; returns what follows these. is_common: it is, and
  // whole. has_one_step: as has_row_steps_ says, too. `steps` is RingSteps or WordStream.
  template <bool to_values, bool is_common, bool has_one_step = false, class Steps>
  CFCK_DEVICE const std::uint8_t* decode_group(Steps& steps, std::uint32_t g, std::uint32_t group,
                                               const std::uint8_t* raw) {
    const unsigned n = is_common ? kGroupSize : size_of_group(n_unmasked_, g);
    const std::uint32_t scale_bin = bin_of(group);
    const bool is_zero = !is_common && is_zero_group(group);
    const unsigned low_bits = is_zero ? 0 : low_bits_of_bin(scale_bin);
    std::uint32_t low[kLaneValues] = {};
    raw = is_common ? add_neighbours(raw, low_bits, 0, low)
                    : add_bits_of_group(raw, low_bits, 0, n, low);
    const DeviceTable& table = shared_.tables[2 + (is_zero ? 0 : table_of_bin(scale_bin))];
    std::int32_t indices[kLaneValues] = {};
    std::uint32_t escapes = 0;
    constexpr bool are_all_at_once = has_one_step && n_sets == kLaneValues;
    std::uint32_t symbols[kLaneValues] = {};
    if constexpr (are_all_at_once) {
      steps.refill();
      steps.step_all(table, symbols);
    }
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      if (is_common || (!is_zero && t * simt::kWarpLanes < n)) {
        const bool is_active = is_common || t * simt::kWarpLanes + simt::lane() < n;
        if constexpr (!are_all_at_once) {
          if (t % n_sets == 0) {
            steps.refill();
          }
          symbols[t] = steps.step(t % n_sets, table, is_active);
        }
        const std::uint32_t symbol = symbols[t];
        const std::uint32_t escape = is_active ? escape_bit(symbol) : 0;
        indices[t] = static_cast<std::int32_t>((symbol - kSymbolOfZero) << low_bits | low[t]);
        if (!is_common && low_bits > kMaxSafeLowBits && is_active && escape == 0) {
          fits_ = fits_ && is_index_of<to_values>(indices[t], symbol, low_bits);
        }
        escapes |= escape << t;
      }
    }
    const bool is_whole = is_common || n == kGroupSize;
    const std::uint32_t first_exact = n_exact_;
    const std::uint32_t first = g * kGroupSize;
    const std::uint32_t exact =
        simt::any(escapes != 0) ? take_escapes<to_values>(is_whole, escapes, indices) : 0;
    if constexpr (has_one_step) {
      store_group(first + kLaneValues * simt::lane(), indices);
    } else {
      CFCK_UNROLL
      for (unsigned t = 0; t < kLaneValues; ++t) {
        if (t * simt::kWarpLanes + simt::lane() < n) {
          store<to_values>(first + place_in_group(is_whole, t, simt::lane()), indices[t]);
        }
      }
    }
    if (to_values && n_exact_ != first_exact) {
      store_exact(is_whole, exact, first_exact, first);
    }
    return raw;
  }

  // Takes the next escapes in the order of the values; `escapes` has a bit for each value of the
  // lane. Returns such bits for exact values.
  template <bool to_values>
  CFCK_DEVICE std::uint32_t take_escapes(bool is_whole, std::uint32_t escapes,
                                         std::int32_t* indices) {
    std::uint32_t exact = 0;
    escape_at_ += each_marked(is_whole, escapes, [&](unsigned t, std::uint32_t number) {
      number += escape_at_;
      const bool is_there = number < s_.n_escapes;
      indices[t] = is_there ? chunk_.escapes[number] : 0;
      fits_ =
          fits_ && is_there && (!to_values || indices[t] == kExact || is_valid_index(indices[t]));
      exact |= (indices[t] == kExact ? 1u : 0u) << t;
    });
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      n_exact_ += simt::popcount(simt::ballot((exact >> t & 1) != 0));
    }
    return exact;
  }

  // Stores the exact values of a group, from number `at` on, over what is there; `exact` has a bit
  // for each value of the lane, and `first` is the first of the group.
  CFCK_DEVICE void store_exact(bool is_whole, std::uint32_t exact, std::uint32_t at,
                               std::uint32_t first) {
    (void)each_marked(is_whole, exact, [&](unsigned t, std::uint32_t number) {
      number += at;
      if (number < s_.n_exact) {
        static_cast<Word*>(out_)[first + place_in_group(is_whole, t, simt::lane())] =
            load_value<Word>(s_.exact.data + std::size_t{number} * sizeof(Word));
      }
    });
  }

  // Stores the values of four neighbours, from number i on, all with one step.
  CFCK_DEVICE void store_group(std::uint32_t i, const std::int32_t* indices) {
    Word values[kLaneValues];
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      values[t] = value_of<true>(i + t, indices[t]);
    }
    simt::store_four(static_cast<Word*>(out_) + i, values);
  }

  template <bool to_values>
  CFCK_DEVICE void store(std::uint32_t i, std::int32_t index) {
    if constexpr (to_values) {
      static_cast<Word*>(out_)[i] = value_of<false>(i, index);
    } else {
      static_cast<std::int32_t*>(out_)[i] = index;
    }
  }
  template <bool has_one_step>
  CFCK_DEVICE Word value_of(std::uint32_t i, std::int32_t index) const {
    const double step = !has_one_step && has_row_steps_ ? step_of_value(parameters_, i) : step_;
    return Value::from_double(static_cast<double>(index) * step);
  }

  CFCK_DEVICE DirectIndices indices() const {
    return indices_of<Word>(chunk_, parameters_.bands != nullptr || mask_ != nullptr, n_groups_);
  }

  // Puts the indices of all groups into the order of storage, and computes the values.
  CFCK_DEVICE bool pass_indices() {
    const DirectIndices indices = this->indices();
    const DevicePart all{0, chunk_.n_values};
    if (parameters_.bands != nullptr) {
      fetch_by_bins(parameters_, mask_, chunk_.n_values, all, shared_.next_of_bin, indices.merged,
                    indices.stored);
    } else if (mask_ != nullptr) {
      spread_indices(mask_, chunk_.n_values, all, indices.merged, indices.stored);
    }
    simt::sync_warp();
    if (parameters_.coefficients != nullptr) {
      if (!restore_device_indices(parameters_, chunk_.n_values, indices.stored, 0, 1)) {
        return false;
      }
      simt::sync_warp();
    }
    std::uint32_t n_exact = 0;
    return store_device_values<Value>(parameters_, all, indices.stored, s_.exact, n_exact,
                                      static_cast<Word*>(chunk_.out)) &&
           n_exact * sizeof(Word) == s_.exact.n_bytes;
  }

  const DeviceChunk& chunk_;
  const DirectSectionsOnDevice& s_;
  DirectShared& shared_;
  const DeviceParameters& parameters_;
  const std::uint32_t n_unmasked_;  // values that are not masked
  const std::uint32_t n_groups_;
  const double step_;  // if there are no steps of rows
  const bool has_row_steps_;
  void* out_ = nullptr;  // of the values, or of their indices
  const std::uint8_t* mask_ = nullptr;
  DeviceLanes<n_sets> lanes_;
  DeviceTail tail_;
  std::uint32_t escape_at_ = 0;  // number of escapes taken
  std::uint32_t n_exact_ = 0;    // of these, exact values
  bool fits_ = true;
};

// Decodes a chunk of mode 4 or 5. False for one that the CPU refuses: values are unspecified then.
template <class Value>
CFCK_DEVICE bool decode_direct_chunk(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                     DirectWarpShared& shared) {
  const DirectSectionsOnDevice sections = direct_sections(chunk);
  simt::sync_warp();  // whoever still reads what the chunk before has left
  if (simt::lane() == 0) {
    shared.sections = sections;
  }
  simt::sync_warp();
  std::uint32_t at = 0;
  unsigned n_sets = 0;
  if (!open_device_section(sections.coded, sections.tables, static_tables,
                           {shared.tables, kDirectPlaces, kDirectValueTables.first}, at, n_sets)) {
    return false;
  }
  switch (n_sets) {
    case 1:
      return DirectWarp<Value, 1>(chunk, shared).decode(at, shared.staged);
    case 2:
      return DirectWarp<Value, 2>(chunk, shared).decode(at, shared.staged);
    default:
      return DirectWarp<Value, 4>(chunk, shared).decode(at, shared.staged);
  }
}

}  // namespace cfck::codec

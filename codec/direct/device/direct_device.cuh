// Chunks of the direct codec with the stage `rans` on a device: one warp decodes a chunk
// (codec/direct/spec.md). Accepts what direct_decode.cpp accepts, with the same values.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/float_values.hpp"
#include "codec/device_chunk.hpp"
#include "codec/direct/device/direct_sections_device.cuh"
#include "codec/direct/device/escapes_device.cuh"
#include "codec/direct/device/index_passes_device.cuh"
#include "codec/entropy/rans/rans_device.cuh"
#include "codec/symboliser/bins_device.cuh"
#include "codec/symboliser/raw_bits_device.cuh"

namespace cfck::codec {

inline constexpr unsigned kDirectPlaces = 2 + kDirectTables;

// A group has at most 30 planes; one group more than the lanes carry is in the tail.
inline constexpr unsigned kMaxDirectTailBytes =
    30 * kGroupSize / 8 + kMaxDeviceLaneSets * simt::kWarpLanes * kRansStateBits / 8;

// The shared memory of a warp.
struct DirectShared {
  DeviceTable tables[kDirectPlaces];
  WordRing rings[kMaxDeviceLaneSets];
  std::uint32_t next_of_bin[kBinCounters];
  std::uint8_t tail[kMaxDirectTailBytes];
};

// Low bits and table of the symbols of a bin (codec/direct/spec.md, section 6.2).
CFCK_DEVICE unsigned low_bits_of_bin(std::uint32_t scale_bin) {
  return scale_bin < kFirstWithLowBits ? 0 : 1 + (scale_bin - kFirstWithLowBits) / kPhases;
}
CFCK_DEVICE unsigned table_of_bin(std::uint32_t scale_bin) {
  return scale_bin < kFirstWithLowBits
             ? scale_bin - 1
             : kFirstWithLowBits - 1 + (scale_bin - kFirstWithLowBits) % kPhases;
}

template <class Value, unsigned n_sets>
class DirectWarp {
  using Word = typename Value::Word;
  // An index is as long as a value, which then takes its place.
  static constexpr bool kInPlace = has_indices_in_place(sizeof(Word));

 public:
  CFCK_DEVICE DirectWarp(const DeviceChunk& chunk, const DirectSectionsOnDevice& sections,
                         DirectShared& shared)
      : chunk_(chunk),
        s_(sections),
        shared_(shared),
        parameters_(*chunk.parameters),
        n_shown_(chunk.n_values - sections.n_masked),
        n_groups_((n_shown_ + kGroupSize - 1) / kGroupSize),
        step_(parameters_.step),
        has_row_steps_(parameters_.row_steps != nullptr) {}

  CFCK_DEVICE bool decode(std::uint32_t words_at) {
    if (!find_mask() || !open_device_lanes(s_.coded, words_at, shared_.rings, lanes_) ||
        !read_groups() || !read_device_escapes(s_, chunk_.escapes)) {
      return false;
    }
    const bool has_field = parameters_.bands != nullptr;
    const bool has_prediction = parameters_.coefficients != nullptr;
    if (!has_field && !has_prediction && mask_ == nullptr) {
      out_ = chunk_.out;
      return decode_values<true>() && n_exact_ == s_.n_exact;
    }
    const bool is_moved = has_field || mask_ != nullptr;
    out_ = kInPlace && !is_moved ? chunk_.out : chunk_.values;
    if (!decode_values<false>()) {
      return false;
    }
    simt::sync_warp();
    return pass_indices();
  }

 private:
  CFCK_DEVICE bool find_mask() {
    if ((s_.flags & kDirectMask) == 0) {
      return true;
    }
    const bool is_plain = s_.mask.n_bytes == (std::uint64_t{chunk_.n_values} + 7) / 8;
    mask_ = is_plain ? s_.mask.data : chunk_.mask;
    return mask_ != nullptr && is_device_mask_of(mask_, chunk_.n_values, s_.n_masked);
  }

  // The groups, by their symbols or by the field, and where their raw bits are.
  CFCK_DEVICE bool read_groups() {
    bool fits = true;
    if (parameters_.bands != nullptr) {
      count_bins(parameters_, mask_, chunk_.n_values, shared_.next_of_bin);
      set_device_groups(shared_.next_of_bin, n_shown_, chunk_.groups);
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
                 : low_bits_of_bin(bin_of(group)) * ((size_of_group(n_shown_, g) + 7) / 8);
    };
    const std::uint32_t raw_bytes = sum_of_groups(n_groups_, raw_bytes_of);
    tail_ = find_tail(n_groups_, raw_bytes, n_sets, raw_bytes_of);
    return raw_bytes == s_.raw.n_bytes + tail_.in_lanes;
  }

  // Decodes all groups to values or to indices, the last ones twice (lossless_device.cuh).
  template <bool to_values>
  CFCK_DEVICE bool decode_values() {
    const std::uint32_t* const groups = chunk_.groups;
    const std::uint8_t* raw = s_.raw.data;
    std::uint32_t first = 0;
    std::uint32_t last = tail_.first_group;
    CFCK_NO_UNROLL
    for (bool is_tail = false;; is_tail = true) {
      if (is_tail) {
        if (!fill_tail(raw)) {
          return false;
        }
        raw = shared_.tail;
        first = tail_.first_group;
        last = n_groups_;
      }
      for (std::uint32_t g = first; g < last; ++g) {
        const std::uint32_t group = groups[g];
        const bool is_common = size_of_group(n_shown_, g) == kGroupSize && !is_zero_group(group) &&
                               low_bits_of_bin(bin_of(group)) <= kMaxSafeLowBits;
        raw = is_common ? decode_group<to_values, true>(g, group, raw)
                        : decode_group<to_values, false>(g, group, raw);
      }
      if (is_tail) {
        return !simt::any(!fits_) && escape_at_ == s_.n_escapes;
      }
    }
  }

  CFCK_DEVICE bool fill_tail(const std::uint8_t* raw) {
    const DeviceLanes<n_sets> before = without_ring(lanes_);
    for (std::uint32_t g = tail_.first_group; g < n_groups_; ++g) {
      const std::uint32_t group = chunk_.groups[g];
      if (!is_zero_group(group)) {
        decode_run(lanes_, shared_.tables[2 + table_of_bin(bin_of(group))],
                   size_of_group(n_shown_, g), [](std::uint32_t, std::uint32_t, bool) {});
      }
    }
    const std::uint32_t in_section = tail_.raw_bytes - tail_.in_lanes;
    for (std::uint32_t i = simt::lane(); i < in_section; i += simt::kWarpLanes) {
      shared_.tail[i] = static_cast<std::uint8_t>(simt::load_byte(raw + i));
    }
    const bool fits = finish_device_lanes(lanes_, tail_.in_lanes, shared_.tail + in_section);
    lanes_ = before;
    simt::sync_warp();
    return fits;
  }

  // Decodes a group, whose raw bits are at `raw`; returns what follows these. Almost all groups are
  // whole and not zero, and no index of theirs can be out of range but by an escape: is_common.
  template <bool to_values, bool is_common>
  CFCK_DEVICE const std::uint8_t* decode_group(std::uint32_t g, std::uint32_t group,
                                               const std::uint8_t* raw) {
    const unsigned n = is_common ? kGroupSize : size_of_group(n_shown_, g);
    const std::uint32_t scale_bin = bin_of(group);
    const bool is_zero = !is_common && is_zero_group(group);
    const unsigned low_bits = is_zero ? 0 : low_bits_of_bin(scale_bin);
    std::uint32_t low[kLaneValues] = {};
    raw = add_planes(raw, low_bits, 0, n, low);
    const DeviceTable& table = shared_.tables[2 + (is_zero ? 0 : table_of_bin(scale_bin))];
    std::int32_t indices[kLaneValues] = {};
    bool has_escape = false;
    std::uint32_t escapes = 0;
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      if (is_common || (!is_zero && t * simt::kWarpLanes < n)) {
        if (t % n_sets == 0) {
          fill_rings(lanes_);
        }
        const bool is_active = is_common || t * simt::kWarpLanes + simt::lane() < n;
        const std::uint32_t symbol = decode_step(lanes_, t % n_sets, table, is_active);
        const bool is_escape = symbol == kSymbolEscape && is_active;
        indices[t] = static_cast<std::int32_t>((symbol - kSymbolOfZero) << low_bits | low[t]);
        if (!is_common && low_bits > kMaxSafeLowBits && is_active && !is_escape) {
          check_index<to_values>(indices[t], symbol, low_bits);
        }
        has_escape = has_escape || is_escape;
        escapes |= (is_escape ? 1u : 0u) << t;
      }
    }
    const std::uint32_t first_exact = n_exact_;
    const std::uint32_t exact =
        simt::any(has_escape) ? take_escapes<to_values>(escapes, indices) : 0;
    const std::uint32_t first = g * kGroupSize + simt::lane();
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      if (is_common || t * simt::kWarpLanes + simt::lane() < n) {
        store<to_values>(first + t * simt::kWarpLanes, indices[t]);
      }
    }
    if (to_values && n_exact_ != first_exact) {
      store_exact(exact, first_exact, first);
    }
    return raw;
  }

  template <bool to_values>
  CFCK_DEVICE void check_index(std::int32_t index, std::uint32_t symbol, unsigned low_bits) {
    const auto high = static_cast<std::int32_t>(symbol - kSymbolOfZero);
    fits_ = fits_ && index > kMasked && index >> low_bits == high &&
            (!to_values || is_valid_index(index));
  }

  // Takes the next escapes in the order of the values; `escapes` has a bit for each value of the
  // lane. Returns such bits for exact values.
  template <bool to_values>
  CFCK_DEVICE std::uint32_t take_escapes(std::uint32_t escapes, std::int32_t* indices) {
    std::uint32_t exact = 0;
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const bool is_escape = (escapes >> t & 1) != 0;
      const std::uint32_t votes = simt::ballot(is_escape);
      const std::uint32_t number = escape_at_ + simt::popcount(votes & simt::lanes_below());
      if (is_escape) {
        const bool is_there = number < s_.n_escapes;
        indices[t] = is_there ? chunk_.escapes[number] : 0;
        fits_ =
            fits_ && is_there && (!to_values || indices[t] == kExact || is_valid_index(indices[t]));
      }
      const bool is_exact = is_escape && indices[t] == kExact;
      exact |= (is_exact ? 1u : 0u) << t;
      n_exact_ += simt::popcount(simt::ballot(is_exact));
      escape_at_ += simt::popcount(votes);
    }
    return exact;
  }

  // Stores exact values, from number `at` on, over what is there; `exact` has a bit for each value
  // of the lane, of which `first` is the first.
  CFCK_DEVICE void store_exact(std::uint32_t exact, std::uint32_t at, std::uint32_t first) {
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const bool is_exact = (exact >> t & 1) != 0;
      const std::uint32_t votes = simt::ballot(is_exact);
      const std::uint32_t number = at + simt::popcount(votes & simt::lanes_below());
      if (is_exact && number < s_.n_exact) {
        static_cast<Word*>(out_)[first + t * simt::kWarpLanes] =
            load_value<Word>(s_.exact.data + std::size_t{number} * sizeof(Word));
      }
      at += simt::popcount(votes);
    }
  }

  template <bool to_values>
  CFCK_DEVICE void store(std::uint32_t i, std::int32_t index) {
    if constexpr (to_values) {
      const double step = has_row_steps_ ? step_of_value(parameters_, i) : step_;
      static_cast<Word*>(out_)[i] = Value::from_double(static_cast<double>(index) * step);
    } else {
      static_cast<std::int32_t*>(out_)[i] = index;
    }
  }

  // Puts the indices of all groups into the order of storage, and computes the values.
  CFCK_DEVICE bool pass_indices() {
    auto* const merged = static_cast<std::int32_t*>(out_);  // in the order of the groups
    std::int32_t* indices = merged;
    if (parameters_.bands != nullptr || mask_ != nullptr) {
      indices = kInPlace ? static_cast<std::int32_t*>(chunk_.out)
                         : merged + std::size_t{n_groups_} * kGroupSize;
      if (parameters_.bands != nullptr) {
        fetch_by_bins(parameters_, mask_, chunk_.n_values, shared_.next_of_bin, merged, indices);
      } else {
        spread_indices(mask_, chunk_.n_values, merged, indices);
      }
      simt::sync_warp();
    }
    if (parameters_.coefficients != nullptr) {
      if (!restore_device_indices(parameters_, chunk_.n_values, indices)) {
        return false;
      }
      simt::sync_warp();
    }
    return store_device_values<Value>(parameters_, chunk_.n_values, indices, s_.exact,
                                      static_cast<Word*>(chunk_.out));
  }

  const DeviceChunk& chunk_;
  const DirectSectionsOnDevice& s_;
  DirectShared& shared_;
  const DeviceParameters& parameters_;
  const std::uint32_t n_shown_;  // values that are not masked
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

// Decodes a chunk whose payload begins with mode 4 or 5. False for one that the CPU refuses; then
// what was written is unspecified.
template <class Value>
CFCK_DEVICE bool decode_direct_chunk(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                     DirectShared& shared) {
  DirectSectionsOnDevice sections;
  if (!read_direct_sections(chunk, sizeof(typename Value::Word), sections)) {
    return false;
  }
  std::uint32_t at = 0;
  unsigned n_sets = 0;
  simt::sync_warp();  // whoever still reads tables of the chunk before
  if (!open_device_section(sections.coded, static_tables,
                           {shared.tables, kDirectPlaces, kDirectValueTables.first}, at, n_sets)) {
    return false;
  }
  switch (n_sets) {
    case 1:
      return DirectWarp<Value, 1>(chunk, sections, shared).decode(at);
    case 2:
      return DirectWarp<Value, 2>(chunk, sections, shared).decode(at);
    default:
      return DirectWarp<Value, 4>(chunk, sections, shared).decode(at);
  }
}

}  // namespace cfck::codec

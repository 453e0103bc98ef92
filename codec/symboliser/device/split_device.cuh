// Groups of floats on a device, the other way: a warp finds bin and trailing zero bits of a group,
// and splits its values into symbols, raw bits and escapes (codec/symboliser/spec.md, sections 4 to
// 6). The same as group_kernels.hpp and raw_bits.hpp.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/symboliser/device/raw_bits_device.cuh"
#include "codec/symboliser/group_kernels.hpp"

namespace cfck::codec {

// The values of a group: four of each lane, by place_in_group(); those beyond the n are 0.
template <class Format>
struct LaneGroup {
  typename Format::Word values[kLaneValues];
  unsigned n = 0;

  CFCK_DEVICE bool is_whole() const { return n == kGroupSize; }
};

// Loads group g of n_values values, which are at an address that is a multiple of their size.
template <class Format>
CFCK_DEVICE LaneGroup<Format> load_group_of(const typename Format::Word* values,
                                            std::uint32_t n_values, std::uint32_t g) {
  LaneGroup<Format> group;
  const std::uint32_t first = g * kGroupSize;
  group.n = n_values - first < kGroupSize ? n_values - first : kGroupSize;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const unsigned i = place_in_group(group.is_whole(), t, simt::lane());
    group.values[t] = i < group.n ? values[first + i] : typename Format::Word{0};
  }
  return group;
}

// A warp finds this out about a group; all lanes have it.
struct DeviceGroupAnalysis {
  GroupCode code;
  bool has_signs = false;
  std::uint32_t n_positive_zeros = 0;
  std::uint32_t n_negative_zeros = 0;
};

template <class Format>
CFCK_DEVICE void count_zeros_of(const LaneGroup<Format>& group, DeviceGroupAnalysis& found) {
  using Word = typename Format::Word;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const Word value = group.values[t];
    const bool is_there = place_in_group(group.is_whole(), t, simt::lane()) < group.n;
    const bool is_zero = is_there && static_cast<Word>(value << 1) == 0;
    const std::uint32_t zeros = simt::ballot(is_zero);
    const std::uint32_t positive = simt::ballot(is_zero && value == 0);
    found.n_positive_zeros += simt::popcount(positive);
    found.n_negative_zeros += simt::popcount(zeros ^ positive);
  }
}

// Specification, section 4: finds bin and trailing zero bits, and counts zeros.
template <class Format>
CFCK_DEVICE DeviceGroupAnalysis analyse_group_of(const LaneGroup<Format>& group) {
  using Word = typename Format::Word;
  using Code = MagnitudeCode<Format>;
  DeviceGroupAnalysis found;
  Word in_use = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    in_use = static_cast<Word>(in_use | group.values[t]);
  }
  in_use = simt::warp_reduce(in_use, [](Word a, Word b) { return a | b; });
  if (in_use == 0) {
    found.code.kind = GroupKind::kAllZero;
    found.n_positive_zeros = group.n;
    return found;
  }
  found.has_signs = (in_use >> (Format::kBits - 1)) != 0;
  found.code.trailing_zero_bits =
      static_cast<std::uint8_t>(count_trailing_zero_bits<Format>(in_use));
  count_zeros_of(group, found);

  Code codes[kLaneValues];
  std::uint32_t top_code = 0;
  std::uint32_t n_relevant = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    codes[t] = magnitude_code<Format>(group.values[t]);
    top_code = codes[t] > top_code ? codes[t] : top_code;
    n_relevant += simt::popcount(simt::ballot(codes[t] != 0));
  }
  top_code = simt::warp_reduce(top_code, [](auto a, auto b) { return a > b ? a : b; });
  if (top_code == 0) {
    found.code.kind = GroupKind::kNoBin;
    return found;
  }
  const auto top_exponent = static_cast<Code>((top_code - 1) >> 7);
  std::uint32_t sum = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    sum += linear_code<Code>(codes[t], top_exponent);
  }
  sum = simt::warp_sum(sum);
  found.code.scale_bin = static_cast<std::uint16_t>(4 * std::uint32_t{top_exponent} +
                                                    quarter_octaves(sum * kGroupSize / n_relevant));
  return found;
}

// Writes n_bytes of a number, the low ones first.
CFCK_DEVICE void store_bytes(std::uint64_t number, unsigned n_bytes, std::uint8_t* to) {
  for (unsigned i = 0; i < n_bytes; ++i) {
    to[i] = static_cast<std::uint8_t>(number >> 8 * i);
  }
}

// Packs `width` bits, 1 to 8, of each value of a whole group: those of the lane's four neighbours.
// `to` is at a multiple of 4.
CFCK_DEVICE void store_neighbours(const std::uint32_t (&bits)[kLaneValues], unsigned width,
                                  std::uint8_t* to) {
  const unsigned lane = simt::lane();
  std::uint32_t four = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    four |= bits[t] << (width * t);
  }
  if (width == 8) {
    reinterpret_cast<std::uint32_t*>(to)[lane] = four;
    return;
  }
  if (width < 4) {
    // Two lanes together have whole bytes.
    const std::uint32_t other = simt::shuffle_xor(four, 1);
    if (lane % 2 == 0) {
      store_bytes(std::uint64_t{other} << (4 * width) | four, width, to + lane / 2 * width);
    }
    return;
  }
  // Word `lane` begins in the bits of lane 8 * lane / width, and ends in those of one of the next
  // two: the quotients by 4 to 7 are exact for numbers up to 248.
  const unsigned n_bits = 4 * width;
  const std::uint32_t inverse = width == 7 ? 9363 : width == 6 ? 10923 : width == 5 ? 13108 : 16384;
  const std::uint32_t from = 8 * lane * inverse >> 16;
  const std::uint32_t shift = 32 * lane - from * n_bits;
  const std::uint32_t low = simt::shuffle(four, from & 31);
  const std::uint32_t middle = simt::shuffle(four, (from + 1) & 31);
  const std::uint32_t high = simt::shuffle(four, (from + 2) & 31);
  if (lane < n_bits) {
    const std::uint32_t above = 2 * n_bits - shift;
    reinterpret_cast<std::uint32_t*>(to)[lane] =
        low >> shift | middle << (n_bits - shift) | (above < 32 ? high << above : 0);
  }
}

// Stores the low integers of the lane's four neighbours in a whole group. `to` is at a multiple of
// 4.
CFCK_DEVICE void store_low_neighbours(const std::uint32_t (&raw)[kLaneValues], std::uint8_t* to) {
  auto* const words = reinterpret_cast<std::uint32_t*>(to) + 2 * simt::lane();
  words[0] = (raw[0] & 0xffff) | raw[1] << 16;
  words[1] = (raw[2] & 0xffff) | raw[3] << 16;
}
CFCK_DEVICE void store_low_neighbours(const std::uint64_t (&raw)[kLaneValues], std::uint8_t* to) {
  auto* const words = reinterpret_cast<std::uint32_t*>(to) + 6 * simt::lane();
  CFCK_UNROLL
  for (unsigned pair = 0; pair < 2; ++pair) {
    const std::uint64_t first = raw[2 * pair];
    const std::uint64_t second = raw[2 * pair + 1];
    words[3 * pair] = static_cast<std::uint32_t>(first);
    words[3 * pair + 1] = (static_cast<std::uint32_t>(first >> 32) & 0xffff) |
                          static_cast<std::uint32_t>(second) << 16;
    words[3 * pair + 2] = static_cast<std::uint32_t>(second >> 16);
  }
}
// Packs `width` bits of each of n values, one bit string over values of all lanes, by way of
// `shared`, a byte for each value of a group.
CFCK_DEVICE void store_part(const std::uint32_t (&bits)[kLaneValues], unsigned width, unsigned n,
                            std::uint8_t* shared, std::uint8_t* to) {
  simt::sync_warp();
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    shared[t * simt::kWarpLanes + simt::lane()] = static_cast<std::uint8_t>(bits[t]);
  }
  simt::sync_warp();
  const unsigned n_bytes = (n * width + 7) / 8;
  for (unsigned byte = simt::lane(); byte < n_bytes; byte += simt::kWarpLanes) {
    std::uint32_t packed = 0;
    for (unsigned bit = 8 * byte; bit < 8 * byte + 8; ++bit) {
      const unsigned i = bit / width;
      packed |= i < n ? (std::uint32_t{shared[i]} >> bit % width & 1) << bit % 8 : 0;
    }
    to[byte] = static_cast<std::uint8_t>(packed);
  }
}

// Writes the raw bits of a group (specification, section 6), those of each lane in `raw`, and
// returns their end. `shared` has a byte for each value of a group. `to` is at a multiple of 4, and
// so is the end of a whole group.
template <class Format>
CFCK_DEVICE std::uint8_t* store_raw_bits(const typename Format::Word (&raw)[kLaneValues],
                                         unsigned n, bool has_signs, unsigned trailing_zero_bits,
                                         std::uint8_t* shared, std::uint8_t* to) {
  const unsigned low_bits = trailing_zero_bits == 0 ? Format::kLowBits : 0;
  const unsigned first = trailing_zero_bits + low_bits;
  unsigned left = Format::kRawBits - (has_signs ? 0 : 1) - first;
  for (unsigned width = left % 8 != 0 ? left % 8 : 8; left != 0; width = 8) {
    left -= width;
    std::uint32_t bits[kLaneValues];
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      bits[t] = static_cast<std::uint32_t>(raw[t] >> (first + left)) & ((1u << width) - 1);
    }
    if (n == kGroupSize) {
      store_neighbours(bits, width, to);
    } else {
      store_part(bits, width, n, shared, to);
    }
    to += (n * width + 7) / 8;
  }
  if constexpr (Format::kLowBits != 0) {
    constexpr unsigned kLowBytes = Format::kLowBits / 8;
    if (low_bits != 0 && n == kGroupSize) {
      store_low_neighbours(raw, to);
    } else if (low_bits != 0) {
      CFCK_UNROLL
      for (unsigned t = 0; t < kLaneValues; ++t) {
        const unsigned i = place_in_group(false, t, simt::lane());
        if (i < n) {
          store_bytes(raw[t], kLowBytes, to + i * kLowBytes);
        }
      }
    }
    to += low_bits != 0 ? n * kLowBytes : 0;
  }
  return to;
}

// Where the parts of groups go, one after another; the same in all lanes.
template <class Format>
struct DeviceSplitCursors {
  std::uint8_t* symbols;
  std::uint8_t* raw;
  typename Format::Word* escapes;
};

// Splits a group that is not all zero. Symbols are in the order of the stage `rans`: number t of
// lane l is at 32 t + l. `shared` has a byte for each value of a group.
template <class Format>
CFCK_DEVICE void split_group_of(const LaneGroup<Format>& group, const GroupCode& code,
                                bool has_signs, std::uint8_t* shared,
                                DeviceSplitCursors<Format>& to) {
  using Word = typename Format::Word;
  const Word first = first_symbol<Format>(code.scale_bin);
  Word raw[kLaneValues];
  std::uint32_t escaping = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const std::uint8_t symbol = split_value<Format>(group.values[t], first, raw[t]);
    const unsigned i = t * simt::kWarpLanes + simt::lane();
    const bool is_there = i < group.n;  // both orders have the same number of places
    if (is_there) {
      to.symbols[i] = symbol;
    }
    escaping |= is_there && symbol == Format::kSymbolEscape ? 1u << t : 0;
  }
  to.symbols += group.n;
  to.raw = store_raw_bits<Format>(raw, group.n, has_signs, code.trailing_zero_bits, shared, to.raw);
  to.escapes += each_marked(group.is_whole(), escaping, [&](unsigned t, std::uint32_t number) {
    to.escapes[number] = group.values[t];
  });
}

}  // namespace cfck::codec

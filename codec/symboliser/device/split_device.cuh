// Groups of floats on a device, the other way: a warp finds bin and trailing zero bits of a group,
// and splits its values into symbols, raw bits and escapes (codec/symboliser/spec.md, sections 4 to
// 6). The same as group_kernels.hpp and raw_bits.hpp.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/put_fields_device.cuh"
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

// The values of a chunk, of which a warp asks for those of a group while it works on another one.
template <class Format>
class ChunkValues {
  using Word = typename Format::Word;

 public:
  struct Asked {
    simt::PendingFour<Word> four;
    std::uint32_t g = 0;
    bool is_there = false;
  };

  CFCK_DEVICE ChunkValues(const Word* values, std::uint32_t n_values)
      : values_(values), n_values_(n_values), by_four_(simt::can_move_four(values)) {}

  // Asks for group g, where all of it can be asked for at once.
  CFCK_DEVICE Asked ask(std::uint32_t g) const {
    Asked asked{};
    asked.g = g;
    asked.is_there = by_four_ && (g + 1) * kGroupSize <= n_values_;
    if (asked.is_there) {
      asked.four = simt::ask_four(values_ + g * kGroupSize + kLaneValues * simt::lane());
    }
    return asked;
  }
  CFCK_DEVICE LaneGroup<Format> take(const Asked& asked) const {
    if (!asked.is_there) {
      return load_group_of<Format>(values_, n_values_, asked.g);
    }
    LaneGroup<Format> group;
    group.n = kGroupSize;
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      group.values[t] = simt::take(asked.four, t);
    }
    return group;
  }

 private:
  const Word* values_;
  std::uint32_t n_values_;
  bool by_four_;
};

// A device computes in numbers of 32 bits, or of 64, with fewer instructions than in those of 16.
template <class Word>
using DeviceWide = std::conditional_t<sizeof(Word) == 8, std::uint64_t, std::uint32_t>;

// A lane has seen this of its values in all groups so far.
template <class Word>
struct LaneFindings {
  Word in_use = 0;     // bits that some value has
  Word differing = 0;  // bits in which some value differs from the first one of the chunk
  std::uint32_t n_positive_zeros = 0;
  std::uint32_t n_negative_zeros = 0;
};

template <class Format>
CFCK_DEVICE void note_differing(const LaneGroup<Format>& group, typename Format::Word first,
                                LaneFindings<typename Format::Word>& found) {
  using Word = typename Format::Word;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const bool is_there = group.is_whole() || place_in_group(false, t, simt::lane()) < group.n;
    const Word differing = static_cast<Word>(group.values[t] ^ first);
    found.differing = static_cast<Word>(found.differing | (is_there ? differing : Word{0}));
  }
}

template <class Format>
CFCK_DEVICE void count_zeros_of(const LaneGroup<Format>& group,
                                LaneFindings<typename Format::Word>& found) {
  using Word = typename Format::Word;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const Word value = group.values[t];
    const bool is_there = place_in_group(group.is_whole(), t, simt::lane()) < group.n;
    const bool is_zero = is_there && static_cast<Word>(value << 1) == 0;
    found.n_positive_zeros += is_zero && value == 0 ? 1 : 0;
    found.n_negative_zeros += is_zero && value != 0 ? 1 : 0;
  }
}

// Returns what count_trailing_zero_bits() does. Requires: in_use != 0.
template <class Format>
CFCK_DEVICE unsigned trailing_zero_bits_of(typename Format::Word in_use) {
  unsigned count;
  if constexpr (sizeof(in_use) == 8) {
    const auto low = static_cast<std::uint32_t>(in_use);
    count = low != 0 ? simt::lowest_bit(low)
                     : 32 + simt::lowest_bit(static_cast<std::uint32_t>(in_use >> 32));
  } else {
    count = simt::lowest_bit(in_use);
  }
  return count < Format::kRawBits - 1 ? count : Format::kRawBits - 1;
}

// Return what magnitude_code() and linear_code() do.
template <class Format>
CFCK_DEVICE std::uint32_t device_magnitude_code(typename Format::Word value) {
  if constexpr (sizeof(value) == 8) {
    return magnitude_code<Format>(value);
  } else {
    constexpr unsigned kMantissa = Format::kMantissaBits;
    constexpr std::uint32_t kMagnitude = (std::uint32_t{1} << (Format::kBits - 1)) - 1;
    constexpr std::uint32_t kSpecial =
        Format::kHasSpecials ? Format::kMaxExponent << kMantissa : kMagnitude + 1;
    const std::uint32_t magnitude = value & kMagnitude;
    const std::uint32_t code = kMantissa >= 7 ? magnitude >> (kMantissa >= 7 ? kMantissa - 7 : 0)
                                              : magnitude << (kMantissa >= 7 ? 0 : 7 - kMantissa);
    return magnitude - 1 < kSpecial - 1 ? code + 1 : 0;  // 0 wraps around
  }
}
CFCK_DEVICE std::uint32_t device_linear_code(std::uint32_t code, std::uint32_t top_exponent) {
  const std::uint32_t less = code - 1;
  const std::uint32_t linear = (0x80 | (less & 0x7f)) << 8;
  return simt::shift_right(linear, top_exponent - (less >> 7));  // below 2^16
}

// Specification, section 4: finds bin and trailing zero bits, the same in all lanes, and notes in
// `found` what the lane has seen. `first` is the first value of the chunk.
template <class Format>
CFCK_DEVICE GroupCode analyse_group_of(const LaneGroup<Format>& group, typename Format::Word first,
                                       LaneFindings<typename Format::Word>& found) {
  using Word = typename Format::Word;
  using Wide = DeviceWide<Word>;
  GroupCode code;
  Wide own_in_use = 0;
  std::uint32_t codes[kLaneValues];
  std::uint32_t top_code = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    own_in_use |= group.values[t];
    codes[t] = device_magnitude_code<Format>(group.values[t]);
    top_code = codes[t] > top_code ? codes[t] : top_code;
  }
  found.in_use = static_cast<Word>(found.in_use | own_in_use);
  note_differing(group, first, found);
  const Wide in_use = simt::warp_or(own_in_use);
  top_code = simt::warp_max(top_code);
  if (in_use != 0) {
    code.trailing_zero_bits =
        static_cast<std::uint8_t>(trailing_zero_bits_of<Format>(static_cast<Word>(in_use)));
  }
  if (top_code == 0) {
    code.kind = in_use == 0 ? GroupKind::kAllZero : GroupKind::kNoBin;
    count_zeros_of(group, found);
    return code;
  }
  // A summand is below 2^16: the sum has 23 bits, above which values are counted.
  constexpr unsigned kSumBits = 23;
  const std::uint32_t top_exponent = (top_code - 1) >> 7;
  std::uint32_t sum = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const std::uint32_t summand = device_linear_code(codes[t], top_exponent) | 1u << kSumBits;
    sum += codes[t] != 0 ? summand : 0;
  }
  sum = simt::warp_sum(sum);
  const std::uint32_t n_relevant = sum >> kSumBits;
  sum &= (1u << kSumBits) - 1;
  if (n_relevant != kGroupSize) {  // that leaves no place for a zero
    count_zeros_of(group, found);
    sum = sum * kGroupSize / n_relevant;
  }
  code.scale_bin = static_cast<std::uint16_t>(4 * top_exponent + quarter_octaves(sum));
  return code;
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

// Packs the n_bits bits from bit `first` on of each of the lane's four numbers (specification,
// section 6), for a group of n values, and returns the end of what it has written. `shared` has a
// byte for each value of a group. `to` is at a multiple of 4, and so is the end of a whole group.
template <class Number>
CFCK_DEVICE std::uint8_t* store_bits(const Number (&numbers)[kLaneValues], unsigned first,
                                     unsigned n_bits, unsigned n, std::uint8_t* shared,
                                     std::uint8_t* to) {
  unsigned left = n_bits;
  for (unsigned width = left % 8 != 0 ? left % 8 : 8; left != 0; width = 8) {
    left -= width;
    std::uint32_t bits[kLaneValues];
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      bits[t] = static_cast<std::uint32_t>(numbers[t] >> (first + left)) & ((1u << width) - 1);
    }
    if (n == kGroupSize) {
      store_neighbours(bits, width, to);
    } else {
      store_part(bits, width, n, shared, to);
    }
    to += (n * width + 7) / 8;
  }
  return to;
}

// Writes the raw bits of a group (specification, section 6), those of each lane in `raw`, and
// returns their end. `shared` has a byte for each value of a group. `to` is at a multiple of 4, and
// so is the end of a whole group.
template <class Format>
CFCK_DEVICE std::uint8_t* store_raw_bits(
    const DeviceWide<typename Format::Word> (&raw)[kLaneValues], unsigned n, bool has_signs,
    unsigned trailing_zero_bits, std::uint8_t* shared, std::uint8_t* to) {
  const unsigned low_bits = trailing_zero_bits == 0 ? Format::kLowBits : 0;
  const unsigned first = trailing_zero_bits + low_bits;
  to = store_bits(raw, first, Format::kRawBits - (has_signs ? 0 : 1) - first, n, shared, to);
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

// Does what split_value() does, with the first symbol as a number that wraps around beyond 32 bits.
template <class Format>
CFCK_DEVICE std::uint32_t device_split_value(typename Format::Word value, std::uint32_t first,
                                             DeviceWide<typename Format::Word>& raw) {
  using Word = typename Format::Word;
  if constexpr (sizeof(Word) == 8) {
    return split_value<Format>(value, static_cast<Word>(static_cast<std::int32_t>(first)), raw);
  } else {
    constexpr unsigned kRawMantissa = Format::kRawMantissaBits;
    constexpr std::uint32_t kTopMantissa = (1u << Format::kSymbolMantissaBits) - 1;
    constexpr std::uint32_t kMagnitude = (std::uint32_t{1} << (Format::kBits - 1)) - 1;
    const std::uint32_t field = (value & kMagnitude) >> kRawMantissa;
    const std::uint32_t symbol = first - (field & ~kTopMantissa) + (field & kTopMantissa);
    const std::uint32_t other = field == 0 ? Format::kSymbolZero : Format::kSymbolEscape;
    const std::uint32_t chosen = field != 0 && symbol < Format::kSymbolZero ? symbol : other;
    const std::uint32_t sign = std::uint32_t{value} >> (Format::kBits - 1) << kRawMantissa;
    const std::uint32_t kept = (value & ((std::uint32_t{1} << kRawMantissa) - 1)) | sign;
    raw = chosen == Format::kSymbolEscape ? 0 : kept;
    return chosen;
  }
}

// Where the parts of groups go, one after another; the same in all lanes. Symbols of a group begin
// at a multiple of 4.
template <class Format>
struct DeviceSplitCursors {
  std::uint8_t* symbols;
  std::uint8_t* raw;
  typename Format::Word* escapes;
};

// Splits a group that is not all zero, and returns the symbols of the lane: that of its number t in
// byte t, with the lowest first. Symbols of all lanes are stored that way, one word after another,
// those of a group that is not whole too. The entropy stage takes number t of lane l as symbol 32 t
// + l. `shared` has a byte for each value of a group.
template <class Format>
CFCK_DEVICE std::uint32_t split_group_of(const LaneGroup<Format>& group, const GroupCode& code,
                                         bool has_signs, std::uint8_t* shared,
                                         DeviceSplitCursors<Format>& to) {
  const auto first =
      static_cast<std::uint32_t>(window_top(code.scale_bin) * (1 << Format::kSymbolMantissaBits));
  DeviceWide<typename Format::Word> raw[kLaneValues];
  std::uint32_t symbols = 0;
  std::uint32_t escaping = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const std::uint32_t symbol = device_split_value<Format>(group.values[t], first, raw[t]);
    const unsigned i = t * simt::kWarpLanes + simt::lane();
    const bool is_there = i < group.n;  // both orders have the same number of places
    symbols |= is_there ? symbol << (8 * t) : 0;
    escaping |= is_there && symbol == Format::kSymbolEscape ? 1u << t : 0;
  }
  reinterpret_cast<std::uint32_t*>(to.symbols)[simt::lane()] = symbols;
  to.symbols += group.n;
  // The compiler is told what almost all groups have.
  to.raw = group.is_whole() && has_signs && code.trailing_zero_bits == 0
               ? store_raw_bits<Format>(raw, kGroupSize, true, 0, shared, to.raw)
               : store_raw_bits<Format>(raw, group.n, has_signs, code.trailing_zero_bits, shared,
                                        to.raw);
  if (simt::any(escaping != 0)) {
    to.escapes += each_marked(group.is_whole(), escaping, [&](unsigned t, std::uint32_t number) {
      to.escapes[number] = group.values[t];
    });
  }
  return symbols;
}

}  // namespace cfck::codec

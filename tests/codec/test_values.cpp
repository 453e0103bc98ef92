#include "tests/codec/test_values.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

namespace cfck::codec {
namespace {

struct Fields {
  unsigned exponent_bits = 0;
  unsigned mantissa_bits = 0;
};

Fields float_fields(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {11, 52};
    case DType::kF32:
    case DType::kC64:
      return {8, 23};
    case DType::kBF16:
      return {8, 7};
    case DType::kF16:
      return {5, 10};
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      return {5, 2};
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
      return {4, 3};
    default:
      return {0, 0};
  }
}

// The float nearest below `number` * 2^-30, cut to the fields.
std::uint64_t to_float(std::int64_t number, Fields f) {
  const std::uint64_t sign = number < 0 ? 1 : 0;
  const auto magnitude = static_cast<std::uint64_t>(number < 0 ? -number : number);
  if (magnitude == 0) {
    return sign << (f.exponent_bits + f.mantissa_bits);
  }
  const int top = std::bit_width(magnitude) - 1;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const int exponent = std::max(0, std::min(top - 34 + bias, (1 << f.exponent_bits) - 2));
  const std::uint64_t fraction = (magnitude << (63 - top)) << 1;  // below the leading bit
  return sign << (f.exponent_bits + f.mantissa_bits) |
         static_cast<std::uint64_t>(exponent) << f.mantissa_bits |
         fraction >> (64 - f.mantissa_bits);
}

std::uint64_t special(std::uint64_t random, Fields f) {
  const std::uint64_t ones = ((std::uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  const std::uint64_t sign = (random >> 8 & 1) << (f.exponent_bits + f.mantissa_bits);
  const std::uint64_t mantissa = (random >> 12) & ((std::uint64_t{1} << f.mantissa_bits) - 1);
  switch (random % 5) {
    case 0:
      return sign;  // zero
    case 1:
      return sign | mantissa;  // subnormal
    case 2:
      return sign | ones;  // infinity
    case 3:
      return sign | ones | mantissa;  // NaN
    default:
      return sign | mantissa | std::uint64_t{1} << (f.exponent_bits + f.mantissa_bits - 1);
  }
}

// Makes one value of `bits` bits. The patterns of floats have a similar meaning for integers, or
// give random bits.
std::uint64_t make_value(Pattern pattern, Fields f, unsigned bits, std::uint64_t i,
                         Random& random) {
  const bool is_float = f.exponent_bits != 0;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  const auto gaussian = [&] {
    const std::int64_t g = random.gaussian();
    return is_float ? to_float(g, f) : static_cast<std::uint64_t>(g >> (bits > 16 ? 12 : 26));
  };
  switch (pattern) {
    case Pattern::kRandomBits:
      return random.next();
    case Pattern::kGaussian:
      return gaussian();
    case Pattern::kConstant:
      return 0x0123456789abcdefu;
    case Pattern::kZeros:
      return 0;
    case Pattern::kSpecials:
      return is_float ? special(random.next(), f) : random.next() % 3 * sign;
    case Pattern::kSparse:
      return random.next() >> 33 & 3 ? 0 : gaussian();
    case Pattern::kSparseSigned: {
      const std::uint64_t r = random.next() >> 33;
      return r & 3 ? (r & 4 ? sign : 0) : gaussian();
    }
    case Pattern::kCleanBits:
      return i / 128 % 3 != 0 ? gaussian() & ~((std::uint64_t{1} << (bits / 4)) - 1) : gaussian();
    case Pattern::kPositive:
      return gaussian() & ~sign;
    case Pattern::kWideRange:
      return (gaussian() & ~sign) >> (random.next() >> 40) % bits;
    case Pattern::kZeroGroups:
      return i / 128 % 2 == 0 ? 0 : gaussian();
    case Pattern::kCounter:
      return i;
    case Pattern::kSortedIds:
      return 3 * i + (random.next() >> 60) % 3;
    case Pattern::kAlternating:
      return i % 2 == 0 ? 0x3c3c3c3c3c3c3c3cu : 0xc1c1c1c1c1c1c1c1u;
    case Pattern::kRepeating: {
      Random of_place(i % 75 + 1);
      return make_value(Pattern::kGaussian, f, bits, i, of_place);
    }
  }
  return 0;
}

}  // namespace

std::uint64_t Random::next() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_ * 0x2545f4914f6cdd1du;
}

std::int64_t Random::gaussian() {
  std::int64_t sum = 0;
  for (unsigned i = 0; i < 16; ++i) {
    sum += static_cast<std::int64_t>(next() >> 34);
  }
  return sum - (std::int64_t{16} << 29);
}

const char* pattern_name(Pattern pattern) {
  static constexpr const char* kNames[] = {
      "random bits", "gaussian",      "constant",   "zeros",       "specials",
      "sparse",      "sparse signed", "clean bits", "positive",    "wide range",
      "zero groups", "counter",       "sorted ids", "alternating", "repeating"};
  return kNames[static_cast<unsigned>(pattern)];
}

std::vector<std::byte> make_values(DType dtype, Pattern pattern, std::uint64_t n_elems,
                                   std::uint64_t seed) {
  const unsigned bits = bits_per_element(dtype);
  const std::uint64_t n_bytes = (n_elems * bits + 7) / 8;
  const unsigned value_bytes = dtype == DType::kC64 ? 4 : bits < 8 ? 1 : bits / 8;
  std::vector<std::byte> bytes(n_bytes);
  Random random(seed);
  for (std::uint64_t i = 0; i < n_bytes / value_bytes; ++i) {
    const std::uint64_t value =
        make_value(pattern, float_fields(dtype), 8 * value_bytes, i, random);
    std::memcpy(bytes.data() + i * value_bytes, &value, value_bytes);
  }
  return bytes;
}

EncodedChunk encode_lossless(DType dtype, std::uint64_t n_elems,
                             const std::vector<std::byte>& values, EntropyId entropy) {
  Scratch scratch;
  EncodedChunk encoded;
  const auto done = find_encoder(CodecId::kLossless)
                        ->encode(chunk_info(dtype, n_elems, entropy), values, scratch, encoded);
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  return encoded;
}

std::string describe(DType dtype, Pattern pattern, std::uint64_t n_elems) {
  return std::string(dtype_name(dtype)) + " " + pattern_name(pattern) + " " +
         std::to_string(n_elems);
}

}  // namespace cfck::codec

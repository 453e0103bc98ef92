// Values and checks for the tests of the direct codec.
#pragma once

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "codec/common/float_values.hpp"
#include "codec/direct/chunk/direct.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {

inline constexpr EntropyId kBothStages[] = {EntropyId::kZstd, EntropyId::kRans};

inline double double_of(DType dtype, const std::byte* at) {
  const auto word = [&](auto value) {
    typename decltype(value)::Word bits;
    std::memcpy(&bits, at, sizeof(bits));
    return decltype(value)::to_double(bits);
  };
  return dtype == DType::kF64    ? word(ValueF64{})
         : dtype == DType::kF32  ? word(ValueF32{})
         : dtype == DType::kBF16 ? word(ValueBf16{})
                                 : word(ValueF16{});
}

inline void put_double(DType dtype, double value, std::byte* at) {
  const auto word = [&](auto type) {
    const auto bits = decltype(type)::from_double(value);
    std::memcpy(at, &bits, sizeof(bits));
  };
  dtype == DType::kF64    ? word(ValueF64{})
  : dtype == DType::kF32  ? word(ValueF32{})
  : dtype == DType::kBF16 ? word(ValueBf16{})
                          : word(ValueF16{});
}

// Parameters are inline, unless the chunk is a part of a tensor with a field: then `info` has them.
inline ParameterPlace place_of(const DirectParameters& parameters, DirectChunkInfo& info) {
  const bool is_whole = info.n_elems == direct_geometry(info.shape)->n_values();
  if (parameters.field.empty() || is_whole) {
    return ParameterPlace::kInline;
  }
  info.parameters = &parameters;
  return ParameterPlace::kPreamble;
}

enum class Spread { kGaussian, kLaplace, kHeavy };

// Values of the spread times `scale`; from the generator's integers alone.
inline std::vector<std::byte> make_spread(DType dtype, Spread spread, std::size_t n, double scale,
                                          std::uint64_t seed = 1) {
  Random random(seed);
  const std::size_t value_bytes = bits_per_element(dtype) / 8;
  std::vector<std::byte> bytes(n * value_bytes);
  for (std::size_t i = 0; i < n; ++i) {
    double value = static_cast<double>(random.gaussian()) * 0x1p-30;
    if (spread == Spread::kLaplace) {
      const double other = static_cast<double>(random.gaussian()) * 0x1p-30;
      value = value * other;
    } else if (spread == Spread::kHeavy) {
      const double other = static_cast<double>(random.next() >> 40) * 0x1p-24;
      value = value / (other * other + 1e-3);
    }
    put_double(dtype, value * scale, bytes.data() + i * value_bytes);
  }
  return bytes;
}

// A type of 113 bits, or long double where there is no other type with as many.
#if defined(__SIZEOF_FLOAT128__)
using Quad = __float128;
#else
using Quad = long double;
static_assert(std::numeric_limits<Quad>::digits >= 113);
#endif

// True if |x - y| <= bound. Exact where it returns true: Quad has 113 bits, and the
// exponents of x and y are either less than 60 apart, or y is 0, or the bound is broken by
// far.
inline bool within(double x, double y, double bound) {
  const Quad difference = static_cast<Quad>(x) - static_cast<Quad>(y);
  return (difference < 0 ? -difference : difference) <= static_cast<Quad>(bound);
}

}  // namespace cfck::codec

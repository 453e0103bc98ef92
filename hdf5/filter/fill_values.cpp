#include "hdf5/filter/fill_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.hpp"
#include "base/cpu/float_environment.hpp"
#include "codec/common/float_values.hpp"

namespace cfck::hdf5 {
namespace {

// Calls `function` with the type's traits.
template <class Function>
auto with_type(DType dtype, Function function) {
  switch (dtype) {
    case DType::kF64:
      return function(codec::ValueF64{});
    case DType::kBF16:
      return function(codec::ValueBf16{});
    case DType::kF16:
      return function(codec::ValueF16{});
    default:
      return function(codec::ValueF32{});
  }
}

template <class Word>
bool hide(Word fill, MutableBytes values, std::vector<std::byte>& mask) {
  const std::size_t n_values = values.size() / sizeof(Word);
  mask.assign(ceil_div(n_values, 8), std::byte{0});
  bool any = false;
  for (std::size_t i = 0; i < n_values; ++i) {
    std::byte* const at = values.data() + i * sizeof(Word);
    const auto word = load<Word>(at);
    const bool is_fill = word == fill;
    mask[i / 8] |= static_cast<std::byte>((is_fill ? 1u : 0u) << (i % 8));
    store<Word>(at, is_fill ? Word{0} : word);
    any |= is_fill;
  }
  return any;
}

template <class Word>
void show(Word fill, ByteView mask, MutableBytes values) {
  for (std::size_t i = 0; i < values.size() / sizeof(Word); ++i) {
    if ((static_cast<unsigned>(mask[i / 8]) >> (i % 8) & 1) != 0) {
      store<Word>(values.data() + i * sizeof(Word), fill);
    }
  }
}

struct Range {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
};

// Calls `function` with every finite value but the fill value, and with no zero if that is 0.
template <class Value, class Function>
void for_values(ByteView values, typename Value::Word fill, Function function) {
  using Word = typename Value::Word;
  const bool skips_zero = codec::magnitude_of<Value>(fill) == 0;
  for (std::size_t at = 0; at < values.size(); at += sizeof(Word)) {
    const auto word = load<Word>(values.data() + at);
    const Word magnitude = codec::magnitude_of<Value>(word);
    const bool counts =
        magnitude < Value::kInfinity && word != fill && !(skips_zero && magnitude == 0);
    function(counts, Value::to_double(word));
  }
}

template <class Value>
Range range_of(ByteView values, typename Value::Word fill) {
  Range range;
  for_values<Value>(values, fill, [&](bool counts, double value) {
    range.min = counts && value < range.min ? value : range.min;
    range.max = counts && value > range.max ? value : range.max;
  });
  return range;
}

// The sum of squares of the values times `scale`, added up in eight sums by turns.
template <class Value>
double sum_of_squares(ByteView values, typename Value::Word fill, double scale) {
  double sums[8] = {};
  std::size_t i = 0;
  for_values<Value>(values, fill, [&](bool counts, double value) {
    const double scaled = counts ? value * scale : 0;
    sums[i++ % 8] += scaled * scaled;
  });
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

double below(double value) { return std::nextafter(value, 0.0); }

template <class Word>
void reverse_words(ByteView from, std::byte* to) {
  for (std::size_t at = 0; at < from.size(); at += sizeof(Word)) {
    auto word = load<Word>(from.data() + at);
    if constexpr (sizeof(Word) == 2) {
      word = __builtin_bswap16(word);
    } else if constexpr (sizeof(Word) == 4) {
      word = __builtin_bswap32(word);
    } else {
      word = __builtin_bswap64(word);
    }
    store<Word>(to + at, word);
  }
}

}  // namespace

bool is_apart(DType dtype, std::uint64_t fill_bits) noexcept {
  return with_type(dtype, [&](auto traits) {
    using Value = decltype(traits);
    const auto word = static_cast<typename Value::Word>(fill_bits);
    const auto magnitude = codec::magnitude_of<Value>(word);
    return magnitude != 0 && magnitude < Value::kInfinity;
  });
}

bool hide_fill(DType dtype, std::uint64_t fill_bits, MutableBytes values,
               std::vector<std::byte>& mask) {
  return with_type(dtype, [&](auto traits) {
    using Word = typename decltype(traits)::Word;
    return hide<Word>(static_cast<Word>(fill_bits), values, mask);
  });
}

void show_fill(DType dtype, std::uint64_t fill_bits, ByteView mask, MutableBytes values) {
  with_type(dtype, [&](auto traits) {
    using Word = typename decltype(traits)::Word;
    show<Word>(static_cast<Word>(fill_bits), mask, values);
  });
}

Measures measures_of(DType dtype, ByteView values, std::uint64_t fill_bits) {
  const DefaultFloatEnvironment environment;
  return with_type(dtype, [&](auto traits) {
    using Value = decltype(traits);
    const auto fill = static_cast<typename Value::Word>(fill_bits);
    const Range range = range_of<Value>(values, fill);
    Measures measures;
    measures.largest = range.min <= range.max ? std::max(-range.min, range.max) : 0;
    measures.largest = std::max(measures.largest, 0.0);
    if (measures.largest > 0) {
      // Squares of values near 1 neither overflow nor vanish where they count.
      const double scale = std::ldexp(1.0, -std::clamp(std::ilogb(measures.largest), -1000, 1000));
      const double n_values = static_cast<double>(values.size() / sizeof(fill));
      measures.root_mean_square =
          std::sqrt(sum_of_squares<Value>(values, fill, scale) / n_values) / scale;
    }
    return measures;
  });
}

double share_of_range(DType dtype, ByteView values, std::uint64_t fill_bits, double share) {
  const DefaultFloatEnvironment environment;
  const Range range = with_type(dtype, [&](auto traits) {
    using Value = decltype(traits);
    return range_of<Value>(values, static_cast<typename Value::Word>(fill_bits));
  });
  if (!(range.min < range.max)) {
    return 0;
  }
  double span = range.max - range.min;
  if (std::isinf(span)) {
    span = std::numeric_limits<double>::max();
  } else {
    // span + rest is the difference without rounding.
    const double back = span - range.max;
    const double rest = (range.max - (span - back)) - (range.min + back);
    span = rest < 0 ? below(span) : span;
  }
  const double product = share * span;
  if (std::isinf(product)) {
    return std::numeric_limits<double>::max();
  }
  // A product near the smallest numbers has no exact rest.
  const bool is_above = product < 0x1p-960 || std::fma(share, span, -product) < 0;
  return is_above ? below(product) : product;
}

void reverse_bytes(unsigned value_bytes, ByteView from, std::byte* to) noexcept {
  switch (value_bytes) {
    case 2:
      return reverse_words<std::uint16_t>(from, to);
    case 4:
      return reverse_words<std::uint32_t>(from, to);
    case 8:
      return reverse_words<std::uint64_t>(from, to);
    default:
      std::copy(from.begin(), from.end(), to);
  }
}

}  // namespace cfck::hdf5

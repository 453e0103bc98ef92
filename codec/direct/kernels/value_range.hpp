// The minimum and the maximum finite value, in the order of their bits.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include "codec/common/float_values.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Lowers `min` and raises `max`. Values may have any alignment.
template <class Value>
void extend_range(const std::byte* values, std::size_t n, double& min, double& max) {
  using Word = typename Value::Word;
  using Signed = std::make_signed_t<Word>;
  constexpr Signed kMax = std::numeric_limits<Signed>::max();
  // Negative values are inverted, so that integers are ordered like the values.
  const auto turned = [](Signed word) {
    constexpr unsigned kSignBit = 8 * sizeof(Word) - 1;
    return static_cast<Signed>(word ^ static_cast<Signed>((word >> kSignBit) & kMax));
  };
  const auto add = [&](Signed word, Signed& low, Signed& high) {
    // This comparison takes no branches.
    const auto outside = static_cast<Signed>(-static_cast<Signed>(
        static_cast<Signed>(word & kMax) >= static_cast<Signed>(Value::kInfinity)));
    const Signed key = turned(word);
    const auto for_low = static_cast<Signed>((key & ~outside) | (kMax & outside));
    const auto for_high = static_cast<Signed>((key & ~outside) | (-kMax & outside));
    low = for_low < low ? for_low : low;
    high = for_high > high ? for_high : high;
  };
  constexpr std::size_t kRangeLanes = 64;
  Signed lows[kRangeLanes];
  Signed highs[kRangeLanes];
  for (std::size_t lane = 0; lane < kRangeLanes; ++lane) {
    lows[lane] = kMax;
    highs[lane] = -kMax;  // no finite value is as low, or as high
  }
  std::size_t i = 0;
  for (; i + kRangeLanes <= n; i += kRangeLanes) {
    Signed words[kRangeLanes];
    __builtin_memcpy(words, values + i * sizeof(Word), sizeof(words));
    for (std::size_t lane = 0; lane < kRangeLanes; ++lane) {
      add(words[lane], lows[lane], highs[lane]);
    }
  }
  for (; i < n; ++i) {
    Signed word;
    __builtin_memcpy(&word, values + i * sizeof(word), sizeof(word));
    add(word, lows[0], highs[0]);
  }
  Signed low = lows[0];
  Signed high = highs[0];
  for (std::size_t lane = 1; lane < kRangeLanes; ++lane) {
    low = lows[lane] < low ? lows[lane] : low;
    high = highs[lane] > high ? highs[lane] : high;
  }
  if (low > high) {
    return;  // nothing is finite
  }
  const auto value_of = [&](Signed key) {
    return Value::to_double(static_cast<Word>(turned(key)));
  };
  const double found_min = value_of(low);
  const double found_max = value_of(high);
  min = found_min < min ? found_min : min;
  max = found_max > max ? found_max : max;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

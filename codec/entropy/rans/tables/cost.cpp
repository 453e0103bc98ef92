#include "codec/entropy/rans/tables/cost.hpp"

#include <bit>

#include "base/forks/forks.hpp"

namespace cfck::codec {
namespace {

// 12 * 2^16 - floor(2^16 * log2(f)); squaring gives the bits of the logarithm.
constexpr std::uint32_t cost_of(std::uint32_t frequency) {
  const auto exponent = static_cast<unsigned>(std::bit_width(frequency)) - 1;
  std::uint64_t mantissa = std::uint64_t{frequency} << (31 - exponent);
  std::uint32_t log = exponent;
  for (int i = 0; i < 16; ++i) {
    mantissa = mantissa * mantissa >> 31;
    const auto bit = static_cast<std::uint32_t>(mantissa >> 32);
    mantissa >>= bit;
    log = log << 1 | bit;
  }
  return (kRansTotalBits << 16) - log;
}

using Costs = std::array<std::uint32_t, kRansTotal + 1>;

const Costs& costs() noexcept {
  static constinit MadeOnce<Costs> all;
  return all.get([] {
    Costs made{};
    for (std::uint32_t f = 1; f <= kRansTotal; ++f) {
      made[f] = cost_of(f);
    }
    return made;
  });
}

}  // namespace

std::uint32_t symbol_cost(unsigned frequency) noexcept { return costs()[frequency]; }
std::span<const std::uint32_t> symbol_costs() noexcept { return costs(); }

std::uint64_t coded_cost(const SymbolCounts& counts, const Frequencies& frequencies) noexcept {
  const Costs& cost = costs();
  std::uint64_t sum = 0;
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    sum += std::uint64_t{counts[s]} * cost[frequencies[s]];
  }
  return sum;
}

std::uint64_t min_cost(const SymbolCounts& counts) noexcept {
  const Costs& cost = costs();
  const auto log_of = [&](std::uint64_t n, std::uint64_t round_up) {
    return rounded_log(n, round_up, cost.data());
  };
  std::uint64_t total = 0;
  std::uint64_t saved = 0;
  for (const std::uint32_t count : counts) {
    total += count;
    saved += count == 0 ? 0 : count * log_of(count, 1);
  }
  const std::uint64_t all = total == 0 ? 0 : total * log_of(total, 0);
  return all > saved ? all - saved : 0;
}

Frequencies fitted_frequencies(const SymbolCounts& counts, const Frequencies& used) {
  const Costs& cost = costs();
  std::uint64_t total = 0;
  for (const std::uint32_t count : counts) {
    total += count;
  }
  Frequencies fitted{};
  std::uint32_t sum = 0;
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    const auto share = static_cast<std::uint16_t>(std::uint64_t{counts[s]} * kRansTotal / total);
    fitted[s] = used[s] == 0 ? std::uint16_t{0} : share == 0 ? std::uint16_t{1} : share;
    sum += fitted[s];
  }
  for (; sum < kRansTotal; ++sum) {
    unsigned best = 0;
    std::int64_t most = -1;
    for (unsigned s = 0; s < kRansSymbols; ++s) {
      const std::uint16_t f = fitted[s];
      const std::int64_t saved = f == 0 ? -1 : std::int64_t{counts[s]} * (cost[f] - cost[f + 1u]);
      if (saved > most) {
        most = saved;
        best = s;
      }
    }
    ++fitted[best];
  }
  for (; sum > kRansTotal; --sum) {
    unsigned best = kRansSymbols;
    std::int64_t min = 0;
    for (unsigned s = 0; s < kRansSymbols; ++s) {
      const std::uint16_t f = fitted[s];
      if (f < 2) {
        continue;
      }
      const std::int64_t lost = std::int64_t{counts[s]} * (cost[f - 1u] - cost[f]);
      if (best == kRansSymbols || lost < min) {
        min = lost;
        best = s;
      }
    }
    --fitted[best];
  }
  return fitted;
}

unsigned table_bits(const Frequencies& frequencies) noexcept {
  unsigned bits = 0;
  for (unsigned s = 0; s + 1 < kRansSymbols; ++s) {
    const auto n = static_cast<unsigned>(std::bit_width(unsigned{frequencies[s]}));
    bits += 4 + (n == 0 ? 0 : n - 1);
  }
  return (bits + 7) / 8 * 8;
}

}  // namespace cfck::codec

// Which tables code the symbols of a chunk, chosen by the warps of a block from their counts, and
// the fields that say so (codec/entropy/rans.md, sections 4 and 7). The same as writer.cpp and
// tables/cost.cpp; lane s of a warp has the counts and frequencies of symbol s. Tables that are
// compared, and places, are dealt out to the warps in turn: a cost is a chain of look-ups and a sum
// over the lanes, of which codec direct needs some hundreds.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/put_fields_device.cuh"
#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/rans/tables/choice_costs.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"

namespace cfck::codec {

// Tables that the device has in its memory for this.
struct DeviceChoiceTables {
  const std::uint32_t* costs;        // of the frequencies 0 to 4096
  const std::uint16_t* frequencies;  // of all static tables, 32 each, by number
};

// Static tables of bins and trailing zero bits, and families, of which one each is chosen.
inline constexpr unsigned kStaticChoices = kRansBinTables + kRansCleanTables + kRansFamilies;

// Counts of a chunk's symbols, and the tables chosen for them, in shared memory. `counts` are 32
// for each place.
struct DeviceChoiceShared {
  const std::uint32_t* counts;
  std::uint16_t* frequencies;  // likewise
  std::uint64_t* costs;        // kStaticChoices
  std::uint64_t* saved;        // of each place, by an explicit table
  ValueTables values;

  CFCK_DEVICE unsigned n_places() const { return kFirstValuePlace + values.n_tables; }
  CFCK_DEVICE std::uint32_t count(unsigned place) const {
    return counts[place * kRansSymbols + simt::lane()];
  }
};

// The choice is the same in all lanes.
struct DeviceTableChoice {
  std::uint32_t choice = 0;           // the byte of the section
  std::uint64_t explicit_places = 0;  // a bit each
};

CFCK_DEVICE std::uint64_t device_coded_cost(std::uint32_t count, std::uint32_t frequency,
                                            const std::uint32_t* costs) {
  return simt::warp_sum_64(std::uint64_t{count} * costs[frequency]);
}

CFCK_DEVICE std::uint64_t device_min_cost(std::uint32_t count, const std::uint32_t* costs) {
  const std::uint64_t total = simt::warp_sum_64(count);
  const std::uint64_t saved =
      simt::warp_sum_64(count == 0 ? 0 : count * rounded_log(count, 1, costs));
  const std::uint64_t all = total == 0 ? 0 : total * rounded_log(total, 0, costs);
  return all > saved ? all - saved : 0;
}

// Returns the first lane that has the largest of the numbers, of those for which `holds`.
CFCK_DEVICE unsigned first_of_largest(std::uint64_t number, bool holds) {
  const std::uint64_t largest = simt::warp_reduce(
      holds ? number : 0, [](std::uint64_t a, std::uint64_t b) { return a > b ? a : b; });
  return simt::lowest_bit(simt::ballot(holds && number == largest));
}

// Returns the frequency of the lane's symbol in the table made for these counts. `used` is that in
// the static table. Requires: some count is not zero.
CFCK_DEVICE std::uint32_t device_fitted(std::uint32_t count, std::uint32_t used,
                                        const std::uint32_t* costs) {
  const std::uint64_t total = simt::warp_sum_64(count);
  const auto share = static_cast<std::uint32_t>(std::uint64_t{count} * kRansTotal / total);
  std::uint32_t fitted = used == 0 ? 0 : share == 0 ? 1 : share;
  std::uint32_t sum = simt::warp_sum(fitted);
  for (; sum < kRansTotal; ++sum) {
    const bool holds = fitted != 0;
    const std::uint64_t saved =
        holds ? std::uint64_t{count} * (costs[fitted] - costs[fitted + 1]) : 0;
    const unsigned best = first_of_largest(saved, holds);
    fitted += simt::lane() == best ? 1 : 0;
  }
  for (; sum > kRansTotal; --sum) {
    const bool holds = fitted >= 2;
    const std::uint64_t lost =
        holds ? std::uint64_t{count} * (costs[fitted - 1] - costs[fitted]) : 0;
    const unsigned best = first_of_largest(~lost, holds);
    fitted -= simt::lane() == best ? 1 : 0;
  }
  return fitted;
}

// Bits of the lane's symbol in an explicit table, without those of its length.
CFCK_DEVICE unsigned explicit_bits(std::uint32_t frequency) {
  return frequency < 2 || simt::lane() == kRansSymbols - 1 ? 0 : simt::highest_bit(frequency);
}

CFCK_DEVICE std::uint32_t device_table_bits(std::uint32_t frequency) {
  const std::uint32_t bits =
      simt::warp_sum(explicit_bits(frequency)) + kRansLengthBits * (kRansSymbols - 1);
  return (bits + 7) / 8 * 8;
}

// Returns the first of n numbers that none is less than.
CFCK_DEVICE unsigned first_of_least(const std::uint64_t* numbers, unsigned n) {
  unsigned best = 0;
  for (unsigned i = 1; i < n; ++i) {
    best = numbers[i] < numbers[best] ? i : best;
  }
  return best;
}

class DeviceChooser {
 public:
  CFCK_DEVICE DeviceChooser(const DeviceChoiceShared& shared, const DeviceChoiceTables& tables,
                            unsigned n_warps)
      : shared_(shared), tables_(tables), n_warps_(n_warps) {}

  CFCK_DEVICE DeviceTableChoice choose() {
    find_costs();
    simt::sync_block();
    choose_static();
    each_own(shared_.n_places(), [&](unsigned place) {
      const std::uint64_t saved = fit(place);
      if (simt::lane() == 0) {
        shared_.saved[place] = saved;
      }
    });
    simt::sync_block();
    DeviceTableChoice chosen;
    chosen.choice = static_.family | static_.bins << 3 | static_.trailing_zero_bits << 6;
    std::uint64_t saved = 0;
    for (unsigned place = 0; place < shared_.n_places(); ++place) {
      saved += shared_.saved[place];
      chosen.explicit_places |= std::uint64_t{shared_.saved[place] != 0} << place;
    }
    if (saved <= kPlaceCost) {
      chosen.explicit_places = 0;
      each_own(shared_.n_places(), [&](unsigned place) {
        keep(place, known(static_.table_of(place, shared_.values)));
      });
    }
    simt::sync_block();
    return chosen;
  }

 private:
  // Calls `action` with those of n that are the warp's.
  template <class Action>
  CFCK_DEVICE void each_own(unsigned n, Action&& action) const {
    CFCK_NO_UNROLL
    for (unsigned i = simt::warp_of_block(); i < n; i += n_warps_) {
      action(i);
    }
  }
  CFCK_DEVICE std::uint32_t known(unsigned number) const {
    return tables_.frequencies[number * kRansSymbols + simt::lane()];
  }
  CFCK_DEVICE std::uint64_t cost_of(unsigned place, unsigned number) const {
    return device_coded_cost(shared_.count(place), known(number), tables_.costs);
  }
  CFCK_DEVICE bool is_counted(unsigned place) const { return (counted_ >> place & 1) != 0; }
  CFCK_DEVICE void keep(unsigned place, std::uint32_t frequency) const {
    shared_.frequencies[place * kRansSymbols + simt::lane()] =
        static_cast<std::uint16_t>(frequency);
  }

  // Families come first, since their costs take longest.
  CFCK_DEVICE void find_costs() {
    for (unsigned place = 0; place < shared_.n_places(); ++place) {
      counted_ |= std::uint64_t{simt::any(shared_.count(place) != 0)} << place;
    }
    each_own(kStaticChoices, [&](unsigned i) {
      const std::uint64_t cost =
          i < kRansFamilies ? cost_of_family(i)
          : i < kRansFamilies + kRansBinTables
              ? cost_of(kBinPlace, bin_table(i - kRansFamilies))
              : cost_of(kCleanPlace, trailing_zero_table(i - kRansFamilies - kRansBinTables));
      if (simt::lane() == 0) {
        shared_.costs[i] = cost;
      }
    });
  }
  CFCK_DEVICE std::uint64_t cost_of_family(unsigned family) const {
    std::uint64_t cost = 0;
    for (unsigned i = 0; i < shared_.values.n_tables; ++i) {
      if (is_counted(kFirstValuePlace + i)) {
        cost += cost_of(kFirstValuePlace + i, value_table(family, shared_.values, i));
      }
    }
    return cost;
  }
  CFCK_DEVICE void choose_static() {
    const std::uint64_t* const of_bins = shared_.costs + kRansFamilies;
    static_.family = first_of_least(shared_.costs, kRansFamilies);
    static_.bins = first_of_least(of_bins, kRansBinTables);
    static_.trailing_zero_bits = first_of_least(of_bins + kRansBinTables, kRansCleanTables);
  }

  // Keeps the better table of a place, and returns what an explicit one saves: 0 if it is not.
  CFCK_DEVICE std::uint64_t fit(unsigned place) const {
    const unsigned number = static_.table_of(place, shared_.values);
    const std::uint32_t count = shared_.count(place);
    const std::uint64_t known_cost = cost_of(place, number);
    std::uint32_t frequency = known(number);
    std::uint64_t saved = 0;
    if (is_counted(place) && known_cost > device_min_cost(count, tables_.costs) + kMinTableCost) {
      const std::uint32_t fitted = device_fitted(count, frequency, tables_.costs);
      const std::uint64_t cost = device_coded_cost(count, fitted, tables_.costs) +
                                 device_table_bits(fitted) * kBitCost + kPlaceCost;
      saved = cost < known_cost ? known_cost - cost : 0;
      frequency = saved != 0 ? fitted : frequency;
    }
    keep(place, frequency);
    return saved;
  }

  const DeviceChoiceShared& shared_;
  const DeviceChoiceTables& tables_;
  const unsigned n_warps_;
  std::uint64_t counted_ = 0;  // a bit for each place that has some symbol
  TableChoice static_;
};

// Chooses the tables of all places, and fills in their frequencies. To be called by all n_warps of
// a block, which get the same result.
CFCK_DEVICE_CALL DeviceTableChoice choose_device_tables(const DeviceChoiceShared& shared,
                                                        const DeviceChoiceTables& tables,
                                                        unsigned n_warps) {
  return DeviceChooser(shared, tables, n_warps).choose();
}

// The strings of an explicit table, in shared memory.
struct FrequencyStrings {
  std::uint32_t words[(kRansSymbols * (kRansLengthBits + kRansTotalBits)) / 32 + 1];
};

// Packs the frequency of each lane's symbol, and returns the number of bytes.
CFCK_DEVICE std::uint32_t pack_frequencies(std::uint32_t frequency, FrequencyStrings& strings) {
  const unsigned lane = simt::lane();
  clear_words(strings.words);
  const bool is_listed = lane < kRansSymbols - 1;
  const unsigned length = is_listed && frequency != 0 ? simt::highest_bit(frequency) + 1 : 0;
  const unsigned n = explicit_bits(frequency);
  const std::uint32_t end = kRansLengthBits * (kRansSymbols - 1) + simt::running_sum(n);
  if (is_listed) {
    put_bits(strings.words, kRansLengthBits * lane, length);
    put_bits(strings.words, end - n, n == 0 ? 0 : frequency ^ 1u << n);
  }
  simt::sync_warp();
  return (simt::shuffle(end, simt::kWarpLanes - 1) + 7) / 8;
}

// Writes layout, choice and explicit tables of n_sets lane sets, and returns their length. By one
// warp.
CFCK_DEVICE std::uint32_t write_device_tables(const DeviceChoiceShared& shared,
                                              const DeviceTableChoice& chosen, unsigned n_sets,
                                              FrequencyStrings& strings, std::uint8_t* to) {
  const unsigned lane = simt::lane();
  const auto n_explicit = simt::popcount(static_cast<std::uint32_t>(chosen.explicit_places)) +
                          simt::popcount(static_cast<std::uint32_t>(chosen.explicit_places >> 32));
  if (lane == 0) {
    to[0] = static_cast<std::uint8_t>(n_sets / 2 | (n_explicit != 0 ? 4 : 0));
    to[1] = static_cast<std::uint8_t>(chosen.choice);
    to[2] = static_cast<std::uint8_t>(n_explicit);
  }
  if (n_explicit == 0) {
    return 2;
  }
  std::uint32_t at = 3;
  for (unsigned place = 0; place < shared.n_places(); ++place) {
    if ((chosen.explicit_places >> place & 1) != 0) {
      const std::uint32_t frequency = shared.frequencies[place * kRansSymbols + lane];
      const std::uint32_t n = pack_frequencies(frequency, strings);
      if (lane == 0) {
        to[at] = static_cast<std::uint8_t>(place);
      }
      copy_bytes(reinterpret_cast<const std::uint8_t*>(strings.words), n, to + at + 1);
      at += 1 + n;
    }
  }
  return at;
}

}  // namespace cfck::codec

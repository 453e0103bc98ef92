// Tables to test rANS with.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "codec/entropy/rans/kernels/kernels.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"

namespace cfck::codec {

inline constexpr CpuLevel kLevels[] = {CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4};
inline constexpr unsigned kLaneSets[] = {1, 2, 4};

// Tables, and the coding tables built from them.
struct Tables {
  std::vector<Frequencies> frequencies;
  std::vector<RansDecodeTable> decode;
  std::vector<RansEncodeTable> encode;
  std::vector<const RansDecodeTable*> decode_pointers;
  std::vector<const RansEncodeTable*> encode_pointers;

  explicit Tables(std::vector<Frequencies> all)
      : frequencies(std::move(all)), decode(frequencies.size()), encode(frequencies.size()) {
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      build_decode_table(frequencies[i], decode[i]);
      build_encode_table(frequencies[i], encode[i]);
      decode_pointers.push_back(&decode[i]);
      encode_pointers.push_back(&encode[i]);
    }
  }
};

// Completes the given frequencies; what is missing goes to `rest`.
inline Frequencies completed(Frequencies frequencies, unsigned rest) {
  unsigned sum = 0;
  for (const unsigned f : frequencies) {
    sum += f;
  }
  frequencies[rest] = static_cast<std::uint16_t>(frequencies[rest] + kRansTotal - sum);
  return frequencies;
}

inline Frequencies random_frequencies(std::mt19937& random) {
  Frequencies frequencies{};
  unsigned left = kRansTotal;
  while (left > 0) {
    const unsigned some = 1 + random() % (left < 700 ? left : 700);
    frequencies[random() % kRansSymbols] += static_cast<std::uint16_t>(some);
    left -= some;
  }
  return frequencies;
}

inline std::vector<Frequencies> ordinary_tables() {
  std::vector<Frequencies> all;
  for (const unsigned number : {0u, 1u, 2u, 3u, 4u, 20u, 38u, 42u}) {
    all.push_back(static_frequencies(number));
  }
  all.push_back(static_frequencies(bin_table(0)));
  return all;
}

inline std::vector<Frequencies> extreme_tables() {
  std::vector<Frequencies> all = {completed({}, 0),  completed({}, 31),    completed({}, 17),
                                  completed({1}, 9), completed({1}, 1),    completed({0, 4095}, 31),
                                  completed({}, 3),  static_frequencies(4)};
  Frequencies even;
  even.fill(kRansBucket);
  all.push_back(even);
  Frequencies ones;
  ones.fill(1);
  all.push_back(completed(ones, 0));
  all.push_back(completed(ones, 15));
  all.push_back(completed(ones, 31));
  std::mt19937 random(7);
  for (unsigned i = 0; i < 12; ++i) {
    all.push_back(random_frequencies(random));
  }
  return all;
}

// Calls body(kernels) for each level of this machine; for the highest one without and with the
// extensions that has_vbmi2() stands for.
template <class Body>
void each_level(Body&& body) {
  for (const CpuLevel level : kLevels) {
    if (level <= cpu_level()) {
      SCOPED_TRACE("level " + std::to_string(static_cast<int>(level)));
      allow_vbmi2(false);
      body(rans_kernels_of(level));
      allow_vbmi2(true);
      if (level == CpuLevel::kV4 && has_vbmi2()) {
        SCOPED_TRACE("with VBMI2");
        body(rans_kernels_of(level));
      }
    }
  }
}

}  // namespace cfck::codec

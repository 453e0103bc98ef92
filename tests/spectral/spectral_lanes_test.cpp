// The code of the spectral codec's device kernels, thread by thread: the shared templates give what
// the kernels of the CPU give, at the best of its levels. The search is in
// spectral_levels_test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <type_traits>

#include "spectral/kernels/level_steps.hpp"
#include "spectral/kernels/value_steps.hpp"
#include "tests/spectral/search_cases.hpp"

namespace cfck::spectral {
namespace {

// Returns the levels of the symbols that are escapes.
std::vector<std::int32_t> escapes_of(const SearchCase& made, const FoundIndices& found) {
  std::vector<std::int32_t> escapes;
  std::size_t at = 0;
  for (std::size_t i = 0; i < made.values.size(); ++i) {
    if (made.groups[i / kGroupSize].kind != GroupKind::kAllZero) {
      if (found.symbols[at] == kSpectralEscape) {
        escapes.push_back(escaped_level(made.values[i]));
      }
      ++at;
    }
  }
  return escapes;
}

template <class T>
struct Merged {
  std::vector<T> values;
  bool fits = false;
};

template <class T>
Merged<T> merged_by_kernels(SpectralMerge from, T step) {
  Merged<T> merged{std::vector<T>(from.n_values), false};
  if constexpr (std::is_same_v<T, float>) {
    merged.fits = spectral_kernels().merge_floats(from, step, merged.values.data());
  } else {
    merged.fits = spectral_kernels().merge_doubles(from, step, merged.values.data());
  }
  merged.fits = merged.fits && from.n_escapes == 0;
  return merged;
}

template <class Lanes, class T>
Merged<T> merged_by_lanes(const SpectralMerge& from, T step, std::mt19937& random) {
  Merged<T> merged{std::vector<T>(from.n_values), false};
  with_states(from.n_states, [&](auto n_states) {
    for (const unsigned lane : shuffled_lanes(from.n_lanes, random)) {
      LaneMerge<n_states, T>(from, lane, step).run(merged.values.data());
    }
  });
  merged.fits = place_escapes<Lanes>(from, step, merged.values.data());
  return merged;
}

template <class T>
void expect_same_merge(const SpectralMerge& from, T step, std::mt19937& random) {
  const Merged<T> expected = merged_by_kernels(from, step);
  for (const Merged<T>& merged : {merged_by_lanes<SerialLanes>(from, step, random),
                                  merged_by_lanes<EmulatedLanes>(from, step, random)}) {
    EXPECT_EQ(merged.fits, expected.fits);
    if (expected.fits) {
      EXPECT_EQ(std::memcmp(merged.values.data(), expected.values.data(),
                            expected.values.size() * sizeof(T)),
                0);
    }
  }
}

TEST(SpectralLanes, MergeWhatTheKernelsMerge) {
  std::mt19937 random(12);
  unsigned n_with_escapes = 0;
  for (unsigned trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const SearchCase made = random_case(random);
    FoundIndices found = found_by(spectral_kernels(), made);
    found.symbols.resize(found.symbols.size() + kGroupSize);
    std::vector<std::int32_t> escapes = escapes_of(made, found);
    SpectralMerge from;
    from.groups = made.groups.data();
    from.n_values = made.values.size();
    from.n_states = made.n_states;
    from.n_lanes = made.n_lanes;
    from.symbols = found.symbols.data();
    from.path = found.path.data();
    from.raw = found.raw.data();
    from.escapes = escapes.data();
    from.n_escapes = escapes.size();
    EXPECT_TRUE(merged_by_kernels(from, 0.37).fits);
    expect_same_merge(from, 0.37f, random);
    expect_same_merge(from, 0.37, random);
    if (!escapes.empty()) {
      ++n_with_escapes;
      --from.n_escapes;
      expect_same_merge(from, 0.37f, random);
      ++from.n_escapes;
    }
    escapes.push_back(3);
    from.escapes = escapes.data();
    ++from.n_escapes;
    EXPECT_FALSE(merged_by_kernels(from, 1.0f).fits);
    expect_same_merge(from, 1.0f, random);
    --from.n_escapes;
    found.symbols[random() % kGroupSize] = 32;
    expect_same_merge(from, 1.0f, random);
  }
  EXPECT_GT(n_with_escapes, 0u);
}

// Words of any bits, of which many are subnormal or no finite numbers.
template <class Value>
std::vector<std::byte> random_words(std::size_t n, std::mt19937& random) {
  std::vector<std::byte> bytes(n * sizeof(typename Value::Word));
  for (std::size_t i = 0; i < n; ++i) {
    auto word = static_cast<typename Value::Word>(std::uint64_t{random()} << 32 | random());
    if (random() % 8 == 0) {
      word = static_cast<typename Value::Word>(word | Value::kInfinity);
    } else if (random() % 8 == 0) {
      word = static_cast<typename Value::Word>(word & ~Value::kInfinity);
    }
    std::memcpy(bytes.data() + i * sizeof(word), &word, sizeof(word));
  }
  return bytes;
}

template <class Value>
void expect_same_values(DType dtype, std::mt19937& random) {
  constexpr std::size_t kWidth = sizeof(typename Value::Word);
  const std::size_t n = 1 + random() % 3000;
  const std::vector<std::byte> values = random_words<Value>(n, random);
  std::vector<double> loaded(n);
  std::vector<float> in_steps(n);
  std::vector<std::int32_t> indices(n);
  const double step = std::exp2(static_cast<int>(random() % 80) - 40) * 1.1;
  spectral_kernels().load_values(dtype, values.data(), n, loaded.data());
  spectral_kernels().divide(loaded.data(), nullptr, step, n, in_steps.data());
  spectral_kernels().round_indices(in_steps.data(), n, 0.3f, indices.data());
  for (std::size_t i = 0; i < n; ++i) {
    const double value = load_double<Value>(values.data() + i * kWidth);
    EXPECT_EQ(same_bits<std::uint64_t>(value), same_bits<std::uint64_t>(loaded[i]));
    const float steps = clamped_steps(value / step);
    EXPECT_EQ(same_bits<std::uint32_t>(steps), same_bits<std::uint32_t>(in_steps[i]));
    EXPECT_EQ(rounded_index(steps, 0.3f), indices[i]);
  }
}

TEST(SpectralLanes, LoadAndDivideAsTheKernels) {
  std::mt19937 random(13);
  for (unsigned trial = 0; trial < 20; ++trial) {
    expect_same_values<ValueF64>(DType::kF64, random);
    expect_same_values<ValueF32>(DType::kF32, random);
    expect_same_values<ValueBf16>(DType::kBF16, random);
    expect_same_values<ValueF16>(DType::kF16, random);
  }
}

template <class Value>
void expect_same_stored(DType dtype, std::mt19937& random) {
  using T = std::conditional_t<sizeof(typename Value::Word) == 8, double, float>;
  using FromWords = std::conditional_t<sizeof(T) == 8, ValueF64, ValueF32>;
  const std::size_t n = 1 + random() % 3000;
  const std::vector<std::byte> words = random_words<FromWords>(n, random);
  std::vector<T> values(n);
  std::memcpy(values.data(), words.data(), words.size());
  for (T& value : values) {  // of magnitudes that a type of 16 bits has, too
    value = random() % 2 == 0 ? static_cast<T>(static_cast<std::int32_t>(random())) * T{0x1p-40f}
                              : value;
  }
  values[0] = std::numeric_limits<T>::quiet_NaN();
  std::vector<std::byte> stored(n * sizeof(typename Value::Word));
  std::vector<std::byte> expected(stored.size());
  if constexpr (sizeof(T) == 8) {
    spectral_kernels().store_doubles(values.data(), n, expected.data());
  } else {
    spectral_kernels().store_floats(dtype, values.data(), n, expected.data());
  }
  for (std::size_t i = 0; i < n; ++i) {
    store_value<Value>(values[i], stored.data() + i * sizeof(typename Value::Word));
  }
  EXPECT_TRUE(stored == expected);
}

TEST(SpectralLanes, StoreAsTheKernels) {
  std::mt19937 random(14);
  for (unsigned trial = 0; trial < 20; ++trial) {
    expect_same_stored<ValueF64>(DType::kF64, random);
    expect_same_stored<ValueF32>(DType::kF32, random);
    expect_same_stored<ValueBf16>(DType::kBF16, random);
    expect_same_stored<ValueF16>(DType::kF16, random);
  }
}

}  // namespace
}  // namespace cfck::spectral

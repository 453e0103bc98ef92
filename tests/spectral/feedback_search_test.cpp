// The search for indices with error compensation: vectors find what single values find, the result
// can be decoded, and is about as good as possible.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "spectral/kernels/kernels.hpp"

namespace cfck::spectral {
namespace {

std::vector<const SpectralKernels*> levels() {
  std::vector<const SpectralKernels*> found;
  for (const CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4}) {
    if (level <= cpu_level()) {
      found.push_back(&spectral_kernels_of(level));
    }
  }
  return found;
}

struct Case {
  unsigned n_states = 8;
  unsigned n_rows = 1;
  std::vector<FeedbackColumn> columns;
  std::vector<float> coefficients;  // those not below the diagonal are not to be read
  std::vector<float> values;
  std::vector<std::size_t> fold_begins;
  std::vector<std::uint8_t> start_states;

  std::size_t n_columns() const { return columns.size(); }
  unsigned n_folds() const { return static_cast<unsigned>(fold_begins.size() - 1); }
};

struct Found {
  std::vector<std::int32_t> indices;
  std::vector<float> errors;

  bool operator==(const Found&) const = default;
};

Found found_by(const SpectralKernels& kernels, const Case& made, bool use_reference) {
  Found found{std::vector<std::int32_t>(made.values.size()),
              std::vector<float>(made.values.size())};
  std::vector<float> workspace(made.n_columns() * 16);
  FeedbackSearch search;
  search.n_columns = made.n_columns();
  search.n_rows = made.n_rows;
  search.n_states = made.n_states;
  search.columns = made.columns.data();
  search.coefficients = made.coefficients.data();
  search.values = made.values.data();
  search.n_folds = made.n_folds();
  search.fold_begins = made.fold_begins.data();
  search.start_states = made.start_states.data();
  search.indices = found.indices.data();
  search.errors = found.errors.data();
  search.workspace = workspace.data();
  search.use_reference = use_reference;
  kernels.search_feedback(search);
  return found;
}

// The steps that a bin stands for: those in which values of a group are about as large as its
// indices.
float scale_of_bin(unsigned scale_bin, unsigned n_states) {
  return std::exp2((static_cast<float>(scale_bin) - (n_states == 1 ? 30.0f : 26.0f)) / 4);
}

// Coefficients are about as large as `most`.
Case make_case(unsigned n_states, unsigned n_rows, std::size_t n_columns, unsigned n_folds,
               float most, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Case made;
  made.n_states = n_states;
  made.n_rows = n_rows;
  const unsigned base = 20 + random() % 20;
  made.coefficients.assign(n_columns * n_columns, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t k = 0; k < n_columns; ++k) {
    FeedbackColumn column;
    column.scale_bin = static_cast<std::uint16_t>(base + random() % 6);
    column.scale = std::exp2(static_cast<float>(random() % 9) / 4 - 1);
    column.inverse = 1 / column.scale;
    made.columns.push_back(column);
    for (std::size_t before = 0; before < k; ++before) {
      made.coefficients[k * n_columns + before] = most * normal(random);
    }
    for (unsigned i = 0; i < n_rows; ++i) {
      made.values.push_back(normal(random) * scale_of_bin(column.scale_bin, n_states));
    }
  }
  for (unsigned fold = 0; fold < n_folds; ++fold) {
    made.fold_begins.push_back(n_columns * fold / n_folds);
    for (unsigned i = 0; i < n_rows; ++i) {
      made.start_states.push_back(static_cast<std::uint8_t>(random() % n_states));
    }
  }
  made.fold_begins.push_back(n_columns);
  return made;
}

Case random_case(std::mt19937& random) {
  const unsigned n_states = std::array{1u, 4u, 8u}[random() % 3];
  const unsigned n_folds = random() % 2 == 0 ? 1u : 1u << random() % 6;
  const float most = std::array{0.0f, 0.1f, 0.4f, 3.0f, 1e20f}[random() % 5];
  const std::size_t n_columns = 1 + random() % (random() % 3 == 0 ? 20 : 90);
  Case made = make_case(n_states, 1 + random() % 128, n_columns, n_folds, most, random);
  for (float& value : made.values) {
    switch (random() % 64) {
      case 0:
        value = random() % 2 != 0 ? 0.0f : -0.0f;
        break;
      case 1:  // half way between levels
        value = std::nearbyint(value) + 0.5f;
        break;
      case 2:
        value *= 40;
        break;
      case 3:
        value = random() % 8 != 0 ? value : random() % 2 != 0 ? 0x1p30f : -0x1p30f;
        break;
      default:
        break;
    }
  }
  if (random() % 4 == 0) {  // more low bits, and values to match
    const unsigned more = 4 * (1 + random() % 12);
    for (std::size_t i = 0; i < made.values.size(); ++i) {
      FeedbackColumn& column = made.columns[i / made.n_rows];
      column.scale_bin =
          static_cast<std::uint16_t>(column.scale_bin + (i % made.n_rows == 0 ? more : 0));
      made.values[i] =
          std::clamp(made.values[i] * std::exp2(static_cast<float>(more) / 4), -0x1p30f, 0x1p30f);
    }
  }
  return made;
}

TEST(FeedbackSearch, VectorsFindWhatSingleValuesFind) {
  std::mt19937 random(21);
  for (unsigned trial = 0; trial < 250; ++trial) {
    const Case made = random_case(random);
    const Found plain = found_by(*levels()[0], made, true);
    for (const SpectralKernels* kernels : levels()) {
      ASSERT_TRUE(found_by(*kernels, made, true) == plain) << trial;
      ASSERT_TRUE(found_by(*kernels, made, false) == plain)
          << trial << " " << made.n_states << " " << made.n_rows << " " << made.n_folds();
    }
  }
}

// Coefficients that no elimination gives: results are equal, and they are numbers.
TEST(FeedbackSearch, CoefficientsThatAreNoNumbers) {
  std::mt19937 random(22);
  for (unsigned trial = 0; trial < 60; ++trial) {
    Case made = random_case(random);
    for (std::size_t k = 0; k < made.n_columns(); ++k) {
      for (std::size_t before = 0; before < k; ++before) {
        if (random() % 16 == 0) {
          made.coefficients[k * made.n_columns() + before] =
              std::array{INFINITY, -INFINITY, 3e38f, -3e38f,
                         std::numeric_limits<float>::quiet_NaN()}[random() % 5];
        }
      }
    }
    const Found plain = found_by(*levels()[0], made, true);
    for (const float error : plain.errors) {
      ASSERT_TRUE(std::isfinite(error));
    }
    for (const SpectralKernels* kernels : levels()) {
      ASSERT_TRUE(found_by(*kernels, made, false) == plain) << trial;
    }
  }
}

// Follows the indices of each lane through the trellis as a decoder does.
void expect_path(const Case& made, const Found& found) {
  const Trellis* const trellis = trellis_of(made.n_states);
  for (unsigned row = 0; row < made.n_rows; ++row) {
    for (unsigned fold = 0; fold < made.n_folds(); ++fold) {
      unsigned state = made.start_states[fold * made.n_rows + row];
      for (std::size_t k = made.fold_begins[fold]; k < made.fold_begins[fold + 1]; ++k) {
        const FeedbackColumn& column = made.columns[k];
        const std::size_t at = k * made.n_rows + row;
        const SymbolCode symbols = kSymbolCodes.of[column.scale_bin];
        const std::int32_t limit = std::int32_t{symbols.reach} << symbols.low_bits;
        const bool escapes = found.indices[at] == kEscapedIndex;
        const std::int32_t code = escapes ? 0 : found.indices[at];
        ASSERT_LE(std::abs(code), limit);
        const unsigned q = trellis == nullptr ? 0 : trellis->table(state);
        const std::int32_t level = trellis == nullptr ? code : level_of(code, q);
        if (!escapes) {
          const float off = made.values[at] - static_cast<float>(level);
          ASSERT_EQ(found.errors[at], off * column.scale);
        }
        state = trellis == nullptr ? 0 : trellis->next[state][code & 1];
      }
    }
  }
}

TEST(FeedbackSearch, CodesArePathsThroughTheTrellis) {
  std::mt19937 random(23);
  std::size_t n_escapes = 0;
  for (unsigned trial = 0; trial < 150; ++trial) {
    const Case made = random_case(random);
    const Found found = found_by(*levels().back(), made, false);
    expect_path(made, found);
    n_escapes += static_cast<std::size_t>(
        std::count(found.indices.begin(), found.indices.end(), kEscapedIndex));
  }
  EXPECT_GT(n_escapes, 1000u);
}

// Returns the compensated target of each column, less its level, in steps.
std::vector<double> misses(const Case& made, const Found& found) {
  std::vector<double> missed(made.values.size());
  for (std::size_t k = 0; k < made.n_columns(); ++k) {
    for (unsigned row = 0; row < made.n_rows; ++row) {
      const std::size_t at = k * made.n_rows + row;
      double sum = found.errors[at];
      for (std::size_t before = 0; before < k; ++before) {
        sum += double{made.coefficients[k * made.n_columns() + before]} *
               double{found.errors[before * made.n_rows + row]};
      }
      missed[at] = sum / double{made.columns[k].scale};
    }
  }
  return missed;
}

double sum_of_squares(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers) {
    sum += number * number;
  }
  return sum;
}

TEST(FeedbackSearch, OneStateTakesTheNearest) {
  std::mt19937 random(24);
  for (unsigned trial = 0; trial < 20; ++trial) {
    const Case made = make_case(1, 1 + random() % 64, 70, 1u << random() % 4, 0.2f, random);
    const Found found = found_by(*levels().back(), made, false);
    for (const double missed : misses(made, found)) {
      ASSERT_LE(std::abs(missed), 0.501);
    }
  }
}

// Sums squares of values of 32 rows, one lane each, as the search without feedback finds them.
double squares_without_feedback(const Case& made) {
  const std::size_t n = made.values.size();
  std::vector<GroupCode> groups(n / kGroupSize);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g] = {made.columns[g * kGroupSize / made.n_rows].scale_bin, 0, GroupKind::kValues};
  }
  std::vector<std::uint8_t> symbols(n), quantisers(n), decisions(n * 8);
  std::vector<std::int32_t> indices(n);
  TrellisSearch search;
  search.values = made.values.data();
  search.n_values = n;
  search.groups = groups.data();
  search.n_states = made.n_states;
  search.symbols = symbols.data();
  search.quantisers = quantisers.data();
  search.indices = indices.data();
  search.decisions = decisions.data();
  spectral_kernels().search(search);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const SymbolCode code = kSymbolCodes.of[groups[i / kGroupSize].scale_bin];
    const std::int32_t found =
        code.low_bits > 0 ? indices[i] : static_cast<std::int32_t>(symbols[i]) - 16;
    const std::int32_t level = made.n_states == 1 ? found : level_of(found, quantisers[i]);
    const double off = double{made.values[i]} - level;
    sum += symbols[i] == kSpectralEscape ? 0 : off * off;
  }
  return sum;
}

// The search decides before all of a lane is known: that costs a fifth of a decibel.
TEST(FeedbackSearch, WithoutCoefficientsItIsThePlainSearch) {
  std::mt19937 random(25);
  for (const unsigned n_states : {1u, 4u, 8u}) {
    double with = 0;
    double without = 0;
    for (unsigned trial = 0; trial < 30; ++trial) {
      Case made = make_case(n_states, 32, 4 * (10 + random() % 90), 1, 0, random);
      std::fill(made.start_states.begin(), made.start_states.end(), std::uint8_t{0});
      for (std::size_t k = 0; k < made.n_columns(); ++k) {
        made.columns[k].scale_bin = made.columns[k / 4 * 4].scale_bin;
      }
      for (std::size_t i = 0; i < made.values.size(); ++i) {
        const float most = 2 * scale_of_bin(made.columns[i / 32].scale_bin, n_states);
        made.values[i] = std::clamp(made.values[i], -most, most);
      }
      const Found found = found_by(*levels().back(), made, false);
      ASSERT_EQ(std::count(found.indices.begin(), found.indices.end(), kEscapedIndex), 0);
      const double squares = sum_of_squares(misses(made, found));
      const double best = squares_without_feedback(made);
      EXPECT_GE(squares, best * (1 - 1e-6));
      with += squares;
      without += best;
    }
    EXPECT_LE(with, without * (n_states == 1 ? 1 + 1e-6 : 1.02)) << n_states;
  }
}

// All paths of a lane, each with the indices next to its targets.
class AllPaths {
 public:
  explicit AllPaths(const Case& made) : made_(made), errors_(made.n_columns()) {}

  double best() {
    min_sum_ = INFINITY;
    follow(0, made_.start_states[0], 0);
    return min_sum_;
  }

 private:
  void follow(std::size_t k, unsigned state, double sum) {
    if (sum >= min_sum_) {
      return;
    }
    if (k == made_.n_columns()) {
      min_sum_ = sum;
      return;
    }
    const Trellis* const trellis = trellis_of(made_.n_states);
    double compensate = made_.values[k];
    for (std::size_t before = 0; before < k; ++before) {
      compensate += double{made_.coefficients[k * made_.n_columns() + before]} * errors_[before] /
                    double{made_.columns[k].scale};
    }
    const auto about =
        static_cast<std::int32_t>(std::nearbyint(trellis ? compensate / 2 : compensate));
    for (std::int32_t code = about - 3; code <= about + 3; ++code) {
      const std::int32_t level = trellis ? level_of(code, trellis->table(state)) : code;
      errors_[k] = (double{made_.values[k]} - level) * double{made_.columns[k].scale};
      follow(k + 1, trellis ? trellis->next[state][code & 1] : 0,
             sum + (compensate - level) * (compensate - level));
    }
  }

  const Case& made_;
  std::vector<double> errors_;
  double min_sum_ = 0;
};

// The cost of taking for each column the best index of its quantiser, wherever that leads.
double greedy(const Case& made) {
  const Trellis& trellis = *trellis_of(made.n_states);
  Found found{std::vector<std::int32_t>(made.n_columns()), std::vector<float>(made.n_columns())};
  unsigned state = made.start_states[0];
  double sum = 0;
  for (std::size_t k = 0; k < made.n_columns(); ++k) {
    const float before = k == 0 ? 0.0f : static_cast<float>(misses(made, found)[k]);
    const float compensate = made.values[k] + before;  // its own error is not in it yet
    std::int32_t best = 0;
    for (std::int32_t code = -40; code <= 40; ++code) {
      const auto off = [&](std::int32_t c) {
        return std::abs(compensate - static_cast<float>(level_of(c, trellis.table(state))));
      };
      best = off(code) < off(best) ? code : best;
    }
    const auto level = static_cast<float>(level_of(best, trellis.table(state)));
    found.errors[k] = (made.values[k] - level) * made.columns[k].scale;
    sum += double{compensate - level} * double{compensate - level};
    state = trellis.next[state][best & 1];
  }
  return sum;
}

TEST(FeedbackSearch, IsNearTheBestOfAllPaths) {
  std::mt19937 random(26);
  for (const unsigned n_states : {1u, 4u, 8u}) {
    double found = 0;
    double min = 0;
    double by_column = 0;
    for (unsigned trial = 0; trial < 60; ++trial) {
      Case made = make_case(n_states, 1, 8, 1, 0.4f, random);
      for (FeedbackColumn& column : made.columns) {
        column.scale_bin = 34;
      }
      for (float& value : made.values) {
        value = std::normal_distribution<float>(0, 3)(random);
      }
      const Found searched = found_by(*levels().back(), made, false);
      const double squares = sum_of_squares(misses(made, searched));
      const double best = AllPaths(made).best();
      EXPECT_GE(squares, best * (1 - 1e-5));
      found += squares;
      min += best;
      by_column += n_states == 1 ? squares : greedy(made);
    }
    EXPECT_LE(found, min * (n_states == 1 ? 1.15 : 1.1)) << n_states;
    EXPECT_TRUE(n_states == 1 || found < 0.95 * by_column) << n_states;
  }
}

}  // namespace
}  // namespace cfck::spectral

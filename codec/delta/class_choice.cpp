#include "codec/delta/class_choice.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace cfck::codec {
namespace {

// Ranges of keys between which classes may end.
constexpr std::size_t kMaxRanges = 24;
// Bits of a class in the header, with its threshold; of the gap behind its last change; and of the
// table and the lengths of a dense class.
constexpr std::uint64_t kClassBits = 16;
constexpr std::uint64_t kLastGapBits = 10;
constexpr std::uint64_t kTableBits = 300;

constexpr unsigned kFractionBits = 16;
constexpr unsigned kTableSteps = 64;

// Logarithms of 1 to 2, in steps of 1/64, with 16 fractional bits: by squaring, as everywhere in
// this library.
constexpr std::array<std::uint32_t, kTableSteps + 1> make_logarithms() {
  std::array<std::uint32_t, kTableSteps + 1> table{};
  for (unsigned i = 0; i < kTableSteps; ++i) {
    std::uint64_t m = (std::uint64_t{kTableSteps} + i) << 25;
    for (unsigned bit = 0; bit < kFractionBits; ++bit) {
      m = m * m >> 31;
      const bool is_set = m >> 32 != 0;
      table[i] = table[i] << 1 | (is_set ? 1 : 0);
      m >>= is_set ? 1 : 0;
    }
  }
  table[kTableSteps] = 1u << kFractionBits;
  return table;
}
constexpr auto kLogarithms = make_logarithms();

// log2 with 16 fractional bits. Requires: n > 0.
std::uint64_t log2_of(std::uint64_t n) {
  const auto whole = static_cast<unsigned>(std::bit_width(n)) - 1;
  const std::uint64_t fraction = n << (63 - whole) << 1;  // of 2^64
  const auto i = static_cast<unsigned>(fraction >> 58);
  const std::uint64_t rest = fraction << 6 >> 48;
  const std::uint64_t step = kLogarithms[i + 1] - kLogarithms[i];
  return (std::uint64_t{whole} << kFractionBits) + kLogarithms[i] + (step * rest >> 16);
}

std::uint64_t n_log_n(std::uint64_t n) { return n == 0 ? 0 : n * log2_of(n); }

// Bits that tell which c of n are chosen.
std::uint64_t choice_bits(std::uint64_t n, std::uint64_t c) {
  const std::uint64_t some = n_log_n(c) + n_log_n(n - c);
  const std::uint64_t all = n_log_n(n);
  return all <= some ? 0 : (all - some) >> kFractionBits;
}

// Bits of gaps of some width, for changes that are spread evenly: ones, zeros, and low bits.
std::uint64_t gap_bits(const KeyCounts& counts, unsigned width) {
  const std::uint64_t c = counts.changes;
  const std::uint64_t ones = (counts.units - c) >> width;
  const std::uint64_t rounded = width == 0 ? 0 : c / 2 - (c >> (width + 1));
  std::uint64_t bits = c * (width + 1) + (ones > rounded ? ones - rounded : 0);
  if (counts.wide != 0) {
    bits += (c >> width) + counts.wide * (width + 1) + counts.number_bits;
  }
  return bits;
}

std::uint64_t sparse_bits(const KeyCounts& counts) {
  const std::uint64_t mean = (counts.units - counts.changes) / counts.changes;
  const auto length = static_cast<unsigned>(std::bit_width(mean));
  std::uint64_t best = gap_bits(counts, length);
  for (unsigned less = 1; less <= std::min(length, 2u); ++less) {
    best = std::min(best, gap_bits(counts, length - less));
  }
  return kLastGapBits + counts.changes + best;
}

// Magnitudes are taken for normally distributed on the scale of symbols, or, where these are few,
// for 1 with exceptions.
std::uint64_t magnitude_bits(const KeyCounts& counts) {
  const std::uint64_t c = counts.changes;
  const std::uint64_t spread = counts.squares * c - counts.lengths * counts.lengths;
  const std::uint64_t variance = ((spread / c) << kFractionBits) / c;
  // Half of log2(2 pi e (variance + 1/12)).
  const std::uint64_t entropy =
      (log2_of(17 * variance + 93270) - (std::uint64_t{16} << kFractionBits)) / 2;
  std::uint64_t bits = (c * entropy) >> kFractionBits;
  if (counts.wide <= c / 4) {
    bits = std::min(bits, choice_bits(c, counts.wide) + 2 * counts.wide);
  }
  return bits + counts.raw_bits;
}

// Without those of magnitudes.
std::uint64_t least_dense_bits(const KeyCounts& counts) {
  return kTableBits + choice_bits(counts.units, counts.changes) + counts.changes;
}

struct KeyRange {
  std::uint32_t first = 0;
  KeyCounts counts;
};

// Ranges of keys that occur: small ones together, where there are many.
std::vector<KeyRange> ranges_of(std::span<const KeyCounts> keys) {
  std::vector<KeyRange> ranges;
  for (std::size_t key = keys.size(); key-- > 0;) {
    if (keys[key].units == 0 && keys[key].changes == 0) {
      continue;
    }
    if (ranges.size() < kMaxRanges) {
      ranges.emplace_back();
    }
    ranges.back().first = static_cast<std::uint32_t>(key);
    ranges.back().counts += keys[key];
  }
  std::ranges::reverse(ranges);
  for (KeyRange& range : ranges) {  // of a sample
    range.counts.units = std::max(range.counts.units, range.counts.changes);
  }
  return ranges;
}

// Divisions of ranges into classes.
class Division {
 public:
  explicit Division(std::span<const KeyRange> ranges) : ranges_(ranges) {
    sums_[0] = {};
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      sums_[i + 1] = sums_[i];
      sums_[i + 1] += ranges[i].counts;
    }
    for (std::size_t end = 1; end <= ranges.size(); ++end) {
      for (std::size_t begin = 0; begin < end; ++begin) {
        costs_[begin][end] = class_cost(sums_[end].minus(sums_[begin]));
      }
    }
  }

  // Returns the cheapest; of several, one of the fewest classes.
  ClassChoice best() const {
    const std::size_t n = ranges_.size();
    Path path;  // of any number of classes: hardly ever more than there may be
    for (std::size_t end = 1; end <= n; ++end) {
      path.set_end(end, 0, end, path, costs_);
    }
    return path.n_classes[n] <= kMaxDeltaClasses ? choice_of({&path, 1}, path.n_classes[n])
                                                 : best_of_few();
  }

 private:
  using Costs = std::array<std::array<ClassCost, kMaxRanges + 1>, kMaxRanges + 1>;

  // The cheapest divisions of the first ranges, by the number of these.
  struct Path {
    std::array<std::uint64_t, kMaxRanges + 1> bits{};
    std::array<unsigned, kMaxRanges + 1> n_classes{};
    std::array<std::uint8_t, kMaxRanges + 1> begins{};  // of the last class

    // Sets the division up to `end`: one of `shorter`, and a class from `first` or later on.
    void set_end(std::size_t end, std::size_t first, std::size_t behind, const Path& shorter,
                 const Costs& costs) {
      bits[end] = ~std::uint64_t{0};
      for (std::size_t begin = first; begin < behind; ++begin) {
        const std::uint64_t all = shorter.bits[begin] + costs[begin][end].bits;
        const unsigned n = shorter.n_classes[begin] + 1;
        if (all < bits[end] || (all == bits[end] && n < n_classes[end])) {
          bits[end] = all;
          n_classes[end] = n;
          begins[end] = static_cast<std::uint8_t>(begin);
        }
      }
    }
  };

  ClassChoice best_of_few() const {
    const std::size_t n = ranges_.size();
    const Path none;
    std::array<Path, kMaxDeltaClasses> paths;  // of one class, and of one more each
    unsigned best = 0;
    for (unsigned c = 0; c < kMaxDeltaClasses; ++c) {
      for (std::size_t end = c + 1; end <= n; ++end) {
        paths[c].set_end(end, c, c == 0 ? 1 : end, c == 0 ? none : paths[c - 1], costs_);
      }
      best = paths[c].bits[n] < paths[best].bits[n] ? c : best;
    }
    return choice_of(paths, best + 1);
  }

  // `paths` are one for all numbers of classes, or one for each.
  ClassChoice choice_of(std::span<const Path> paths, unsigned n_classes) const {
    ClassChoice choice;
    choice.n_classes = n_classes;
    std::size_t end = ranges_.size();
    for (unsigned c = n_classes; c-- > 0;) {
      const std::size_t begin = paths[paths.size() == 1 ? 0 : c].begins[end];
      choice.first_keys[c] = c == 0 ? 0 : ranges_[begin].first;
      choice.is_dense[c] = costs_[begin][end].is_dense;
      end = begin;
    }
    return choice;
  }

  std::span<const KeyRange> ranges_;
  std::array<KeyCounts, kMaxRanges + 1> sums_;
  Costs costs_{};
};

}  // namespace

KeyCounts& KeyCounts::operator+=(const KeyCounts& other) {
  units += other.units;
  changes += other.changes;
  wide += other.wide;
  number_bits += other.number_bits;
  lengths += other.lengths;
  squares += other.squares;
  raw_bits += other.raw_bits;
  return *this;
}

KeyCounts KeyCounts::minus(const KeyCounts& other) const {
  return {units - other.units,      changes - other.changes,
          wide - other.wide,        number_bits - other.number_bits,
          lengths - other.lengths,  squares - other.squares,
          raw_bits - other.raw_bits};
}

ClassCost class_cost(const KeyCounts& counts) {
  if (counts.changes == 0) {
    return {kClassBits, false};
  }
  const std::uint64_t sparse = sparse_bits(counts);
  std::uint64_t dense = least_dense_bits(counts);
  if (dense < sparse) {
    dense += magnitude_bits(counts);
  }
  return {kClassBits + std::min(sparse, dense), dense < sparse};
}

ClassChoice choose_classes(std::span<const KeyCounts> keys) {
  const std::vector<KeyRange> ranges = ranges_of(keys);
  return ranges.empty() ? ClassChoice{} : Division(ranges).best();
}

}  // namespace cfck::codec

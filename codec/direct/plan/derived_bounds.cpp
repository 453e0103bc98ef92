#include "codec/direct/plan/derived_bounds.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/common/fixed_sums.hpp"
#include "codec/common/float_values.hpp"
#include "codec/direct/kernels/kernels.hpp"

namespace cfck::codec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The range of step_of().
constexpr double kMinBound = 0x1p-1000;
constexpr double kGreatestBound = 0x1p1000;
// Above this, squares and their sums have all their bits.
constexpr double kMinSquare = 0x1p-960;
// Allows for more than all roundings of a range times a factor.
constexpr double kBelowRange = 1 - 0x1p-50;
// Allows for more than the roundings of a deviation.
constexpr double kBelowDeviation = 1 - 0x1p-20;

template <class Value>
void widen(ByteView bytes, double* values) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(typename Value::Word); ++i) {
    typename Value::Word word;
    std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
    values[i] = Value::to_double(word);
  }
}

void widen_values(DType dtype, ByteView bytes, double* values) {
  switch (dtype) {
    case DType::kF64:
      return widen<ValueF64>(bytes, values);
    case DType::kF32:
      return widen<ValueF32>(bytes, values);
    case DType::kBF16:
      return widen<ValueBf16>(bytes, values);
    default:
      return widen<ValueF16>(bytes, values);
  }
}

// A piece of a tensor.
struct Piece {
  DType dtype;
  ByteView bytes;

  std::size_t size() const { return bytes.size() / (bits_per_element(dtype) / 8); }
  // Widens into the memory given, which has kPieceValues.
  std::span<const double> widened(double* values) const {
    widen_values(dtype, bytes, values);
    return {values, size()};
  }
};

// Calls `action(piece, is_last)` with pieces of up to kPieceValues values, none across the end of a
// part, until it returns false; is_last: of its part. Rows have `row_values`.
template <class Action>
Result<void> for_pieces(const LossyRecord& record, std::uint64_t row_values, const ReadValues& read,
                        Action&& action) {
  CFCK_TRY_ASSIGN(const std::uint64_t total, n_elems(record.shape));
  const std::size_t value_bytes = bits_per_element(record.dtype) / 8;
  std::vector<std::byte> workspace;
  for (std::uint64_t first = 0; first < total; first += record.chunk_elems) {
    const std::uint64_t n = std::min(record.chunk_elems, total - first);
    CFCK_TRY_ASSIGN(const ByteView bytes, read(first, n, workspace));
    for (std::uint64_t done = 0; done < n;) {
      const std::uint64_t row_left = row_values - (first + done) % row_values;
      const std::uint64_t n_piece = std::min({std::uint64_t{kPieceValues}, n - done, row_left});
      const Piece piece{record.dtype, bytes.subspan(done * value_bytes, n_piece * value_bytes)};
      done += n_piece;
      if (!action(piece, n_piece == row_left || done == n)) {
        return {};
      }
    }
  }
  return {};
}

struct Range {
  double min = kInfinity;
  double max = -kInfinity;

  void end_part() {}
  void add(const PartFacts& part) {
    min = std::min(min, part.first);
    max = std::max(max, part.second);
  }
  void add(const Piece& piece) {
    direct_kernels().extend_range(piece.dtype, piece.bytes.data(), piece.size(), min, max);
  }
  bool empty() const { return min > max; }
  double largest() const { return empty() ? 0 : std::max(std::fabs(min), std::fabs(max)); }
  // Returns a factor of the range, rounded down; the halves keep it from overflowing.
  double times(double factor) const {
    return empty() ? 0 : (max / 2 - min / 2) * kBelowRange * factor * 2;
  }
};

// Number, mean and squared deviations of some values.
struct Deviations {
  double n = 0;
  double mean = 0;
  double squares = 0;

  void add(const Deviations& more) {
    if (more.n == 0) {
      return;
    }
    const double both = n + more.n;
    const double step = more.mean - mean;
    squares += more.squares + step * step * (n * more.n / both);
    mean += step * (more.n / both);
    n = both;
  }
};

// Deviations of values that were scaled and shifted first.
class Moments {
 public:
  explicit Moments(double scale) : scale_(scale) {}

  void add(const Piece& piece) {
    double widened[kPieceValues];
    double kept[kPieceValues];
    const std::span<const double> finite = finite_of(piece.widened(widened), kept);
    const std::size_t n = finite.size();
    if (n == 0) {
      return;
    }
    if (all_.n == 0 && part_.n == 0) {
      origin_ = finite[0] * scale_;
    }
    const double scale = scale_;
    const double origin = origin_;
    double shifted[kPieceValues];
    for (std::size_t i = 0; i < n; ++i) {
      shifted[i] = finite[i] * scale - origin;
    }
    const double count = static_cast<double>(n);
    const double mean = sum_of_piece(n, [&](std::size_t i) { return shifted[i]; }) / count;
    const double squares =
        sum_of_piece(n, [&](std::size_t i) { return (shifted[i] - mean) * (shifted[i] - mean); });
    part_.add({count, mean, squares});
  }
  void end_part() { all_.add(std::exchange(part_, {})); }
  void add(const PartFacts& part) { all_.add({part.n, part.first, part.second}); }

  // Returns the deviation times a factor and 1 - 2^-20. The factor comes last: until then nothing
  // underflows.
  double deviation_times(double factor) const {
    // Smaller squares have lost bits: such rows are kept exactly.
    return all_.n == 0 || all_.squares < all_.n * kMinSquare
               ? 0
               : std::sqrt(all_.squares / all_.n) * kBelowDeviation / scale_ * factor;
  }

 private:
  // Exponents of infinities and NaN are all ones, and carry into the sign bit. Integers, since
  // compilers do not vectorise comparisons of doubles that are counted.
  static bool all_finite(std::span<const double> values) {
    constexpr std::uint64_t kExponent = ValueF64::kInfinity;
    constexpr std::uint64_t kLowestBit = kExponent & (~kExponent + 1);
    std::uint64_t carried = 0;
    for (const double value : values) {
      carried |= (std::bit_cast<std::uint64_t>(value) & kExponent) + kLowestBit;
    }
    return carried >> 63 == 0;
  }
  // Returns the finite values: all as a rule, else those that are copied to `kept`.
  static std::span<const double> finite_of(std::span<const double> values, double* kept) {
    if (all_finite(values)) {
      return values;
    }
    double* const end = std::copy_if(values.begin(), values.end(), kept,
                                     [](double value) { return std::fabs(value) < kInfinity; });
    return {kept, end};
  }

  double scale_;
  double origin_ = 0;
  Deviations all_;
  Deviations part_;  // the one that is added to
};

// Returns a power of two that brings values of this size near 1, where squares could overflow or
// vanish; else 1.
double scale_for(double largest) {
  if (largest == 0 || (largest > 0x1p-400 && largest < 0x1p400)) {
    return 1;
  }
  return largest < 1 ? 0x1p500 : 0x1p-540;
}

// The bound that can be kept: never more than asked, and 0 below the minimum step.
double allowed(double bound) { return bound < kMinBound ? 0 : std::min(bound, kGreatestBound); }

// Parts of more rows than this are not named.
constexpr std::size_t kMaxParts = std::size_t{1} << 16;

// Calls `action(part)` with all parts in order.
template <class Action>
void for_parts(const LossyRecord& record, std::uint64_t row_values, std::uint64_t n_values,
               Action&& action) {
  for (std::uint64_t first = 0; first < n_values;) {
    const std::uint64_t in_chunk = record.chunk_elems - first % record.chunk_elems;
    const std::uint64_t in_row = row_values - first % row_values;
    const std::uint64_t n = std::min({in_chunk, in_row, n_values - first});
    action(ValuePart{first, n, first / row_values * row_values});
    first += n;
  }
}

// Applies `bound_of` to the statistics of the whole, or of each row.
template <class Statistic, class BoundOf>
class BoundsOf {
 public:
  BoundsOf(const LossyRecord& record, std::uint64_t row_values, const Statistic& empty,
           BoundOf bound_of)
      : per_row_(record.bound.per_row),
        row_values_(row_values),
        empty_(empty),
        bound_of_(std::move(bound_of)),
        statistic_(empty),
        left_(row_values) {}

  template <class Some>  // a piece, or facts of a part
  void add(const Some& some, std::uint64_t n_values, bool ends_part) {
    statistic_.add(some);
    if (ends_part) {
      statistic_.end_part();
    }
    left_ -= n_values;
    if (left_ == 0) {
      bounds_.bound = allowed(bound_of_(statistic_));
      if (per_row_) {
        bounds_.rows.push_back(std::exchange(bounds_.bound, 0));
      }
      statistic_ = empty_;
      left_ = row_values_;
    }
  }
  DerivedBounds take() { return std::move(bounds_); }

 private:
  const bool per_row_;
  const std::uint64_t row_values_;
  const Statistic empty_;
  const BoundOf bound_of_;
  Statistic statistic_;
  std::uint64_t left_;  // values of the row
  DerivedBounds bounds_;
};

template <class Statistic, class BoundOf>
Result<DerivedBounds> bounds_of(const LossyRecord& record, const ReadValues& read,
                                const Statistic& empty, BoundOf&& bound_of) {
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, direct_geometry(record.shape));
  const std::uint64_t row_values =
      record.bound.per_row ? geometry.row_values() : geometry.n_values();
  BoundsOf<Statistic, std::decay_t<BoundOf>> bounds(record, row_values, empty, bound_of);
  if (!record.facts.empty()) {
    std::size_t number = 0;
    for_parts(record, row_values, geometry.n_values(), [&](const ValuePart& part) {
      bounds.add(record.facts[number++], part.n_elems, true);
    });
    return bounds.take();
  }
  CFCK_TRY(for_pieces(record, row_values, read, [&](const Piece& piece, bool is_last) {
    bounds.add(piece, piece.size(), is_last);
    return true;
  }));
  return bounds.take();
}

}  // namespace

bool DerivedBounds::is_zero() const {
  return bound == 0 && std::all_of(rows.begin(), rows.end(), [](double row) { return row == 0; });
}

Result<DerivedBounds> derive_bounds(const LossyRecord& record, const ReadValues& read) {
  const ErrorBound& asked = record.bound;
  if (asked.kind == BoundKind::kAbs) {
    return DerivedBounds{asked.value, {}};
  }
  if (asked.kind == BoundKind::kRel) {
    return bounds_of(record, read, Range(),
                     [&](const Range& range) { return range.times(asked.value); });
  }
  double scale = 1;
  if (record.dtype == DType::kF64) {
    CFCK_TRY_ASSIGN(const std::uint64_t total, n_elems(record.shape));
    Range whole;
    CFCK_TRY(for_pieces(record, total, read, [&](const Piece& piece, bool) {
      whole.add(piece);
      return true;
    }));
    scale = scale_for(whole.largest());
  }
  return bounds_of(record, read, Moments(scale),
                   [&](const Moments& part) { return part.deviation_times(asked.value); });
}

void want_facts(const LossyRecord& record, WantedValues& wanted) {
  const Result<DirectGeometry> geometry = direct_geometry(record.shape);
  const bool has_range = record.bound.kind == BoundKind::kRel;
  // Values of F64 are scaled first, by their range.
  const bool has_moments = record.bound.kind == BoundKind::kSigma && record.dtype != DType::kF64;
  if (!geometry || (!has_range && !has_moments)) {
    return;
  }
  const std::uint64_t row_values =
      record.bound.per_row ? geometry->row_values() : geometry->n_values();
  const std::uint64_t n_values = geometry->n_values();
  if (n_values / row_values + n_values / record.chunk_elems > kMaxParts) {
    return;
  }
  wanted.statistic = statistic_of(record.bound.kind);
  for_parts(record, row_values, n_values,
            [&](const ValuePart& part) { wanted.parts.push_back(part); });
}

Result<bool> is_near_zero(const LossyRecord& record, double bound, const ReadValues& read) {
  // For most tensors a few values suffice to show that they are not near zero.
  CFCK_TRY_ASSIGN(const std::uint64_t total, n_elems(record.shape));
  double squares = 0;  // in units of the bound
  std::uint64_t n_finite = 0;
  CFCK_TRY(for_pieces(record, total, read, [&](const Piece& piece, bool) {
    double workspace[kPieceValues];
    const std::span<const double> values = piece.widened(workspace);
    squares += sum_of_piece(values.size(), [&](std::size_t i) {
      const double scaled = std::fabs(values[i]) < kInfinity ? values[i] / bound : 0;
      return scaled * scaled;
    });
    for (const double value : values) {
      n_finite += std::fabs(value) < kInfinity ? 1 : 0;
    }
    return squares < static_cast<double>(total);
  }));
  return n_finite != 0 && squares < static_cast<double>(n_finite);
}

}  // namespace cfck::codec

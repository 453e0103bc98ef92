#include "codec/direct/plan/derived_bounds.hpp"

#include <algorithm>
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

// Calls `action(piece)` with pieces of up to kPieceValues values, none across the end of
// a row of `row_values`, until it returns false.
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
      if (!action(piece)) {
        return {};
      }
      done += n_piece;
    }
  }
  return {};
}

struct Range {
  double min = kInfinity;
  double max = -kInfinity;

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

// Mean and squared deviations of values that were scaled and shifted first.
class Moments {
 public:
  explicit Moments(double scale) : scale_(scale) {}

  void add(const Piece& piece) {
    double values[kPieceValues];
    double finite[kPieceValues];
    const std::size_t n = keep_finite(piece.widened(values), finite);
    if (n == 0) {
      return;
    }
    if (n_ == 0) {
      origin_ = finite[0] * scale_;
    }
    double shifted[kPieceValues];
    for (std::size_t i = 0; i < n; ++i) {
      shifted[i] = finite[i] * scale_ - origin_;
    }
    const double count = static_cast<double>(n);
    const double mean = sum_of_piece(n, [&](std::size_t i) { return shifted[i]; }) / count;
    const double squares =
        sum_of_piece(n, [&](std::size_t i) { return (shifted[i] - mean) * (shifted[i] - mean); });
    const double both = n_ + count;
    const double step = mean - mean_;
    squares_ += squares + step * step * (n_ * count / both);
    mean_ += step * (count / both);
    n_ = both;
  }
  // Returns the deviation times a factor and 1 - 2^-20. The factor comes last: until then nothing
  // underflows.
  double deviation_times(double factor) const {
    // Smaller squares have lost bits: such rows are kept exactly.
    return n_ == 0 || squares_ < n_ * kMinSquare
               ? 0
               : std::sqrt(squares_ / n_) * kBelowDeviation / scale_ * factor;
  }

 private:
  static std::size_t keep_finite(std::span<const double> values, double* finite) {
    std::size_t n = 0;
    for (const double value : values) {
      n += std::fabs(value) < kInfinity ? 1 : 0;
    }
    if (n == values.size()) {  // as a rule
      std::copy(values.begin(), values.end(), finite);
      return n;
    }
    std::copy_if(values.begin(), values.end(), finite,
                 [](double value) { return std::fabs(value) < kInfinity; });
    return n;
  }

  double scale_;
  double origin_ = 0;
  double n_ = 0;
  double mean_ = 0;
  double squares_ = 0;
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

// Applies `bound_of` to the statistics of the whole, or of each row.
template <class Statistic, class BoundOf>
Result<DerivedBounds> bounds_of(const LossyRecord& record, const ReadValues& read,
                                const Statistic& empty, BoundOf&& bound_of) {
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, direct_geometry(record.shape));
  const bool per_row = record.bound.per_row;
  const std::uint64_t row_values = per_row ? geometry.row_values() : geometry.n_values();
  DerivedBounds bounds;
  bounds.rows.reserve(per_row ? geometry.rows : 0);
  Statistic statistic = empty;
  std::uint64_t left = row_values;
  CFCK_TRY(for_pieces(record, row_values, read, [&](const Piece& piece) {
    statistic.add(piece);
    left -= piece.size();
    if (left == 0) {
      bounds.bound = allowed(bound_of(statistic));
      if (per_row) {
        bounds.rows.push_back(std::exchange(bounds.bound, 0));
      }
      statistic = empty;
      left = row_values;
    }
    return true;
  }));
  return bounds;
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
    CFCK_TRY(for_pieces(record, total, read, [&](const Piece& piece) {
      whole.add(piece);
      return true;
    }));
    scale = scale_for(whole.largest());
  }
  return bounds_of(record, read, Moments(scale),
                   [&](const Moments& part) { return part.deviation_times(asked.value); });
}

Result<bool> is_near_zero(const LossyRecord& record, double bound, const ReadValues& read) {
  // For most tensors a few values suffice to show that they are not near zero.
  CFCK_TRY_ASSIGN(const std::uint64_t total, n_elems(record.shape));
  double squares = 0;  // in units of the bound
  std::uint64_t n_finite = 0;
  CFCK_TRY(for_pieces(record, total, read, [&](const Piece& piece) {
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

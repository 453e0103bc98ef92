#include "tools/measure/bound_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tools/measure/exact_sum.hpp"

namespace cfck::tools {
namespace {

// Number of values of the reference read at once: the length of a usual chunk.
constexpr std::uint64_t kPieceValues = std::uint64_t{1} << 18;
constexpr std::size_t kStepValues = 4096;
// Allows for more than the roundings of a deviation.
constexpr double kDeviationMargin = 1 + 0x1p-30;
constexpr double kGreatest = std::numeric_limits<double>::max();

}  // namespace

std::uint64_t bound_rows(const Record& record, std::span<const Record> records) {
  const bool is_alias = record.kind == RecordKind::kAlias && record.base < records.size() &&
                        records[record.base].n_elems == record.n_elems;
  const Shape& shape = is_alias ? records[record.base].shape : record.shape;
  return shape.size() >= 2 && record.n_elems > 0 ? shape[0] : 1;
}

BoundCheck::BoundCheck(const ErrorBound& bound, DType dtype, std::uint64_t n_elems,
                       std::uint64_t n_rows, ReadReference read)
    : bound_(bound),
      decoder_(dtype),
      value_bytes_(bits_per_element(dtype) / 8),
      n_rows_(bound.per_row ? n_rows : 1),
      row_values_(std::max<std::uint64_t>(n_elems / n_rows_, 1)),
      read_(std::move(read)),
      values_(kStepValues),
      reference_(kStepValues),
      keys_(kStepValues) {
  if (bound.kind != BoundKind::kAbs && bound.kind != BoundKind::kNone) return;
  Row row;
  row.low = 0;
  row.high = 1;
  row.factor = bound.value;
  rows_.push_back(row);
}

Scale BoundCheck::Row::scale() const { return Scale(std::max(std::fabs(low), std::fabs(high))); }

void BoundCheck::Row::add_values(std::span<const double> values) {
  for (const double value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  n_finite += values.size();
  sum.add_values(values);
}

void BoundCheck::Row::add_deviations(std::span<double> values) {
  const Scale scaled = scale();
  const double mean = scaled(sum.mean(n_finite));
  for (double& value : values) value = scaled(value) - mean;
  deviations.add_values(values);
  squares.add_products(values, values);
}

// The mean has a rounding error, which the second term corrects.
double BoundCheck::Row::deviation() const {
  if (n_finite == 0) return 0;
  const double off = deviations.mean(n_finite);
  const double variance = std::max(squares.mean(n_finite) - off * off, 0.0);
  return std::min(std::ldexp(std::sqrt(variance), scale().exponent()), kGreatest);
}

// Calls `action(row, values)` with finite values of each row of `rows_`, in order.
template <class Action>
Result<void> BoundCheck::for_row_pieces(std::uint64_t first_row, const Action& action) {
  std::vector<double> values(std::min(kPieceValues, row_values_ * rows_.size()));
  std::vector<std::uint64_t> keys(values.size());
  std::vector<std::byte> bytes(values.size() * value_bytes_);
  const std::uint64_t end = (first_row + rows_.size()) * row_values_;
  for (std::uint64_t at = first_row * row_values_; at < end;) {
    const std::uint64_t n_read = std::min<std::uint64_t>(values.size(), end - at);
    const auto part = std::span(bytes).first(n_read * value_bytes_);
    CFCK_TRY(read_(at, n_read, part));
    decoder_.decode(part, std::span(values).first(n_read), std::span(keys).first(n_read));
    for (std::uint64_t done = 0; done < n_read;) {
      const std::uint64_t row = (at + done) / row_values_ - first_row;
      const std::uint64_t row_left = row_values_ - (at + done) % row_values_;
      const std::uint64_t count = std::min(row_left, n_read - done);
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(done);
      const auto finite_end = std::remove_if(begin, begin + static_cast<std::ptrdiff_t>(count),
                                             [](double value) { return !std::isfinite(value); });
      if (finite_end != begin) action(rows_[row], std::span<double>(begin, finite_end));
      done += count;
    }
    at += n_read;
  }
  return {};
}

Result<void> BoundCheck::measure_rows(std::uint64_t first_row) {
  const std::uint64_t n_rows =
      std::clamp<std::uint64_t>(kPieceValues / row_values_, 1, n_rows_ - first_row);
  rows_.assign(n_rows, Row());
  first_row_ = first_row;
  CFCK_TRY(for_row_pieces(first_row,
                          [](Row& row, std::span<double> values) { row.add_values(values); }));
  if (bound_.kind == BoundKind::kRel) {
    for (Row& row : rows_) row.factor = bound_.value;
    return {};
  }
  CFCK_TRY(for_row_pieces(first_row,
                          [](Row& row, std::span<double> values) { row.add_deviations(values); }));
  for (Row& row : rows_) {
    row.factor = std::min(bound_.value * kDeviationMargin, kGreatest);
    row.high = row.deviation();
    row.low = 0;
  }
  return {};
}

void BoundCheck::compare(const Row& row, ByteView decoded, ByteView reference, std::size_t first,
                         std::size_t count) {
  TargetTotals totals;
  for (std::size_t i = first; i < first + count; ++i) {
    const double x = reference_[i];
    const double y = values_[i];
    bool is_within = false;
    if (std::isfinite(x) && std::isfinite(y)) {
      max_abs_error_ = std::max(max_abs_error_, std::fabs(x - y));
      totals.add_value(x, y);
      is_within = bound_.kind == BoundKind::kNone || within(x, y, row.factor, row.low, row.high);
    } else {
      is_within = std::memcmp(decoded.data() + i * value_bytes_,
                              reference.data() + i * value_bytes_, value_bytes_) == 0;
    }
    if (is_within) continue;
    if (n_beyond_++ == 0) first_beyond_ = position_ + (i - first);
  }
  totals_.add(totals);
  position_ += count;
}

Result<void> BoundCheck::add(ByteView decoded, ByteView reference) {
  while (!decoded.empty()) {
    const std::size_t n_bytes = std::min(decoded.size(), kStepValues * value_bytes_);
    const std::size_t n_values = n_bytes / value_bytes_;
    decoder_.decode(decoded.first(n_bytes), std::span(values_).first(n_values),
                    std::span(keys_).first(n_values));
    decoder_.decode(reference.first(n_bytes), std::span(reference_).first(n_values),
                    std::span(keys_).first(n_values));
    for (std::size_t done = 0; done < n_values;) {
      const std::uint64_t number = position_ / row_values_;
      const bool is_known = number >= first_row_ && number - first_row_ < rows_.size();
      if (!is_known) CFCK_TRY(measure_rows(number));
      const std::uint64_t row_left = row_values_ - position_ % row_values_;
      const std::size_t count = std::min<std::uint64_t>(row_left, n_values - done);
      compare(rows_[number - first_row_], decoded, reference, done, count);
      done += count;
    }
    decoded = decoded.subspan(n_bytes);
    reference = reference.subspan(n_bytes);
  }
  return {};
}

}  // namespace cfck::tools

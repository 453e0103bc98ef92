#include "tools/report/contents/report_data.hpp"

#include <cmath>
#include <limits>

#include "tools/output/loss.hpp"

namespace cfck::tools::report {
namespace {

double bits_each(std::uint64_t n_bytes, std::uint64_t n_elems) {
  return n_elems == 0 ? 0 : 8 * static_cast<double>(n_bytes) / static_cast<double>(n_elems);
}

}  // namespace

void ErrorSums::add(const ErrorSums& other) {
  squared_errors += other.squared_errors;
  squares += other.squares;
  n_tensors += other.n_tensors;
}

double ErrorSums::nmse_decibels() const {
  if (squared_errors == 0) return -std::numeric_limits<double>::infinity();
  return 10 * std::log10(squared_errors / squares);
}

double RecordReport::bits_per_weight() const {
  return bits_each(tensor->stored_bytes, tensor->n_elems);
}

std::optional<double> RecordReport::nmse_decibels() const {
  if (errors) {
    const bool is_same = errors->max_abs() == 0 && errors->n_special_mismatches() == 0;
    return is_same && !tensor->error ? std::nullopt : std::optional(errors->nmse());
  }
  if (tensor->error && tensor->error->quality) return tools::nmse_decibels(*tensor->error);
  return sums ? std::optional(sums->nmse_decibels()) : std::nullopt;
}

double Layer::bits_per_weight() const { return bits_each(stored_bytes, n_elems); }

double ReportData::ratio() const {
  return file_bytes == 0 ? 0 : static_cast<double>(decoded_bytes) / static_cast<double>(file_bytes);
}

double ReportData::bits_per_weight() const { return bits_each(stored_bytes, n_elems); }

}  // namespace cfck::tools::report

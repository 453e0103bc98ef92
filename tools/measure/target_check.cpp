#include "tools/measure/target_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cfck::tools {
namespace {

// Allows for more than the roundings of a sum.
constexpr double kMargin = 1 + 0x1p-30;

double psnr_of(const TargetTotals& totals) {
  const double range = totals.max - totals.min;
  return 10 *
         std::log10(range * range * static_cast<double>(totals.n_finite) / totals.squared_errors);
}

}  // namespace

void TargetTotals::add(const TargetTotals& other) {
  squared_errors += other.squared_errors;
  squares += other.squares;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  n_finite += other.n_finite;
  n_elems += other.n_elems;
  stored_bytes += other.stored_bytes;
  file_bytes += other.file_bytes;
}

Result<void> check_target(const Target& target, const TargetTotals& totals,
                          const std::string& record) {
  double reached = 0;
  bool is_met = true;
  switch (target.kind) {
    case TargetKind::kNone:
      return {};
    case TargetKind::kNmse:
      reached = totals.squares == 0 ? 0 : totals.squared_errors / totals.squares;
      is_met = reached <= target.value * kMargin;
      break;
    case TargetKind::kPsnr:
      reached =
          totals.squared_errors == 0 ? std::numeric_limits<double>::infinity() : psnr_of(totals);
      is_met = reached >= target.value - (kMargin - 1);
      break;
    case TargetKind::kBitsPerWeight:
      reached = totals.n_elems == 0 ? 0
                                    : 8 * static_cast<double>(totals.stored_bytes) /
                                          static_cast<double>(totals.n_elems);
      is_met = reached <= target.value * kMargin;
      break;
    case TargetKind::kSize:
      reached = static_cast<double>(totals.file_bytes);
      is_met = reached <= target.value;
      break;
  }
  if (is_met) return {};
  return wrong_checksum(
             fmt::format("{} is {}, which misses the target {}; the output was discarded. "
                         "Memory, disk or cfck is at fault: try again, and report it if the "
                         "problem persists",
                         target_kind_name(target.kind), reached, target.value))
      .in_record(record);
}

}  // namespace cfck::tools

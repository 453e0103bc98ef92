#include "tools/output/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace cfck::tools {
namespace {

constexpr std::size_t kMaxNumberColumns = 8;

std::string_view kind_name(std::size_t index) {
  return bound_kind_name(static_cast<BoundKind>(index));
}

// A ratio of squares in decibels; JSON has no infinity.
double decibels(double numerator, double denominator) {
  return 10 * std::log10(numerator / denominator);
}

nlohmann::ordered_json decibel_json(double number) {
  if (std::isfinite(number)) return number;
  return number > 0 ? "inf" : "-inf";
}

std::string target_text(const Target& target, const char* bits) {
  switch (target.kind) {
    case TargetKind::kNmse:
      return fmt::format("nmse {} dB", decibel_text(decibels(target.value, 1)));
    case TargetKind::kPsnr:
      return fmt::format("psnr {} dB", decibel_text(target.value));
    case TargetKind::kBitsPerWeight:
      return fmt::format("{:.4g} {}", target.value, bits);
    case TargetKind::kSize:
      return fmt::format("{:.0f} bytes", target.value);
    case TargetKind::kNone:
      break;
  }
  return std::string(target_kind_name(target.kind));
}

}  // namespace

std::string long_target_text(const Target& target) {
  return target_text(target, "bits/weight") + (target.whole_file ? " (whole file)" : "");
}

std::string short_number(double number) {
  char digits[32];
  const auto end =
      std::to_chars(digits, std::end(digits), number, std::chars_format::scientific).ptr;
  std::string text(digits, end);
  return text.size() <= kMaxNumberColumns ? text : fmt::format("{:.2e}", number);
}

std::string bound_text(const ErrorBound& bound) {
  if (bound.kind == BoundKind::kNone) return "none";
  return fmt::format("{} {}{}", bound_kind_name(bound.kind), short_number(bound.value),
                     bound.per_row ? "/row" : "");
}

std::string asked_text(const RecordError& error) {
  const bool has_target = error.quality && error.quality->target.kind != TargetKind::kNone;
  if (!has_target) return bound_text(error.bound);
  const Target& wanted = error.quality->target;
  const std::string target = (wanted.whole_file ? "file " : "") + target_text(wanted, "b/w");
  return error.bound.kind == BoundKind::kNone ? target : target + ", " + bound_text(error.bound);
}

double nmse_decibels(const RecordError& error) {
  return 2 * decibels(error.rmse, error.quality->rms);
}

std::string decibel_text(double number) {
  return std::isfinite(number) ? fmt::format("{:.2f}", number) : number > 0 ? "inf" : "-inf";
}

void QualityTotals::add(const RecordError& error, std::uint64_t n_elems,
                        std::uint64_t stored_bytes) {
  const auto n = static_cast<double>(n_elems);
  n_records_ += 1;
  n_elems_ += n;
  stored_bytes_ += static_cast<double>(stored_bytes);
  squared_errors_ += n * error.rmse * error.rmse;
  squares_ += n * error.quality->rms * error.quality->rms;
  min_ = std::min(min_, error.quality->min);
  max_ = std::max(max_, error.quality->max);
}

void QualityTotals::add(const QualityTotals& other) {
  n_records_ += other.n_records_;
  n_elems_ += other.n_elems_;
  stored_bytes_ += other.stored_bytes_;
  squared_errors_ += other.squared_errors_;
  squares_ += other.squares_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double QualityTotals::nmse_decibels() const { return decibels(squared_errors_, squares_); }

double QualityTotals::psnr_decibels() const {
  const double range = max_ - min_;
  return decibels(range * range, squared_errors_ / n_elems_);
}

double QualityTotals::bits_per_weight() const { return 8 * stored_bytes_ / n_elems_; }

std::string QualityTotals::text() const {
  return fmt::format("spectral  {} {}, {:.3f} bits per weight, NMSE {} dB, PSNR {} dB", n_records_,
                     n_records_ == 1 ? "tensor" : "tensors", bits_per_weight(),
                     decibel_text(nmse_decibels()), decibel_text(psnr_decibels()));
}

nlohmann::ordered_json QualityTotals::json() const {
  return {{"n_records", n_records_},
          {"bits_per_weight", bits_per_weight()},
          {"nmse_db", decibel_json(nmse_decibels())},
          {"psnr_db", decibel_json(psnr_decibels())}};
}

void LossTotals::add(const RecordError& error, std::uint64_t n_elems, std::uint64_t stored_bytes) {
  const auto index = static_cast<std::size_t>(error.bound.kind);
  if (index >= kinds_.size()) return;
  LossTotals one;
  if (error.quality) one.quality_.add(error, n_elems, stored_bytes);
  one.kinds_[index] = {1, error.max_abs_error, error.bound.value, error.bound.value};
  add(one);
}

void LossTotals::add(const LossTotals& other) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    OfKind& kind = kinds_[i];
    const OfKind& more = other.kinds_[i];
    if (more.n_records == 0) continue;
    kind.min_bound =
        kind.n_records == 0 ? more.min_bound : std::min(kind.min_bound, more.min_bound);
    kind.max_bound = std::max(kind.max_bound, more.max_bound);
    kind.max_abs_error = std::max(kind.max_abs_error, more.max_abs_error);
    kind.n_records += more.n_records;
  }
  quality_.add(other.quality_);
}

bool LossTotals::any() const {
  return std::any_of(kinds_.begin(), kinds_.end(),
                     [](const OfKind& kind) { return kind.n_records > 0; });
}

std::string LossTotals::text(const std::string& indent) const {
  std::string text;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const OfKind& kind = kinds_[i];
    if (kind.n_records == 0) continue;
    std::string bounds = short_number(kind.min_bound);
    if (kind.min_bound != kind.max_bound) {
      bounds += " to " + short_number(kind.max_bound);
    }
    const std::string asked = static_cast<BoundKind>(i) == BoundKind::kNone
                                  ? "no bound set"
                                  : fmt::format("{} {}", kind_name(i), bounds);
    text += fmt::format("{}lossy  {} {}, {}; worst error {}\n", indent, kind.n_records,
                        kind.n_records == 1 ? "tensor" : "tensors", asked,
                        short_number(kind.max_abs_error));
  }
  if (quality_.any()) text += indent + quality_.text() + "\n";
  return text;
}

nlohmann::ordered_json LossTotals::json() const {
  auto json = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].n_records == 0) continue;
    json[std::string(kind_name(i))] = {{"n_records", kinds_[i].n_records},
                                       {"max_abs_error", kinds_[i].max_abs_error}};
  }
  if (quality_.any()) json["quality"] = quality_.json();
  return json;
}

}  // namespace cfck::tools

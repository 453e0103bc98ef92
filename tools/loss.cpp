#include "tools/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

namespace cfck::tools {
namespace {

constexpr std::size_t kMostColumns = 8;

std::string_view kind_name(std::size_t index) {
  return bound_kind_name(static_cast<BoundKind>(index + 1));
}

}  // namespace

std::string short_number(double number) {
  char digits[32];
  const auto end =
      std::to_chars(digits, std::end(digits), number, std::chars_format::scientific).ptr;
  std::string text(digits, end);
  return text.size() <= kMostColumns ? text : fmt::format("{:.2e}", number);
}

std::string bound_text(const ErrorBound& bound) {
  return fmt::format("{} {}{}", bound_kind_name(bound.kind), short_number(bound.value),
                     bound.per_row ? "/row" : "");
}

void LossTotals::add(const RecordError& error) {
  const auto index = static_cast<std::size_t>(error.bound.kind) - 1;
  if (index >= kinds_.size()) return;
  LossTotals one;
  one.kinds_[index] = {1, error.max_abs_error, error.bound.value, error.bound.value};
  add(one);
}

void LossTotals::add(const LossTotals& other) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    OfKind& kind = kinds_[i];
    const OfKind& more = other.kinds_[i];
    if (more.n_records == 0) continue;
    kind.least_bound =
        kind.n_records == 0 ? more.least_bound : std::min(kind.least_bound, more.least_bound);
    kind.greatest_bound = std::max(kind.greatest_bound, more.greatest_bound);
    kind.max_abs_error = std::max(kind.max_abs_error, more.max_abs_error);
    kind.n_records += more.n_records;
  }
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
    std::string bounds = short_number(kind.least_bound);
    if (kind.least_bound != kind.greatest_bound) {
      bounds += " to " + short_number(kind.greatest_bound);
    }
    text += fmt::format("{}lossy  {} {}, {} {}; largest error {}\n", indent, kind.n_records,
                        kind.n_records == 1 ? "tensor" : "tensors", kind_name(i), bounds,
                        short_number(kind.max_abs_error));
  }
  return text;
}

nlohmann::ordered_json LossTotals::json() const {
  auto json = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].n_records == 0) continue;
    json[std::string(kind_name(i))] = {{"n_records", kinds_[i].n_records},
                                       {"max_abs_error", kinds_[i].max_abs_error}};
  }
  return json;
}

}  // namespace cfck::tools

#include "tools/output/nearest_names.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/text.hpp"

namespace cfck::tools {
namespace {

constexpr std::size_t kMaxNames = 3;
constexpr std::size_t kMaxBytes = 512;  // of a name that is compared by characters

// Number of insertions, deletions and replacements that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::vector<std::size_t>& row) {
  row.resize(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

// The edit distance without the wildcards of `pattern`, which cost nothing.
std::size_t pattern_distance(std::string_view name, std::string_view pattern,
                             std::vector<std::size_t>& row) {
  row.assign(pattern.size() + 1, 0);
  for (std::size_t j = 0; j < pattern.size(); ++j) row[j + 1] = row[j] + (pattern[j] != '*');
  for (const char c : name) {
    std::size_t diagonal = std::exchange(row[0], row[0] + 1);
    for (std::size_t j = 0; j < pattern.size(); ++j) {
      const bool fits = pattern[j] == c || pattern[j] == '?';
      const std::size_t replaced = diagonal + (fits ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = pattern[j] == '*' ? std::min(row[j + 1], row[j])
                                     : std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row[pattern.size()];
}

using Ranked = std::vector<std::pair<std::size_t, std::string_view>>;

std::vector<std::string> first_of(Ranked& found) {
  const std::size_t n_shown = std::min(kMaxNames, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(n_shown),
                    found.end());
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < n_shown; ++i) shown.emplace_back(found[i].second);
  return shown;
}

}  // namespace

std::vector<std::string> nearest_names(std::span<const std::string_view> names,
                                       std::string_view wanted) {
  if (wanted.empty() || wanted.size() > kMaxBytes) return {};
  const std::size_t most_changes = std::max<std::size_t>(2, wanted.size() / 3);
  Ranked found;
  std::vector<std::size_t> row;
  for (const std::string_view name : names) {
    const std::size_t longer = std::max(name.size(), wanted.size());
    const std::size_t shorter = std::min(name.size(), wanted.size());
    if (longer - shorter <= most_changes) {
      const std::size_t distance = edit_distance(name, wanted, row);
      if (distance <= most_changes) {
        found.emplace_back(distance, name);
        continue;
      }
    }
    if (name.find(wanted) != std::string_view::npos) found.emplace_back(longer, name);
  }
  return first_of(found);
}

std::string did_you_mean(std::span<const std::string_view> names, std::string_view wanted,
                         std::string_view otherwise) {
  std::string text;
  for (const std::string& name : nearest_names(names, wanted)) {
    text += (text.empty() ? "; did you mean '" : "', '") + escaped(name);
  }
  return text.empty() ? "; " + std::string(otherwise) : text + "'?";
}

std::vector<std::string> nearest_to_pattern(std::span<const std::string_view> names,
                                            std::string_view pattern) {
  const auto n_wild =
      std::count_if(pattern.begin(), pattern.end(), [](char c) { return c == '*' || c == '?'; });
  const std::size_t n_literal = pattern.size() - static_cast<std::size_t>(n_wild);
  if (n_literal == 0 || pattern.size() > kMaxBytes) return {};
  // Some of the pattern has to occur.
  const std::size_t most_changes = std::min(std::max<std::size_t>(1, n_literal / 3), n_literal - 1);
  Ranked found;
  std::vector<std::size_t> row;
  for (const std::string_view name : names) {
    const std::size_t distance = pattern_distance(name, pattern, row);
    if (distance <= most_changes) found.emplace_back(distance, name);
  }
  return first_of(found);
}

}  // namespace cfck::tools

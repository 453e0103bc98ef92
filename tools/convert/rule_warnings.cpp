#include "tools/convert/rule_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "base/glob.hpp"
#include "base/text.hpp"
#include "tools/output/nearest_names.hpp"

namespace cfck::tools {
namespace {

// Explains why a rule was not used: an earlier one took all it matches, or it matches nothing.
std::string unmatched_text(const std::string& pattern, std::span<const std::string_view> names,
                           const std::vector<EncodeRule>& rules) {
  std::size_t n_matches = 0;
  std::string first;
  for (const std::string_view name : names) {
    if (!matches_glob(pattern, name)) continue;
    if (n_matches++ == 0) first = name;
  }
  std::string text = "the rule '" + escaped(pattern) + "' ";
  if (n_matches > 0) {
    const auto earlier = std::find_if(rules.begin(), rules.end(), [&](const EncodeRule& rule) {
      return matches_glob(rule.pattern, first);
    });
    const std::string all =
        n_matches == 1 ? "its only tensor" : fmt::format("all of its {} tensors", n_matches);
    return text + fmt::format("has no effect: earlier rules match {} first, '{}' by the rule '{}'",
                              all, escaped(first), escaped(earlier->pattern));
  }
  text += "matches no tensor";
  const bool is_name = pattern.find_first_of("*?[") == std::string::npos;
  const auto nearest = is_name ? nearest_names(names, pattern) : nearest_to_pattern(names, pattern);
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    text += (i == 0 ? "; the closest names are '" : "', '") + escaped(nearest[i]);
  }
  return nearest.empty() ? text : text + "'";
}

}  // namespace

std::vector<std::string> unmatched_rules(const ConvertReport& report) {
  std::vector<std::string> patterns;
  if (report.files.empty()) return patterns;
  std::map<std::string_view, std::size_t> n_files;  // in which a pattern matched nothing
  std::size_t n_with_rules = 0;
  for (const ConvertedFile& file : report.files) {
    if (file.is_state) continue;
    ++n_with_rules;
    const std::set<std::string_view> of_file(file.unmatched_rules.begin(),
                                             file.unmatched_rules.end());
    for (const std::string_view pattern : of_file) ++n_files[pattern];
  }
  for (const std::string& pattern : report.files.front().unmatched_rules) {
    const auto found = n_files.find(pattern);
    if (found == n_files.end() || found->second != n_with_rules) continue;
    patterns.push_back(pattern);
    n_files.erase(found);  // once is enough
  }
  return patterns;
}

void warn_of_rules(Console& console, const ConvertOptions& options, const ConvertReport& report) {
  if (options.only_outdated) return;  // rules may be for files that are not converted now
  const std::vector<std::string> patterns = unmatched_rules(report);
  std::vector<std::string_view> names;
  for (const ConvertedFile& file : report.files) {
    names.insert(names.end(), file.names.begin(), file.names.end());
  }
  for (const std::string& pattern : patterns) {
    console.warn_of_loss(unmatched_text(pattern, names, options.encode.rules));
  }
}

}  // namespace cfck::tools

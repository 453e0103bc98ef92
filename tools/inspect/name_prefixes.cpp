#include "tools/inspect/name_prefixes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"

namespace cfck::tools {
namespace {

using Name = std::string_view;
using Candidate = std::pair<Name, Name>;

constexpr std::size_t kTriedNames = 4;
constexpr std::size_t kMaxPartners = 64;  // of one suffix
constexpr std::size_t kMaxPoints = 32;    // in a prefix

// The name, and what is left of it after each of its first points.
std::vector<Name> suffixes(Name name) {
  std::vector<Name> found{name};
  auto place = name.find('.');
  while (place != Name::npos && found.size() <= kMaxPoints) {
    found.push_back(name.substr(place + 1));
    place = name.find('.', place + 1);
  }
  return found;
}

Name without(Name name, Name suffix) { return name.substr(0, name.size() - suffix.size()); }

// Whether the last part of a prefix is a number, as that of a layer.
bool ends_with_number(Name prefix) {
  if (prefix.ends_with('.')) prefix.remove_suffix(1);
  const Name last = prefix.substr(prefix.rfind('.') + 1);
  return !last.empty() &&
         std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Pairs of prefixes that make some name of `a` one of `b`.
std::set<Candidate> candidates(std::vector<Name> a, const std::vector<Name>& b) {
  std::map<Name, std::vector<Name>> by_suffix;
  for (const Name name : b) {
    for (const Name suffix : suffixes(name)) by_suffix[suffix].push_back(name);
  }
  std::sort(a.begin(), a.end());
  std::set<Candidate> found;
  // The first name may be one that the other side does not have.
  for (std::size_t i = 0; i < a.size(); i += std::max<std::size_t>(1, a.size() / kTriedNames)) {
    for (const Name suffix : suffixes(a[i])) {
      const auto partners = by_suffix.find(suffix);
      if (partners == by_suffix.end()) continue;
      for (std::size_t j = 0; j < std::min(kMaxPartners, partners->second.size()); ++j) {
        found.emplace(without(a[i], suffix), without(partners->second[j], suffix));
      }
      break;
    }
  }
  return found;
}

}  // namespace

std::optional<NamePrefixes> find_prefixes(const std::vector<std::string_view>& only_a,
                                          const std::vector<std::string_view>& only_b) {
  const std::set<Name> in_b(only_b.begin(), only_b.end());
  const std::size_t fewest = std::min(only_a.size(), only_b.size());
  std::optional<NamePrefixes> best;
  for (const auto& [prefix_a, prefix_b] : candidates(only_a, only_b)) {
    std::size_t n_names = 0;
    for (const Name name : only_a) {
      if (!name.starts_with(prefix_a)) continue;
      const std::string other = std::string(prefix_b).append(name.substr(prefix_a.size()));
      n_names += in_b.contains(other) ? 1 : 0;
    }
    const bool are_numbers = ends_with_number(prefix_a) && ends_with_number(prefix_b);
    if (!prefix_a.empty() && !prefix_b.empty() &&
        (are_numbers || n_names < std::max<std::size_t>(2, fewest))) {
      continue;  // other layers, and no prefixes
    }
    if (!best || n_names > best->n_names) {
      best = NamePrefixes{std::string(prefix_a), std::string(prefix_b), n_names};
    }
  }
  if (!best || 2 * best->n_names <= fewest) return std::nullopt;
  return best;
}

std::string prefix_text(const NamePrefixes& prefixes, std::size_t n_only_a, std::size_t n_only_b) {
  std::string text =
      prefixes.n_names == std::max(n_only_a, n_only_b)
          ? std::string("the names differ by a prefix only: ")
          : fmt::format("{} of the names differ by a prefix only: ", prefixes.n_names);
  const auto begin_with = [](const std::string& prefix) {
    return fmt::format("begin with '{}'", escaped(prefix));
  };
  if (prefixes.a.empty()) return text + "those of the second " + begin_with(prefixes.b);
  if (prefixes.b.empty()) return text + "those of the first " + begin_with(prefixes.a);
  return text + "those of the first " + begin_with(prefixes.a) + ", those of the second with '" +
         escaped(prefixes.b) + "'";
}

}  // namespace cfck::tools

// Names of two sets of tensors that differ by what stands before them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cfck::tools {

struct NamePrefixes {
  std::string a;
  std::string b;
  std::size_t n_names = 0;  // that are equal but for these
};

// The prefixes by which most of the names that only one side has differ; nothing if they differ
// otherwise.
std::optional<NamePrefixes> find_prefixes(const std::vector<std::string_view>& only_a,
                                          const std::vector<std::string_view>& only_b);

// Returns a sentence for the user: "the names differ by a prefix only: ...".
std::string prefix_text(const NamePrefixes& prefixes, std::size_t n_only_a, std::size_t n_only_b);

}  // namespace cfck::tools

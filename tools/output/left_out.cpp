#include "tools/output/left_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "base/text.hpp"
#include "model/folder/find_model.hpp"

namespace cfck::tools {

namespace fs = std::filesystem;

std::string left_out_text(const std::vector<std::string>& paths, std::string_view left_out) {
  constexpr std::size_t kMaxNamed = 5;
  const bool has_folder = std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
  });
  const std::string_view what = has_folder ? "model" : "file with tensors";
  const std::string_view whats = has_folder ? "models" : "files with tensors";
  std::string text = paths.size() == 1
                         ? fmt::format("1 other {} was {}: ", what, left_out)
                         : fmt::format("{} other {} were {}: ", paths.size(), whats, left_out);
  for (std::size_t i = 0; i < std::min(paths.size(), kMaxNamed); ++i) {
    text.append(i == 0 ? "" : ", ").append(escaped(paths[i]));
  }
  return paths.size() > kMaxNamed ? text + ", ..." : text;
}

void warn_of_files_left_out(Console& console, const std::string& path, std::string_view left_out) {
  const auto files = model::files_left_out(path);
  if (files && !files->empty()) console.warn(left_out_text(*files, left_out));
}

void warn_of_other_models(Console& console, const std::string& path, std::string_view left_out) {
  const auto others = model::beside_model(path);
  if (others && !others->empty()) console.warn(left_out_text(*others, left_out));
}

}  // namespace cfck::tools

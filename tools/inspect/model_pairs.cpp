#include "tools/inspect/model_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "cfck/io.hpp"
#include "model/folder/find_model.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

std::string without_suffix(std::string name) {
  for (const model::ArchiveFormat* format : model::file_formats()) {
    const std::string_view suffix = model::suffix_of(name, *format);
    if (suffix.empty() || suffix.size() == name.size()) continue;
    name.resize(name.size() - suffix.size());
    break;
  }
  return name;
}

// Returns the paths by what they are paired by. Of two formats under one name each keeps its
// suffix.
std::map<std::string, std::string> by_name(const std::string& folder,
                                           const std::vector<std::string>& models) {
  std::map<std::string, std::size_t> counts;
  std::vector<std::string> names;
  for (const std::string& path : models) {
    names.push_back(fs::path(path).lexically_relative(folder).generic_string());
    ++counts[without_suffix(names.back())];
  }
  std::map<std::string, std::string> paths;
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::string name = without_suffix(names[i]);
    paths.emplace(counts[name] == 1 ? std::move(name) : names[i], models[i]);
  }
  return paths;
}

}  // namespace

Result<std::vector<ModelPair>> model_pairs(const std::string& a, const std::string& b) {
  CFCK_TRY_ASSIGN(const auto models_a, model::all_models(a));
  CFCK_TRY_ASSIGN(const auto models_b, model::all_models(b));
  if (models_a.size() == 1 && models_b.size() == 1) {
    return std::vector<ModelPair>{{models_a.front(), models_b.front()}};
  }
  std::map<std::string, ModelPair> pairs;
  for (auto& [name, path] : by_name(a, models_a)) pairs[name].a = path;
  for (auto& [name, path] : by_name(b, models_b)) pairs[name].b = path;
  std::vector<ModelPair> list;
  for (auto& [name, pair] : pairs) list.push_back(std::move(pair));
  return list;
}

namespace {

Result<bool> same_bytes(const std::string& a, const std::string& b) {
  CFCK_TRY_ASSIGN(const auto source_a, open_file(a));
  CFCK_TRY_ASSIGN(const auto source_b, open_file(b));
  if (source_a->size() != source_b->size()) return false;
  std::vector<std::byte> bytes_a(std::size_t{1} << 20);
  std::vector<std::byte> bytes_b(bytes_a.size());
  for (std::uint64_t done = 0; done < source_a->size(); done += bytes_a.size()) {
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes_a.size(), source_a->size() - done));
    CFCK_TRY(source_a->read_at(done, std::span(bytes_a).first(n)));
    CFCK_TRY(source_b->read_at(done, std::span(bytes_b).first(n)));
    if (!std::equal(bytes_a.begin(), bytes_a.begin() + static_cast<std::ptrdiff_t>(n),
                    bytes_b.begin())) {
      return false;
    }
  }
  return true;
}

// True if the folder has a file that is called like `name`, in any format.
bool has_counterpart(const std::string& folder, const std::string& name) {
  const auto formats = model::file_formats();
  const std::string stem = without_suffix(name);
  return std::any_of(formats.begin(), formats.end(), [&](const model::ArchiveFormat* format) {
    std::error_code ignored;
    return fs::exists(folder + "/" + stem + std::string(format->suffix), ignored);
  });
}

}  // namespace

Result<std::vector<std::string>> differing_files_left_out(const std::string& a,
                                                          const std::string& b) {
  std::error_code ignored;
  std::set<std::string> differing;
  if (!fs::is_directory(a, ignored) || !fs::is_directory(b, ignored)) {
    return std::vector<std::string>();
  }
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    CFCK_TRY_ASSIGN(const auto files, model::files_left_out(one));
    for (const std::string& file : files) {
      const std::string name = fs::path(file).lexically_relative(one).generic_string();
      const std::string there = other + "/" + name;
      bool is_same = has_counterpart(other, name);
      if (fs::exists(there, ignored)) {
        CFCK_TRY_ASSIGN(is_same, same_bytes(file, there));
      }
      if (!is_same) differing.insert(name);
    }
  }
  return std::vector<std::string>(differing.begin(), differing.end());
}

}  // namespace cfck::tools

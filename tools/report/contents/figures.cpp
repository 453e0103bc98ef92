#include "tools/report/contents/figures.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cfck/io.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxFigures = 100;

Result<Figure> parse_figure(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid_argument(fmt::format("--figure '{}' is not NAME=VALUE, such as cosine=0.991",
                                        detail::escaped(text)));
  }
  return Figure{text.substr(0, equals), text.substr(equals + 1)};
}

Result<void> add(const Json& json, const std::string& prefix, std::vector<Figure>& figures) {
  for (const auto& [key, value] : json.items()) {
    const std::string name = prefix + key;
    if (value.is_object()) {
      CFCK_TRY(add(value, name + " ", figures));
    } else if (value.is_string()) {
      figures.push_back({name, value.get<std::string>()});
    } else if (value.is_number() || value.is_boolean()) {
      figures.push_back({name, value.dump()});
    } else {
      return invalid_argument(fmt::format("the figure '{}' is {}; figures are numbers or texts",
                                          detail::escaped(name),
                                          value.is_null() ? "null" : "a list"));
    }
  }
  return {};
}

Result<std::vector<Figure>> read_file(const std::string& path) {
  CFCK_TRY_ASSIGN(const auto file, open_file(path, ReadMode::kPread));
  if (file->size() > kMaxFileBytes) {
    return invalid_argument("a file of figures has at most 1 MB; is it another file?");
  }
  std::string text(file->size(), '\0');
  CFCK_TRY(file->read_at(0, std::as_writable_bytes(std::span(text))));
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return invalid_argument("a file of figures is a JSON object, such as {\"cosine\": 0.991}");
  }
  std::vector<Figure> figures;
  CFCK_TRY(add(json, "", figures));
  return figures;
}

}  // namespace

Result<std::vector<Figure>> read_figures(const std::vector<std::string>& given,
                                         const std::string& path) {
  std::vector<Figure> figures;
  for (const std::string& text : given) {
    CFCK_TRY_ASSIGN(Figure figure, parse_figure(text));
    figures.push_back(std::move(figure));
  }
  if (!path.empty()) {
    auto more = read_file(path);
    if (!more) return with_path(more.error(), path);
    figures.insert(figures.end(), more->begin(), more->end());
  }
  if (figures.size() > kMaxFigures) {
    return invalid_argument(fmt::format("{} figures are more than the {} that a report shows",
                                        figures.size(), kMaxFigures));
  }
  return figures;
}

}  // namespace cfck::tools::report

#include "tools/convert/bases.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/text.hpp"
#include "cfck/base.hpp"
#include "model/archive_base.hpp"
#include "model/error_path.hpp"
#include "model/folder/model_files.hpp"
#include "model/formats/archive_format.hpp"
#include "tools/output/listing.hpp"
#include "tools/output/standard_streams.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

// True where the output is no .cfck file, so that the base is that of IN.
Result<bool> is_for_reading(const ConvertOptions& options) {
  if (options.base.empty() || options.to != nullptr) return false;
  const model::ArchiveFormat* const named = named_format(options.output);
  if (named != nullptr) return !named->encodes;
  // The counterpart of IN: see wanted_format().
  auto files = model::model_files(options.input);
  if (!files) return false;  // which the conversion says
  CFCK_TRY_ASSIGN(const auto source, open_file(files->paths.front()));
  CFCK_TRY_ASSIGN(const model::ArchiveFormat* const format, model::format_of(*source));
  return format->encodes && options.output_folder.empty();
}

}  // namespace

Result<void> open_base_of_output(ConvertOptions& options) {
  CFCK_TRY_ASSIGN(const bool for_reading, is_for_reading(options));
  if (for_reading) {
    options.reading.base = std::exchange(options.base, {});
    std::erase(options.for_cfck, "--base");
  }
  if (options.base.empty()) return {};
  CFCK_TRY_ASSIGN(options.encode.base, options.reading.open_base(options.base));
  if (auto usable = model::check_can_be_base(*options.encode.base, options.reading.limits);
      !usable) {
    return model::with_path(std::move(usable).error(), options.base);
  }
  return {};
}

Result<void> check_base_of_output(const ConvertOptions& options, const std::string& output) {
  if (options.base.empty()) return {};
  std::error_code ignored;
  if (fs::equivalent(options.base, output, ignored)) {
    return invalid_argument("the base and the output are the same file: '" + escaped(output) +
                            "'; choose another output");
  }
  const std::string_view name = options.encode.base->name();
  if (name.empty() || fs::path(output).filename() != name) return {};
  return invalid_argument("'" + escaped(output) +
                          "' would name itself as its base, since a base is found by its name "
                          "beside the file; give it another name than that of its base");
}

Result<void> check_dependents(const ConvertOptions& options, const std::string& output) {
  std::error_code ignored;
  if (options.replace_base || !fs::is_regular_file(output, ignored)) return {};
  CFCK_TRY_ASSIGN(std::vector<std::string> dependents, dependents_of(output));
  // A patch has done its work once it is applied to its base.
  std::erase_if(dependents, [&](const std::string& name) {
    return fs::equivalent(folder_of(output) / name, options.input, ignored);
  });
  if (dependents.empty()) return {};
  return check_no_dependents(output, "choose another output, or give them up with --replace-base");
}

Result<BaseTotals> count_against_base(const std::vector<std::string>& paths,
                                      const ReadingOptions& reading) {
  BaseTotals totals;
  for (const std::string& path : paths) {
    CFCK_TRY_ASSIGN(const Listing listing, list_tensors(path, reading));
    for (const TensorRow& row : listing.rows) totals.add(row);
  }
  return totals;
}

std::string advice_for_readers(const ConvertOptions& options, const std::string& output) {
  if (options.base.empty() || output == kStandardStream) return {};
  if (options.encode.base->name().empty()) {
    return fmt::format(
        "only a single .cfck file beside it is found again: to read '{}', give it its base, --base "
        "{}, or run cfck apply",
        escaped(output), escaped(options.base));
  }
  std::error_code ignored;
  if (fs::equivalent(folder_of(options.base), folder_of(output), ignored)) return {};
  return fmt::format(
      "the base is not in the folder of '{}': put it there, or name its folder with --base-dir",
      escaped(output));
}

}  // namespace cfck::tools

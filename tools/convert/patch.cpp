#include "tools/convert/patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.hpp"
#include "cfck/archive_writer.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/model_files.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/article.hpp"
#include "tools/convert/patch_check.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/standard_streams.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

// Error: kInvalidArgument for an output that is not named as a .cfck file.
Result<void> check_is_cfck(const std::string& output) {
  if (output == kStandardStream || model::has_suffix_of(output, model::cfck_format())) return {};
  return invalid_argument("a patch is a .cfck file; '" + escaped(output) +
                          "' does not end in .cfck, choose another name");
}

// Returns the format of the old model, which is that of the new one where its name says nothing.
Result<const model::ArchiveFormat*> format_of_result(const ApplyOptions& options,
                                                     const model::ModelFiles& files) {
  CFCK_TRY_ASSIGN(const auto source, open_file(files.paths.front()));
  CFCK_TRY_ASSIGN(const model::ArchiveFormat* const format, model::format_of(*source));
  if (format->create != nullptr) return format;
  if (!options.in_place) return &model::counterpart(model::cfck_format());
  return invalid_argument(fmt::format(
      "it is {} file, which cfck does not write, so it cannot be replaced; name another place with "
      "--output",
      model::with_article(format->name)));
}

// Where the folder of a model goes: a folder whose files begin as those of the model.
std::string shards_in(const std::string& folder, const model::ModelFiles& of_model,
                      const model::ArchiveFormat& format) {
  const std::string first = of_model.index.empty() ? of_model.paths.front() : of_model.index;
  const std::string name = fs::path(first).filename().string();
  const std::size_t end = name.find(format.suffix);
  const bool is_named = of_model.paths.size() == 1 || !of_model.index.empty();
  const std::string stem = is_named && end != std::string::npos ? name.substr(0, end) : "model";
  return (fs::path(folder) / (stem + std::string(format.suffix))).string();
}

// Finds out where the result goes, and in which format.
Result<ConvertOptions> conversion_of(const ApplyOptions& options) {
  ConvertOptions convert = options.convert;
  convert.input = options.patch;
  convert.reading.base = options.before;
  if (options.in_place) {
    convert.output = options.before;
    convert.force = true;
  }
  CFCK_TRY_ASSIGN(const model::ModelFiles files, model::model_files(options.before));
  CFCK_TRY_ASSIGN(const model::ArchiveFormat* const format, format_of_result(options, files));
  ConvertOptions of_base;
  of_base.input = options.before;
  of_base.output = convert.output;
  if (makes_file(of_base)) {
    if (convert.max_shard_bytes) {
      return invalid_argument("--max-shard-size is for a folder, but OUT is a file");
    }
    convert.to = options.in_place ? format : named_format(convert.output);
    if (convert.to == nullptr) convert.to = format;
    return convert;
  }
  if (!convert.max_shard_bytes) convert.max_shard_bytes = FolderOptions().max_shard_bytes;
  convert.output = shards_in(convert.output, files, *format);
  return convert;
}

void report_patch(const PatchCheck& check, Console& console) {
  console.say(fmt::format("  {}\n", check.totals.text()));
  if (check.missing.empty()) return;
  constexpr std::size_t kMaxNamed = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(check.missing.size(), kMaxNamed); ++i) {
    names += (i == 0 ? "'" : ", '") + escaped(check.missing[i]) + "'";
  }
  if (check.missing.size() > kMaxNamed) names += ", ...";
  console.warn(fmt::format("the patch does not have {} {} of OLD, so the output has not either: {}",
                           check.missing.size(), check.missing.size() == 1 ? "tensor" : "tensors",
                           names));
}

// Files beside the model of a folder, which the patch does not have.
void warn_of_others(const ApplyOptions& options, Console& console) {
  if (options.in_place || !is_folder(options.before)) return;
  const auto others = model::beside_model(options.before);
  if (others && !others->empty()) console.warn(left_out_text(*others, "not copied"));
}

}  // namespace

int run_patch(const PatchOptions& options, Console& console) {
  ConvertOptions convert = options.convert;
  convert.input = options.after;
  convert.base = options.before;
  convert.to = &model::cfck_format();
  convert.advises_readers = false;
  if (const auto checked = check_is_cfck(convert.output); !checked) {
    return console.fail(checked.error());
  }
  return run_convert(convert, console);
}

int run_apply(const ApplyOptions& options, Console& console) {
  auto convert = conversion_of(options);
  if (!convert) return console.fail(convert.error(), options.before);
  // It is opened once, so that its digests are computed once.
  auto before = convert->reading.open_base(options.before);
  if (!before) return console.fail(before.error());
  convert->reading.opened = *std::move(before);
  const auto check = check_patch(convert->reading, options.patch);
  if (!check) return console.fail(check.error(), options.patch);
  const int code = run_convert(*convert, console);
  if (code != kExitOk) return code;
  report_patch(*check, console);
  warn_of_others(options, console);
  return code;
}

}  // namespace cfck::tools

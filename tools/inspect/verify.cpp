#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "model/folder/model_files.hpp"
#include "model/folder/model_folder.hpp"
#include "model/formats/archive_format.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/progress_bar.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

struct FileReport {
  std::string path;
  VerifyReport report;
  bool is_cfck = true;
};

// True if there is damage, as opposed to tensors that a limit kept from being checked.
bool has_damage(const VerifyReport& report) {
  return std::any_of(report.problems.begin(), report.problems.end(), [](const Error& problem) {
    return problem.code == ErrorCode::kTruncated || problem.code == ErrorCode::kCorrupt ||
           problem.code == ErrorCode::kChecksum;
  });
}

Result<std::unique_ptr<TensorArchive>> open_to_verify(const std::string& path,
                                                      const VerifyOptions& options) {
  ArchiveOptions how;
  how.decode.threads = options.threads;
  how.decode.limits = options.limits;
  return model::open_archive_file(path, how);
}

std::uint64_t bytes_to_verify(const TensorArchive& archive, bool deep) {
  std::uint64_t n_bytes = archive.files().front().n_bytes;
  if (!deep) return n_bytes;
  for (const ArchiveTensor& tensor : archive.tensors()) n_bytes += tensor.n_bytes;
  return n_bytes;
}

Result<FileReport> verify_file(const std::string& path, const VerifyOptions& options,
                               ProgressBar& whole) {
  CFCK_TRY_ASSIGN(const auto archive, open_to_verify(path, options));
  ProgressBar bar(whole, bytes_to_verify(*archive, options.deep));
  bar.start("checking " + path.substr(path.rfind('/') + 1));
  const auto progress = [&](std::uint64_t done_bytes, std::string_view) {
    bar.update(done_bytes, 0);
    return interrupt_signal() == 0;
  };
  const VerifyLevel level = options.deep ? VerifyLevel::kDeep : VerifyLevel::kHashes;
  CFCK_TRY_ASSIGN(VerifyReport report, archive->verify(level, progress));
  return FileReport{path, std::move(report), archive->files().front().reader != nullptr};
}

int print_json(Console& console, const std::string& path, const std::vector<FileReport>& files,
               bool deep) {
  Json json{{"schema_version", 1},
            {"file", json_text(path)},
            {"level", deep ? "deep" : "hashes"},
            {"ok", true},
            {"n_records", 0},
            {"checked_bytes", 0},
            {"problems", Json::array()}};
  int code = kExitOk;
  std::uint64_t n_records = 0;
  std::uint64_t checked_bytes = 0;
  for (const FileReport& file : files) {
    n_records += file.report.n_records;
    checked_bytes += file.report.checked_bytes;
    for (const Error& problem : file.report.problems) {
      if (code == kExitOk) code = exit_code(problem.code);
      Json entry = Json::parse(error_json(problem));
      entry["file"] = json_text(file.path);
      json["problems"].push_back(std::move(entry));
    }
  }
  json["ok"] = code == kExitOk;
  json["n_records"] = n_records;
  json["checked_bytes"] = checked_bytes;
  console.print(json.dump(-1, ' ', true) + "\n");
  return code;
}

int print_text(Console& console, const std::vector<FileReport>& files, bool deep) {
  int code = kExitOk;
  for (const FileReport& file : files) {
    for (const Error& problem : file.report.problems) {
      const int failed = console.complain(problem, file.path);
      if (code == kExitOk) code = failed;
    }
    if (file.report.problems.empty()) {
      console.say(fmt::format("{}: ok, {} records, {} checked{}\n", escaped(file.path),
                              file.report.n_records, human_bytes(file.report.checked_bytes),
                              deep ? " and decoded" : ""));
    } else if (has_damage(file.report)) {
      console.warn(file.is_cfck
                       ? fmt::format("download the file again, or recover the intact tensors "
                                     "with: cfck repair {} -o NEW",
                                     escaped(file.path))
                       : "download the file again");
    }
  }
  return code;
}

Result<std::vector<FileReport>> verify_model(const std::string& path, const VerifyOptions& options,
                                             Console& console) {
  const model::FolderWatch watch(path);
  CFCK_TRY_ASSIGN(const model::ModelFiles found, model::model_files(path));
  std::uint64_t total_bytes = 0;
  std::vector<model::StrayTensor> strays;
  for (std::size_t i = 0; i < found.paths.size(); ++i) {
    auto archive = open_to_verify(found.paths[i], options);
    if (!archive) return with_path(archive.error(), found.paths[i]);
    total_bytes += bytes_to_verify(**archive, options.deep);
    const auto tensors = (*archive)->tensors();
    CFCK_TRY_ASSIGN(const auto is_of_model, model::tensors_of_model(found, i, tensors));
    const auto of_file = model::stray_tensors(found, i, tensors, is_of_model);
    strays.insert(strays.end(), of_file.begin(), of_file.end());
  }
  if (options.strict) CFCK_TRY(model::check_all_named(found));
  for (const std::string& warning : model::unread_warnings(found, strays)) console.warn(warning);
  ProgressBar bar(console.shows_progress(), total_bytes);
  std::vector<FileReport> files;
  for (const std::string& file : found.paths) {
    auto report = verify_file(file, options, bar);
    if (!report) return with_path(report.error(), file);
    files.push_back(std::move(*report));
  }
  CFCK_TRY(watch.check());
  return files;
}

}  // namespace

int run_verify(const VerifyOptions& options, Console& console) {
  catch_interrupts();
  int code = kExitOk;
  for (const std::string& path : options.paths) {
    const auto files = verify_model(path, options, console);
    if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
    int result = kExitOk;
    if (!files) {
      result = console.fail(files.error(), path);
    } else {
      result = console.json() ? print_json(console, path, *files, options.deep)
                              : print_text(console, *files, options.deep);
    }
    if (code == kExitOk) code = result;
  }
  return code;
}

}  // namespace cfck::tools

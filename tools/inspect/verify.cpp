#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "model/folder/files/folder_names.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/model_files.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/shard_index.hpp"
#include "model/formats/archive_format.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
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
  CFCK_TRY_ASSIGN(how.decode, options.reading.decode());
  how.decode.threads = options.threads;
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
  const Reader* const reader = archive->files().front().reader;
  // Without its base a file is whole, but cannot be read.
  if (level == VerifyLevel::kHashes && reader != nullptr) {
    if (auto base = reader->check_base(); !base) report.problems.push_back(base.error());
  }
  return FileReport{path, std::move(report), reader != nullptr};
}

// How many files of all that were given are whole.
struct Tally {
  std::size_t n_ok = 0;
  std::size_t n_damaged = 0;
  std::size_t n_unchecked = 0;  // missing, without checksums, beyond a limit
  int code = kExitOk;
  std::vector<std::string> failed_files;

  std::size_t n_files() const { return n_ok + n_damaged + n_unchecked; }

  void add(const FileReport& file) {
    std::size_t& count = file.report.problems.empty() ? n_ok
                         : has_damage(file.report)    ? n_damaged
                                                      : n_unchecked;
    ++count;
    if (!file.report.problems.empty()) failed_files.push_back(file.path);
    for (const Error& problem : file.report.problems) add(problem);
  }
  void add(const Error& problem) { code = worse_exit_code(code, exit_code(problem.code)); }

  std::string text() const {
    std::string text = fmt::format("{} ok, {} damaged", n_ok, n_damaged);
    if (n_unchecked > 0) text += fmt::format(", {} not checked", n_unchecked);
    return text + "\n";
  }
};

void print_json(Console& console, const std::string& path, const std::vector<FileReport>& files,
                bool deep) {
  Json json{{"schema_version", 1},
            {"file", json_text(path)},
            {"level", deep ? "deep" : "hashes"},
            {"ok", true},
            {"n_records", 0},
            {"checked_bytes", 0},
            {"problems", Json::array()}};
  std::uint64_t n_records = 0;
  std::uint64_t checked_bytes = 0;
  for (const FileReport& file : files) {
    n_records += file.report.n_records;
    checked_bytes += file.report.checked_bytes;
    for (const Error& problem : file.report.problems) {
      console.complain(problem, file.path);
      Json entry = Json::parse(error_json(problem));
      entry["file"] = json_text(file.path);
      json["problems"].push_back(std::move(entry));
    }
  }
  json["ok"] = json["problems"].empty();
  json["n_records"] = n_records;
  json["checked_bytes"] = checked_bytes;
  console.print(json.dump(-1, ' ', true) + "\n");
}

void print_text(Console& console, const std::vector<FileReport>& files, bool deep) {
  for (const FileReport& file : files) {
    for (const Error& problem : file.report.problems) console.complain(problem, file.path);
    if (file.report.problems.empty()) {
      console.say(fmt::format("{}: ok, {} {}, {} checked{}\n", escaped(file.path),
                              file.report.n_records,
                              file.report.n_records == 1 ? "record" : "records",
                              human_bytes(file.report.checked_bytes), deep ? " and decoded" : ""));
    } else if (has_damage(file.report)) {
      console.warn(file.is_cfck
                       ? fmt::format("download the file again, or recover the intact tensors "
                                     "with: cfck repair {} -o NEW",
                                     escaped(file.path))
                       : "download the file again");
    }
  }
}

// A page of the web that was saved under the name of a .cfck file cannot be repaired.
bool begins_like_cfck(const std::string& path) {
  const auto source = open_file(path);
  if (!source) return false;
  const auto format = model::format_of(**source);
  return format && *format == &model::cfck_format();
}

FileReport failed(const std::string& path, Error problem) {
  FileReport file{path, {}, begins_like_cfck(path)};
  file.report.problems.push_back(std::move(problem));
  return file;
}

// Opens the files once to know how much there is to do, and which of their tensors are not read.
// The function that checks a file says what is wrong with it.
struct Survey {
  std::size_t n_of_model = 0;  // files; those after them are beside the model
  std::uint64_t total_bytes = 0;
  std::vector<model::StrayTensor> strays;
  std::vector<std::optional<Error>> problems;  // of each file: what its index says of it

  void add(const model::ModelFiles& found, std::size_t number, const VerifyOptions& options) {
    problems.emplace_back();
    const auto archive = open_to_verify(found.paths[number], options);
    if (!archive) return;
    total_bytes += bytes_to_verify(**archive, options.deep);
    if (number >= n_of_model) return;
    const auto tensors = (*archive)->tensors();
    const auto is_of_model = model::tensors_of_model(found, number, tensors);
    if (!is_of_model) {
      problems.back() = is_of_model.error();
      return;
    }
    const auto of_file = model::stray_tensors(found, number, tensors, *is_of_model);
    strays.insert(strays.end(), of_file.begin(), of_file.end());
  }
};

// Adds the .cfck files beside the model of a folder, such as optimizer.cfck, which have hashes too.
void add_state_files(const std::string& path, model::ModelFiles& found) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return;
  const auto names = model::names_in(path);
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string file = (std::filesystem::path(path) / name).string();
    const bool is_known = std::any_of(found.paths.begin(), found.paths.end(), [&](const auto& one) {
      return std::filesystem::path(one) == std::filesystem::path(file);
    });
    const bool is_unnamed =
        std::find(found.unnamed.begin(), found.unnamed.end(), file) != found.unnamed.end();
    const bool is_cfck = !name.starts_with('.') && model::has_suffix_of(name, model::cfck_format());
    if (is_cfck && !is_known && !is_unnamed) found.paths.push_back(file);
  }
}

// Checks all files of a model, whatever is wrong with some of them.
Result<std::vector<FileReport>> verify_model(const std::string& path, const VerifyOptions& options,
                                             Console& console) {
  const model::FolderWatch watch(path);
  auto located = model::model_files(path);
  // Where a shard is missing, those that are there are checked.
  model::ModelFiles found = located ? std::move(*located) : model::ModelFiles();
  Survey survey;
  survey.n_of_model = found.paths.size();
  add_state_files(path, found);
  if (!located) {
    // A shard that is a broken link is named by this error.
    std::erase_if(found.paths, [&](const std::string& file) {
      const std::string name = escaped(std::filesystem::path(file).filename().string());
      std::error_code ignored;
      return !std::filesystem::exists(file, ignored) &&
             located.error().message.find("'" + name + "'") != std::string::npos;
    });
  }
  if (!located && found.paths.empty()) return std::move(located).error();
  for (std::size_t i = 0; i < found.paths.size(); ++i) survey.add(found, i, options);
  if (options.strict) CFCK_TRY(model::check_all_named(found));
  for (const std::string& warning : model::unread_warnings(found, survey.strays)) {
    console.warn(warning);
  }
  ProgressBar bar(console.shows_progress(), survey.total_bytes);
  std::vector<FileReport> files;
  for (std::size_t i = 0; i < found.paths.size(); ++i) {
    auto report = verify_file(found.paths[i], options, bar);
    CFCK_TRY(check_interrupt());
    files.push_back(report ? std::move(*report)
                           : failed(found.paths[i], std::move(report).error()));
    if (survey.problems[i]) files.back().report.problems.push_back(*survey.problems[i]);
  }
  if (!located) files.push_back(failed(path, std::move(located).error()));
  CFCK_TRY(watch.check());
  return files;
}

// Returns false where a signal ends the work.
bool verify_one(const std::string& path, const VerifyOptions& options, Console& console,
                Tally& tally) {
  auto files = verify_model(path, options, console);
  if (interrupt_signal() != 0) return false;
  if (!files) files = std::vector<FileReport>{failed(path, std::move(files).error())};
  for (const FileReport& file : *files) tally.add(file);
  if (console.json()) {
    print_json(console, path, *files, options.deep);
  } else {
    print_text(console, *files, options.deep);
  }
  return true;
}

// True for a folder whose model is in another format, which has no hashes.
bool has_no_hashes(const std::string& folder) {
  const auto found = model::find_model(folder);
  if (!found) return false;
  const auto index = model::parse_index_name(std::filesystem::path(*found).filename().string());
  return index ? index->format != &model::cfck_format()
               : !model::has_suffix_of(*found, model::cfck_format());
}

// Takes out what is beside the model of `folder` or below it, and returns it: .cfck files beside it
// are checked with the model, and others have no checksums.
std::vector<std::string> take_files_beside(const std::string& folder,
                                           std::vector<std::string>& models) {
  namespace fs = std::filesystem;
  std::vector<std::string> beside;
  const bool has_model = std::find(models.begin(), models.end(), folder) != models.end();
  const auto is_beside = [&](const std::string& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      return has_model && path != folder && has_no_hashes(path) && !has_no_hashes(folder);
    }
    const fs::path parent = fs::path(path).parent_path();
    return std::any_of(models.begin(), models.end(), [&](const std::string& other) {
      return fs::is_directory(other, ignored) && fs::equivalent(other, parent, ignored);
    });
  };
  std::copy_if(models.begin(), models.end(), std::back_inserter(beside), is_beside);
  std::erase_if(models, [&](const std::string& path) {
    return std::find(beside.begin(), beside.end(), path) != beside.end();
  });
  return beside;
}

// Names what is beside models and has no hashes. Files of .cfck were checked.
void warn_of_unchecked(const std::string& path, std::vector<std::string> files, Console& console) {
  const auto left_out = model::files_left_out(path);
  if (left_out) files.insert(files.end(), left_out->begin(), left_out->end());
  std::erase_if(files, [](const std::string& file) {
    return model::has_suffix_of(file, model::cfck_format());
  });
  std::sort(files.begin(), files.end());
  if (!files.empty()) {
    console.warn(left_out_text(files, "not checked, as only .cfck files have hashes"));
  }
}

// Reports the folders of a pipeline that lack their weights.
void report_missing(const std::string& path, Console& console, Tally& tally) {
  const auto folders = model::folders_without_weights(path);
  if (!folders) return;  // all_models() said why
  for (const std::string& folder : *folders) {
    const FileReport report =
        failed(folder, not_found("the folder has a config.json but no weights, and "
                                 "model_index.json names it; download or convert it again"));
    tally.add(report);
    if (console.json()) {
      print_json(console, folder, {report}, false);
    } else {
      print_text(console, {report}, false);
    }
  }
}

}  // namespace

int run_verify(const VerifyOptions& options, Console& console) {
  catch_interrupts();
  Tally tally;
  bool has_several = options.paths.size() > 1;
  for (const std::string& path : options.paths) {
    auto models = model::all_models(path);
    if (!models) {
      tally.add(models.error());
      console.fail(models.error(), path);
      continue;
    }
    warn_of_unchecked(path, take_files_beside(path, *models), console);
    has_several = has_several || models->size() > 1;
    report_missing(path, console, tally);
    for (const std::string& model : *models) {
      if (!verify_one(model, options, console, tally)) return kExitSignal + interrupt_signal();
    }
  }
  if (console.json() && has_several) {
    const Json json{{"schema_version", 1},
                    {"n_files", tally.n_files()},
                    {"n_ok", tally.n_ok},
                    {"n_damaged", tally.n_damaged},
                    {"n_unchecked", tally.n_unchecked}};
    console.print(json.dump(-1, ' ', true) + "\n");
  }
  constexpr std::size_t kManyFiles = 20;  // that a screen shows, more or less
  if (tally.n_files() > kManyFiles && !tally.failed_files.empty()) {
    std::string names = tally.failed_files.size() == 1
                            ? "1 file is"
                            : fmt::format("{} files are", tally.failed_files.size());
    names += " not intact:";
    for (const std::string& path : tally.failed_files) names += "\n  " + escaped(path);
    console.warn(names);
  }
  if (tally.n_files() > 1) console.say(tally.text());
  return tally.code;
}

}  // namespace cfck::tools

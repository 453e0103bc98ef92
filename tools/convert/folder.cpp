#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "base/files/access.hpp"
#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "cfck/io.hpp"
#include "model/folder/converted_folder.hpp"
#include "model/folder/files/temporary_folder.hpp"
#include "model/folder/model_files.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/shard_index.hpp"
#include "model/folder/written_folder.hpp"
#include "tools/convert/bases.hpp"
#include "tools/convert/convert.hpp"
#include "tools/convert/copy.hpp"
#include "tools/convert/training_state.hpp"
#include "tools/output/interrupt.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

Error folder_problem(const std::string& what, const std::string& path,
                     const std::error_code& error) {
  const bool no_memory = error == std::errc::not_enough_memory;
  return {no_memory ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
          what + " '" + escaped(path) + "': " + error.message(),
          {},
          {}};
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string default_output(const std::string& input, const model::ArchiveFormat& to) {
  static constexpr std::string_view kMark = "-cfck";
  std::string name = without_trailing_slashes(input);
  const std::string last = fs::path(name).filename().string();
  if (last == "." || last == "..") {
    std::error_code error;
    name = fs::canonical(name, error).string();
  }
  if (to.encodes) return name.append(kMark);
  if (name.size() > kMark.size() && name.ends_with(kMark)) {
    return name.substr(0, name.size() - kMark.size());
  }
  return name + "-safetensors";
}

class FolderConversion {
 public:
  FolderConversion(const ConvertOptions& options, model::FolderContents contents)
      : options_(options),
        contents_(std::move(contents)),
        from_(*contents_.format),
        to_(model::counterpart(from_)) {
    if (to_.encodes) {
      training_ = take_training_files(contents_, options);
    } else {
      keep_training_state(contents_, options);
    }
  }

  Result<ConvertReport> run(const ProgressPlace& place);
  Result<ConvertPlan> plan();
  Result<std::string> wanted_output() const;
  Result<OutdatedFiles> outdated();
  bool has_checkpoints() const { return !training_.checkpoints.empty(); }

 private:
  Result<void> choose_output();
  void keep_outdated();
  Result<void> name_training_files();
  Result<std::uint64_t> probe_all() const;
  Result<void> convert_states(const std::string& out, ProgressBar& bar);
  Result<void> convert_all(const std::string& out, const ProgressPlace& place);
  Result<void> write_rest(const std::string& out);
  void add_warnings();

  std::string input_path(const std::string& name) const { return contents_.folder + "/" + name; }
  // Calls `take` with the input and the output, relative paths, of every file that is written.
  template <class Take>
  void for_each_file(const Take& take) const;
  // The file whose permissions an output has: the one it replaces, or the input.
  std::string replaced_or(const std::string& output, const std::string& input) const {
    std::error_code ignored;
    std::string replaced = output_ + "/" + output;
    return fs::exists(replaced, ignored) ? replaced : input_path(input);
  }

  const ConvertOptions& options_;
  model::FolderContents contents_;
  TrainingFiles training_;  // converted too
  const model::ArchiveFormat& from_;
  const model::ArchiveFormat& to_;
  std::string output_;
  model::WrittenFolder written_;
  std::optional<model::ConvertedIndexes> indexes_;
  ConvertReport report_;
};

bool lies_within(const fs::path& inner, const fs::path& outer) {
  const auto [outer_end, ignored] =
      std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return outer_end == outer.end();
}

Result<std::string> FolderConversion::wanted_output() const {
  if (!options_.output.empty()) return options_.output;
  const std::string beside = default_output(options_.input, to_);
  if (options_.output_folder.empty()) return beside;
  CFCK_TRY_ASSIGN(const std::string kept, name_in_output(options_, beside));
  return (fs::path(options_.output_folder) / kept).string();
}

Result<void> FolderConversion::choose_output() {
  CFCK_TRY_ASSIGN(const std::string wanted, wanted_output());
  output_ = without_trailing_slashes(wanted);
  CFCK_TRY_ASSIGN(const std::string out, model::real_folder(output_));
  std::error_code error;
  const fs::path in = fs::canonical(options_.input, error);
  if (error) return folder_problem("cannot read", options_.input, error);
  if (lies_within(out, in) || lies_within(in, out)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the output folder '" + escaped(output_) +
                     "' and the input folder must not contain each other",
                 {},
                 {}};
  }
  CFCK_TRY_ASSIGN(const bool is_taken, model::is_taken(out));
  if (is_taken) CFCK_TRY(check_output(options_.input, output_, options_.force || options_.dry_run));
  if (is_taken && !fs::is_directory(out, error)) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + escaped(output_) + "' is a file; the output for a folder must be a folder",
                 {},
                 {}};
  }
  report_.input = options_.input;
  report_.output = output_;
  report_.from = &from_;
  report_.to = &to_;
  output_ = out;
  CFCK_TRY_ASSIGN(written_, model::converted_names(contents_, to_));
  CFCK_TRY(name_training_files());
  written_.replaces = is_taken;
  return is_taken ? model::check_what_stays(output_, written_) : Result<void>();
}

// Their files come after those of the model, checkpoints first.
Result<void> FolderConversion::name_training_files() {
  std::set<std::string> taken(written_.tensor_files.begin(), written_.tensor_files.end());
  taken.insert(written_.other_files.begin(), written_.other_files.end());
  for (const auto* names : {&training_.checkpoints, &training_.states}) {
    for (const std::string& name : *names) {
      std::string output = converted_training_file(name, to_);
      if (!taken.insert(output).second) {
        return invalid_argument("the folder has files of several formats: '" + escaped(output) +
                                "' would be written twice; rename '" + escaped(name) + "'");
      }
      written_.tensor_files.push_back(std::move(output));
    }
  }
  return {};
}

Result<std::uint64_t> FolderConversion::probe_all() const {
  std::uint64_t decoded_bytes = 0;
  for (const auto* names : {&training_.checkpoints, &training_.states}) {
    for (const std::string& name : *names) {
      const auto input = probe_input(input_path(name), options_.reading, options_.only_tensors);
      if (!input) return with_path(input.error(), name);
      decoded_bytes += input->decoded_bytes;
    }
  }
  for (const std::string& name : contents_.tensor_files) {
    auto input = probe_input(input_path(name), options_.reading, options_.only_tensors);
    if (input && input->format != &from_) {
      input = Error{ErrorCode::kCorrupt, "the contents do not match the suffix", {}, {}};
    }
    if (!input) return with_path(input.error(), name);
    decoded_bytes += input->decoded_bytes;
  }
  return decoded_bytes;
}

// Raises the limit of open files as far as the system allows; if that is too little, opening files
// fails.
void allow_open_files(std::size_t n_files) {
  constexpr rlim_t kOthers = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= n_files + kOthers) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, n_files + kOthers);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> FolderConversion::convert_all(const std::string& out, const ProgressPlace& place) {
  CFCK_TRY_ASSIGN(const std::uint64_t decoded_bytes, probe_all());
  ProgressBar bar = place.bar(options_, decoded_bytes);
  std::vector<FileConversion> conversions;
  std::vector<std::string> names = contents_.tensor_files;
  names.insert(names.end(), training_.checkpoints.begin(), training_.checkpoints.end());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const std::string_view index = to_.encodes ? indexes_->attachment_of(name) : "";
    const std::string output = output_ + "/" + written_.tensor_files[i];
    CFCK_TRY(check_base_of_output(options_, output));
    if (!options_.dry_run) CFCK_TRY(check_dependents(options_, output));
    conversions.push_back({input_path(name), out + "/" + written_.tensor_files[i], options_.encode,
                           options_.verify, options_.dry_run, false, std::string(index), name,
                           options_.reading, options_.only_tensors, &to_});
    if (options_.dry_run) continue;
    CFCK_TRY(model::make_parents_like(out, written_.tensor_files[i], contents_.folder));
  }
  // A plain target needs all shards at once; else one is open at a time.
  CFCK_TRY_ASSIGN(const auto target, error_target(options_.encode));
  const std::size_t n_at_once = target ? conversions.size() : 1;
  allow_open_files(2 * n_at_once);
  for (auto rest = std::span<const FileConversion>(conversions); !rest.empty();
       rest = rest.subspan(n_at_once)) {
    CFCK_TRY_ASSIGN(std::vector<ConvertedFile> files, convert_files(rest.first(n_at_once), bar));
    for (ConvertedFile& file : files) report_.files.push_back(std::move(file));
  }
  CFCK_TRY(convert_states(out, bar));
  for (std::size_t i = 0; i < report_.files.size(); ++i) {
    report_.files[i].output = report_.output + "/" + written_.tensor_files[i];
    const std::string& name = written_.tensor_files[i];
    // Nobody else sees it yet.
    if (!options_.dry_run) copy_access(output_ + "/" + name, out + "/" + name);
  }
  return {};
}

Result<void> FolderConversion::convert_states(const std::string& out, ProgressBar& bar) {
  const std::vector<std::string>& states = training_.states;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::string& name = written_.tensor_files[report_.files.size()];
    const FileConversion conversion{input_path(states[i]),
                                    out + "/" + name,
                                    lossless_options(options_.encode),
                                    options_.verify,
                                    options_.dry_run,
                                    false,
                                    {},
                                    states[i],
                                    options_.reading,
                                    options_.only_tensors,
                                    &to_};
    if (!options_.dry_run) CFCK_TRY(model::make_parents_like(out, name, contents_.folder));
    CFCK_TRY_ASSIGN(std::vector<ConvertedFile> files, convert_files({&conversion, 1}, bar));
    files.front().is_state = true;
    report_.files.push_back(std::move(files.front()));
  }
  return {};
}

Result<void> write_text(const std::string& path, const std::string& text, const std::string& like) {
  FilesLike files(system_files(), like);
  CFCK_TRY_ASSIGN(const auto file, AtomicFile::create(path, {}, files));
  CFCK_TRY(file->write(std::as_bytes(std::span(text))));
  return file->commit();
}

void FolderConversion::add_warnings() {
  model::ModelFiles found;
  for (const std::string& name : contents_.unnamed_shards) {
    found.unnamed.push_back(input_path(name));
  }
  report_.warnings = model::unread_warnings(found, {});
  std::vector<std::string> paths;
  for (const std::string& name : contents_.attribute_files) paths.push_back(input_path(name));
  const std::string text = model::attribute_files_text(paths, "neither read nor copied");
  if (!text.empty()) report_.warnings.push_back(text);
}

Result<void> FolderConversion::write_rest(const std::string& out) {
  report_.copied = contents_.other_files;
  report_.copied_from_outside = contents_.outside_files;
  add_warnings();
  model::WeightMap tied;
  for (std::size_t i = 0; i < contents_.tensor_files.size(); ++i) {
    for (const std::string& name : report_.files[i].tied) {
      tied.emplace_back(name, contents_.tensor_files[i]);
    }
  }
  for (std::size_t i = 0; i < contents_.index_files.size(); ++i) {
    CFCK_TRY_ASSIGN(const std::string text,
                    indexes_->converted(contents_.index_files[i], to_, tied));
    if (options_.dry_run) continue;
    const std::string& name = written_.index_files[i];
    CFCK_TRY(model::make_parents_like(out, name, contents_.folder));
    CFCK_TRY(write_text(out + "/" + name, text, replaced_or(name, contents_.index_files[i])));
  }
  if (options_.dry_run) return {};
  for (const std::string& name : contents_.other_files) {
    CFCK_TRY(model::make_parents_like(out, name, contents_.folder));
    CFCK_TRY(copy_file(input_path(name), out + "/" + name));
  }
  return {};
}

Result<ConvertPlan> FolderConversion::plan() {
  CFCK_TRY(check_direction(options_, from_, to_));
  CFCK_TRY(choose_output());
  CFCK_TRY_ASSIGN(const std::uint64_t decoded_bytes, probe_all());
  return ConvertPlan{report_.output, decoded_bytes};
}

// Whether an output has to be written: it is missing, or it may be older than its input.
bool is_outdated(const std::string& output, const std::string& input, bool newer) {
  std::error_code error;
  const auto written = fs::last_write_time(output, error);
  if (error) return true;
  const auto changed = fs::last_write_time(input, error);
  return newer && !error && changed > written;
}

template <class Take>
void FolderConversion::for_each_file(const Take& take) const {
  std::size_t at = 0;
  for (const auto* inputs : {&contents_.tensor_files, &training_.checkpoints, &training_.states}) {
    for (const std::string& input : *inputs) take(input, written_.tensor_files[at++]);
  }
  for (std::size_t i = 0; i < contents_.index_files.size(); ++i) {
    take(contents_.index_files[i], written_.index_files[i]);
  }
  for (const std::string& name : contents_.other_files) take(name, name);
}

Result<OutdatedFiles> FolderConversion::outdated() {
  CFCK_TRY_ASSIGN(const std::string out, wanted_output());
  CFCK_TRY_ASSIGN(written_, model::converted_names(contents_, to_));
  CFCK_TRY(name_training_files());
  OutdatedFiles outdated;
  for_each_file([&](const std::string& input, const std::string& name) {
    const std::string output = (fs::path(out) / name).string();
    if (!is_outdated(output, input_path(input), options_.newer)) return;
    outdated.names.push_back(name);
    std::error_code ignored;
    const auto& indexes = contents_.index_files;
    const bool is_index = std::find(indexes.begin(), indexes.end(), input) != indexes.end();
    // A shard that changes while its index stays has the same names. Those that are tied are in
    // the indexes of other formats only.
    const bool may_change = to_.encodes && fs::exists(output, ignored);
    const bool is_shard = contents_.named_files.contains(input);
    if (is_index || (is_shard && !may_change)) outdated.one_by_one = false;
  });
  return outdated;
}

// Leaves only the files that outdated() names, which are written without the others.
void FolderConversion::keep_outdated() {
  contents_.index_files.clear();
  written_.index_files.clear();
  std::set<std::string> kept;  // by their inputs
  std::vector<std::string> tensor_files;
  bool replaces = false;
  for_each_file([&](const std::string& input, const std::string& name) {
    const std::string output = output_ + "/" + name;
    if (!is_outdated(output, input_path(input), options_.newer)) return;
    std::error_code ignored;
    replaces = replaces || fs::exists(output, ignored);
    kept.insert(input);
    if (name != input) tensor_files.push_back(name);
  });
  const auto is_current = [&](const std::string& input) { return !kept.contains(input); };
  for (auto* names : {&contents_.tensor_files, &training_.checkpoints, &training_.states,
                      &contents_.other_files, &contents_.outside_files, &written_.other_files}) {
    std::erase_if(*names, is_current);
  }
  written_.tensor_files = std::move(tensor_files);
  // Files are replaced in one step for all of them.
  written_.stays = !replaces;
}

Result<ConvertReport> FolderConversion::run(const ProgressPlace& place) {
  CFCK_TRY(check_direction(options_, from_, to_));
  CFCK_TRY(choose_output());
  CFCK_TRY_ASSIGN(indexes_, model::ConvertedIndexes::read(contents_, options_.reading.limits));
  if (options_.only_outdated) keep_outdated();
  if (options_.dry_run) {
    CFCK_TRY(convert_all(output_, place));
    CFCK_TRY(write_rest(output_));
    return std::move(report_);
  }
  CFCK_TRY_ASSIGN(const auto temporary,
                  model::TemporaryFolder::create(model::temporary_place(output_)));
  CFCK_TRY(convert_all(temporary->path(), place));
  CFCK_TRY(write_rest(temporary->path()));
  std::error_code ignored;
  temporary->open_up(fs::is_directory(output_, ignored) ? output_ : contents_.folder);
  CFCK_TRY(model::put_in_place(temporary->path(), output_, written_, system_files()));
  return std::move(report_);
}

// Checks the shards of folders that have no index of them.
Result<void> check_all_shards(const model::FolderContents& contents) {
  std::map<std::string, std::vector<std::string>> shards;  // by folder
  for (const std::string& file : contents.tensor_files) {
    const fs::path path(file);
    const std::string name = path.filename().string();
    if (!model::is_shard_name(name, *contents.format)) continue;
    shards[path.parent_path().string()].push_back(name);
  }
  for (const std::string& index : contents.index_files) {
    shards.erase(fs::path(index).parent_path().string());
  }
  for (const auto& [below, names] : shards) {
    CFCK_TRY(model::check_shards(below.empty() ? contents.folder : contents.folder + "/" + below,
                                 names));
  }
  return {};
}

Result<FolderConversion> open_folder(const ConvertOptions& options) {
  CFCK_TRY_ASSIGN(model::FolderContents contents,
                  model::read_folder(without_trailing_slashes(options.input)));
  CFCK_TRY(check_all_shards(contents));
  const std::string folder = contents.folder;
  const std::vector<std::string> files = contents.other_files;
  const bool has_model = !contents.tensor_files.empty();
  FolderConversion conversion(options, std::move(contents));
  if (!has_model && !conversion.has_checkpoints()) {
    return model::no_tensor_files(folder, files, true);
  }
  return conversion;
}

}  // namespace

Result<ConvertReport> convert_folder(const ConvertOptions& options, const ProgressPlace& place) {
  CFCK_TRY_ASSIGN(FolderConversion conversion, open_folder(options));
  return conversion.run(place);
}

Result<std::string> folder_output(const ConvertOptions& options) {
  CFCK_TRY_ASSIGN(const FolderConversion conversion, open_folder(options));
  return conversion.wanted_output();
}

Result<OutdatedFiles> outdated_in_output(const ConvertOptions& options) {
  CFCK_TRY_ASSIGN(FolderConversion conversion, open_folder(options));
  return conversion.outdated();
}

Result<ConvertPlan> plan_folder(const ConvertOptions& options) {
  CFCK_TRY_ASSIGN(FolderConversion conversion, open_folder(options));
  return conversion.plan();
}

}  // namespace cfck::tools

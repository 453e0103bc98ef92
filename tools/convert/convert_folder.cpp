#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "cfck/io.hpp"
#include "model/folder/folder_names.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/replace_folder.hpp"
#include "model/folder/temporary_folder.hpp"
#include "tools/convert/convert.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/listing.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

// Maximum of JSON values that an index may hold beside the tensors: its metadata.
constexpr std::size_t kOtherIndexValues = 4096;
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

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
        to_(model::counterpart(from_)) {}

  Result<ConvertReport> run(bool show_progress);

 private:
  Result<void> choose_output();
  Result<void> plan_names();
  Result<void> check_what_stays() const;
  Result<void> read_indexes();
  Result<void> check_index(const std::string& index_file, const model::ShardIndex& index);
  Result<std::uint64_t> probe_all() const;
  Result<void> convert_all(const std::string& out, bool show_progress);
  Result<std::string> original_index(const std::string& index_file) const;
  Result<void> write_rest(const std::string& out);
  Result<void> move_into_place(const std::string& from);

  std::string input_path(const std::string& name) const { return contents_.folder + "/" + name; }
  std::string converted_name(const std::string& name) const {
    return model::with_suffix(name, from_, to_);
  }
  std::string converted_index_name(const std::string& name) const {
    return model::renamed_index(name, from_, to_);
  }

  const ConvertOptions& options_;
  model::FolderContents contents_;
  const model::ArchiveFormat& from_;
  const model::ArchiveFormat& to_;
  std::string output_;
  bool output_exists_ = false;                       // and has files that stay
  std::map<std::string, std::string> index_texts_;   // by name of the index file
  std::map<std::string, std::string> attached_;      // index text, by first shard
  std::map<std::string, std::string> first_shards_;  // by name of the index file
  ConvertReport report_;
};

bool lies_within(const fs::path& inner, const fs::path& outer) {
  const auto [outer_end, ignored] =
      std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return outer_end == outer.end();
}

Result<void> FolderConversion::choose_output() {
  output_ = without_trailing_slashes(options_.output.empty() ? default_output(options_.input, to_)
                                                             : options_.output);
  std::error_code error;
  // A link to a folder stands for the folder.
  const fs::path out = fs::weakly_canonical(fs::absolute(output_, error), error);
  if (error) return folder_problem("cannot use the output folder", output_, error);
  const fs::path in = fs::canonical(options_.input, error);
  if (error) return folder_problem("cannot read", options_.input, error);
  if (lies_within(out, in) || lies_within(in, out)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the output folder '" + escaped(output_) +
                     "' and the input folder must not contain each other",
                 {},
                 {}};
  }
  output_exists_ =
      fs::exists(out, error) && !(fs::is_directory(out, error) && fs::is_empty(out, error));
  if (output_exists_) CFCK_TRY(check_output(options_.input, out.string(), options_.force));
  if (output_exists_ && !fs::is_directory(out, error)) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + escaped(output_) + "' is a file; the output for a folder must be a folder",
                 {},
                 {}};
  }
  report_.input = options_.input;
  report_.output = output_;
  report_.to = &to_;
  output_ = out.string();
  return {};
}

Result<void> FolderConversion::plan_names() {
  std::set<std::string> names;
  std::vector<std::string> outputs = contents_.other_files;
  for (const auto& name : contents_.tensor_files) outputs.push_back(converted_name(name));
  for (const auto& name : contents_.index_files) outputs.push_back(converted_index_name(name));
  for (const std::string& name : outputs) {
    if (!names.insert(name).second) {
      return Error{ErrorCode::kInvalidArgument,
                   "the folder has both .cfck and .safetensors files: '" + escaped(name) +
                       "' would be written twice; convert a folder with one kind of file",
                   {},
                   {}};
    }
  }
  return {};
}

// Checks that remaining files of the output folder cannot be read together with the new ones, or
// instead of them.
Result<void> FolderConversion::check_what_stays() const {
  if (!output_exists_) return {};
  std::map<std::string, std::set<std::string>> written;  // names by folder
  std::set<std::string> has_index;
  for (const auto& name : contents_.tensor_files) {
    const fs::path path(converted_name(name));
    written[path.parent_path().string()].insert(path.filename().string());
  }
  for (const auto& name : contents_.index_files) {
    const fs::path path(converted_index_name(name));
    has_index.insert(path.parent_path().string());
    written[path.parent_path().string()].insert(path.filename().string());
  }
  for (const auto& [folder, names] : written) {
    const fs::path place = fs::path(output_) / folder;
    const auto present = model::names_in(place.string());
    if (!present) continue;  // not there yet
    for (const std::string& name : *present) {
      const bool is_index = model::is_index_name(name, to_);
      const bool is_shard = name.ends_with(to_.suffix) && !has_index.contains(folder);
      if (names.contains(name) || (!is_index && !is_shard)) continue;
      return Error{ErrorCode::kInvalidArgument,
                   "'" + escaped((place / name).string()) +
                       "' belongs to another checkpoint and would be read with the new files; "
                       "remove it, or choose another output folder",
                   {},
                   {}};
    }
  }
  return {};
}

// Checks that every tensor of the index is where it says.
Result<void> FolderConversion::check_index(const std::string& index_file,
                                           const model::ShardIndex& index) {
  const std::string folder = fs::path(index_file).parent_path().string();
  const std::string prefix = folder.empty() ? "" : folder + "/";
  std::map<std::string, std::set<std::string>> names;
  for (const auto& [tensor, file] : index.weight_map) names[prefix + file].insert(tensor);
  for (auto& [file, wanted] : names) {
    const auto& known = contents_.tensor_files;
    if (!std::binary_search(known.begin(), known.end(), file)) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("the shard '{}', named in '{}', is missing; download it",
                               escaped(file), escaped(index_file)),
                   {},
                   {}};
    }
    const auto listing = list_tensors(input_path(file), options_.limits);
    if (!listing) return with_path(listing.error(), file);
    for (const TensorRow& row : listing->rows) wanted.erase(row.name);
    if (!wanted.empty()) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("the shard '{}' lacks this tensor, which '{}' places there; "
                               "download the folder again",
                               escaped(file), escaped(index_file)),
                   *wanted.begin(),
                   {}};
    }
  }
  return {};
}

Result<void> FolderConversion::read_indexes() {
  for (const std::string& name : contents_.index_files) {
    CFCK_TRY_ASSIGN(std::string text, model::read_text(input_path(name), model::kMaxIndexBytes));
    CFCK_TRY_ASSIGN(const model::ShardIndex index, model::parse_shard_index(text));
    CFCK_TRY(check_index(name, index));
    if (const auto files = index.files(); !files.empty()) {
      const std::string first = (fs::path(name).parent_path() / files.front()).string();
      first_shards_[name] = first;
      attached_.emplace(first, text);
    }
    index_texts_[name] = std::move(text);
  }
  return {};
}

Result<std::uint64_t> FolderConversion::probe_all() const {
  std::uint64_t decoded_bytes = 0;
  for (const std::string& name : contents_.tensor_files) {
    auto input = probe_input(input_path(name), options_.limits);
    if (input && input->format != &from_) {
      input = Error{ErrorCode::kCorrupt, "the contents do not match the suffix", {}, {}};
    }
    if (!input) return with_path(input.error(), name);
    decoded_bytes += input->decoded_bytes;
  }
  return decoded_bytes;
}

Result<void> make_parents(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) return folder_problem("cannot create the folder of", path, error);
  return {};
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

Result<void> FolderConversion::convert_all(const std::string& out, bool show_progress) {
  CFCK_TRY_ASSIGN(const std::uint64_t decoded_bytes, probe_all());
  ProgressBar bar(show_progress, decoded_bytes * (options_.verify ? 2 : 1));
  std::vector<FileConversion> conversions;
  for (const std::string& name : contents_.tensor_files) {
    conversions.push_back({input_path(name), out + "/" + converted_name(name), options_.encode,
                           options_.verify, options_.dry_run, false,
                           to_.encodes ? attached_[name] : "", name, options_.limits});
    if (!options_.dry_run) CFCK_TRY(make_parents(conversions.back().output));
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
  for (std::size_t i = 0; i < report_.files.size(); ++i) {
    report_.files[i].output = report_.output + "/" + converted_name(contents_.tensor_files[i]);
  }
  return {};
}

// Returns the index as it was before the folder became .cfck, if the first shard has it and it
// still agrees; else the present one, renamed.
Result<std::string> FolderConversion::original_index(const std::string& index_file) const {
  const std::string& text = index_texts_.at(index_file);
  const auto first = first_shards_.find(index_file);
  if (to_.encodes || first == first_shards_.end()) {
    return model::rename_shards(text, from_, to_);
  }
  // Tied names have no tensor of their own in safetensors.
  std::set<std::string> tied;
  for (const ConvertedFile& file : report_.files) tied.insert(file.tied.begin(), file.tied.end());
  CFCK_TRY_ASSIGN(const std::string renamed, model::rename_shards(text, from_, to_, tied));
  ArchiveOptions how;
  how.decode.limits = options_.limits;
  CFCK_TRY_ASSIGN(const auto archive, model::open_archive_file(input_path(first->second), how));
  const auto attachments = archive->attachments();
  // A longer one was never the index of a folder that was converted.
  const bool is_kept =
      std::any_of(attachments.begin(), attachments.end(), [](const Attachment& attachment) {
        return attachment.name == kShardIndexAttachment &&
               attachment.decoded_bytes <= model::kMaxIndexBytes;
      });
  if (!is_kept) return renamed;
  CFCK_TRY_ASSIGN(const auto kept, archive->attachment(kShardIndexAttachment));
  std::string original(reinterpret_cast<const char*>(kept.data()), kept.size());
  CFCK_TRY_ASSIGN(const std::string complete, model::rename_shards(text, from_, to_));
  CFCK_TRY_ASSIGN(const model::ShardIndex shards, model::parse_shard_index(complete));
  // An index with more tensors than the present one does not agree with it.
  const auto original_shards =
      model::parse_shard_index(original, shards.weight_map.size() + kOtherIndexValues);
  return original_shards && original_shards->weight_map == shards.weight_map ? original : renamed;
}

Result<void> write_text(const std::string& path, const std::string& text) {
  CFCK_TRY_ASSIGN(const auto file, AtomicFile::create(path, {}));
  CFCK_TRY(file->write(std::as_bytes(std::span(text))));
  return file->commit();
}

Result<void> copy_file(const std::string& from, const std::string& to) {
  CFCK_TRY_ASSIGN(const auto source, open_file(from));
  CFCK_TRY_ASSIGN(const auto file, AtomicFile::create(to, {}));
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kCopyBytes, source->size()));
  for (std::uint64_t done = 0; done < source->size();) {
    const auto n_bytes = std::min<std::uint64_t>(buffer.size(), source->size() - done);
    const auto part = std::span(buffer).first(n_bytes);
    CFCK_TRY(source->read_at(done, part));
    CFCK_TRY(file->write(part));
    done += n_bytes;
    if (interrupt_signal() != 0) return cancelled();
  }
  CFCK_TRY(file->commit());
  struct stat info {};
  if (::stat(from.c_str(), &info) == 0) (void)::chmod(to.c_str(), info.st_mode & 0777);
  return {};
}

Result<void> FolderConversion::write_rest(const std::string& out) {
  report_.copied = contents_.other_files;
  report_.copied_from_outside = contents_.outside_files;
  for (const std::string& name : contents_.index_files) {
    CFCK_TRY_ASSIGN(const std::string text, original_index(name));
    if (options_.dry_run) continue;
    const std::string path = out + "/" + converted_index_name(name);
    CFCK_TRY(make_parents(path));
    CFCK_TRY(write_text(path, text));
  }
  if (options_.dry_run) return {};
  for (const std::string& name : contents_.other_files) {
    CFCK_TRY(make_parents(out + "/" + name));
    CFCK_TRY(copy_file(input_path(name), out + "/" + name));
  }
  return {};
}

Result<void> FolderConversion::move_into_place(const std::string& from) {
  FileSystem& files = system_files();
  if (output_exists_) {
    // The index comes last, so that it never names a shard that is not there.
    std::vector<std::string> names = contents_.other_files;
    for (const auto& name : contents_.tensor_files) names.push_back(converted_name(name));
    for (const auto& name : contents_.index_files) names.push_back(converted_index_name(name));
    return model::replace_folder({from, output_, std::move(names)}, files);
  }
  CFCK_TRY(model::sync_tree(from, files));
  // mkdir of the temporary folder gave it the usual permissions.
  CFCK_TRY(files.rename(from, output_));
  Result<void> synced = files.sync_directory(fs::path(output_).parent_path().string());
  if (!synced) {
    Error error = std::move(synced).error();
    error.message = "'" + escaped(output_) + "' was written, but: " + error.message;
    return error;
  }
  return {};
}

Result<ConvertReport> FolderConversion::run(bool show_progress) {
  CFCK_TRY(check_direction(options_, to_));
  CFCK_TRY(choose_output());
  CFCK_TRY(plan_names());
  CFCK_TRY(check_what_stays());
  CFCK_TRY(read_indexes());
  if (options_.dry_run) {
    CFCK_TRY(convert_all(output_, show_progress));
    CFCK_TRY(write_rest(output_));
    return std::move(report_);
  }
  CFCK_TRY_ASSIGN(const auto temporary, model::TemporaryFolder::create(output_));
  CFCK_TRY(convert_all(temporary->path(), show_progress));
  CFCK_TRY(write_rest(temporary->path()));
  CFCK_TRY(move_into_place(temporary->path()));
  return std::move(report_);
}

}  // namespace

Result<ConvertReport> convert_folder(const ConvertOptions& options, bool show_progress) {
  CFCK_TRY_ASSIGN(model::FolderContents contents,
                  model::read_folder(without_trailing_slashes(options.input)));
  return FolderConversion(options, std::move(contents)).run(show_progress);
}

}  // namespace cfck::tools

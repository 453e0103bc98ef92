// Writes a folder of shards. Each tensor goes to its shard when it is added; only then is their
// number known, by which they are called.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/files/access.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/archive_writer.hpp"
#include "format/container/tensor_checks.hpp"
#include "model/folder/archive_part.hpp"
#include "model/folder/files/folder_names.hpp"
#include "model/folder/files/temporary_folder.hpp"
#include "model/folder/shard_index.hpp"
#include "model/folder/written_folder.hpp"
#include "model/formats/archive_format.hpp"
#include "model/stateful_writer.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

// Where a folder of shards goes.
struct Destination {
  std::string path;  // absolute
  const ArchiveFormat* format = nullptr;
  FolderOptions options;

  // True for the names of files that other saves of this folder may have left, and that are
  // replaced with it.
  bool is_own(std::string_view name) const {
    const std::string_view stem = options.stem;
    if (name == shard_name(stem, 1, 1, *format) || name == index_name(stem, *format)) return true;
    return name.starts_with(stem) && is_shard_name(name, *format) &&
           name.size() == shard_name(stem, 1, 2, *format).size();
  }

  // Returns the path of a file of an earlier save, whose permissions new ones get; empty: none.
  std::string earlier_file() const {
    const auto names = names_in(path);
    if (!names) return {};
    const auto own =
        std::find_if(names->begin(), names->end(), [&](const auto& name) { return is_own(name); });
    return own == names->end() ? std::string() : (fs::path(path) / *own).string();
  }
};

Result<void> check_options(const FolderOptions& options) {
  if (options.max_shard_bytes == 0) {
    return invalid_argument("max_shard_bytes must be above 0");
  }
  const std::string& stem = options.stem;
  const bool is_name = !stem.empty() && stem.front() != '.' && valid_utf8(stem) &&
                       stem.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (is_name) return {};
  return invalid_argument("'" + escaped(stem) +
                          "' cannot begin the names of files; use a name such as \"model\"");
}

// Readers take the formats in the order of formats.inc, and of each all files or indexes: none of
// them may stay beside the new files.
Result<void> check_place(const Destination& destination) {
  const std::string& path = destination.path;
  CFCK_TRY_ASSIGN(const bool is_there, is_taken(path));
  if (!is_there) return {};
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    return invalid_argument("'" + escaped(path) +
                            "' is a file; shards need a folder, choose another path");
  }
  if (!destination.options.replace_existing) {
    return exists_already("the folder '" + escaped(path) +
                          "' exists already and has files; choose another path");
  }
  CFCK_TRY_ASSIGN(const auto names, names_in(path));
  for (const ArchiveFormat* format : archive_formats()) {
    for (const std::string& name : names) {
      const bool is_read = is_index_name(name, *format) || name.ends_with(format->suffix);
      if (!is_read || is_attribute_file(name) || destination.is_own(name)) continue;
      return invalid_argument("'" + escaped((fs::path(path) / name).string()) +
                              "' belongs to another checkpoint and would be read with the new "
                              "files, or instead of them; remove it, or choose another folder");
    }
    if (format == destination.format) break;
  }
  return {};
}

// Tensors of an archive that share memory, and must be in one shard.
struct Group {
  std::vector<std::size_t> members;  // ascending
  std::uint64_t n_bytes = 0;
};

std::vector<Group> groups_of(const TensorArchive& archive) {
  std::vector<Group> groups;
  std::map<std::size_t, std::size_t> by_base;
  for (const ArchiveTensor& tensor : archive.tensors()) {
    const std::size_t base = tensor.sharing == Sharing::kMemory ? tensor.base : tensor.index;
    const auto [found, is_new] = by_base.emplace(base, groups.size());
    if (is_new) groups.emplace_back();
    Group& group = groups[found->second];
    group.members.push_back(tensor.index);
    // Views of memory without a name are stored one by one.
    if (base == tensor.index ? !tensor.hidden : archive.tensors()[base].hidden) {
      group.n_bytes += tensor.n_bytes;
    }
  }
  return groups;
}

void add_to(ArchiveSummary& all, ArchiveSummary shard) {
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  all.n_records += shard.n_records;
  all.decoded_bytes += shard.decoded_bytes;
  all.stored_bytes += shard.stored_bytes;
  all.file_bytes += shard.file_bytes;
  all.step = std::max(all.step, shard.step);
  append(all.kept_lossless, shard.kept_lossless);
  append(all.lossy, shard.lossy);
  append(all.stored_apart, shard.stored_apart);
  append(all.metadata_names, shard.metadata_names);
  // A rule matched nothing if it did so in all shards.
  std::erase_if(all.unmatched_rules, [&](const std::string& pattern) {
    const auto& unmatched = shard.unmatched_rules;
    return std::find(unmatched.begin(), unmatched.end(), pattern) == unmatched.end();
  });
}

class FolderWriter final : public ArchiveWriter {
 public:
  FolderWriter(Destination destination, EncodeOptions options,
               std::unique_ptr<TemporaryFolder> temporary, FileSystem& files)
      : destination_(std::move(destination)),
        options_(std::move(options)),
        files_(files),
        like_earlier_(files, destination_.earlier_file()),
        temporary_(std::move(temporary)) {}

  Result<void> add(std::string_view name, const TensorSource& tensor) override {
    CFCK_TRY_ASSIGN(const std::uint64_t bytes, n_bytes(tensor.dtype, tensor.shape));
    return add_one(name, bytes, tensor);
  }
  Result<void> add(std::string_view name, const TensorView& tensor) override {
    CFCK_TRY_ASSIGN(const std::uint64_t bytes, n_bytes(tensor.dtype, tensor.shape));
    return add_one(name, bytes, tensor);
  }

  Result<bool> tie(std::string_view name, std::string_view base) override {
    const auto found = places_.find(base);
    if (found == places_.end()) {
      return not_found("no tensor with this name was added").in_record(std::string(base));
    }
    if (places_.contains(name)) return false;
    const std::size_t shard = found->second;
    CFCK_TRY_ASSIGN(const bool is_tied, shards_[shard]->writer->tie(name, base));
    if (is_tied) places_.emplace(name, shard);
    return is_tied;
  }

  Result<void> set_metadata(std::string_view key, std::string_view value) override {
    CFCK_TRY(format::check_metadata(key, value));
    metadata_.insert_or_assign(std::string(key), std::string(value));
    return {};
  }

  Result<void> attach(std::string_view name, ByteView bytes) override {
    CFCK_TRY(format::check_attachment_name(name));
    attached_.insert_or_assign(std::string(name),
                               std::vector<std::byte>(bytes.begin(), bytes.end()));
    return {};
  }

  Result<void> add_archive(const TensorArchive& archive) override {
    for (const auto& [key, value] : archive.metadata()) CFCK_TRY(set_metadata(key, value));
    for (const Attachment& attachment : archive.attachments()) {
      CFCK_TRY_ASSIGN(auto bytes, archive.attachment(attachment.name));
      attached_.insert_or_assign(attachment.name, std::move(bytes));
    }
    std::map<std::size_t, std::vector<std::size_t>> by_shard;
    for (const Group& group : groups_of(archive)) {
      CFCK_TRY_ASSIGN(const std::size_t shard, shard_for(group.n_bytes));
      auto& members = by_shard[shard];
      members.insert(members.end(), group.members.begin(), group.members.end());
      CFCK_TRY(take_names(archive, group, shard));
    }
    for (auto& [shard, members] : by_shard) {
      std::sort(members.begin(), members.end());
      CFCK_TRY_ASSIGN(auto part, part_of(archive, members));
      parts_.push_back(std::move(part));
      CFCK_TRY(shards_[shard]->writer->add_archive(*parts_.back()));
    }
    return {};
  }

  void set_progress(WriteProgress progress) override { progress_ = std::move(progress); }
  void set_search_progress(SearchProgress progress) override {
    search_progress_ = std::move(progress);
  }

  Result<ArchiveSummary> finish() override {
    if (shards_.empty()) CFCK_TRY(start_shard());
    CFCK_TRY(add_to_shards());
    std::vector<ArchiveWriter*> writers;
    for (const auto& shard : shards_) writers.push_back(shard->writer.get());
    CFCK_TRY_ASSIGN(std::vector<ArchiveSummary> summaries, finish_together(writers));
    ArchiveSummary all = std::move(summaries.front());
    for (std::size_t i = 1; i < summaries.size(); ++i) add_to(all, std::move(summaries[i]));
    CFCK_TRY(name_files(all));
    temporary_.reset();  // it may have the files of an earlier save
    return all;
  }

 private:
  struct Shard {
    std::string path;  // until finish()
    std::unique_ptr<AtomicFile> file;
    std::unique_ptr<ArchiveWriter> writer;
    std::uint64_t n_bytes = 0;  // of tensors
    std::uint64_t done_bytes = 0;
  };

  Result<void> check_new(std::string_view name) const {
    if (!places_.contains(name)) return {};
    return invalid_argument("a tensor with this name was added before; names must differ")
        .in_record(std::string(name));
  }

  template <class Tensor>
  Result<void> add_one(std::string_view name, std::uint64_t n_bytes, const Tensor& tensor) {
    CFCK_TRY(check_new(name));
    CFCK_TRY_ASSIGN(const std::size_t shard, shard_for(n_bytes));
    CFCK_TRY(shards_[shard]->writer->add(name, tensor));
    places_.emplace(name, shard);
    return {};
  }

  Result<void> take_names(const TensorArchive& archive, const Group& group, std::size_t shard) {
    for (const std::size_t index : group.members) {
      const ArchiveTensor& tensor = archive.tensors()[index];
      if (tensor.hidden) continue;
      CFCK_TRY(check_new(tensor.name));
      places_.emplace(tensor.name, shard);
    }
    return {};
  }

  // Returns the shard for the next tensors of together `n_bytes`, and counts them there.
  Result<std::size_t> shard_for(std::uint64_t n_bytes) {
    const std::uint64_t max_bytes = destination_.options.max_shard_bytes;
    const bool fits =
        !shards_.empty() &&
        (shards_.back()->n_bytes == 0 ||
         (shards_.back()->n_bytes <= max_bytes && n_bytes <= max_bytes - shards_.back()->n_bytes));
    if (!fits) CFCK_TRY(start_shard());
    shards_.back()->n_bytes += n_bytes;
    return shards_.size() - 1;
  }

  Result<void> start_shard() {
    auto shard = std::make_unique<Shard>();
    shard->path = temporary_->path() + "/" + std::to_string(shards_.size());
    CFCK_TRY_ASSIGN(shard->file, AtomicFile::create(shard->path, {}, like_earlier_));
    CFCK_TRY_ASSIGN(shard->writer, destination_.format->create(*shard->file, options_));
    shard->writer->set_progress(
        [this, started = shard.get()](std::uint64_t done_bytes, std::string_view name) {
          started->done_bytes = done_bytes;
          return report(name);
        });
    shard->writer->set_search_progress([this](const StepSearch& search) {
      return search_progress_ ? search_progress_(search) : report(search.name);
    });
    shards_.push_back(std::move(shard));
    return {};
  }

  bool report(std::string_view name) const {
    if (!progress_) return true;
    std::uint64_t total_bytes = 0;
    for (const auto& shard : shards_) total_bytes += shard->done_bytes;
    return progress_(total_bytes, name);
  }

  Result<void> add_to_shards() {
    for (const auto& shard : shards_) {
      for (const auto& [key, value] : metadata_) {
        CFCK_TRY(shard->writer->set_metadata(key, value));
      }
    }
    for (const auto& [name, bytes] : attached_) {
      // These describe a single file of the other format, or the shards of another folder.
      if (shards_.size() > 1 && name.starts_with("safetensors.")) continue;
      CFCK_TRY(shards_.front()->writer->attach(name, bytes));
    }
    return {};
  }

  // Gives the files their names, and the folder its place.
  Result<void> name_files(const ArchiveSummary& summary) {
    WrittenFolder written;
    written.format = destination_.format;
    std::uint64_t total_bytes = 0;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      Shard& shard = *shards_[i];
      CFCK_TRY(shard.file->commit());
      written.tensor_files.push_back(
          shard_name(destination_.options.stem, i + 1, shards_.size(), *destination_.format));
      CFCK_TRY(files_.rename(shard.path, temporary_->path() + "/" + written.tensor_files.back()));
      total_bytes += shard.n_bytes;
    }
    if (shards_.size() > 1) CFCK_TRY(write_index(summary, total_bytes, written));
    CFCK_TRY_ASSIGN(written.replaces, is_taken(destination_.path));
    if (written.replaces) CFCK_TRY(drop_earlier_files(written));
    temporary_->open_up(destination_.path);
    return put_in_place(temporary_->path(), destination_.path, written, files_);
  }

  Result<void> write_index(const ArchiveSummary& summary, std::uint64_t total_bytes,
                           WrittenFolder& written) {
    std::map<std::string, std::string> weight_map;
    for (const auto& [name, shard] : places_) weight_map[name] = written.tensor_files[shard];
    // These have no tensor of their own.
    for (const std::string& name : summary.metadata_names) weight_map.erase(name);
    const std::string text = make_shard_index(weight_map, total_bytes);
    written.index_files.push_back(index_name(destination_.options.stem, *destination_.format));
    CFCK_TRY_ASSIGN(const auto file,
                    AtomicFile::create(temporary_->path() + "/" + written.index_files.back(), {},
                                       like_earlier_));
    CFCK_TRY(file->write(std::as_bytes(std::span(text))));
    return file->commit();
  }

  // Finds the files of an earlier save that no new file replaces.
  Result<void> drop_earlier_files(WrittenFolder& written) const {
    CFCK_TRY(check_place(destination_));
    CFCK_TRY_ASSIGN(const auto names, names_in(destination_.path));
    std::set<std::string_view> kept(written.tensor_files.begin(), written.tensor_files.end());
    kept.insert(written.index_files.begin(), written.index_files.end());
    for (const std::string& name : names) {
      std::error_code ignored;
      const auto status = fs::symlink_status(fs::path(destination_.path) / name, ignored);
      if (fs::is_directory(status) || kept.contains(name) || !destination_.is_own(name)) continue;
      written.dropped.push_back(name);
    }
    return {};
  }

  const Destination destination_;
  const EncodeOptions options_;
  FileSystem& files_;
  FilesLike like_earlier_;
  std::unique_ptr<TemporaryFolder> temporary_;
  WriteProgress progress_;
  SearchProgress search_progress_;
  Metadata metadata_;
  std::map<std::string, std::vector<std::byte>> attached_;
  std::map<std::string, std::size_t, std::less<>> places_;  // shards of tensors, by name
  std::vector<std::unique_ptr<TensorArchive>> parts_;       // that writers read
  std::vector<std::unique_ptr<Shard>> shards_;
};

Result<std::unique_ptr<ArchiveWriter>> create(const ArchiveFormat& format, const std::string& path,
                                              const EncodeOptions& options,
                                              const FolderOptions& folder, FileSystem& files) {
  CFCK_TRY(check_options(folder));
  Destination destination{{}, &format, folder};
  CFCK_TRY_ASSIGN(destination.path, real_folder(path));
  CFCK_TRY(check_place(destination));
  // Wrong options are found before there is anything to write.
  MemorySink nowhere;
  CFCK_TRY(format.create(nowhere, options));
  CFCK_TRY_ASSIGN(auto temporary, TemporaryFolder::create(temporary_place(destination.path)));
  return with_states(
      std::make_unique<FolderWriter>(std::move(destination), options, std::move(temporary), files),
      nullptr);
}

}  // namespace
}  // namespace cfck::model

namespace cfck {

Result<std::unique_ptr<ArchiveWriter>> ArchiveWriter::create_folder(std::string_view format,
                                                                    const std::string& path,
                                                                    const EncodeOptions& options,
                                                                    const FolderOptions& folder,
                                                                    FileSystem& files) {
  return run_guarded([&]() -> Result<std::unique_ptr<ArchiveWriter>> {
    for (const model::ArchiveFormat* known : model::archive_formats()) {
      if (known->name == format) return model::create(*known, path, options, folder, files);
    }
    return unsupported("folders of the format '" + escaped(format) + "' cannot be written");
  });
}

}  // namespace cfck

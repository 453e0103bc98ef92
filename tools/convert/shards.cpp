// A model as a folder of shards, as model libraries lay them out.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files/access.hpp"
#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "model/folder/files/folder_names.hpp"
#include "model/folder/files/temporary_folder.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/shard_index.hpp"
#include "model/folder/written_folder.hpp"
#include "tools/convert/compare/tensor_comparison.hpp"
#include "tools/convert/convert.hpp"
#include "tools/convert/copy.hpp"
#include "tools/convert/training_state.hpp"
#include "tools/measure/target_check.hpp"
#include "tools/output/interrupt.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

// OUT names a folder, or a file in it, which says how the names of files begin and their format.
struct ShardPlace {
  std::string folder;
  std::string stem = "model";
  const model::ArchiveFormat* format = nullptr;  // nullptr: the counterpart of that of the input
};

ShardPlace place_of(const std::string& out) {
  ShardPlace place{out, "model", nullptr};
  std::error_code ignored;
  if (out.ends_with('/') || fs::is_directory(out, ignored)) return place;
  for (const model::ArchiveFormat* format : model::archive_formats()) {
    if (!model::has_suffix_of(out, *format)) continue;
    const fs::path path(out);
    const std::string name = path.filename().string();
    place.format = format;
    place.stem = name.substr(0, name.size() - model::suffix_of(name, *format).size());
    place.folder = path.has_parent_path() ? path.parent_path().string() : ".";
  }
  return place;
}

bool is_wanted() { return interrupt_signal() == 0; }

class ShardConversion {
 public:
  explicit ShardConversion(const ConvertOptions& options)
      : options_(options), place_(place_of(options.output)) {}

  Result<ConvertPlan> plan() {
    CFCK_TRY(open());
    return ConvertPlan{place_.folder, n_bytes_};
  }

  Result<ConvertReport> run(const ProgressPlace& progress) {
    CFCK_TRY(open());
    CFCK_TRY_ASSIGN(const auto temporary,
                    model::TemporaryFolder::create(
                        written_.stays ? (fs::path(output_) / place_.stem).string() : output_));
    const std::string made = temporary->path() + "/new";
    ProgressBar bar = progress.bar(options_, n_bytes_);
    CFCK_TRY(write(made, bar));
    CFCK_TRY(list_files(made));
    if (options_.verify) CFCK_TRY(compare(made, bar));
    CFCK_TRY(copy_others(made));
    if (written_.stays) CFCK_TRY(check_beside());
    if (!is_wanted()) return cancelled();
    std::error_code ignored;
    const bool is_old = fs::is_directory(output_, ignored);
    copy_access(is_old                                      ? output_
                : fs::is_directory(options_.input, ignored) ? options_.input
                                                            : "",
                made);
    CFCK_TRY(model::put_in_place(made, output_, written_, system_files()));
    return std::move(report_);
  }

 private:
  Result<void> open() {
    ArchiveOptions how;
    CFCK_TRY_ASSIGN(how.decode, options_.reading.decode());
    how.only_tensors = options_.only_tensors;
    CFCK_TRY_ASSIGN(archive_, open_input(options_.input, how));
    for (const ArchiveTensor& tensor : archive_->tensors()) {
      if (!tensor.hidden) n_bytes_ += tensor.n_bytes;
    }
    from_ = model::find_format(archive_->files().front().format);
    to_ = place_.format != nullptr ? place_.format : &model::counterpart(*from_);
    CFCK_TRY(check_direction(options_, *from_, *to_));
    return choose_output();
  }

  Result<void> choose_output() {
    CFCK_TRY_ASSIGN(output_, model::real_folder(place_.folder));
    std::error_code ignored;
    const bool is_input = fs::equivalent(output_, options_.input, ignored);
    if (is_input) {
      return invalid_argument("'" + escaped(place_.folder) +
                              "' is the input; choose another folder for the shards");
    }
    // A path that names files adds these to its folder. Also otherwise a folder stays where this
    // process, or the input, is in it.
    written_.stays = fs::is_directory(output_, ignored) &&
                     (place_.format != nullptr || model::must_stay(output_) || holds_input());
    if (written_.stays) {
      return check_free(model::index_name(place_.stem, *to_));
    }
    CFCK_TRY_ASSIGN(written_.replaces, model::is_taken(output_));
    if (!written_.replaces) return {};
    CFCK_TRY(check_output(options_.input, place_.folder, options_.force));
    if (fs::is_directory(output_, ignored)) return {};
    return invalid_argument("'" + escaped(place_.folder) +
                            "' is a file; shards need a folder, choose another path");
  }

  bool holds_input() const {
    std::error_code ignored;
    const fs::path inner = fs::canonical(options_.input, ignored);
    const fs::path outer(output_);
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first ==
           outer.end();
  }

  // The path of a file of the folder, as users named it.
  std::string shown_path(const std::string& name) const {
    return (fs::path(place_.folder) / name).lexically_normal().string();
  }

  // Checks that a file may be written into the folder, which stays. Errors: kExists;
  // kInvalidArgument for a file that is read.
  Result<void> check_free(const std::string& name) const {
    const fs::path there = fs::path(output_) / name;
    const std::string shown = escaped(shown_path(name));
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(there, ignored))) return {};
    for (const ArchiveFile& file : archive_->files()) {
      if (!fs::equivalent(file.path, there, ignored)) continue;
      return invalid_argument("'" + shown +
                              "' is a file of the input; choose another name or folder");
    }
    if (options_.force) return {};
    return exists_already("'" + shown +
                          "' exists already; use --force to replace it, or choose another name");
  }

  // Checks that the files may go beside those of the folder, and finds shards of an earlier
  // conversion that would stay beside the new ones.
  Result<void> check_beside() {
    std::set<std::string> written;
    for (const auto* names :
         {&written_.tensor_files, &written_.index_files, &written_.other_files}) {
      for (const std::string& name : *names) CFCK_TRY(check_free(name));
      written.insert(names->begin(), names->end());
    }
    CFCK_TRY_ASSIGN(const auto names, model::names_in(output_));
    const std::size_t length = model::shard_name(place_.stem, 1, 2, *to_).size();
    for (const std::string& name : names) {
      const bool is_shard = name.size() == length && name.starts_with(place_.stem + "-") &&
                            model::is_shard_name(name, *to_);
      const bool is_earlier = is_shard || name == model::index_name(place_.stem, *to_);
      if (!is_earlier || written.contains(name)) continue;
      CFCK_TRY(check_free(name));
      written_.dropped.push_back(name);
    }
    return {};
  }

  Result<void> write(const std::string& made, ProgressBar& bar) {
    FolderOptions folder;
    folder.max_shard_bytes = *options_.max_shard_bytes;
    folder.stem = place_.stem;
    CFCK_TRY_ASSIGN(const auto writer,
                    ArchiveWriter::create_folder(to_->name, made, options_.encode, folder));
    bar.start(fs::path(options_.input).filename().string());
    writer->set_progress([&](std::uint64_t done_bytes, std::string_view) {
      bar.update(done_bytes, 0);
      return is_wanted();
    });
    writer->set_search_progress([&](const StepSearch& search) {
      bar.preparing(fmt::format("finding steps, trial {}", search.trial), search.done_bytes,
                    search.total_bytes);
      return is_wanted();
    });
    CFCK_TRY(writer->add_archive(*archive_));
    CFCK_TRY_ASSIGN(ArchiveSummary summary, writer->finish());
    ConvertedFile file;
    file.input = options_.input;
    file.output = place_.folder;
    file.to = to_;
    take_summary(file, *archive_, std::move(summary), !options_.encode.rules.empty());
    for (const ArchiveFile& input : archive_->files()) {
      file.input_bytes += input.n_bytes;
      file.input_files.push_back(input.path);
    }
    report_ = {options_.input, place_.folder, from_, to_, {}, {}, {}, {}};
    report_.files.push_back(std::move(file));
    return {};
  }

  Result<void> list_files(const std::string& made) {
    CFCK_TRY_ASSIGN(const auto names, model::names_in(made));
    written_.format = to_;
    ConvertedFile& file = report_.files.front();
    for (const std::string& name : names) {
      const bool is_index = model::is_index_name(name, *to_);
      (is_index ? written_.index_files : written_.tensor_files).push_back(name);
      for (const ArchiveFile& input : archive_->files()) {
        CFCK_TRY(check_not_input(input.path, output_ + "/" + name));
      }
      if (is_index) continue;
      std::error_code ignored;
      file.output_bytes += fs::file_size(made + "/" + name, ignored);
      file.shards.push_back(shown_path(name));
      if (const auto like = first_input()) copy_access(*like, made + "/" + name);
    }
    // In a folder with other files, its name does not say what was written.
    if (written_.stays && place_.format != nullptr) {
      const auto& names_of_all =
          written_.index_files.empty() ? written_.tensor_files : written_.index_files;
      file.output = shown_path(names_of_all.front());
      report_.output = file.output;
    }
    const bool is_whole = written_.replaces || (written_.stays && place_.format == nullptr);
    return is_whole ? model::check_what_stays(output_, written_) : Result<void>();
  }

  // The file whose permissions shards get.
  std::optional<std::string> first_input() const {
    const auto& files = report_.files.front().input_files;
    return files.empty() ? std::nullopt : std::optional(files.front());
  }

  Result<void> compare(const std::string& made, ProgressBar& bar) {
    bar.start("checking " + fs::path(place_.folder).filename().string());
    ArchiveOptions how;
    how.decode.limits.max_decoded_bytes = UINT64_MAX;  // the values are those of the input
    how.decode.base = options_.encode.base;
    CFCK_TRY_ASSIGN(const auto written, TensorArchive::open(made, how));
    CFCK_TRY_ASSIGN(auto totals,
                    compare_tensors(*archive_, *written, report_.files.front().kept_lossless,
                                    [&](std::uint64_t done_bytes) {
                                      bar.update(done_bytes, 0);
                                      return is_wanted();
                                    }));
    CFCK_TRY_ASSIGN(const auto target, error_target(options_.encode));
    if (!totals || !target) return {};
    totals->file_bytes = report_.files.front().output_bytes;
    return check_target(*target, *totals);
  }

  // Copies what is beside the model of a folder, and warns of tensors that are not of it.
  Result<void> copy_others(const std::string& made) {
    std::error_code ignored;
    if (!fs::is_directory(options_.input, ignored)) return {};
    CFCK_TRY_ASSIGN(model::FolderContents contents, model::read_folder(options_.input));
    take_tensor_files(contents);
    keep_training_state(contents, options_);
    for (const std::string& name : contents.other_files) {
      if (fs::exists(made + "/" + name, ignored)) {
        return invalid_argument("'" + escaped(name) + "' in '" + escaped(options_.input) +
                                "' has the name of a file that is written; rename it, or choose "
                                "another name for the shards");
      }
      CFCK_TRY(model::make_parents_like(made, name, options_.input));
      CFCK_TRY(copy_file((fs::path(options_.input) / name).string(), made + "/" + name));
    }
    written_.other_files = contents.other_files;
    report_.copied = contents.other_files;
    std::erase_if(contents.outside_files, [&](const std::string& name) {
      return std::ranges::find(contents.other_files, name) == contents.other_files.end();
    });
    report_.copied_from_outside = std::move(contents.outside_files);
    if (!contents.tensor_files.empty()) {
      report_.warnings.push_back(left_out_text(contents.tensor_files));
    }
    return {};
  }

  // Makes `tensor_files` those that the model is not made of, in any format that folders have, and
  // takes them, and indexes, out of the files that are copied: readers would find two models.
  void take_tensor_files(model::FolderContents& contents) const {
    std::error_code ignored;
    std::set<fs::path> of_model;
    for (const ArchiveFile& file : archive_->files()) {
      of_model.insert(fs::canonical(file.path, ignored));
    }
    const auto is_any = [](const std::string& path, auto&& is_one) {
      const auto formats = model::archive_formats();
      const std::string name = fs::path(path).filename().string();
      return std::any_of(formats.begin(), formats.end(),
                         [&](const model::ArchiveFormat* format) { return is_one(name, *format); });
    };
    std::erase_if(contents.other_files, [&](const std::string& name) {
      if (is_any(name, model::may_be_model)) {
        contents.tensor_files.push_back(name);
        return true;
      }
      return is_any(name, model::is_index_name);
    });
    std::erase_if(contents.tensor_files, [&](const std::string& name) {
      return of_model.contains(fs::canonical(fs::path(options_.input) / name, ignored));
    });
    std::sort(contents.tensor_files.begin(), contents.tensor_files.end());
  }

  static std::string left_out_text(const std::vector<std::string>& files) {
    constexpr std::size_t kMaxListed = 5;
    std::string text = fmt::format(
        "{} of tensors left out, which {} not of the model that was converted; convert "
        "{} separately: ",
        files.size() == 1 ? "1 file" : fmt::format("{} files", files.size()),
        files.size() == 1 ? "is" : "are", files.size() == 1 ? "it" : "them");
    for (std::size_t i = 0; i < std::min(files.size(), kMaxListed); ++i) {
      text.append(i == 0 ? "'" : ", '").append(escaped(files[i])).append("'");
    }
    return files.size() > kMaxListed ? text + ", ..." : text;
  }

  const ConvertOptions& options_;
  ShardPlace place_;
  std::string output_;  // the folder, without links
  std::unique_ptr<TensorArchive> archive_;
  const model::ArchiveFormat* from_ = nullptr;
  const model::ArchiveFormat* to_ = nullptr;
  std::uint64_t n_bytes_ = 0;
  model::WrittenFolder written_;
  ConvertReport report_;
};

}  // namespace

std::string shard_output(const std::string& out) {
  const ShardPlace place = place_of(out);
  if (place.format == nullptr) return place.folder;
  const std::string index =
      (fs::path(place.folder) / model::index_name(place.stem, *place.format)).string();
  std::error_code ignored;
  return fs::exists(index, ignored) ? index : out;
}

Result<ConvertReport> convert_to_shards(const ConvertOptions& options, const ProgressPlace& place) {
  return ShardConversion(options).run(place);
}

Result<ConvertPlan> plan_shards(const ConvertOptions& options) {
  return ShardConversion(options).plan();
}

}  // namespace cfck::tools

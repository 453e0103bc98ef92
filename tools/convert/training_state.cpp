#include "tools/convert/training_state.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "cfck/archive.hpp"
#include "cfck/checkpoint.hpp"
#include "model/folder/find_model.hpp"
#include "model/formats/archive_format.hpp"
#include "tools/convert/file.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

// Returns the model beside the file, if its name or an index says that it is the model: readers of
// the folder then pass over other files.
std::optional<std::string> model_beside(const fs::path& file) {
  const auto found = model::find_named_model(file.parent_path().string());
  return found ? *found : std::nullopt;
}

std::unique_ptr<TensorArchive> open(const fs::path& file, const ConvertOptions& options) {
  auto decode = options.reading.decode();
  if (!decode) return nullptr;
  ArchiveOptions how;
  how.decode = *std::move(decode);
  how.decode.threads = 1;
  how.only_tensors = options.only_tensors;
  auto archive = model::open_archive_file(file.string(), how);
  return archive ? std::move(*archive) : nullptr;
}

// accelerate gives this suffix to what was registered to be saved.
constexpr std::string_view kPickleSuffix = ".pkl";

bool has_tensors(const fs::path& file, const ConvertOptions& options) {
  const std::string name = file.filename().string();
  if (!model::has_suffix_of(name, model::pytorch_format()) && !name.ends_with(kPickleSuffix)) {
    return false;
  }
  const auto archive = open(file, options);
  if (archive == nullptr || archive->files().front().format != model::pytorch_format().name) {
    return false;
  }
  const auto tensors = archive->tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const ArchiveTensor& tensor) { return tensor.n_elems > 1; });
}

// True where nothing beside the file is a model, so that it is one by itself once it is converted.
bool stands_alone(const fs::path& file) {
  const auto has_model = model::has_model(file.parent_path().string());
  return has_model && !*has_model;
}

bool is_kept_state(const fs::path& file, const ConvertOptions& options) {
  const auto model = model_beside(file);
  if (!model || fs::path(*model) == file) return false;
  const auto archive = open(file, options);
  if (archive == nullptr) return false;
  const auto attachments = archive->attachments();
  return std::any_of(attachments.begin(), attachments.end(), [](const Attachment& attachment) {
    return attachment.name == kCheckpointAttachment;
  });
}

// Moves the names for which `moves` says so from one list to the end of the other.
template <class Moves>
void move_names(std::vector<std::string>& from, std::vector<std::string>& to, const Moves& moves) {
  const auto rest = std::stable_partition(from.begin(), from.end(),
                                          [&](const std::string& name) { return !moves(name); });
  to.insert(to.end(), rest, from.end());
  from.erase(rest, from.end());
}

}  // namespace

TrainingFiles take_training_files(model::FolderContents& contents, const ConvertOptions& options) {
  const auto take = [&](const auto& is_taken) {
    std::vector<std::string> taken;
    move_names(contents.other_files, taken, [&](const std::string& name) {
      const fs::path file = fs::path(contents.folder) / name;
      return is_taken(file) && has_tensors(file, options);
    });
    return taken;
  };
  TrainingFiles files;
  files.states = take([](const fs::path& file) { return model_beside(file).has_value(); });
  files.checkpoints = take(stands_alone);
  return files;
}

std::string converted_training_file(const std::string& name, const model::ArchiveFormat& to) {
  if (!name.ends_with(kPickleSuffix)) {
    return model::with_suffix(name, model::pytorch_format(), to);
  }
  return name.substr(0, name.size() - kPickleSuffix.size()).append(to.suffix);
}

void keep_training_state(model::FolderContents& contents, const ConvertOptions& options) {
  move_names(contents.tensor_files, contents.other_files, [&](const std::string& name) {
    return !contents.named_files.contains(name) &&
           is_kept_state(fs::path(contents.folder) / name, options);
  });
  std::sort(contents.other_files.begin(), contents.other_files.end());
}

EncodeOptions lossless_options(const EncodeOptions& options) {
  EncodeOptions lossless;
  lossless.entropy = options.entropy;
  lossless.level = options.level;
  lossless.threads = options.threads;
  lossless.chunk_elems = options.chunk_elems;
  return lossless;
}

}  // namespace cfck::tools

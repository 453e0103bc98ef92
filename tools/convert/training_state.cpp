#include "tools/convert/training_state.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
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
  ArchiveOptions how;
  how.decode.threads = 1;
  how.decode.limits = options.limits;
  how.only_tensors = options.only_tensors;
  auto archive = model::open_archive_file(file.string(), how);
  return archive ? std::move(*archive) : nullptr;
}

bool is_state(const fs::path& file, const ConvertOptions& options) {
  const bool may_be = model::has_suffix_of(file.string(), model::pytorch_format());
  if (!may_be || !model_beside(file)) return false;
  const auto archive = open(file, options);
  if (archive == nullptr || archive->files().front().format != model::pytorch_format().name) {
    return false;
  }
  const auto tensors = archive->tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const ArchiveTensor& tensor) { return tensor.n_elems > 1; });
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

std::vector<std::string> take_training_state(model::FolderContents& contents,
                                             const ConvertOptions& options) {
  std::vector<std::string> states;
  move_names(contents.other_files, states, [&](const std::string& name) {
    return is_state(fs::path(contents.folder) / name, options);
  });
  return states;
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

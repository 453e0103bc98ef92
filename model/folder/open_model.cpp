#include "model/folder/open_model.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/files/stamp.hpp"
#include "base/run_guarded.hpp"
#include "model/error_path.hpp"
#include "model/folder/archive.hpp"
#include "model/folder/model_folder.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck {
namespace model {
namespace {

// A tied name that the index does not place is a name of the model where one shard has it. Where
// several have, none of them is.
void leave_out_doubles(const ModelFiles& files,
                       const std::vector<std::unique_ptr<TensorArchive>>& parts,
                       std::vector<std::vector<bool>>& is_of_model) {
  if (files.index.empty()) return;
  std::map<std::string_view, std::pair<std::size_t, std::size_t>> places;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (const ArchiveTensor& tensor : parts[part]->tensors()) {
      if (tensor.hidden || tensor.named_by_metadata || !is_of_model[part][tensor.index]) continue;
      if (files.places.contains(tensor.name)) continue;
      const auto [place, is_new] = places.try_emplace(tensor.name, part, tensor.index);
      if (is_new) continue;
      is_of_model[part][tensor.index] = false;
      is_of_model[place->second.first][place->second.second] = false;
    }
  }
}

Result<OpenedModel> open_files(const std::string& path, const OpenArchive& open,
                               const FindOptions& find) {
  OpenedModel model;
  CFCK_TRY_ASSIGN(model.files, model_files(path, find));
  std::vector<std::unique_ptr<TensorArchive>> parts;
  std::vector<std::vector<bool>> is_of_model;
  bool is_whole = true;
  for (std::size_t i = 0; i < model.files.paths.size(); ++i) {
    auto part = open(model.files.paths[i]);
    if (!part) return with_path(std::move(part).error(), model.files.paths[i]);
    CFCK_TRY_ASSIGN(auto of_part, tensors_of_model(model.files, i, (*part)->tensors()));
    is_whole = is_whole && std::find(of_part.begin(), of_part.end(), false) == of_part.end();
    model.parts.push_back(part->get());
    parts.push_back(std::move(*part));
    is_of_model.push_back(std::move(of_part));
  }
  leave_out_doubles(model.files, parts, is_of_model);
  if (parts.size() == 1 && is_whole) {
    model.archive = std::move(parts.front());
  } else {
    CFCK_TRY_ASSIGN(model.archive, join_archives(std::move(parts), std::move(is_of_model)));
  }
  return model;
}

// False if another file is now where one of the model was opened: a folder that is replaced and put
// back looks as it did before.
bool are_in_place(const OpenedModel& model) {
  for (std::size_t i = 0; i < model.parts.size(); ++i) {
    const ByteSource* const source = model.parts[i]->files().front().source;
    if (source == nullptr || source->descriptor() < 0) continue;
    const auto opened = detail::stamp_of(source->descriptor());
    const auto now = detail::stamp_of(model.files.paths[i]);
    if (!opened || !now || !opened->is_same_file(*now)) return false;
  }
  return true;
}

}  // namespace

bool OpenedModel::lists(const ArchiveTensor& tensor) const {
  return !tensor.hidden && (!tensor.named_by_metadata || files.places.contains(tensor.name));
}

Result<OpenedModel> open_model(const std::string& path, const OpenArchive& open,
                               const FindOptions& find) {
  OpenedModel model;
  const auto open_all = [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(model, open_files(path, open, find));
    return {};
  };
  CFCK_TRY(open_unchanged(path, open_all,
                          [&] { return model.parts.size() == 1 || are_in_place(model); }));
  return model;
}

}  // namespace model

Result<std::unique_ptr<TensorArchive>> TensorArchive::open(const std::string& path,
                                                           const ArchiveOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<TensorArchive>> {
    const auto open = [&](const std::string& file) {
      return model::open_archive_file(file, options);
    };
    CFCK_TRY_ASSIGN(model::OpenedModel model,
                    model::open_model(path, open, {.finds_unread = false}));
    return std::move(model.archive);
  });
}

}  // namespace cfck

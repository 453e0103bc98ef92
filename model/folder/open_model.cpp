#include "model/folder/open_model.hpp"

#include <algorithm>
#include <utility>

#include "base/run_guarded.hpp"
#include "model/error_path.hpp"
#include "model/folder/archive.hpp"
#include "model/folder/model_folder.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck {
namespace model {
namespace {

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
  if (parts.size() == 1 && is_whole) {
    model.archive = std::move(parts.front());
  } else {
    CFCK_TRY_ASSIGN(model.archive, join_archives(std::move(parts), std::move(is_of_model)));
  }
  return model;
}

}  // namespace

bool OpenedModel::lists(const ArchiveTensor& tensor) const {
  return !tensor.hidden && (!tensor.named_by_metadata || files.places.contains(tensor.name));
}

Result<OpenedModel> open_model(const std::string& path, const OpenArchive& open,
                               const FindOptions& find) {
  OpenedModel model;
  CFCK_TRY(open_unchanged(path, [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(model, open_files(path, open, find));
    return {};
  }));
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

// Opens files and folders as archives.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/run_guarded.hpp"
#include "cfck/archive.hpp"
#include "model/error_path.hpp"
#include "model/folder/folder_archive.hpp"
#include "model/folder/model_files.hpp"
#include "model/folder/model_folder.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck {
namespace {

Result<std::unique_ptr<TensorArchive>> open_files(const std::string& path,
                                                  const ArchiveOptions& options) {
  CFCK_TRY_ASSIGN(const model::ModelFiles files, model::model_files(path));
  std::vector<std::unique_ptr<TensorArchive>> parts;
  std::vector<std::vector<bool>> is_of_model;
  bool is_whole = true;
  for (std::size_t i = 0; i < files.paths.size(); ++i) {
    auto part = model::open_archive_file(files.paths[i], options);
    if (!part) return model::with_path(std::move(part).error(), files.paths[i]);
    CFCK_TRY_ASSIGN(auto of_part, model::tensors_of_model(files, i, (*part)->tensors()));
    is_whole = is_whole && std::find(of_part.begin(), of_part.end(), false) == of_part.end();
    parts.push_back(std::move(*part));
    is_of_model.push_back(std::move(of_part));
  }
  if (parts.size() == 1 && is_whole) return std::move(parts.front());
  return model::join_archives(std::move(parts), std::move(is_of_model));
}

Result<std::unique_ptr<TensorArchive>> open_path(const std::string& path,
                                                 const ArchiveOptions& options) {
  std::unique_ptr<TensorArchive> archive;
  CFCK_TRY(model::open_unchanged(path, [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(archive, open_files(path, options));
    return {};
  }));
  return archive;
}

}  // namespace

Result<std::unique_ptr<TensorArchive>> TensorArchive::open(const std::string& path,
                                                           const ArchiveOptions& options) {
  return run_guarded([&] { return open_path(path, options); });
}

}  // namespace cfck

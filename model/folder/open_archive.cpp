// Opens files and folders as archives.
#include <utility>

#include "base/run_guarded.hpp"
#include "cfck/archive.hpp"
#include "model/archive_format.hpp"
#include "model/error_path.hpp"
#include "model/folder/folder_archive.hpp"
#include "model/folder/model_folder.hpp"

namespace cfck {
namespace {

Result<std::unique_ptr<TensorArchive>> open_path(const std::string& path,
                                                 const ArchiveOptions& options) {
  const model::FolderWatch watch(path);
  CFCK_TRY_ASSIGN(const auto paths, model::tensor_files(path));
  std::vector<std::unique_ptr<TensorArchive>> parts;
  for (const std::string& file : paths) {
    auto part = model::open_archive_file(file, options);
    if (!part) return model::with_path(std::move(part).error(), file);
    parts.push_back(std::move(*part));
  }
  CFCK_TRY(watch.check());
  return parts.size() == 1 ? std::move(parts.front()) : model::join_archives(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<TensorArchive>> TensorArchive::open(const std::string& path,
                                                           const ArchiveOptions& options) {
  return run_guarded([&] { return open_path(path, options); });
}

}  // namespace cfck

#include "cfck/archive.hpp"

#include <filesystem>
#include <utility>

#include "base/run_guarded.hpp"
#include "model/archive_format.hpp"
#include "model/error_path.hpp"
#include "model/folder_archive.hpp"
#include "model/model_folder.hpp"

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

TensorArchive::~TensorArchive() = default;

Result<std::unique_ptr<TensorArchive>> TensorArchive::open(const std::string& path,
                                                           const ArchiveOptions& options) {
  return run_guarded([&] { return open_path(path, options); });
}

Result<std::unique_ptr<TensorArchive>> TensorArchive::open(std::unique_ptr<ByteSource> source,
                                                           const ArchiveOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<TensorArchive>> {
    CFCK_TRY_ASSIGN(const model::ArchiveFormat* format, model::format_of(*source));
    return format->open(std::move(source), options);
  });
}

Result<void> TensorArchive::read(const ArchiveTensor& tensor, MutableBytes out) const {
  const ArchiveRead read{&tensor, out};
  return read_many({&read, 1});
}

Result<VerifyReport> TensorArchive::verify(VerifyLevel, const ReadProgress&) const {
  return run_guarded([&] {
    const std::string format(files().empty() ? "this" : files().front().format);
    return Result<VerifyReport>(Error{ErrorCode::kUnsupported,
                                      "a " + format +
                                          " file has no checksums to verify; convert it to .cfck "
                                          "to get them",
                                      {},
                                      {}});
  });
}

}  // namespace cfck

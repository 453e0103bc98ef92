#include "base/run_guarded.hpp"
#include "cfck/reader.hpp"
#include "cfck/update.hpp"
#include "format/update/file_view.hpp"
#include "format/update/rewrite.hpp"

namespace cfck {
namespace {

Result<std::uint64_t> compact_file(const std::string& path, DecodeOptions options,
                                   FileSystem& files) {
  CFCK_TRY_ASSIGN(const std::unique_ptr<File> file, files.open_read(path));
  CFCK_TRY(file->lock());
  CFCK_TRY_ASSIGN(const std::uint64_t old_bytes, file->size());
  const format::FileView source(*file, old_bytes, path);
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(source, options));
  CFCK_TRY_ASSIGN(const std::unique_ptr<AtomicFile> out, AtomicFile::create(path, {}, files));
  CFCK_TRY_ASSIGN(const std::uint64_t new_bytes, format::rewrite_alone(reader, *out));
  // Locking again finds out whether someone saved another file under this name.
  CFCK_TRY(file->lock());
  CFCK_TRY(out->commit());
  // Raw data may need a little more padding at their new offsets.
  return old_bytes > new_bytes ? old_bytes - new_bytes : 0;
}

}  // namespace

Result<std::uint64_t> compact(const std::string& path, DecodeOptions options, FileSystem& files) {
  return run_guarded([&] { return compact_file(path, options, files); });
}

}  // namespace cfck

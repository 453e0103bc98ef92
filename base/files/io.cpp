#include "cfck/io.hpp"

#include <sys/mman.h>

#include <cstring>

#include "base/files/check_range.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"

namespace cfck {

Result<void> check_range(std::uint64_t offset_bytes, std::uint64_t n_bytes, std::uint64_t size,
                         const std::string& name) {
  if (offset_bytes > size || n_bytes > size - offset_bytes) {
    return run_guarded([&] {
      return truncated("'" + escaped(name) + "' has " + std::to_string(size) + " bytes; " +
                       std::to_string(n_bytes) + " were requested at byte " +
                       std::to_string(offset_bytes))
          .at_byte(offset_bytes);
    });
  }
  return {};
}

namespace {

void copy_bytes(ByteView from, MutableBytes to) {
  if (!to.empty()) {
    std::memcpy(to.data(), from.data(), to.size());
  }
}

class FileSource final : public ByteSource {
 public:
  FileSource(std::unique_ptr<File> file, std::uint64_t size, std::string path)
      : file_(std::move(file)), size_(size), path_(std::move(path)) {}
  std::uint64_t size() const override { return size_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    CFCK_TRY(check_range(offset_bytes, out.size(), size_, path_));
    return file_->read_at(offset_bytes, out);
  }
  std::string name() const override { return path_; }
  int descriptor() const noexcept override { return file_->descriptor(); }

 private:
  std::unique_ptr<File> file_;
  std::uint64_t size_;
  std::string path_;
};

class MappedSource final : public ByteSource {
 public:
  MappedSource(std::unique_ptr<File> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  ~MappedSource() override {
    if (!bytes_.empty()) {
      ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
  }
  MappedSource(const MappedSource&) = delete;
  MappedSource& operator=(const MappedSource&) = delete;
  // Maps `n_bytes` of the file; returns false where the system cannot.
  bool map(std::uint64_t n_bytes) noexcept {
    void* const address = ::mmap(nullptr, n_bytes, PROT_READ, MAP_SHARED, file_->descriptor(), 0);
    if (address == MAP_FAILED) return false;
    bytes_ = {static_cast<const std::byte*>(address), n_bytes};
    return true;
  }
  std::unique_ptr<File> take_file() noexcept { return std::move(file_); }
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    CFCK_TRY(check_range(offset_bytes, out.size(), bytes_.size(), path_));
    copy_bytes(bytes_.subspan(offset_bytes, out.size()), out);
    return {};
  }
  ByteView mapped() const override { return bytes_; }
  std::string name() const override { return path_; }
  int descriptor() const noexcept override { return file_->descriptor(); }

 private:
  std::unique_ptr<File> file_;
  ByteView bytes_;
  std::string path_;
};

}  // namespace

Result<void> MemorySource::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  CFCK_TRY(check_range(offset_bytes, out.size(), bytes_.size(), name()));
  copy_bytes(bytes_.subspan(offset_bytes, out.size()), out);
  return {};
}

Result<void> MemorySink::write(ByteView bytes) {
  return run_guarded([&]() -> Result<void> {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  });
}

namespace {

Error not_provided(const char* action) {
  return run_guarded([&] { return unsupported(std::string("this FileSystem cannot ") + action); });
}

}  // namespace

Result<void> FileSystem::exchange(const std::string&, const std::string&) {
  return not_provided("exchange names");
}

Result<void> FileSystem::link(const std::string&, const std::string&) {
  return not_provided("link files");
}

Result<void> FileSystem::make_directory(const std::string&) {
  return not_provided("create folders");
}

Result<std::unique_ptr<ByteSource>> open_file(const std::string& path, ReadMode mode,
                                              FileSystem& files) {
  return run_guarded([&]() -> Result<std::unique_ptr<ByteSource>> {
    CFCK_TRY_ASSIGN(std::unique_ptr<File> file, files.open_read(path));
    CFCK_TRY_ASSIGN(const std::uint64_t size, file->committed_size());
    if (mode == ReadMode::kMmap && size != 0 && file->descriptor() >= 0) {
      auto source = std::make_unique<MappedSource>(std::move(file), path);
      if (source->map(size)) return std::unique_ptr<ByteSource>(std::move(source));
      file = source->take_file();  // where the system cannot map it, it is read
    }
    return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(std::move(file), size, path));
  });
}

}  // namespace cfck

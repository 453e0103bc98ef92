#include "cfck/io.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

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

// A name is for messages: it may be missing where memory is.
std::string copy_of_name(const std::string& name) noexcept {
  try {
    return name;
  } catch (...) {
    return "<file>";
  }
}

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
  std::string name() const noexcept override { return copy_of_name(path_); }

 private:
  std::unique_ptr<File> file_;
  std::uint64_t size_;
  std::string path_;
};

class MappedSource final : public ByteSource {
 public:
  explicit MappedSource(std::string path) : path_(std::move(path)) {}
  ~MappedSource() override {
    if (!bytes_.empty()) {
      ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
  }
  MappedSource(const MappedSource&) = delete;
  MappedSource& operator=(const MappedSource&) = delete;
  // Bytes that were mapped; this object unmaps them.
  void take(ByteView bytes) noexcept { bytes_ = bytes; }
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    CFCK_TRY(check_range(offset_bytes, out.size(), bytes_.size(), path_));
    copy_bytes(bytes_.subspan(offset_bytes, out.size()), out);
    return {};
  }
  ByteView mapped() const override { return bytes_; }
  std::string name() const noexcept override { return copy_of_name(path_); }

 private:
  ByteView bytes_;
  std::string path_;
};

// Returns nullptr where the system cannot map the file; the caller then reads it.
std::unique_ptr<ByteSource> try_map(const std::string& path, std::uint64_t size) {
  auto source = std::make_unique<MappedSource>(path);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return nullptr;
  }
  struct stat info {};
  void* address = MAP_FAILED;
  if (::fstat(descriptor, &info) == 0 && static_cast<std::uint64_t>(info.st_size) == size) {
    address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  }
  ::close(descriptor);
  if (address == MAP_FAILED) {
    return nullptr;
  }
  source->take(ByteView(static_cast<const std::byte*>(address), size));
  return source;
}

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
    // Only files of the system itself can be mapped.
    if (mode == ReadMode::kMmap && size != 0 && &files == &system_files()) {
      if (auto mapped = try_map(path, size)) {
        return mapped;
      }
    }
    return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(std::move(file), size, path));
  });
}

}  // namespace cfck

// Sources and sinks of bytes: files, memory, or anything a caller writes. Files are opened, read,
// written, synced, renamed and removed through FileSystem, so that tests can make each of these
// steps fail. Two things ask the system directly: AtomicFile, for the properties of a path (links,
// kinds, permissions), and ReadMode::kMmap, which maps files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cfck/device.hpp"
#include "cfck/export.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

// Random access to a fixed number of bytes. Implementations must allow
// concurrent calls of read_at.
class CFCK_API ByteSource {
 public:
  virtual ~ByteSource() = default;

  virtual std::uint64_t size() const = 0;

  // Fills `out` from `offset_bytes`. Errors: kTruncated if the source ends first (a file may have
  // shrunk since it was opened), kIo.
  virtual Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const = 0;

  // Returns all bytes in place, or an empty view if this source is not in memory. The view lives as
  // long as the source.
  virtual ByteView mapped() const { return {}; }

  // Returns the address of all bytes in the memory of `device`, or nullptr if this source is not
  // there. Only cuda::DeviceSource is.
  virtual const std::byte* on_device(Device device) const {
    (void)device;
    return nullptr;
  }

  // The name of the source in messages: a path, or "<memory>".
  virtual std::string name() const { return "<memory>"; }

  // Returns the descriptor of the open file that this source reads, which it keeps; -1 where there
  // is none.
  virtual int descriptor() const noexcept { return -1; }
};

// Takes bytes in order. After an error every later call fails.
class CFCK_API ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Result<void> write(ByteView bytes) = 0;

  // A writer calls the first when it begins a file in this sink, and the second once the file is
  // whole: in between, and for ever if the writer fails, the bytes are not a valid file. A sink
  // that passes bytes on to another one passes these calls on as well.
  virtual void writer_began() noexcept {}
  virtual void writer_finished() noexcept {}
};

// Refers to bytes of the caller, which must outlive it.
class CFCK_API MemorySource final : public ByteSource {
 public:
  explicit MemorySource(ByteView bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;
  ByteView mapped() const override { return bytes_; }

 private:
  ByteView bytes_;
};

// A MemorySource that owns its bytes.
class CFCK_API OwnedMemorySource final : public ByteSource {
 public:
  explicit OwnedMemorySource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    return MemorySource(bytes_).read_at(offset_bytes, out);
  }
  ByteView mapped() const override { return bytes_; }

 private:
  const std::vector<std::byte> bytes_;
};

class CFCK_API MemorySink final : public ByteSink {
 public:
  Result<void> write(ByteView bytes) override;
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// An open file. Closed by the destructor, which ignores errors: call close()
// where they matter.
class CFCK_API File {
 public:
  virtual ~File() = default;
  virtual Result<std::uint64_t> size() const = 0;
  // size() without the bytes that another File, which has the lock, is appending: those may still
  // be truncated. Errors: kIo, also if the size keeps changing.
  virtual Result<std::uint64_t> committed_size() const { return size(); }
  // Returns the descriptor of the file in the system; -1 where there is none.
  virtual int descriptor() const noexcept { return -1; }
  // Both retry after EINTR and short transfers. read_at reports kTruncated at
  // the end of the file.
  virtual Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const = 0;
  virtual Result<void> write_at(std::uint64_t offset_bytes, ByteView bytes) = 0;
  virtual Result<void> sync() = 0;  // fsync: data and metadata are on the device
  // A hint that sync() will come, and that the device may begin with these bytes. Does not wait for
  // them.
  virtual void sync_soon(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept {
    (void)offset_bytes;
    (void)n_bytes;
  }
  // A hint that `n_bytes` from `offset_bytes` on will be written, so that the system may reserve
  // space now. The size stays; truncate() frees what was not needed.
  virtual void reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept {
    (void)offset_bytes;
    (void)n_bytes;
  }
  virtual Result<void> truncate(std::uint64_t n_bytes) = 0;
  // Excludes other writers until the file is closed, without waiting. Bytes that are appended until
  // then are hidden from committed_size() of every other File of the same file, where the file
  // system has locks for that. Errors: kIo if another has the lock, or if the file was replaced
  // since it was opened.
  virtual Result<void> lock() = 0;
  virtual Result<void> close() = 0;
};

// The operations on paths that cfck needs. Errors: kIo with the path and the
// system's reason; kNotFound where the path does not exist; kExists where
// create_exclusive finds the path taken.
class CFCK_API FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<File>> open_read(const std::string& path) = 0;
  virtual Result<std::unique_ptr<File>> open_read_write(const std::string& path) = 0;
  // Leaves no file behind if it fails. remove_leftovers() spares the file while the object exists,
  // even after close().
  virtual Result<std::unique_ptr<File>> create_exclusive(const std::string& path) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  // Exchanges two names in one step, of files or folders; kUnsupported where that is impossible.
  virtual Result<void> exchange(const std::string& one, const std::string& other);
  // Adds a second name of a file, or of a symbolic link itself; kUnsupported as above.
  virtual Result<void> link(const std::string& from, const std::string& to);
  virtual Result<void> make_directory(const std::string& path);
  virtual Result<void> remove(const std::string& path) = 0;
  virtual Result<void> sync_directory(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  // Removes the temporary files that killed processes left in a folder: those with the
  // name of a temporary file of AtomicFile that belong to this user and that no
  // process holds (create_exclusive). Files on network file systems must also be a day old,
  // because locks may not reach other machines there. Ignores all errors.
  virtual void remove_leftovers(const std::string& folder) noexcept { (void)folder; }
};

// Returns the file system of the operating system. Stateless, thread-safe.
CFCK_API FileSystem& system_files();

enum class ReadMode : std::uint8_t {
  kPread,  // a private copy of what is read; the default
  kMmap,   // mapped: faster on local disks, but a file that shrinks kills the process
};

// Opens `path`, a regular file, for reading. While update() appends to the file, the source
// is the file as it was before: it ends where the update began. Errors: kNotFound, kIo,
// kUnsupported for a pipe, a socket or a device.
CFCK_API Result<std::unique_ptr<ByteSource>> open_file(const std::string& path,
                                                       ReadMode mode = ReadMode::kPread,
                                                       FileSystem& files = system_files());

// Options of AtomicFile::create().
struct AtomicFileOptions {
  // If false, an existing `path` is kExists. This is checked at the start and again before
  // the rename. It guards against mistakes, not against another process that makes the file in the
  // instant between: its file is replaced.
  bool replace_existing = true;
  bool sync = true;  // false: faster, not safe against power loss
};

// Writes a file that appears under its name complete, or not at all: bytes go to a
// temporary file in the same folder; commit() syncs it, renames it over `path`, and
// syncs the folder. Without commit() the destructor removes the temporary file and
// `path` stays as it was. A killed process leaves the temporary file,
// ".NAME.cfck-tmp-PID-N"; the next AtomicFile in that folder removes it. Keeps the
// permissions of a file it replaces; a symbolic link is followed, so that its target is
// replaced. Not thread-safe.
class CFCK_API AtomicFile final : public ByteSink {
 public:
  using Options = AtomicFileOptions;
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path, Options options = {},
                                                    FileSystem& files = system_files());
  ~AtomicFile() override;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Result<void> write(ByteView bytes) override;
  void writer_began() noexcept override;
  void writer_finished() noexcept override;
  // Opens the bytes written so far, to check them before commit().
  Result<std::unique_ptr<ByteSource>> read_back();
  // Error: kInvalidArgument while a writer in this file has not finished. After other errors
  // `path` is as it was, unless only syncing the folder failed: the new file is in place then,
  // and the error says that it was saved.
  Result<void> commit();

 private:
  struct CFCK_LOCAL Impl;
  explicit AtomicFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cfck

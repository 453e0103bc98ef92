// A file system that fails on demand, over the system's own: each step of a save
// can go wrong once, or from some step on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cfck/io.hpp"

namespace cfck::test {

enum class Operation : std::uint8_t {
  kOpen,  // also create_exclusive, link, make_directory
  kRead,
  kWrite,
  kSync,    // of files and folders
  kRename,  // also exchange
  kTruncate,
  kRemove,
  kClose,
  kSize,
  kLock,
};

const char* operation_name(Operation operation) noexcept;

struct Fault {
  // The operation that fails: the `at`-th (from 0) of all, or of those of one kind.
  std::uint64_t at = 0;
  std::optional<Operation> only;
  bool from_then_on = false;  // else once
  int error_number = 28;      // ENOSPC
  // A write that fails has put this many of its bytes into the file before.
  std::uint64_t bytes_written_before = 0;
};

struct TraceEntry {
  Operation operation;
  std::string path;
  std::uint64_t offset_bytes = 0;
  std::uint64_t n_bytes = 0;
  bool failed = false;
};

// Thread-safe. Files it opened may outlive a change of the fault, not the object.
class FaultFiles final : public FileSystem {
 public:
  explicit FaultFiles(FileSystem& inner = system_files()) : inner_(inner) {}

  void set_fault(std::optional<Fault> fault);
  // Operations seen since the last call of reset_counts().
  std::uint64_t count() const;
  std::uint64_t count(Operation operation) const;
  std::uint64_t failures() const;
  std::vector<TraceEntry> trace() const;
  void reset_counts();

  Result<std::unique_ptr<File>> open_read(const std::string& path) override;
  Result<std::unique_ptr<File>> open_read_write(const std::string& path) override;
  Result<std::unique_ptr<File>> create_exclusive(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> exchange(const std::string& one, const std::string& other) override;
  Result<void> link(const std::string& from, const std::string& to) override;
  Result<void> make_directory(const std::string& path) override;
  Result<void> remove(const std::string& path) override;
  Result<void> sync_directory(const std::string& path) override;
  bool exists(const std::string& path) override { return inner_.exists(path); }
  void remove_leftovers(const std::string& folder) noexcept override {
    inner_.remove_leftovers(folder);
  }

  // Called by the files of this file system: counts one operation and returns whether it
  // fails.
  Result<void> step(Operation operation, const std::string& path, std::uint64_t offset_bytes = 0,
                    std::uint64_t n_bytes = 0);
  std::uint64_t bytes_written_before_failure() const;

  // Bytes of which a file was told that they will be synced.
  void announce(std::uint64_t n_bytes) noexcept { announced_bytes_ += n_bytes; }
  std::uint64_t announced_bytes() const noexcept { return announced_bytes_; }
  // Bytes for which a file was asked to reserve space.
  void note_reserved(std::uint64_t n_bytes) noexcept { reserved_bytes_ += n_bytes; }
  std::uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }

 private:
  FileSystem& inner_;
  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
  std::vector<TraceEntry> trace_;
  std::atomic<std::uint64_t> announced_bytes_ = 0;
  std::atomic<std::uint64_t> reserved_bytes_ = 0;
};

}  // namespace cfck::test

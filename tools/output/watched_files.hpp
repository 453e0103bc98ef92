// Files that tell how much of them is read and written, for calls of the library that show no
// progress themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/files/access.hpp"
#include "cfck/io.hpp"

namespace cfck::tools {

// The files of the system. Reading and writing fail with kCancelled after interrupt_signal().
class WatchedFiles final : public FileSystem, public detail::CreatesWithAccess {
 public:
  // Called with the bytes that were read or written, by any thread.
  using Listener = std::function<void(std::uint64_t n_bytes)>;
  explicit WatchedFiles(Listener listener) : listener_(std::move(listener)) {}

  Result<std::unique_ptr<File>> open_read(const std::string& path) override;
  Result<std::unique_ptr<File>> open_read_write(const std::string& path) override;
  Result<std::unique_ptr<File>> create_exclusive(const std::string& path) override;
  Result<std::unique_ptr<File>> create_with(const std::string& path, const detail::Access& access,
                                            bool keeps_owner) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> exchange(const std::string& one, const std::string& other) override;
  Result<void> link(const std::string& from, const std::string& to) override;
  Result<void> make_directory(const std::string& path) override;
  Result<void> remove(const std::string& path) override;
  Result<void> sync_directory(const std::string& path) override;
  bool exists(const std::string& path) override;
  void remove_leftovers(const std::string& folder) noexcept override;

 private:
  Result<std::unique_ptr<File>> watched(Result<std::unique_ptr<File>> opened) const;

  const Listener listener_;
};

}  // namespace cfck::tools

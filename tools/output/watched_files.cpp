#include "tools/output/watched_files.hpp"

#include <utility>

#include "tools/output/interrupt.hpp"

namespace cfck::tools {
namespace {

class WatchedFile final : public File {
 public:
  WatchedFile(std::unique_ptr<File> inner, const WatchedFiles::Listener& listener)
      : inner_(std::move(inner)), listener_(listener) {}

  Result<std::uint64_t> size() const override { return inner_->size(); }
  Result<std::uint64_t> committed_size() const override { return inner_->committed_size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    if (interrupt_signal() != 0) return cancelled();
    CFCK_TRY(inner_->read_at(offset_bytes, out));
    listener_(out.size());
    return {};
  }
  Result<void> write_at(std::uint64_t offset_bytes, ByteView bytes) override {
    if (interrupt_signal() != 0) return cancelled();
    CFCK_TRY(inner_->write_at(offset_bytes, bytes));
    listener_(bytes.size());
    return {};
  }
  Result<void> sync() override { return inner_->sync(); }
  void sync_soon(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept override {
    inner_->sync_soon(offset_bytes, n_bytes);
  }
  void reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept override {
    inner_->reserve(offset_bytes, n_bytes);
  }
  Result<void> truncate(std::uint64_t n_bytes) override { return inner_->truncate(n_bytes); }
  Result<void> lock() override { return inner_->lock(); }
  Result<void> close() override { return inner_->close(); }

 private:
  const std::unique_ptr<File> inner_;
  const WatchedFiles::Listener& listener_;
};

}  // namespace

Result<std::unique_ptr<File>> WatchedFiles::watched(Result<std::unique_ptr<File>> opened) const {
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<File>(std::make_unique<WatchedFile>(std::move(*opened), listener_));
}

Result<std::unique_ptr<File>> WatchedFiles::open_read(const std::string& path) {
  return watched(system_files().open_read(path));
}

Result<std::unique_ptr<File>> WatchedFiles::open_read_write(const std::string& path) {
  return watched(system_files().open_read_write(path));
}

Result<std::unique_ptr<File>> WatchedFiles::create_exclusive(const std::string& path) {
  return watched(system_files().create_exclusive(path));
}

Result<std::unique_ptr<File>> WatchedFiles::create_with(const std::string& path,
                                                        const detail::Access& access,
                                                        bool keeps_owner) {
  auto& system = dynamic_cast<detail::CreatesWithAccess&>(system_files());
  return watched(system.create_with(path, access, keeps_owner));
}

Result<void> WatchedFiles::rename(const std::string& from, const std::string& to) {
  return system_files().rename(from, to);
}

Result<void> WatchedFiles::exchange(const std::string& one, const std::string& other) {
  return system_files().exchange(one, other);
}

Result<void> WatchedFiles::link(const std::string& from, const std::string& to) {
  return system_files().link(from, to);
}

Result<void> WatchedFiles::make_directory(const std::string& path) {
  return system_files().make_directory(path);
}

Result<void> WatchedFiles::remove(const std::string& path) { return system_files().remove(path); }

Result<void> WatchedFiles::sync_directory(const std::string& path) {
  return system_files().sync_directory(path);
}

bool WatchedFiles::exists(const std::string& path) { return system_files().exists(path); }

void WatchedFiles::remove_leftovers(const std::string& folder) noexcept {
  system_files().remove_leftovers(folder);
}

}  // namespace cfck::tools

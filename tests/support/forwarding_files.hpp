// The system's files, for file systems of tests that change some of the functions.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cfck/io.hpp"

namespace cfck::test {

class ForwardingFiles : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open_read(const std::string& path) override {
    return system_files().open_read(path);
  }
  Result<std::unique_ptr<File>> open_read_write(const std::string& path) override {
    return system_files().open_read_write(path);
  }
  Result<std::unique_ptr<File>> create_exclusive(const std::string& path) override {
    return system_files().create_exclusive(path);
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return system_files().rename(from, to);
  }
  Result<void> remove(const std::string& path) override { return system_files().remove(path); }
  Result<void> sync_directory(const std::string& path) override {
    return system_files().sync_directory(path);
  }
  bool exists(const std::string& path) override { return system_files().exists(path); }
};

class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::unique_ptr<File> inner) : inner_(std::move(inner)) {}
  Result<std::uint64_t> size() const override { return inner_->size(); }
  Result<std::uint64_t> committed_size() const override { return inner_->committed_size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    return inner_->read_at(offset_bytes, out);
  }
  Result<void> write_at(std::uint64_t offset_bytes, ByteView bytes) override {
    return inner_->write_at(offset_bytes, bytes);
  }
  Result<void> sync() override { return inner_->sync(); }
  Result<void> truncate(std::uint64_t n_bytes) override { return inner_->truncate(n_bytes); }
  Result<void> lock() override { return inner_->lock(); }
  Result<void> close() override { return inner_->close(); }

 private:
  std::unique_ptr<File> inner_;
};

}  // namespace cfck::test

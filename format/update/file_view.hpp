// An open file as a source, and its end as a sink.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "cfck/io.hpp"

namespace cfck::format {

// The first `n_bytes` of a file that must outlive the view.
class FileView final : public ByteSource {
 public:
  FileView(const File& file, std::uint64_t n_bytes, std::string path)
      : file_(file), n_bytes_(n_bytes), path_(std::move(path)) {}
  std::uint64_t size() const override { return n_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    return file_.read_at(offset_bytes, out);
  }
  std::string name() const override { return path_; }

 private:
  const File& file_;
  const std::uint64_t n_bytes_;
  const std::string path_;
};

// Writes after the first `offset_bytes` of a file.
class AppendSink final : public ByteSink {
 public:
  AppendSink(File& file, std::uint64_t offset_bytes) : file_(file), offset_bytes_(offset_bytes) {}
  Result<void> write(ByteView bytes) override {
    touched_ = true;
    CFCK_TRY(file_.write_at(offset_bytes_, bytes));
    offset_bytes_ += bytes.size();
    return {};
  }
  // True if anything was, or may have been, written.
  bool touched() const noexcept { return touched_; }

 private:
  File& file_;
  std::uint64_t offset_bytes_;
  bool touched_ = false;
};

}  // namespace cfck::format

// Part of a source, as a source.
#pragma once

#include <cstdint>
#include <string>

#include "cfck/io.hpp"

namespace cfck::interop {

// A stored member of a zip file. `file` must outlive it.
class SourcePart final : public ByteSource {
 public:
  // Requires: the part lies in the file.
  SourcePart(const ByteSource& file, std::uint64_t offset_bytes, std::uint64_t n_bytes)
      : file_(file), offset_bytes_(offset_bytes), n_bytes_(n_bytes) {}

  std::uint64_t size() const override { return n_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    if (offset_bytes > n_bytes_ || out.size() > n_bytes_ - offset_bytes) {
      return truncated("a member of the zip file ends before byte " +
                       std::to_string(offset_bytes + out.size()));
    }
    return file_.read_at(offset_bytes_ + offset_bytes, out);
  }
  std::string name() const override { return file_.name(); }

 private:
  const ByteSource& file_;
  std::uint64_t offset_bytes_;
  std::uint64_t n_bytes_;
};

}  // namespace cfck::interop

// A tensor of an archive as a source of bytes, for writers that read it by range.
#pragma once

#include <cstdint>

#include "cfck/archive.hpp"
#include "cfck/io.hpp"

namespace cfck::model {

class TensorBytes final : public ByteSource {
 public:
  // The archive must outlive this object.
  TensorBytes(const TensorArchive& archive, const ArchiveTensor& tensor)
      : archive_(archive), tensor_(tensor) {}

  std::uint64_t size() const override { return tensor_.n_bytes; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;
  std::string name() const override { return archive_.files()[tensor_.file].path; }

 private:
  const TensorArchive& archive_;
  const ArchiveTensor tensor_;
};

}  // namespace cfck::model

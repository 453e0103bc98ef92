// A compressed member of a zip file, as bytes that can be read at any place.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/forks/forks.hpp"
#include "cfck/io.hpp"
#include "interop/zip/block_cache.hpp"
#include "interop/zip/directory.hpp"

namespace cfck::interop {

// The first read decompresses the member once, checks its size and CRC-32, and notes places where
// decompression can start again; later reads decompress the parts between two of them. Thread-safe.
class InflatedMember final : public ByteSource {
 public:
  // `file` and `cache` must outlive the member.
  InflatedMember(const ByteSource& file, ZipMember member, BlockCache& cache);
  ~InflatedMember() override;

  std::uint64_t size() const override { return member_.n_bytes; }
  // Errors: kCorrupt for damaged data, those of the file.
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;
  std::string name() const override { return file_.name(); }

 private:
  class Inflater;
  // A place between two blocks of deflated data.
  struct Start {
    std::uint64_t out_bytes = 0;
    std::uint64_t in_bytes = 0;       // of the first byte with bits of the next block
    unsigned used_bits = 0;           // of that byte, that belong to the block before
    std::vector<std::byte> window{};  // the last 32 KiB before it
  };

  // The places where decompression can start, and whether the member is sound.
  struct Starts {
    std::optional<Result<void>> found;
    std::vector<Start> all;  // constant once `found` is a value
  };

  Result<void> find(std::vector<Start>& starts) const;
  // Part i is that from starts[i] to the next start.
  std::uint64_t part_end(const std::vector<Start>& starts, std::size_t i) const;
  // Decompresses from `skipped` bytes behind a start on.
  Result<void> inflate_from(const Start& start, std::uint64_t skipped, MutableBytes out) const;
  Result<void> read_part(const std::vector<Start>& starts, std::size_t i, std::uint64_t skipped,
                         MutableBytes out) const;
  Error damaged() const;

  const ByteSource& file_;
  const ZipMember member_;
  BlockCache& cache_;
  mutable PerProcess<Starts> starts_;
};

}  // namespace cfck::interop

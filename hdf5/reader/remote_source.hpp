// The file of a job, whose bytes cfck sends when they are asked for.
#pragma once

#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "cfck/io.hpp"

namespace cfck::hdf5 {

// Unlike other sources it may be used by one thread only: the process has no other.
class RemoteSource final : public ByteSource {
 public:
  RemoteSource(int stream, std::uint64_t n_bytes) : stream_(stream), n_bytes_(n_bytes) {}

  std::uint64_t size() const override { return n_bytes_; }
  // Error: kIo where cfck cannot read them, or has ended.
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override;

 private:
  using Block = std::pair<std::uint64_t, std::vector<std::byte>>;  // its number, and its bytes

  Result<void> fetch(std::uint64_t offset_bytes, MutableBytes out) const;
  Result<const Block*> block(std::uint64_t number) const;

  int stream_;
  std::uint64_t n_bytes_;
  mutable std::list<Block> blocks_;  // the last ones used come first
};

}  // namespace cfck::hdf5

// The chunk of a base that was decoded last, for reads of less than a chunk: a file may have many
// chunks where its base has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/bytes.hpp"
#include "base/forks/forks.hpp"
#include "cfck/status.hpp"
#include "format/container/element_view.hpp"

namespace cfck::format {

// A tensor whose bytes are decoded by chunks.
struct ChunkedBytes {
  std::size_t number = 0;         // of the tensor
  std::uint64_t n_bytes = 0;      // of it
  std::uint64_t chunk_bytes = 0;  // of its chunks but the last; 0: any part can be read alone
};

// Returns the bytes of `n_elems` elements of so many bits, of which `chunk_elems` are decoded
// together.
constexpr ChunkedBytes chunked_bytes(std::size_t number, std::uint64_t n_elems,
                                     std::uint64_t chunk_elems, unsigned bits) noexcept {
  const std::uint64_t n_bytes = byte_of(n_elems, bits);
  return {number, n_bytes, chunk_elems < n_elems ? byte_of(chunk_elems, bits) : n_bytes};
}

// May be used concurrently, and by forked children.
class LastChunk {
 public:
  // Fills `out` with bytes of the tensor.
  using Read = std::function<Result<void>(std::uint64_t offset_bytes, MutableBytes out)>;

  // Fills `out` with the bytes of a tensor from `offset_bytes` on, with `read`. Takes memory for
  // a chunk where less than that is wanted. Errors: those of `read`; kOutOfMemory.
  Result<void> read(const ChunkedBytes& tensor, std::uint64_t offset_bytes, MutableBytes out,
                    const Read& read) const;

 private:
  struct Chunk {
    std::size_t number = 0;
    std::uint64_t first_byte = 0;
    std::vector<std::byte> bytes;
  };

  Result<std::shared_ptr<const Chunk>> chunk_at(const ChunkedBytes& tensor,
                                                std::uint64_t first_byte, const Read& read) const;

  mutable PerProcess<std::shared_ptr<const Chunk>> last_;
};

}  // namespace cfck::format

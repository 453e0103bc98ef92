#include "format/read/last_chunk.hpp"

#include <algorithm>
#include <utility>

#include "base/run_guarded.hpp"

namespace cfck::format {

Result<std::shared_ptr<const LastChunk::Chunk>> LastChunk::chunk_at(const ChunkedBytes& tensor,
                                                                    std::uint64_t first_byte,
                                                                    const Read& read) const {
  {
    const auto last = last_.lock();
    if (*last != nullptr && (*last)->number == tensor.number && (*last)->first_byte == first_byte) {
      return *last;
    }
  }
  // Without the lock: several threads may decode the same chunk, and none waits for another one.
  auto chunk = std::make_shared<Chunk>();
  chunk->number = tensor.number;
  chunk->first_byte = first_byte;
  chunk->bytes.resize(std::min(tensor.chunk_bytes, tensor.n_bytes - first_byte));
  CFCK_TRY(read(first_byte, chunk->bytes));
  std::shared_ptr<const Chunk> made = std::move(chunk);
  *last_.lock() = made;
  return made;
}

Result<void> LastChunk::read(const ChunkedBytes& tensor, std::uint64_t offset_bytes,
                             MutableBytes out, const Read& read) const {
  return run_guarded([&]() -> Result<void> {
    if (tensor.chunk_bytes == 0) {
      return read(offset_bytes, out);
    }
    while (!out.empty()) {
      const std::uint64_t first_byte = offset_bytes / tensor.chunk_bytes * tensor.chunk_bytes;
      const std::uint64_t end = std::min(first_byte + tensor.chunk_bytes, tensor.n_bytes);
      const MutableBytes part = out.first(std::min<std::uint64_t>(out.size(), end - offset_bytes));
      if (part.size() == end - first_byte) {
        CFCK_TRY(read(offset_bytes, part));
      } else {
        CFCK_TRY_ASSIGN(const std::shared_ptr<const Chunk> chunk,
                        chunk_at(tensor, first_byte, read));
        const ByteView wanted =
            ByteView(chunk->bytes).subspan(offset_bytes - first_byte, part.size());
        std::copy(wanted.begin(), wanted.end(), part.begin());
      }
      offset_bytes += part.size();
      out = out.subspan(part.size());
    }
    return {};
  });
}

}  // namespace cfck::format

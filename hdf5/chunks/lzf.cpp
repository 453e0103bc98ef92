// LZF, which h5py has as the filter "lzf": literals, and copies of what came before.
#include <algorithm>

#include "hdf5/chunks/filters.hpp"

namespace cfck::hdf5 {

Result<Buffer> undo_lzf(const Filter&, Buffer in, std::uint64_t chunk_bytes) {
  constexpr std::size_t kMaxLiterals = 32;
  constexpr unsigned kLongCopy = 7;
  // Filters that come before this one may add some bytes to a chunk, such as a checksum.
  constexpr std::uint64_t kMoreBytes = 64;
  CFCK_TRY_ASSIGN(Buffer made, Buffer::zeroed(std::min(chunk_bytes, kMaxChunkBytes) + kMoreBytes));
  const ByteView from = in.bytes();
  const MutableBytes to = made.bytes();
  std::size_t at = 0;
  std::size_t done = 0;
  while (at < from.size()) {
    const auto control = static_cast<std::size_t>(from[at++]);
    if (control < kMaxLiterals) {
      const std::size_t n = control + 1;
      if (n > from.size() - at || n > to.size() - done) return damaged_chunk("lzf");
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), n, to.data() + done);
      at += n;
      done += n;
      continue;
    }
    std::size_t n = control >> 5;
    if (n == kLongCopy) {
      if (at == from.size()) return damaged_chunk("lzf");
      n += static_cast<std::size_t>(from[at++]);
    }
    n += 2;
    if (at == from.size()) return damaged_chunk("lzf");
    const std::size_t back = ((control & 31) << 8 | static_cast<std::size_t>(from[at++])) + 1;
    if (back > done || n > to.size() - done) return damaged_chunk("lzf");
    for (std::size_t i = 0; i < n; ++i, ++done) to[done] = to[done - back];
  }
  made.shorten(done);
  return made;
}

}  // namespace cfck::hdf5

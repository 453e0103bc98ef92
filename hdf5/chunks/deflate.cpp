#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "hdf5/chunks/filters.hpp"

namespace cfck::hdf5 {
namespace {

class Inflating {
 public:
  ~Inflating() {
    if (is_open_) (void)::inflateEnd(&stream_);
  }
  bool open() {
    is_open_ = ::inflateInit(&stream_) == Z_OK;
    return is_open_;
  }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool is_open_ = false;
};

Result<Buffer> grown(Buffer buffer) {
  if (buffer.size() >= kMaxFilterBytes) return chunk_too_large();
  CFCK_TRY_ASSIGN(Buffer larger,
                  Buffer::zeroed(std::min<std::uint64_t>(2 * buffer.size(), kMaxFilterBytes)));
  std::memcpy(larger.data(), buffer.data(), buffer.size());
  return larger;
}

}  // namespace

Result<Buffer> undo_deflate(const Filter&, Buffer in, std::uint64_t chunk_bytes) {
  // Filters that come before this one may add some bytes to a chunk, such as a checksum.
  constexpr std::uint64_t kMoreBytes = 64;
  CFCK_TRY_ASSIGN(Buffer out, Buffer::zeroed(std::min(chunk_bytes, kMaxChunkBytes) + kMoreBytes));
  Inflating inflating;
  if (!inflating.open()) return detail::out_of_memory();
  z_stream& stream = inflating.stream();
  // At most kMaxFilterBytes each, which fits 32 bits.
  if (in.size() > kMaxFilterBytes) return chunk_too_large();
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  while (true) {
    const std::size_t done = stream.total_out;
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(out.size() - done);
    const int status = ::inflate(&stream, Z_FINISH);
    if (status == Z_STREAM_END) break;
    if (status == Z_MEM_ERROR) return detail::out_of_memory();
    if ((status != Z_BUF_ERROR && status != Z_OK) || stream.avail_out != 0) {
      return damaged_chunk("deflate");
    }
    CFCK_TRY_ASSIGN(out, grown(std::move(out)));
  }
  out.shorten(stream.total_out);
  return out;
}

}  // namespace cfck::hdf5

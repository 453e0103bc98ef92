#include <zstd.h>

#include <utility>

#include "base/run_guarded.hpp"
#include "format/container/frame_bytes.hpp"
#include "format/container/index/compressed_index.hpp"

namespace cfck::format {
namespace {

// Level 19 takes 2 per cent less and twenty times as long.
constexpr int kIndexLevel = 6;

}  // namespace

Result<IndexFrame> compress_index(std::vector<std::byte> plain) {
  const ByteView tables = ByteView(plain).subspan(kFrameHeaderBytes);
  if (tables.size() < kMinCompressedTables || tables.size() > kMaxCompressedTables) {
    return IndexFrame{std::move(plain), 0};
  }
  std::vector<std::byte> frame(kFrameHeaderBytes + ZSTD_compressBound(tables.size()));
  const std::size_t n_bytes =
      ZSTD_compress(frame.data() + kFrameHeaderBytes, frame.size() - kFrameHeaderBytes,
                    tables.data(), tables.size(), kIndexLevel);
  if (ZSTD_isError(n_bytes) != 0U) return out_of_memory();
  if (n_bytes >= tables.size()) return IndexFrame{std::move(plain), 0};
  frame.resize(kFrameHeaderBytes + n_bytes);
  store_frame_header(frame.data(), kIndexTag, frame.size());
  return IndexFrame{std::move(frame), kCompressedIndex};
}

}  // namespace cfck::format

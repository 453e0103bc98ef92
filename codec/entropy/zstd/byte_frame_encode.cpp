#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/entropy/zstd/frame.hpp"
#include "codec/entropy/zstd/scratch.hpp"

namespace cfck::codec {
namespace {

inline constexpr int kZstdLevel = 3;

struct LiteralsMemory {
  std::vector<std::byte> frame;
};

}  // namespace

Result<void> compress_bytes(ByteView bytes, Scratch& scratch, std::vector<std::byte>& out) {
  ZSTD_CCtx* const context = scratch.part<ZstdScratch>().compressor();
  if (context == nullptr) {
    return Error{ErrorCode::kOutOfMemory, "out of memory for a Zstd encoder", {}, {}};
  }
  out.resize(ZSTD_compressBound(bytes.size()));
  const std::size_t n =
      ZSTD_compressCCtx(context, out.data(), out.size(), bytes.data(), bytes.size(), kZstdLevel);
  if (ZSTD_isError(n)) {
    return Error{ErrorCode::kOutOfMemory, "the Zstd encoder failed", {}, {}};
  }
  out.resize(n);
  std::vector<std::byte>& literals = scratch.part<LiteralsMemory>().frame;
  literals.clear();
  const SymbolStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  write_literals_frame({&stream, 1}, scratch, literals);
  if (literals.size() < out.size()) {
    out.assign(literals.begin(), literals.end());
  }
  return {};
}

}  // namespace cfck::codec

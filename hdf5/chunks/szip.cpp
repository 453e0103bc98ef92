// Szip, where the library of it was found when cfck was built.
#include "base/bytes.hpp"
#include "hdf5/chunks/filters.hpp"

#ifdef CFCK_SZIP
extern "C" {  // the header of libaec does not say so itself
#include <szlib.h>
}
#endif

namespace cfck::hdf5 {

#ifdef CFCK_SZIP

Result<Buffer> undo_szip(const Filter& filter, Buffer in, std::uint64_t) {
  constexpr std::size_t kHeadBytes = 4;  // the number of bytes of the chunk
  if (filter.values.size() < 4) return bad_filter_values("szip");
  if (in.size() < kHeadBytes) return damaged_chunk("szip");
  const auto n_bytes = load<std::uint32_t>(in.data());
  if (n_bytes > kMaxFilterBytes) return chunk_too_large();
  SZ_com_t parameters{};
  parameters.options_mask = static_cast<int>(filter.values[0]);
  parameters.pixels_per_block = static_cast<int>(filter.values[1]);
  parameters.bits_per_pixel = static_cast<int>(filter.values[2]);
  parameters.pixels_per_scanline = static_cast<int>(filter.values[3]);
  CFCK_TRY_ASSIGN(Buffer out, Buffer::zeroed(n_bytes));
  std::size_t done = n_bytes;
  if (SZ_BufftoBuffDecompress(out.data(), &done, in.data() + kHeadBytes, in.size() - kHeadBytes,
                              &parameters) != SZ_OK ||
      done != n_bytes) {
    return damaged_chunk("szip");
  }
  return out;
}

#else

Result<Buffer> undo_szip(const Filter&, Buffer, std::uint64_t) {
  return unsupported(
      "the dataset is compressed by the filter szip, which this build of cfck does not have; write "
      "it again with another filter, for example with h5repack -f GZIP=4");
}

#endif

}  // namespace cfck::hdf5

// The filters of HDF5, undone with bounds on all that they read and write. The decoders of libhdf5
// take sizes for granted that a file may claim: a chunk that is too short then has the old contents
// of memory behind its end.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/names/detail.hpp"
#include "hdf5/chunks/buffer.hpp"

namespace cfck::hdf5 {

// Chunks are decoded whole, and a filter may add something to them.
inline constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kMaxFilterBytes = kMaxChunkBytes + (std::uint64_t{1} << 20);

inline constexpr H5Z_filter_t kFilterLzf = 32000;

struct Filter {
  H5Z_filter_t id = 0;
  unsigned flags = 0;
  std::vector<unsigned> values;  // cd_values
  std::string name;              // that the file has for it
};

// Each returns what the filter was given when the chunk was written. `chunk_bytes` is the size of a
// chunk, which most filters get. Errors: kCorrupt for bytes or values that the filter does not
// write, kLimitExceeded for more than kMaxFilterBytes, kOutOfMemory.
Result<Buffer> undo_deflate(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);
Result<Buffer> undo_shuffle(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);
Result<Buffer> undo_fletcher32(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);
Result<Buffer> undo_szip(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);
Result<Buffer> undo_n_bit(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);
Result<Buffer> undo_scale_offset(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);
Result<Buffer> undo_lzf(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);
// Asks the plug-in for the filter. Error: kUnsupported where there is none.
Result<Buffer> undo_plugin(const Filter& filter, Buffer in, std::uint64_t chunk_bytes);

// The errors of all of them.
Error bad_filter_values(const char* filter);
Error damaged_chunk(const char* filter);
Error chunk_too_large();

}  // namespace cfck::hdf5

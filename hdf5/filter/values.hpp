// The client data of the filter (cd_values of HDF5): what a user asks for, and behind it what
// set_local adds about the dataset. The words are documented in docs/formats.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/names/detail.hpp"
#include "cfck/options.hpp"
#include "cfck/tensor.hpp"

namespace cfck::hdf5 {

// The number of the filter. From the range that HDF5 keeps for testing until one is registered;
// nothing else names it, Python asks the plug-in.
inline constexpr int kFilterId = 300;

// Of the words below. A plug-in refuses datasets of another version.
inline constexpr unsigned kValuesVersion = 1;

enum class Mode : unsigned {
  kLossless = 0,
  kMaxAbsError = 1,
  kMaxRelError = 2,
  kNmse = 3,
  kBitsPerWeight = 4,
};

// The words of a user; words that are left out are 0:
//
//   0     version; 0 words at all: lossless
//   1     mode
//   2, 3  value of the mode, the low and the high half of an F64; 0 for lossless
//   4     bits 0-7 codec (CodecChoice), 8-15 level + 1, 16-23 entropy stage, 24-30 trellis states;
//         0: the default of each; bit 31: every chunk is written once, as a whole
//   5, 6  sides of blocks, one byte each, the first in the lowest bits, ended by 0
//   7, 8  max_abs_error beside a target, as 2 and 3; 0: none
inline constexpr std::size_t kUserValues = 9;
// The words that set_local adds:
//
//   9       bits 0-7 dtype of the values, bit 8: their bytes are in big-endian order, bit 9: cfck
//           is the first filter, so that a chunk has the size below (datasets of older plug-ins
//           lack it)
//   10, 11  bits of the fill value, the low and the high half, in little-endian order
//   12      number of dimensions
//   13 ...  dimensions of a chunk, outermost first, without leading ones
inline constexpr std::size_t kLocalValues = 4;  // without dimensions

// What the user asks for.
struct FilterRequest {
  Mode mode = Mode::kLossless;
  double value = 0;
  TensorOptions options;     // without bounds and targets
  double max_abs_error = 0;  // beside a target; 0: none
  // The user's word that no chunk is decoded, changed and encoded again. Otherwise values that were
  // decoded are coded such that their errors do not add up.
  bool is_written_once = false;
  EntropyId entropy = kDefaultEntropy;
  EncodeLevel level = EncodeLevel::kDefault;

  bool is_lossy() const noexcept { return mode != Mode::kLossless; }
};

// The values of a chunk.
struct ChunkValues {
  DType dtype = DType::kU8;
  bool is_big_endian = false;
  std::uint64_t fill_bits = 0;
  Shape shape;
  bool is_first_filter = false;

  // Whether a chunk has n_bytes(). Behind other filters it may have any size; a type other than U8
  // is only noted where there are none.
  bool size_is_known() const noexcept { return is_first_filter || dtype != DType::kU8; }
  // 0 where the product does not fit.
  std::uint64_t n_bytes() const noexcept;
};

// Errors of both: kInvalidArgument, kUnsupported for another version. The request is checked as far
// as its words go; what they mean together is checked where they are used.
Result<FilterRequest> parse_request(std::span<const unsigned> words);
// Requires: parse_request() took the words. Error: kCorrupt.
Result<ChunkValues> parse_chunk_values(std::span<const unsigned> words);
// Returns all words: the first are those of the user.
std::vector<unsigned> complete_words(std::span<const unsigned> user, const ChunkValues& values);

}  // namespace cfck::hdf5

// Encodes the values that a fuzz target has decoded, and decodes them again.
#pragma once

#include <vector>

#include "codec/lossy.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {

// A lossless codec must give the same values again. A lossy one is asked as a row of the table of
// codecs says (tests/registry/codec_rows.hpp), and must give the values that its encoder reported,
// within the bound of the row. Then come the checks of the codec's own. Everything is the same at
// all levels of the CPU; the program ends where something is not.
void check_coding_again(CodecId codec, const ChunkInfo& info, const std::vector<std::byte>& values,
                        Scratch& scratch);

// The checks of single codecs: they encode with the parameters that the preamble of the chunk has,
// if it has one.
void check_direct_parameters(const ChunkInfo& info, const std::vector<std::byte>& values,
                             Scratch& scratch);
void check_spectral_parameters(const ChunkInfo& info, const std::vector<std::byte>& values,
                               Scratch& scratch);

// Requires finite floats to be within the bound, the others to be equal bit for bit.
void require_within(DType dtype, ByteView values, ByteView decoded, double bound);

}  // namespace cfck::codec

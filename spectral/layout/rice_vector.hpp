// Vectors of small integers in a preamble (spectral/spec.md, section 3), as Golomb-Rice codes (Rice
// and Plaunt 1971) of their distances from a middle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/common/varint.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Requires: `numbers` is not empty.
void append_rice_vector(std::span<const std::int16_t> numbers, std::vector<std::byte>& out);

// Allocates no more than 16 bytes for every byte of `in`. Errors: kTruncated, kCorrupt.
Result<std::vector<std::int16_t>> read_rice_vector(std::uint64_t n, VarintReader& in);

}  // namespace cfck::spectral

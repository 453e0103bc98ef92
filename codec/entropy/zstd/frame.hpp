// Writes streams of symbols as one Zstandard frame whose blocks hold literals
// only (codec/entropy/spec.md). The bytes depend on nothing but the streams.
#pragma once

#include <span>
#include <vector>

#include "codec/entropy/entropy.hpp"

namespace cfck::codec {

// Appends the frame to `out`. Requires: the streams are not all empty.
void write_literals_frame(std::span<const SymbolStream> streams, std::vector<std::byte>& out);
// Does the same with memory that is kept.
void write_literals_frame(std::span<const SymbolStream> streams, Scratch& scratch,
                          std::vector<std::byte>& out);

}  // namespace cfck::codec

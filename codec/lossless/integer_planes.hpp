// Byte planes of integers, and the delta before them (codec/lossless/spec.md,
// section 4). Plane p has byte p of every value, least significant first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cfck::codec {

// `planes` has n_values bytes for each of the value_bytes planes, one plane after another.
// With `delta`, the zigzag difference to the value before (to zero for the first) is split
// instead.
void split_planes(const std::byte* values, std::size_t n_values, unsigned value_bytes, bool delta,
                  std::byte* planes);
void join_planes(const std::byte* planes, std::size_t n_values, unsigned value_bytes, bool delta,
                 std::byte* values);

}  // namespace cfck::codec

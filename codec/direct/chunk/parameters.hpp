// The parameters that chunks of a record in the direct codec share (codec/direct/spec.md, sections
// 2 and 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/common/varint.hpp"
#include "codec/indices/scale_field.hpp"

namespace cfck::codec {

inline constexpr unsigned kMaxKernelSize = 64;
inline constexpr std::uint64_t kMaxPacked = std::uint64_t{1} << 25;  // numbers in a vector

using DirectGeometry = IndexGrid;

// Error: kUnsupported where the number of values does not fit 2^62.
Result<DirectGeometry> direct_geometry(std::span<const std::uint64_t> shape);

struct DirectParameters {
  double step = 0;                       // where row_steps is empty
  std::vector<std::uint16_t> row_steps;  // top halves of positive F32
  // Rows 1 .. kernel_size-1 of the strictly lower triangle, in units of 1/256.
  std::vector<std::int16_t> coefficients;
  ScaleField field;
};

inline std::size_t n_coefficients(std::uint32_t kernel_size) {
  return std::size_t{kernel_size} * (kernel_size - 1) / 2;
}

// Decodes a row step.
double row_step_value(std::uint16_t step);

// Requires: vectors that are not empty have the lengths that the geometry gives.
void append_parameters(const DirectParameters& parameters, std::vector<std::byte>& out);

// Errors: kTruncated, kCorrupt.
Result<DirectParameters> read_parameters(const DirectGeometry& geometry, VarintReader& in);

// Parses a preamble: parameters and nothing after them.
Result<DirectParameters> parse_parameters(const DirectGeometry& geometry, ByteView preamble);

// True if a valid preamble has a scale field; false for an empty one.
bool has_scale_field(ByteView preamble) noexcept;

// The largest step that keeps `bound` at every value but rare ones: 2 * bound *
// (1 - 2^-20), rounded down. Error: kInvalidArgument for a bound that is not
// between 2^-1000 and 2^1000.
Result<double> step_of(double bound);

// The largest row step that keeps `bound`; 0 where the bound is below all row steps, so that all
// values but zeros are kept exactly. Bounds of 0 are allowed.
Result<std::uint16_t> row_step_of(double bound);

// Returns the largest power of two that is not above `step`. Requires: step is normal.
double power_of_two_below(double step);

}  // namespace cfck::codec

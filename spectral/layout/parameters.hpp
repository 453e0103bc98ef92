// The parameters that chunks of a record in the spectral codec share (spectral/spec.md, section 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/common/varint.hpp"
#include "spectral/layout/geometry.hpp"
#include "spectral/layout/step_field.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// The order in which coefficients are grouped and coded.
enum class CoefficientOrder : std::uint8_t {
  kStorage = 0,  // block by block where blocks are kernels
  kBands = 1,    // band by band, each in storage order
  kBins = 2,     // by predicted bin, each in storage order
  // Blocks of rows, column by column, rows and columns by predicted bin: the order for error
  // compensation.
  kRowBlocks = 3,
};

// True for orders in which a scale field predicts bins, so that chunks store none.
constexpr bool predicts_bins(CoefficientOrder order) {
  return order == CoefficientOrder::kBins || order == CoefficientOrder::kRowBlocks;
}

// Quarter-log2 steps by band, row and column, both for quantiser steps and for scales.
using QuarterField = StepField;

struct SpectralParameters {
  unsigned n_states = 8;    // 1, 4, 8, 64
  bool transforms = false;  // DCT-II over the blocks; else they only define bands
  CoefficientOrder order = CoefficientOrder::kStorage;
  double step = 0;
  BlockSides sides;
  // Bands of one Morton range (spectral/transforms/morton.hpp) have the same entries, which are
  // stored once. Only allowed where there are fewer ranges than bands.
  bool has_ranges = false;
  // Scale of the coefficients: bin of the mean magnitude of indices where the step field is 0.
  // For orders that predict bins.
  QuarterField scales;
  // A coefficient's step is `step` times 2^(quarters / 4).
  QuarterField steps;
};

// Requires: vectors that are not empty have the lengths that the geometry gives, and with
// has_ranges the bands of a range the same entry.
void append_spectral_parameters(const SpectralParameters& parameters, std::vector<std::byte>& out);

// Errors: kTruncated, kCorrupt, kUnsupported.
Result<SpectralParameters> read_spectral_parameters(std::span<const std::uint64_t> shape,
                                                    VarintReader& in);
// Parses a preamble: parameters and nothing after them.
Result<SpectralParameters> parse_spectral_parameters(std::span<const std::uint64_t> shape,
                                                     ByteView preamble);

// Returns the order in a valid preamble, which must not be empty.
CoefficientOrder order_of_preamble(ByteView preamble) noexcept;

// Returns step * 2^(quarters / 4): the power is rounded to binary64, then the product.
double scaled_step(double step, std::int32_t quarters);

}  // namespace cfck::spectral

// All figures of one tensor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cfck/status.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/spectrum/band_energy.hpp"
#include "tools/spectrum/codec_costs.hpp"
#include "tools/spectrum/singular_values.hpp"

namespace cfck::tools {

// Root mean squares of the rows, or columns, of a tensor.
struct Scales {
  std::uint64_t n = 0;
  double min = 0;
  double median = 0;
  double max = 0;
};

struct TensorSpectrum {
  const StoredTensor* tensor = nullptr;
  bool is_whole = true;        // false: figures are of a sample of rows
  std::uint64_t n_values = 0;  // of the sample
  std::uint64_t n_not_finite = 0;
  double rms = 0;
  BandEnergy energy;
  // Of the matrix of axis 0 and all others; nullopt with a reason.
  std::optional<Singular> singular;
  std::string no_singular;
  Scales rows;                   // of axis 0
  Scales columns;                // of axis 1, with the kernels of convolutions
  std::vector<CodecCost> costs;  // as codec_trials(); empty: not tried
  bool costs_are_of_sample = false;
  std::optional<Error> failure;  // instead of all these
};

struct SpectrumLimits {
  std::uint64_t max_side = 0;  // of matrices whose singular values are computed
  bool try_codecs = true;
};

// True for tensors of floats with values.
bool has_spectrum(const StoredTensor& tensor);

// Memory: about 400 MB for the largest tensors. Requires: has_spectrum(). Errors: those of reading
// and encoding; "cancelled".
Result<TensorSpectrum> tensor_spectrum(const TensorSet& set, const StoredTensor& tensor,
                                       const SpectrumLimits& limits);

}  // namespace cfck::tools

// What each codec takes for a tensor, by trying it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cfck/options.hpp"
#include "tools/spectrum/tensor_sample.hpp"

namespace cfck::tools {

struct CodecTrial {
  std::string_view codec;
  std::string_view request;  // as an option of `cfck convert`; empty for lossless codecs
};
// In the order of codec_costs().
std::span<const CodecTrial> codec_trials();

struct CodecCost {
  std::optional<double> bits_per_weight;  // nullopt: the codec does not take the tensor
  double nmse_db = 0;                     // minus infinity where nothing is lost
  bool applies = true;                    // false: a lossy codec, and values that keep every bit
};

// Encodes the sample with each codec. Errors: those of the writer.
Result<std::vector<CodecCost>> codec_costs(DType dtype, const TensorSample& sample);

}  // namespace cfck::tools

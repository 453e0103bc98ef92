// Steps of the tensors of a model relative to each other where nothing but its weights is known
// (StepPreset::kModel, docs/targets.md).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "encode/encode_plan.hpp"
#include "encode/value_totals.hpp"

namespace cfck::encode {

// What a tensor does in a model, as far as its name and shape show it.
enum class TensorRole : std::uint8_t {
  kMatrix,     // of a linear layer, or anything else of two dimensions
  kKernel,     // of a convolution: three dimensions or more
  kEmbedding,  // of words, used for nothing else
  kTied,       // an embedding of words that is the output layer too, or may be
};

// `names` and `shapes` are those of all tensors that the target reaches, `index` is one of them.
TensorRole role_of(std::span<const std::string_view> names, std::span<const Shape> shapes,
                   std::size_t index);

// Returns the step of each tensor relative to the common one; 1 for those of other presets. One
// entry of `totals` for each plan.
std::vector<double> model_steps(std::span<const EncodePlan> plans,
                                std::span<const ValueTotals> totals);

}  // namespace cfck::encode

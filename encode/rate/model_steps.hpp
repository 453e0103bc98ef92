// Steps of the tensors of a model relative to each other where nothing but its weights is known
// (StepPreset::kModel, docs/targets.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "encode/plan.hpp"
#include "encode/value_totals.hpp"

namespace cfck::encode {

// What a tensor does in a model, as far as its name and shape show it.
enum class TensorRole : std::uint8_t {
  kLayer,       // matrices of linear layers, kernels of convolutions, whatever else there is
  kQueryOrKey,  // of attention: their errors reach the outputs through a softmax only
  kWords,       // an embedding of words, used for nothing else
  kOutput,      // the layer that decides between words, or an embedding that may be that layer too
};

// `names` and `shapes` are those of all tensors that the target reaches, `index` is one of them.
TensorRole role_of(std::span<const std::string_view> names, std::span<const Shape> shapes,
                   std::size_t index);

// Returns the step of each tensor relative to the common one; 1 for those whose steps do not
// follow their roles (OpenStep::follows_roles). One entry of `totals` for each plan. The same
// bits everywhere.
std::vector<double> model_steps(std::span<const EncodePlan> plans,
                                std::span<const ValueTotals> totals);

}  // namespace cfck::encode

#include "encode/rate/model_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/glob.hpp"
#include "base/numbers/piecewise_log2.hpp"

namespace cfck::encode {
namespace {

using detail::piecewise_linear_exp2;
using detail::piecewise_linear_log2;

// A tensor adds to the error of a model's outputs, as a rule, in proportion to its relative squared
// error, however many values it has; its bits depend on that number. The sum of both is
// least where the relative squared error is in proportion to the number of values: the step, to its
// root. Measured gradients of two language models and two residual networks agree.
constexpr double kOctavesBySize = 0.5;
// Where tensors are much larger than the layers, that is cut off: more was not better on any model.
constexpr double kMaxOctavesBySize = 2.5;
constexpr double kOctavesOfQueryOrKey = 1;
// A row of words is met by few inputs, but as output layer the matrix decides between all of them:
// in a language model -1 gives a KL of 0.0084 where 0 gives 0.0106, and 2 gives 0.032.
constexpr double kOctavesOfOutput = -1;
// Tables of words have many more rows than columns; those of positions and types have not.
constexpr std::uint64_t kMinRowsByColumns = 8;

constexpr std::array kQueriesOrKeys = {
    "*query.weight", "*key.weight",   "*q_proj.weight",      "*k_proj.weight",
    "*q_lin.weight", "*k_lin.weight", "*to_q.weight",        "*to_k.weight",
    "*wq.weight",    "*wk.weight",    "*Attention.q.weight", "*Attention.k.weight"};
constexpr std::array kWordTables = {
    "*word_embeddings.weight", "*embed_tokens.weight", "*wte.weight",      "*tok_embeddings.weight",
    "*token_embedding.weight", "*shared.weight",       "*embed_in.weight", "*embeddings.weight"};
constexpr std::array kOutputLayers = {"*lm_head.weight", "*embed_out.weight", "output.weight",
                                      "*predictions.decoder.weight"};
// Layers of networks that give vectors, not words.
constexpr std::array kEncoderLayers = {"*encoder.layer.*", "*encoder.layers.*", "*encoder.block.*"};
constexpr std::array kDecoderLayers = {"*decoder.*", "*predictions.*"};

template <std::size_t n>
bool matches_any(const std::array<const char*, n>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const char* pattern) { return detail::matches_glob(pattern, name); });
}

template <std::size_t n>
bool any_matches(const std::array<const char*, n>& patterns,
                 std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return matches_any(patterns, name); });
}

bool is_word_table(std::string_view name, const Shape& shape) {
  return shape.size() == 2 && shape[0] >= kMinRowsByColumns * shape[1] &&
         matches_any(kWordTables, name);
}

// Names show two properties of the model as a whole.
struct ModelNames {
  explicit ModelNames(std::span<const std::string_view> names)
      : has_output_layer(any_matches(kOutputLayers, names)),
        is_encoder(any_matches(kEncoderLayers, names) && !any_matches(kDecoderLayers, names)) {}

  bool has_output_layer;
  bool is_encoder;
};

TensorRole role_in(const ModelNames& model, std::string_view name, const Shape& shape) {
  if (is_word_table(name, shape)) {
    return model.has_output_layer || model.is_encoder ? TensorRole::kWords : TensorRole::kOutput;
  }
  if (shape.size() != 2) return TensorRole::kLayer;
  if (matches_any(kOutputLayers, name)) return TensorRole::kOutput;
  return matches_any(kQueriesOrKeys, name) ? TensorRole::kQueryOrKey : TensorRole::kLayer;
}

double octaves_of_size(const EncodePlan& plan) {
  const auto n = static_cast<double>(std::max<std::uint64_t>(plan.geometry.n_elems, 1));
  return kOctavesBySize * piecewise_linear_log2(n);
}

bool is_layer(TensorRole role) {
  return role == TensorRole::kLayer || role == TensorRole::kQueryOrKey;
}

// The mean of octaves_of_size over all values of the layers.
double mean_octaves(std::span<const EncodePlan> plans, std::span<const TensorRole> roles) {
  double octaves = 0;
  double n_values = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!is_layer(roles[i])) continue;
    const auto n = static_cast<double>(plans[i].geometry.n_elems);
    octaves += n * octaves_of_size(plans[i]);
    n_values += n;
  }
  return n_values > 0 ? octaves / n_values : octaves_of_size(plans.front());
}

double octaves_of(TensorRole role, double by_size) {
  by_size = std::min(by_size, kMaxOctavesBySize);
  switch (role) {
    case TensorRole::kLayer:
    case TensorRole::kWords:
      return by_size;
    case TensorRole::kQueryOrKey:
      return by_size + kOctavesOfQueryOrKey;
    case TensorRole::kOutput:
      return kOctavesOfOutput;
  }
  return by_size;
}

}  // namespace

TensorRole role_of(std::span<const std::string_view> names, std::span<const Shape> shapes,
                   std::size_t index) {
  return role_in(ModelNames(names), names[index], shapes[index]);
}

std::vector<double> model_steps(std::span<const EncodePlan> plans,
                                std::span<const ValueTotals> totals) {
  std::vector<double> steps(plans.size(), 1.0);
  const auto follows_roles = [](const EncodePlan& plan) {
    return plan.choice.request->open_step()->follows_roles;
  };
  if (std::none_of(plans.begin(), plans.end(), follows_roles)) return steps;
  std::vector<std::string_view> names;
  for (const EncodePlan& plan : plans) names.push_back(plan.name);
  const ModelNames model(names);
  std::vector<TensorRole> roles;
  for (const EncodePlan& plan : plans) roles.push_back(role_in(model, plan.name, plan.shape));
  const double mean = mean_octaves(plans, roles);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!follows_roles(plans[i])) continue;
    const double octaves = octaves_of(roles[i], octaves_of_size(plans[i]) - mean);
    const double step = totals[i].rms() * piecewise_linear_exp2(octaves);
    // Nothing is tried of zeros, and of values whose squares overflow.
    if (step > 0 && std::isfinite(step)) steps[i] = step;
  }
  return steps;
}

}  // namespace cfck::encode

// The options that apply to a tensor, and the exemptions of a plain error bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/tensor.hpp"
#include "encode/rules/tensor_choice.hpp"

namespace cfck::encode {

// True for a name that frameworks give to the state of optimizers, which plain error bounds leave
// alone.
bool is_optimizer_state(std::string_view name);

// Decides by name, dtype and shape; remembers which rules were used.
class EncodeRules {
 public:
  // Errors: kInvalidArgument for options that contradict themselves, and for two
  // rules of one pattern that differ.
  static Result<EncodeRules> create(const EncodeOptions& options);

  // Error: kInvalidArgument where a rule names a tensor that cannot have a bound.
  Result<TensorChoice> choose(std::string_view name, DType dtype, const Shape& shape);
  // Decides with these options instead of rules and plain ones.
  Result<TensorChoice> choose(std::string_view name, DType dtype, const Shape& shape,
                              const TensorOptions& options) const;

  // Decides for a tensor with steps of its own, whatever rules and plain options say.
  static Result<TensorChoice> choose_learned(std::string_view name, DType dtype, const Shape& shape,
                                             const LearnedSteps& steps);

  // True if steps depend on tensors that have not been added yet.
  bool has_file_target() const { return request_.target.whole_file; }
  // True if tensors with these rules and with others can have their steps decided together.
  bool has_same_target(const EncodeRules& other) const {
    return has_file_target() == other.has_file_target() &&
           (!has_file_target() ||
            (file_target() == other.file_target() && quality_ == other.quality_));
  }

  // Requires: has_file_target().
  const Target& file_target() const { return request_.target; }

  // Patterns that were the first match of no tensor, in the order given; then names of learned
  // steps that no tensor has.
  std::vector<std::string> unmatched() const;

 private:
  struct Rule {
    std::string pattern;
    TensorChoice request;
    bool force = false;  // no exemptions, although it has wildcards
    bool used = false;
  };

  struct Learned {
    LearnedSteps steps;
    bool used = false;
  };

  // Returns the first rule that matches; nullptr if none does.
  Rule* find_rule(std::string_view name);
  std::optional<LosslessReason> exemption(std::string_view name, const Shape& shape) const;
  // Has the codec make its request one for this tensor.
  Result<TensorChoice> for_tensor(std::string_view name, const Shape& shape,
                                  TensorChoice request) const;

  std::vector<Rule> rules_;
  // Rules may be as many as tensors, one for each name: these are looked up.
  std::map<std::string, std::size_t, std::less<>> by_pattern_;  // the first of each
  std::vector<std::size_t> with_wildcards_;
  std::map<std::string, Learned, std::less<>> learned_;
  TensorChoice request_;  // of the plain options
  std::set<std::string, std::less<>> exempt_;
  std::shared_ptr<const Calibration> calibration_;
  std::optional<Quality> quality_;  // of the plain options
  EncodeLevel level_ = EncodeLevel::kDefault;
};

}  // namespace cfck::encode

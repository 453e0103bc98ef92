// What is said of losses that are likely to be mistakes, and that nothing is said of others.
#include <gtest/gtest.h>

#include <cmath>

#include "cfck/writer.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck {
namespace {

LossyTensor tensor(const std::string& name, double nmse, TargetKind target = TargetKind::kSize,
                   std::size_t n_dimensions = 2) {
  RecordError error;
  error.rmse = std::sqrt(nmse);
  error.quality = RecordQuality{{target, true, 3}, 1, -4, 4};
  return {name, error, 1000, 100, n_dimensions, 1};
}

std::string said(const std::vector<LossyTensor>& lossy, const EncodeOptions& options = {},
                 const std::vector<KeptLossless>& kept = {}) {
  std::string all;
  for (const std::string& warning : loss_warnings(lossy, kept, options)) {
    EXPECT_EQ(warning.find('\n'), std::string::npos);
    all += warning + "\n";
  }
  return all;
}

TEST(LossWarnings, NothingIsSaidOfSmallErrors) {
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({tensor("a", 0.09), tensor("b", 1e-9)}), "");
  EXPECT_EQ(said({tensor("a", 0.009, TargetKind::kPsnr)}), "");
  EXPECT_EQ(said({}, {}, {{"ids", LosslessReason::kNotFloat}}), "");
}

TEST(LossWarnings, ErrorsBeyondATenth) {
  const std::string text = said({tensor("a", 0.01), tensor("b\n", 0.2), tensor("c", 0.12)});
  EXPECT_NE(text.find("2 tensors have errors above -10 dB"), std::string::npos) << text;
  EXPECT_NE(text.find("'b\\n' the most, -7.0 dB (all together -9.6 dB)"), std::string::npos)
      << text;
  // Of NaN, zeros and infinities nothing can be said.
  LossyTensor odd = tensor("odd", 1);
  odd.rms = 0;
  EXPECT_EQ(said({odd}), "");
}

TEST(LossWarnings, MaximumErrorsThatAreLarge) {
  LossyTensor bounded = tensor("a", 0.5);
  bounded.error.quality.reset();
  bounded.error.bound = {BoundKind::kAbs, false, 1};
  std::string text = said({bounded});
  EXPECT_NE(text.find("1 tensor has errors above -10 dB"), std::string::npos) << text;
  EXPECT_NE(text.find("ask for a smaller maximum error, and measure"), std::string::npos) << text;
  bounded.error.bound.kind = BoundKind::kRel;
  text = said({bounded});
  EXPECT_NE(text.find("range of the values"), std::string::npos) << text;
  EXPECT_EQ(said({tensor("a", 0.5)}).find("maximum error"), std::string::npos);
}

TEST(LossWarnings, NothingIsSaidOfErrorsThatTrainingHasUsed) {
  EncodeOptions options;
  options.learned_steps["b"] = {};
  EXPECT_EQ(said({tensor("a", 0.01), tensor("b", 0.5)}, options), "");
  EXPECT_NE(said({tensor("a", 0.2), tensor("b", 0.5)}, options).find("1 tensor has"),
            std::string::npos);
}

TEST(LossWarnings, PsnrThatSaysLittle) {
  const std::string text = said({tensor("a", 0.05, TargetKind::kPsnr)});
  EXPECT_NE(text.find("psnr relates errors to the range"), std::string::npos) << text;
  EXPECT_NE(text.find("-13.0 dB"), std::string::npos) << text;
}

TEST(LossWarnings, TensorsOfOneDimension) {
  const std::string text =
      said({tensor("a", 0.01), tensor("norm", 0.01, TargetKind::kNmse, 1),
            tensor("scale", 0.01, TargetKind::kNmse, 0), tensor("", 0.01, TargetKind::kNmse, 1)});
  EXPECT_NE(text.find("2 tensors of fewer than two dimensions lost bits, 'norm' the first"),
            std::string::npos)
      << text;
}

TEST(LossWarnings, OptionsThatNoTensorTook) {
  const std::vector<KeptLossless> kept = {{"ids", LosslessReason::kNotFloat},
                                          {"bias", LosslessReason::kFewDimensions},
                                          {"norm", LosslessReason::kFewDimensions}};
  const EncodeOptions plain{.max_sigma_error = 0.1};
  const EncodeOptions by_rule{.rules = {{"*", {.bits_per_weight = 3}}}};
  for (const EncodeOptions& options : {plain, by_rule}) {
    const std::string text = said({}, options, kept);
    EXPECT_NE(text.find("applies to none of the tensors"), std::string::npos) << text;
    EXPECT_NE(text.find("1: not floating-point; 2: fewer than two dimensions"), std::string::npos)
        << text;
    EXPECT_EQ(said({tensor("a", 0.01)}, options, kept), "");
  }
}

TEST(LossWarnings, RulesThatTakeNothingBesideOthers) {
  const std::vector<KeptLossless> kept = {{"a.bias", LosslessReason::kFewDimensions},
                                          {"b.bias", LosslessReason::kFewDimensions},
                                          {"ids", LosslessReason::kNotFloat},
                                          {"zeros", LosslessReason::kNotSmaller}};
  EncodeOptions options{.bits_per_weight = 3};
  options.rules = {{"*.bias", {.max_abs_error = 0.1}},
                   {"id*", {.max_abs_error = 0.1}, true},
                   {"zero*", {.max_abs_error = 0.1}},
                   {"*", {.max_abs_error = 0.1}},
                   {"none", {.max_abs_error = 0.1}}};
  EXPECT_EQ(said({tensor("a", 0.01)}, options, kept),
            "rule '*.bias' has no effect: what it matches stays lossless (2: fewer than two "
            "dimensions); with "
            "force it reaches such tensors too\n"
            "rule 'id*' has no effect: what it matches stays lossless (1: not floating-point)\n");
  // One of its tensors is lossy.
  EXPECT_EQ(said({tensor("c.bias", 0.01), tensor("id", 0.01)}, options, kept), "");
  // A rule that asks for nothing leaves its tensors alone.
  options.rules = {{"*.bias", {}}};
  EXPECT_EQ(said({tensor("a", 0.01)}, options, kept), "");
}

}  // namespace
}  // namespace cfck

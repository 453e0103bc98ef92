// Steps of the tensors of a model, from their names, shapes and values alone.
#include "encode/rate/model_steps.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/file_quality.hpp"

namespace cfck::encode {
namespace {

using test::bell;
using test::bytes_from;
using test::Named;

struct Tensor {
  std::string_view name;
  Shape shape;
};

TensorRole role(const std::vector<Tensor>& model, std::string_view name) {
  std::vector<std::string_view> names;
  std::vector<Shape> shapes;
  std::size_t index = 0;
  for (const Tensor& tensor : model) {
    if (tensor.name == name) index = names.size();
    names.push_back(tensor.name);
    shapes.push_back(tensor.shape);
  }
  return role_of(names, shapes, index);
}

TEST(ModelSteps, WordsOfAnEncoderAreWords) {
  const std::vector<Tensor> bert = {
      {"bert.embeddings.word_embeddings.weight", {30522, 384}},
      {"bert.embeddings.position_embeddings.weight", {512, 384}},
      {"bert.encoder.layer.0.attention.self.query.weight", {384, 384}},
      {"bert.encoder.layer.0.attention.self.key.weight", {384, 384}},
      {"bert.encoder.layer.0.attention.self.value.weight", {384, 384}}};
  EXPECT_EQ(role(bert, bert[0].name), TensorRole::kWords);
  EXPECT_EQ(role(bert, bert[1].name), TensorRole::kLayer);
  EXPECT_EQ(role(bert, bert[2].name), TensorRole::kQueryOrKey);
  EXPECT_EQ(role(bert, bert[3].name), TensorRole::kQueryOrKey);
  EXPECT_EQ(role(bert, bert[4].name), TensorRole::kLayer);
}

TEST(ModelSteps, WordsThatMayBeTheOutputLayerAreOutputs) {
  const std::vector<Tensor> gpt2 = {{"wte.weight", {8192, 128}},
                                    {"h.0.attn.c_attn.weight", {128, 384}}};
  EXPECT_EQ(role(gpt2, "wte.weight"), TensorRole::kOutput);
  std::vector<Tensor> t5 = {{"shared.weight", {32128, 512}},
                            {"encoder.block.0.layer.0.SelfAttention.q.weight", {512, 512}},
                            {"decoder.block.0.layer.0.SelfAttention.q.weight", {512, 512}}};
  EXPECT_EQ(role(t5, "shared.weight"), TensorRole::kOutput);
  EXPECT_EQ(role(t5, t5[1].name), TensorRole::kQueryOrKey);
  t5.push_back({"lm_head.weight", {32128, 512}});
  EXPECT_EQ(role(t5, "shared.weight"), TensorRole::kWords);
  EXPECT_EQ(role(t5, "lm_head.weight"), TensorRole::kOutput);
}

TEST(ModelSteps, ManyRowsAloneAreNoWords) {
  const std::vector<Tensor> model = {
      {"mlp.up.weight", {8192, 128}}, {"conv.weight", {64, 32, 3, 3}}, {"key.weight", {64, 32, 3}}};
  for (const Tensor& tensor : model) EXPECT_EQ(role(model, tensor.name), TensorRole::kLayer);
}

double decibels(const test::OpenFile& file, const char* name) {
  const RecordError& error = *file.record(name).error;
  return 20 * std::log10(error.rmse / error.quality->rms);
}

// Errors are relative to the values; four times the values allow twice the error.
TEST(ModelSteps, ErrorsFollowValuesAndSizes) {
  const std::vector<Named> tensors = {
      {"small", {256, 64}, bytes_from(bell(1, 256 * 64, 0.01))},
      {"large", {256, 64}, bytes_from(bell(2, 256 * 64, 0.5))},
      {"long", {1024, 64}, bytes_from(bell(3, 1024 * 64, 0.1))},
      {"attention.query.weight", {256, 64}, bytes_from(bell(4, 256 * 64, 0.2))},
      {"pointwise", {256, 64, 1, 1}, bytes_from(bell(5, 256 * 64, 0.3))}};
  EncodeOptions options;
  options.bits_per_weight = 5;
  const test::Written written = test::write_all(tensors, options);
  const test::OpenFile file(written.file);
  EXPECT_NEAR(decibels(file, "small"), decibels(file, "large"), 0.5);
  EXPECT_NEAR(decibels(file, "small"), decibels(file, "pointwise"), 0.5);
  EXPECT_NEAR(decibels(file, "small") + 6, decibels(file, "long"), 0.7);
  EXPECT_NEAR(decibels(file, "small") + 6, decibels(file, "attention.query.weight"), 0.7);
  for (const unsigned threads : {1U, 3U}) {
    options.threads = threads;
    EXPECT_TRUE(test::write_all(tensors, options).file == written.file);
  }
  // Asked for by name, the same.
  options.steps = StepPreset::kModel;
  EXPECT_TRUE(test::write_all(tensors, options).file == written.file);
  // One step for all would spend no bits on the small ones.
  options.steps = StepPreset::kFlat;
  const test::OpenFile flat(test::write_all(tensors, options).file);
  EXPECT_LT(flat.record("small").stored_bytes, file.record("small").stored_bytes / 2);
}

// An nmse promises the least squared error, whatever the model.
TEST(ModelSteps, AreNotTheDefaultOfErrors) {
  const std::vector<Named> tensors = {{"small", {256, 64}, bytes_from(bell(1, 256 * 64, 0.01))},
                                      {"large", {256, 64}, bytes_from(bell(2, 256 * 64, 0.5))}};
  EncodeOptions options;
  options.nmse = 0.01;
  const test::Written written = test::write_all(tensors, options);
  options.steps = StepPreset::kFlat;
  EXPECT_TRUE(test::write_all(tensors, options).file == written.file);
}

// A quality is a step: the same relative errors, whatever else is in the file.
TEST(ModelSteps, QualitiesAreRelativeErrors) {
  std::vector<Named> tensors = {{"a", {256, 64}, bytes_from(bell(1, 256 * 64, 0.01))},
                                {"b", {256, 64}, bytes_from(bell(2, 256 * 64, 0.5))}};
  EncodeOptions options;
  double before = -200;
  for (const Quality quality :
       {Quality::kNearLossless, Quality::kHigh, Quality::kBalanced, Quality::kSmall}) {
    options.quality = quality;
    const test::OpenFile file(test::write_all(tensors, options).file);
    EXPECT_NEAR(decibels(file, "a"), decibels(file, "b"), 0.3);
    EXPECT_EQ(file.record("a").error->quality->target.kind, TargetKind::kNone);
    EXPECT_GT(decibels(file, "a"), before + 3);
    before = decibels(file, "a");
  }
  // A rule gives each tensor the quality by itself.
  EncodeOptions by_rule;
  by_rule.rules = {{"*", {.quality = Quality::kSmall}}};
  const test::OpenFile file(test::write_all(tensors, by_rule).file);
  EXPECT_NEAR(decibels(file, "a"), before, 0.1);
}

TEST(ModelSteps, TensorsOfZerosAndHugeValuesDisturbNothing) {
  const std::vector<Named> tensors = {{"zeros", {64, 64}, bytes_from(std::vector<float>(4096, 0))},
                                      {"w", {64, 64}, bytes_from(bell(2, 4096, 0.5))},
                                      {"kernel", {64, 8, 3, 3}, bytes_from(bell(3, 64 * 72, 0.1))}};
  EncodeOptions options;
  options.bits_per_weight = 4;
  const test::OpenFile file(test::write_all(tensors, options).file);
  EXPECT_FALSE(file.record("zeros").error.has_value());
  EXPECT_TRUE(file.record("w").error.has_value());
  EXPECT_TRUE(file.record("kernel").error.has_value());
}

}  // namespace
}  // namespace cfck::encode

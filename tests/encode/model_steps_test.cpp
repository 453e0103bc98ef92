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

TEST(ModelSteps, WordsOfAnEncoderAreEmbeddings) {
  const std::vector<Tensor> bert = {
      {"bert.embeddings.word_embeddings.weight", {30522, 384}},
      {"bert.embeddings.position_embeddings.weight", {512, 384}},
      {"bert.encoder.layer.0.attention.self.query.weight", {384, 384}}};
  EXPECT_EQ(role(bert, bert[0].name), TensorRole::kEmbedding);
  EXPECT_EQ(role(bert, bert[1].name), TensorRole::kMatrix);
  EXPECT_EQ(role(bert, bert[2].name), TensorRole::kMatrix);
}

TEST(ModelSteps, WordsThatMayBeTheOutputLayerAreTied) {
  const std::vector<Tensor> gpt2 = {{"wte.weight", {8192, 128}},
                                    {"h.0.attn.c_attn.weight", {128, 384}}};
  EXPECT_EQ(role(gpt2, "wte.weight"), TensorRole::kTied);
  std::vector<Tensor> t5 = {{"shared.weight", {32128, 512}},
                            {"encoder.block.0.layer.0.SelfAttention.q.weight", {512, 512}},
                            {"decoder.block.0.layer.0.SelfAttention.q.weight", {512, 512}}};
  EXPECT_EQ(role(t5, "shared.weight"), TensorRole::kTied);
  t5.push_back({"lm_head.weight", {32128, 512}});
  EXPECT_EQ(role(t5, "shared.weight"), TensorRole::kEmbedding);
  EXPECT_EQ(role(t5, "lm_head.weight"), TensorRole::kMatrix);
}

TEST(ModelSteps, ManyRowsAloneAreNoWords) {
  const std::vector<Tensor> model = {{"mlp.up.weight", {8192, 128}},
                                     {"conv.weight", {64, 32, 3, 3}},
                                     {"conv1d.weight", {64, 32, 3}}};
  EXPECT_EQ(role(model, "mlp.up.weight"), TensorRole::kMatrix);
  EXPECT_EQ(role(model, "conv.weight"), TensorRole::kKernel);
  EXPECT_EQ(role(model, "conv1d.weight"), TensorRole::kKernel);
}

// Matrices get the same relative error, kernels the same error.
TEST(ModelSteps, ErrorsFollowTheValues) {
  const std::vector<Named> tensors = {
      {"small", {256, 128}, bytes_from(bell(1, 256 * 128, 0.01))},
      {"large", {256, 128}, bytes_from(bell(2, 256 * 128, 0.5))},
      {"kernel.small", {64, 32, 3, 3}, bytes_from(bell(3, 64 * 32 * 9, 0.16))},
      {"kernel.large", {64, 32, 3, 3}, bytes_from(bell(4, 64 * 32 * 9, 0.32))}};
  EncodeOptions options;
  options.bits_per_weight = 5;
  options.steps = StepPreset::kModel;
  const test::Written written = test::write_all(tensors, options);
  const test::OpenFile file(written.file);
  const auto decibels = [&](const char* name) {
    const RecordError& error = *file.record(name).error;
    return 20 * std::log10(error.rmse / error.quality->rms);
  };
  EXPECT_NEAR(decibels("small"), decibels("large"), 0.5);
  EXPECT_NEAR(file.record("kernel.small").error->rmse / file.record("kernel.large").error->rmse, 1,
              0.1);
  for (const unsigned threads : {1U, 3U}) {
    options.threads = threads;
    EXPECT_TRUE(test::write_all(tensors, options).file == written.file);
  }
  // One step for all would spend no bits on the small ones.
  options.steps = StepPreset::kFlat;
  const test::OpenFile flat(test::write_all(tensors, options).file);
  EXPECT_LT(flat.record("small").stored_bytes, file.record("small").stored_bytes / 2);
}

TEST(ModelSteps, TensorsOfZerosAndHugeValuesDisturbNothing) {
  const std::vector<Named> tensors = {{"zeros", {64, 64}, bytes_from(std::vector<float>(4096, 0))},
                                      {"w", {64, 64}, bytes_from(bell(2, 4096, 0.5))},
                                      {"kernel", {64, 8, 3, 3}, bytes_from(bell(3, 64 * 72, 0.1))}};
  EncodeOptions options;
  options.bits_per_weight = 4;
  options.steps = StepPreset::kModel;
  const test::OpenFile file(test::write_all(tensors, options).file);
  EXPECT_FALSE(file.record("zeros").error.has_value());
  EXPECT_TRUE(file.record("w").error.has_value());
  EXPECT_TRUE(file.record("kernel").error.has_value());
}

}  // namespace
}  // namespace cfck::encode

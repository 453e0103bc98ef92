// Files of tensors whose steps training has learned.
#include <cmath>
#include <limits>

#include "tests/support/bounded_tensors.hpp"

namespace cfck::test {
namespace {

LearnedSteps some_steps() {
  LearnedSteps steps;
  steps.step = 0.03125;
  steps.bands = {-4, 0, 0, 1, 2, 2, 3, 3, 5};
  for (std::int16_t column = 0; column < 8; ++column) {
    steps.columns.push_back(static_cast<std::int16_t>(column % 3));
  }
  return steps;
}

Named kernels() { return {"conv.weight", {16, 8, 3, 3}, bytes_from(bell(5, 16 * 8 * 9, 0.1))}; }

EncodeOptions with(const std::string& name, LearnedSteps steps) {
  EncodeOptions options;
  options.learned_steps.emplace(name, std::move(steps));
  return options;
}

void expect_refused(const Named& tensor, const LearnedSteps& steps) {
  MemorySink sink;
  Writer writer = take(Writer::create(sink, with(tensor.name, steps)));
  Result<void> result =
      writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes});
  if (result) {
    const auto summary = writer.finish();
    ASSERT_FALSE(summary);
    result = summary.error();
  }
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument) << result.error().message;
  EXPECT_EQ(result.error().record, tensor.name);
}

// Values on the lattice of the steps come back as they are, whatever else the options say.
TEST(LearnedSteps, ValuesOnTheLatticeComeBack) {
  Named tensor = kernels();
  EncodeOptions options = with(tensor.name, some_steps());
  const Bytes once = OpenFile(write_all({tensor}, options).file).tensor(tensor.name);
  EXPECT_NE(once, tensor.bytes);
  tensor.bytes = once;
  for (const bool has_rules : {false, true}) {
    if (has_rules) {
      options.bits_per_weight = 2;
      options.rules = {{"*", TensorOptions{.max_abs_error = 0.5}, true}};
    }
    const OpenFile file(write_all({tensor}, options).file);
    EXPECT_EQ(file.tensor(tensor.name), once);
    EXPECT_EQ(file.record(tensor.name).codec, CodecId::kSpectral);
    EXPECT_LT(file.record(tensor.name).stored_bytes, tensor.bytes.size() / 4);
    expect_sound(file.reader());
  }
}

TEST(LearnedSteps, ReachTensorsThatOptionsLeaveAlone) {
  const Named tensor{"optimizer.exp_avg", {4, 8}, bytes_from(bell(6, 32, 0.1))};
  LearnedSteps steps;
  steps.step = 0.05;
  const OpenFile file(write_all({tensor}, with(tensor.name, steps)).file);
  const std::vector<float> own = values_of<float>(tensor.bytes);
  const std::vector<float> decoded = values_of<float>(file.tensor(tensor.name));
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(decoded[i], static_cast<float>(std::nearbyint(own[i] / 0.05)) * 0.05f);
  }
}

TEST(LearnedSteps, OtherTensorsFollowTheOptions) {
  Named other = kernels();
  other.name = "other.weight";
  const Written written = write_all({kernels(), other}, with("conv.weight", some_steps()));
  EXPECT_EQ(OpenFile(written.file).tensor("other.weight"), other.bytes);
  EXPECT_TRUE(written.summary.unmatched_rules.empty());
}

TEST(LearnedSteps, NamesThatNoTensorHasAreReported) {
  const Written written = write_all({kernels()}, with("conv.wieght", some_steps()));
  EXPECT_EQ(written.summary.unmatched_rules, std::vector<std::string>{"conv.wieght"});
}

TEST(LearnedSteps, BlocksBringTheirBands) {
  Named tensor{"matrix", {64, 32}, bytes_from(bell(7, 64 * 32, 0.1))};
  LearnedSteps steps;
  steps.step = 0.06;
  steps.block = {4, 2};
  steps.bands = {-3, 0, 1, 2, 3, 4, 5, 6};
  steps.rows = std::vector<std::int16_t>(16, 1);
  steps.columns = std::vector<std::int16_t>(16, 2);
  steps.rows[3] = -2;
  const EncodeOptions options = with(tensor.name, steps);
  tensor.bytes = OpenFile(write_all({tensor}, options).file).tensor(tensor.name);
  const OpenFile again(write_all({tensor}, options).file);
  EXPECT_EQ(again.tensor(tensor.name), tensor.bytes);
  steps.rows.resize(64);  // of rows of values, not of blocks
  expect_refused(tensor, steps);
}

TEST(LearnedSteps, ThoseThatDoNotFitAreRefused) {
  for (const double step :
       {0.0, -1.0, std::nan(""), 1e305, std::numeric_limits<double>::infinity()}) {
    LearnedSteps steps = some_steps();
    steps.step = step;
    expect_refused(kernels(), steps);
  }
  LearnedSteps steps = some_steps();
  steps.bands.pop_back();
  expect_refused(kernels(), steps);
  steps = some_steps();
  steps.columns.push_back(0);
  expect_refused(kernels(), steps);
  steps = some_steps();
  steps.rows = {401};
  expect_refused(kernels(), steps);
  steps = some_steps();
  steps.trellis_states = 3;
  expect_refused(kernels(), steps);
  steps = some_steps();
  steps.block = {65, 1};
  expect_refused(kernels(), steps);
  const Named numbers{"conv.weight", {2, 2}, Bytes(16), DType::kI32};
  expect_refused(numbers, some_steps());
}

}  // namespace
}  // namespace cfck::test

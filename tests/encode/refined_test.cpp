// Files of refined calibrations: corrected values are quantised, but errors are relative to the
// tensor's own.
#include "tests/support/measured_models.hpp"

namespace cfck::test {
namespace {

constexpr double kStep = 0.0625;

std::string facts_with(const std::string& step) {
  return R"({"source": "batches", "step": )" + step + "}";
}

// Each tensor is to become a tenth smaller than it is.
std::vector<Measured> corrected_model() {
  std::vector<Measured> model = sample_model();
  for (Measured& one : model) {
    for (const float value : values_of<float>(one.tensor.bytes)) {
      one.corrected.push_back(0.9f * value);
    }
  }
  return model;
}

EncodeOptions refined_options(const std::vector<Measured>& model,
                              const std::string& facts = facts_with("0.0625")) {
  EncodeOptions options;
  options.calibration = take(calibration_of(model, facts));
  return options;
}

// The factor of `own` in `decoded`, as far as it is proportional.
double share(const std::vector<float>& own, const std::vector<float>& decoded) {
  double products = 0;
  double squares = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    products += double{own[i]} * decoded[i];
    squares += double{own[i]} * own[i];
  }
  return products / squares;
}

double rms_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

TEST(Refined, DecodedValuesAreThoseThatWereCorrected) {
  const std::vector<Measured> model = corrected_model();
  const OpenFile file(write_all(tensors_of(model), refined_options(model)).file);
  for (const Measured& one : model) {
    const std::vector<float> own = values_of<float>(one.tensor.bytes);
    const std::vector<float> decoded = values_of<float>(file.tensor(one.tensor.name));
    EXPECT_NEAR(share(own, decoded), 0.9, 0.01) << one.tensor.name;
    const Record& record = file.record(one.tensor.name);
    const double rmse = rms_error(own, decoded);
    ASSERT_TRUE(record.error);
    EXPECT_NEAR(record.error->rmse, rmse, 1e-6 * rmse);
  }
  expect_sound(file.reader());
}

TEST(Refined, BringsItsStep) {
  const std::vector<Measured> model = corrected_model();
  const Written stepped = write_all(tensors_of(model), refined_options(model));
  EXPECT_EQ(stepped.summary.step, 0);  // the step of a target, which does not exist
  const OpenFile file(stepped.file);
  double n_bytes = 0;
  double n_elems = 0;
  for (const Measured& one : model) {
    const Record& record = file.record(one.tensor.name);
    EXPECT_EQ(record.codec, CodecId::kSpectral);
    ASSERT_TRUE(record.error && record.error->quality);
    EXPECT_EQ(record.error->quality->target, Target{});
    EXPECT_EQ(record.error->bound.kind, BoundKind::kNone);
    n_bytes += static_cast<double>(record.stored_bytes);
    n_elems += static_cast<double>(record.n_elems);
  }
  // A target that this step meets gets it, and so equal indices.
  EncodeOptions options = refined_options(model);
  options.bits_per_weight = 8 * n_bytes / n_elems * 1.001;
  const Written met = write_all(tensors_of(model), options);
  EXPECT_EQ(met.summary.step, kStep);
  for (const Measured& one : model) {
    EXPECT_EQ(OpenFile(met.file).tensor(one.tensor.name), file.tensor(one.tensor.name));
  }
  options.bits_per_weight = 8 * n_bytes / n_elems * 0.8;
  EXPECT_GT(write_all(tensors_of(model), options).summary.step, 1.05 * kStep);
}

TEST(Refined, OtherOptionsDoWithoutIt) {
  const std::vector<Measured> model = corrected_model();
  EncodeOptions options = refined_options(model);
  options.max_abs_error = 0.01;
  for (const Named& tensor : tensors_of(model)) {
    const OpenFile file(write_all({tensor}, options).file);
    EXPECT_LE(
        largest_error(values_of<float>(tensor.bytes), values_of<float>(file.tensor(tensor.name))),
        0.01);
  }
  options.codec = CodecChoice::kSpectral;
  options.steps = StepPreset::kCalibrated;
  const auto bounded = [&](const std::string& facts) {
    options.calibration = take(calibration_of(model, facts));
    return write_all(tensors_of(model), options).file;
  };
  EXPECT_EQ(bounded(facts_with("0.0625")), bounded(R"({"source": "batches"})"));
  options = refined_options(model);
  for (const CodecChoice codec : {CodecChoice::kLossless, CodecChoice::kRaw}) {
    options.codec = codec;
    const OpenFile file(write_all(tensors_of(model), options).file);
    EXPECT_EQ(file.tensor("linear"), model[0].tensor.bytes);
  }
  // Steps without error compensation ignore corrected values.
  std::vector<Measured> unrefined = corrected_model();
  for (Measured& one : unrefined) one.corrected.clear();
  const auto calibrated = [](const std::vector<Measured>& of) {
    EncodeOptions steps = refined_options(of);
    steps.steps = StepPreset::kCalibrated;
    steps.bits_per_weight = 3;
    return write_all(tensors_of(of), steps).file;
  };
  EXPECT_EQ(calibrated(model), calibrated(unrefined));
}

TEST(Refined, AMaximumErrorHoldsForTheTensorsOwnValues) {
  const std::vector<Measured> model = corrected_model();
  EncodeOptions options = refined_options(model);
  options.nmse = 1e-3;
  options.max_abs_error = 0.02;
  const OpenFile file(write_all(tensors_of(model), options).file);
  for (const Measured& one : model) {
    EXPECT_LE(largest_error(values_of<float>(one.tensor.bytes),
                            values_of<float>(file.tensor(one.tensor.name))),
              0.02);
  }
}

TEST(Refined, TheSameBytesForAnyNumberOfThreadsAndChunks) {
  const std::vector<Measured> model = corrected_model();
  EncodeOptions options = refined_options(model);
  options.chunk_elems = 2048;
  const OpenFile file(same_for_any_threads(model, options));
  for (const Measured& one : model) {
    const std::vector<float> own = values_of<float>(one.tensor.bytes);
    const std::vector<float> decoded = values_of<float>(file.tensor(one.tensor.name));
    EXPECT_NEAR(share(own, decoded), 0.9, 0.01) << one.tensor.name;
  }
}

TEST(Refined, UnsoundFilesAreRefused) {
  std::vector<Measured> model = corrected_model();
  EXPECT_TRUE(calibration_of(model, facts_with("0.0625")));
  for (const char* step : {"0", "-1", "\"3\"", "null", "[1]"}) {
    const auto opened = calibration_of(model, facts_with(step));
    ASSERT_FALSE(opened) << step;
    EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt) << step;
  }
  // A value that is not a number is found when it is to be used.
  model[0].corrected[7] = HUGE_VALF;
  EncodeOptions options = refined_options(model);
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  const Named& tensor = model[0].tensor;
  const auto added = writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(added.error().record, "corrected/linear");
}

TEST(Refined, CorrectedValuesOfAnotherShapeAreRefused) {
  std::vector<Measured> model = corrected_model();
  MemorySink sink;
  Writer writer = take(Writer::create(sink, {}));
  const double sigma = rms(model[0].tensor.bytes);
  const double log2_step = 0;
  const auto numbers = [](const double& number) { return std::as_bytes(std::span(&number, 1)); };
  expect_ok(writer.add("sigma", TensorView{DType::kF64, {1}, numbers(sigma)}));
  expect_ok(writer.add("log2_step", TensorView{DType::kF64, {1}, numbers(log2_step)}));
  const auto corrected = std::as_bytes(std::span(model[0].corrected));
  expect_ok(writer.add("corrected/linear", TensorView{DType::kF32, {96, 128}, corrected}));
  expect_ok(writer.set_metadata("format", "cfck.calibration"));
  expect_ok(writer.set_metadata("version", "1"));
  expect_ok(writer.set_metadata("tensors", "[" + described(model[0]) + "]"));
  expect_ok(writer.set_metadata("calibration", facts_with("0.0625")));
  take(writer.finish());
  const auto opened = Calibration::open(std::make_unique<OwnedMemorySource>(sink.take()));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(opened.error().record, "corrected/linear");
}

}  // namespace
}  // namespace cfck::test

// Files encoded with error compensation by a calibration's second moments.
#include <thread>

#include "tests/support/measured_models.hpp"

namespace cfck::test {
namespace {

TEST(Feedback, OutputsAreNearerThanWithStepsAlone) {
  const std::vector<Measured> model = sample_model();
  for (const double bits : {2.5, 4.0}) {
    const Written fed =
        write_all(tensors_of(model), options_of(model, StepPreset::kFeedback, bits));
    const Written stepped =
        write_all(tensors_of(model), options_of(model, StepPreset::kCalibrated, bits));
    EXPECT_LT(output_error(model, fed.file), 0.4 * output_error(model, stepped.file)) << bits;
    expect_sound(OpenFile(fed.file).reader());
  }
}

// shrink tries several sizes of one model at once, and all trials share the calibration.
TEST(Feedback, TrialsOnSeveralThreadsShareACalibration) {
  const std::vector<Measured> model = {measured(1, "linear", {128, 96}),
                                       measured(3, "long", {100, 64})};
  EncodeOptions options = options_of(model);
  options.threads = 2;
  const Bytes expected = write_all(tensors_of(model), options).file;
  std::vector<Bytes> written(3);
  std::vector<std::thread> trials;
  for (Bytes& one : written) {
    trials.emplace_back([&] { one = write_all(tensors_of(model), options).file; });
  }
  for (std::thread& trial : trials) trial.join();
  for (const Bytes& one : written) EXPECT_EQ(one, expected);
}

TEST(Feedback, SizesAreMetFromBelow) {
  const std::vector<Measured> model = sample_model();
  for (const double bits : {2.5, 3.0, 5.0}) {
    const OpenFile file(
        write_all(tensors_of(model), options_of(model, StepPreset::kFeedback, bits)).file);
    double stored = 0;
    double n = 0;
    for (const Measured& one : model) {
      const Record& record = file.record(one.tensor.name);
      EXPECT_EQ(record.codec, CodecId::kSpectral);
      stored += 8 * static_cast<double>(record.stored_bytes);
      n += static_cast<double>(record.n_elems);
    }
    EXPECT_LE(stored / n, bits);
    // A model of 16 kB, whose indices depend on each other: bytes do not follow the step evenly.
    EXPECT_GE(stored / n, 0.99 * bits);
  }
  EncodeOptions options = options_of(model);
  options.bits_per_weight.reset();
  options.size = 16000;
  const std::size_t size = write_all(tensors_of(model), options).file.size();
  EXPECT_LE(size, 16000u);
  EXPECT_GE(size, 16000u * 0.995);
}

TEST(Feedback, TheSameBytesForAnyNumberOfThreads) {
  const std::vector<Measured> model = sample_model();
  EncodeOptions options = options_of(model);
  options.chunk_elems = 2048;
  same_for_any_threads(model, options);
}

// The number of rows searched together, or fewer by halves.
TEST(Feedback, ChunksAreWholeRows) {
  const std::vector<Measured> model = sample_model();
  const std::vector<Named> tensors = tensors_of(model);
  EncodeOptions options = options_of(model);
  for (const auto& [chunk_elems, rows] :
       {std::pair(1000u, 8u), std::pair(500u, 4u), std::pair(64 * 200u, 128u)}) {
    options.chunk_elems = chunk_elems;
    const OpenFile file(write_all(tensors, options).file);
    EXPECT_EQ(file.record("long").chunk_elems, rows * 64);
    EXPECT_EQ(file.record("long").n_chunks, (300 + rows - 1) / rows);
    expect_sound(file.reader());
  }
  options.bits_per_weight = 25;
  options.chunk_elems = 40;  // less than a row: errors are not compensated
  const OpenFile cut(write_all(tensors, options).file);
  EXPECT_EQ(cut.record("long").chunk_elems, 40u);
  expect_sound(cut.reader());
}

TEST(Feedback, NeedsACalibrationOfData) {
  const std::vector<Measured> model = sample_model();
  EncodeOptions options = options_of(model);
  options.calibration = nullptr;
  EXPECT_EQ(code_of(tensors_of(model), options), ErrorCode::kInvalidArgument);
  for (const char* source : {"2 x [3, 32, 32] noise", "8 x 128 random tokens", ""}) {
    const std::string facts = R"({"source": ")" + std::string(source) + "\"}";
    options.calibration = take(calibration_of(model, facts));
    MemorySink sink;
    Writer writer = take(Writer::create(sink, options));
    const Named& tensor = model[0].tensor;
    const auto added =
        writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes});
    ASSERT_FALSE(added) << source;
    EXPECT_EQ(added.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(added.error().message.find("batches"), std::string::npos);
  }
}

// Steps are those of the calibration where its matrix does not fit whole rows.
TEST(Feedback, OthersFallBackOnCalibratedSteps) {
  std::vector<Measured> model = {
      measured(1, "unmeasured", {64, 32}),   measured(2, "diagonal", {64, 32}),
      measured(3, "grouped", {64, 4, 3, 3}), measured(4, "transposed", {32, 32}),
      measured(5, "narrow", {64, 32}),       measured(6, "line", {2048})};
  model[0].moment_shape = {};
  model[1].moment_shape = {1, 32};
  model[1].moment.resize(32);
  model[2].moment_shape = {2, 36, 36};
  model[2].moment.resize(2 * 36 * 36, 0.5f);
  model[3].input_axis = 0;
  model[4].moment_shape = {1, 31, 31};
  model[4].moment = correlated(31);
  model[5].moment_shape = {};
  const std::vector<Named> tensors = tensors_of(model);
  EXPECT_EQ(write_all(tensors, options_of(model)).file,
            write_all(tensors, options_of(model, StepPreset::kCalibrated)).file);
  // A rule selects one of two tensors.
  const std::vector<Measured> both = {measured(7, "fed", {64, 32}), measured(8, "not", {64, 32})};
  EncodeOptions options = options_of(both, StepPreset::kCalibrated);
  options.rules = {
      {"fed",
       {.codec = CodecChoice::kSpectral, .bits_per_weight = 3, .steps = StepPreset::kFeedback}}};
  const Bytes ruled = write_all(tensors_of(both), options).file;
  options.rules[0].options.steps = StepPreset::kCalibrated;
  const Bytes unfed = write_all(tensors_of(both), options).file;
  EXPECT_LT(output_error({both[0]}, ruled), 0.5 * output_error({both[0]}, unfed));
  EXPECT_EQ(OpenFile(ruled).tensor("not"), OpenFile(unfed).tensor("not"));
}

TEST(Feedback, SingularMatrices) {
  std::vector<Measured> model = sample_model();
  for (const float filled : {1.0f, 0.0f, -1.0f, 3e38f}) {
    for (Measured& one : model) {
      one.moment.assign(one.moment.size(), filled);
    }
    const OpenFile file(write_all(tensors_of(model), options_of(model)).file);
    expect_sound(file.reader());
    for (const Measured& one : model) {
      EXPECT_LT(largest_error(values_of<float>(one.tensor.bytes),
                              values_of<float>(file.tensor(one.tensor.name))),
                1.5);
    }
  }
}

TEST(Feedback, UnsoundMatricesAreNamed) {
  const auto refused = [](const Shape& shape, float number) {
    std::vector<Measured> model = sample_model();
    std::size_t n = 1;
    for (const std::uint64_t length : shape) n *= length;
    model[0].moment_shape = shape;
    model[0].moment.assign(n, 1.0f);
    model[0].moment[n / 2] = number;
    const auto opened = calibration_of(model);
    EXPECT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt);
    EXPECT_FALSE(opened.error().message.empty());
    return opened.error().record;
  };
  EXPECT_EQ(refused({1, 96, 96}, std::nanf("")), "second_moment/linear");
  EXPECT_EQ(refused({1, 96, 96}, HUGE_VALF), "second_moment/linear");
  EXPECT_EQ(refused({1, 96, 95}, 1), "second_moment/linear");
  EXPECT_EQ(refused({96}, 1), "second_moment/linear");
  EXPECT_EQ(refused({1, 1, 96, 96}, 1), "second_moment/linear");
}

}  // namespace
}  // namespace cfck::test

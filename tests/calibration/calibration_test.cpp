// Steps of codec spectral that differ from tensor to tensor, and within tensors: presets and
// calibrations.
#include "cfck/calibration.hpp"

#include <cmath>
#include <functional>
#include <memory>

#include "tests/support/bounded_tensors.hpp"

namespace cfck::test {
namespace {

std::vector<float> kernel_values() { return bell(1, 32 * 36, 0.05); }
std::vector<float> matrix_values() { return bell(2, 64 * 32, 0.2); }

double rms(const std::vector<float>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// The file that cfck.calibrate would write for one kernel, one matrix and a tensor that it did not
// measure.
struct CalibrationFile {
  std::string version = "1";
  std::string source = "batches";
  std::vector<double> sigma = {rms(kernel_values()), rms(matrix_values()), std::nan("")};
  std::vector<double> log2_step = {-1, 1, 0};
  std::string tensors =
      R"([{"name": "conv", "shape": [32, 4, 3, 3], "dtype": "F32", "input_axis": 1},)"
      R"( {"name": "linear", "shape": [64, 32], "dtype": "F32"},)"
      R"( {"name": "bias", "shape": [64], "dtype": "F32"}])";
  bool has_moments = true;
};

// Inputs of the kernel are constant over its positions in channel 0, and white in the others.
std::vector<float> moments_of_kernel() {
  std::vector<float> moments(36 * 36);
  for (std::size_t i = 0; i < 36; ++i) {
    for (std::size_t j = 0; j < 36; ++j) {
      moments[36 * i + j] = i < 9 && j < 9 ? 1.0f : i == j ? 1.0f : 0.0f;
    }
  }
  return moments;
}

std::vector<float> moments_of_matrix() {
  std::vector<float> diagonal(32, 1.0f);
  diagonal[7] = 256.0f;  // steps a factor of 16 apart
  return diagonal;
}

std::vector<std::byte> write_calibration(const CalibrationFile& written) {
  MemorySink sink;
  Writer writer = take(Writer::create(sink, {}));
  expect_ok(writer.set_metadata("format", "cfck.calibration"));
  expect_ok(writer.set_metadata("version", written.version));
  expect_ok(writer.set_metadata("tensors", written.tensors));
  expect_ok(writer.set_metadata("calibration", "{\"source\": \"" + written.source + "\"}"));
  const std::vector<float> kernel = moments_of_kernel();
  const std::vector<float> matrix = moments_of_matrix();
  const auto view = [](DType dtype, Shape shape, auto& values) {
    return TensorView{dtype, std::move(shape), std::as_bytes(std::span(values))};
  };
  expect_ok(writer.add("sigma", view(DType::kF64, {written.sigma.size()}, written.sigma)));
  expect_ok(
      writer.add("log2_step", view(DType::kF64, {written.log2_step.size()}, written.log2_step)));
  if (written.has_moments) {
    expect_ok(writer.add("second_moment/conv", view(DType::kF32, {1, 36, 36}, kernel)));
    expect_ok(writer.add("second_moment/linear", view(DType::kF32, {1, 32}, matrix)));
  }
  take(writer.finish());
  return sink.take();
}

Result<std::shared_ptr<const Calibration>> read_calibration(const CalibrationFile& written) {
  return Calibration::open(std::make_unique<OwnedMemorySource>(write_calibration(written)));
}

TEST(Calibration, TellsStepsFromMoments) {
  const auto calibration = take(read_calibration({}));
  EXPECT_EQ(calibration->size(), 3u);
  EXPECT_TRUE(calibration->has_tensor_steps());
  const CalibratedSteps* const conv = calibration->find("conv");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->log2_step, -1);
  ASSERT_EQ(conv->bands.size(), 9u);
  ASSERT_EQ(conv->columns.size(), 4u);
  // Sums of positions matter most, differences least.
  for (std::size_t band = 1; band < 9; ++band) {
    EXPECT_LT(conv->bands[0], conv->bands[band]);
  }
  const CalibratedSteps* const linear = calibration->find("linear");
  ASSERT_NE(linear, nullptr);
  EXPECT_TRUE(linear->bands.empty());
  EXPECT_NEAR(linear->columns[0] - linear->columns[7], 16, 1);
  EXPECT_EQ(calibration->find("bias")->sigma, 0);
  EXPECT_EQ(calibration->find("other"), nullptr);
}

// With noise only the frequencies are taken.
TEST(Calibration, GeneratedImages) {
  CalibrationFile written;
  written.source = "2 x [3, 32, 32] noise";
  const auto calibration = take(read_calibration(written));
  EXPECT_FALSE(calibration->has_tensor_steps());
  EXPECT_TRUE(calibration->find("conv")->columns.empty());
  EXPECT_EQ(calibration->find("conv")->bands.size(), 9u);
  EXPECT_TRUE(calibration->find("linear")->columns.empty());
}

TEST(Calibration, UnsoundFiles) {
  const auto code = [](const CalibrationFile& written) {
    return read_calibration(written).error().code;
  };
  CalibrationFile written;
  written.version = "2";
  EXPECT_EQ(code(written), ErrorCode::kUnsupported);
  for (const char* tensors :
       {"", "{}", "[1]", R"([{"name": 3}])", R"([{"name": "a", "shape": [-1]}])",
        R"([{"name": "a", "shape": "b"}])", "[]"}) {
    written = {};
    written.tensors = tensors;
    EXPECT_EQ(code(written), ErrorCode::kCorrupt) << tensors;
  }
  written = {};
  written.log2_step = {0, std::nan(""), 0};
  EXPECT_EQ(code(written), ErrorCode::kCorrupt);
  written = {};
  written.tensors = R"([{"name": "conv", "shape": [32, 5, 3, 2]}, {"name": "b", "shape": []},)"
                    R"( {"name": "c", "shape": []}])";
  EXPECT_TRUE(read_calibration(written));  // 36 inputs, kernels of 6
  written.tensors = R"([{"name": "conv", "shape": [32, 5, 7, 1]}, {"name": "b", "shape": []},)"
                    R"( {"name": "c", "shape": []}])";
  EXPECT_EQ(code(written), ErrorCode::kCorrupt);  // and not of 7
}

// Measurements of the tensors in CalibrationFile, with their arrays.
struct InMemory {
  std::vector<float> kernel = moments_of_kernel();
  std::vector<float> matrix = moments_of_matrix();
  std::vector<float> corrected = matrix_values();
  Measurements measured;

  static TensorView view(Shape shape, const std::vector<float>& values) {
    return {DType::kF32, std::move(shape), std::as_bytes(std::span(values))};
  }

  explicit InMemory(std::string source) {
    const CalibrationFile file;
    measured.source = std::move(source);
    measured.tensors = {{.name = "conv",
                         .shape = {32, 4, 3, 3},
                         .sigma = file.sigma[0],
                         .log2_step = file.log2_step[0],
                         .second_moment = view({1, 36, 36}, kernel)},
                        {.name = "linear",
                         .shape = {64, 32},
                         .sigma = file.sigma[1],
                         .log2_step = file.log2_step[1],
                         .second_moment = view({1, 32}, matrix)},
                        {.name = "bias", .shape = {64}, .sigma = file.sigma[2]}};
  }
};

TEST(Calibration, OfMemoryIsThatOfTheFile) {
  for (const char* source :
       {"batches", "2 x [3, 32, 32] noise", "4 x [24] random tokens below 9"}) {
    CalibrationFile written;
    written.source = source;
    const auto of_file = take(read_calibration(written));
    const InMemory memory(source);
    const auto in_memory = take(Calibration::of(memory.measured));
    EXPECT_EQ(in_memory->size(), of_file->size());
    EXPECT_EQ(in_memory->has_tensor_steps(), of_file->has_tensor_steps());
    EXPECT_EQ(in_memory->is_of_data(), of_file->is_of_data());
    for (const char* name : {"conv", "linear", "bias"}) {
      const CalibratedSteps& one = *in_memory->find(name);
      const CalibratedSteps& other = *of_file->find(name);
      EXPECT_EQ(one.shape, other.shape);
      EXPECT_EQ(one.sigma, other.sigma);
      EXPECT_EQ(one.log2_step, other.log2_step);
      EXPECT_EQ(one.bands, other.bands);
      EXPECT_EQ(one.rows, other.rows);
      EXPECT_EQ(one.columns, other.columns);
      EXPECT_EQ(one.second_moment, other.second_moment);
    }
  }
}

TEST(Calibration, OfMemoryTiedAndRefined) {
  InMemory memory("batches");
  memory.measured.step = 0.25;
  memory.measured.tensors[1].corrected = InMemory::view({64, 32}, memory.corrected);
  memory.measured.tensors[1].n_positions = 7;
  memory.measured.tensors.push_back({.name = "tied", .shape = {64, 32}, .tied_to = "linear"});
  const auto calibration = take(Calibration::of(memory.measured));
  EXPECT_EQ(calibration->step(), 0.25);
  const CalibratedSteps& tied = *calibration->find("tied");
  EXPECT_EQ(tied.columns, calibration->find("linear")->columns);
  EXPECT_EQ(*take(calibration->corrected_values(tied)), memory.corrected);
}

TEST(Calibration, ArraysLiveAsLongAsTheCalibration) {
  auto memory = std::make_shared<InMemory>("batches");
  memory->measured.tensors[1].corrected = InMemory::view({64, 32}, memory->corrected);
  const std::weak_ptr<InMemory> watched = memory;
  Measurements measured = memory->measured;
  measured.owner = std::move(memory);
  auto calibration = take(Calibration::of(measured));
  measured = {};
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(*take(calibration->corrected_values(*calibration->find("linear"))), matrix_values());
  calibration.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Calibration, UnsoundMeasurements) {
  const auto code = [](const std::function<void(Measurements&)>& change) {
    InMemory memory("batches");
    change(memory.measured);
    return Calibration::of(memory.measured).error().code;
  };
  EXPECT_EQ(code([](Measurements& m) { m.step = 0.0; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code([](Measurements& m) { m.step = std::nan(""); }), ErrorCode::kCorrupt);
  EXPECT_EQ(code([](Measurements& m) { m.tensors[0].log2_step = 41; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code([](Measurements& m) { m.tensors[0].shape = {32, 5, 7, 1}; }), ErrorCode::kCorrupt);
  EXPECT_EQ(code([](Measurements& m) { m.tensors[0].second_moment->dtype = DType::kI32; }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(code([](Measurements& m) { m.tensors[0].second_moment->shape = {36 * 36}; }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(code([](Measurements& m) { m.tensors[0].corrected = m.tensors[0].second_moment; }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(code([](Measurements& m) {
              m.tensors[0].second_moment->shape = {1, 35, 35};
            }),
            ErrorCode::kInvalidArgument);
  const std::vector<float> infinite(36 * 36, HUGE_VALF);
  EXPECT_EQ(code([&](Measurements& m) {
              m.tensors[0].second_moment = InMemory::view({1, 36, 36}, infinite);
            }),
            ErrorCode::kCorrupt);
}

std::vector<Named> model() {
  return {{"conv", {32, 4, 3, 3}, bytes_from(kernel_values())},
          {"linear", {64, 32}, bytes_from(matrix_values())},
          {"bias", {64}, bytes_from(bell(3, 64, 0.1))}};
}

EncodeOptions calibrated(const CalibrationFile& written = {}) {
  EncodeOptions options;
  options.bits_per_weight = 5;
  options.calibration = take(read_calibration(written));
  return options;
}

TEST(CalibratedSteps, ErrorsFollowThem) {
  const std::vector<Named> tensors = model();
  const OpenFile file(write_all(tensors, calibrated()).file);
  const std::vector<float> before = values_of<float>(tensors[1].bytes);
  const std::vector<float> after = values_of<float>(file.tensor("linear"));
  double of_column = 0;
  double of_others = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double error = double{after[i]} - double{before[i]};
    (i % 32 == 7 ? of_column : of_others) += error * error;
  }
  EXPECT_LT(of_column * 31, 0.02 * of_others);  // 1 / 256 of the mean square
  expect_sound(file.reader());
}

TEST(CalibratedSteps, AnotherModelIsRefused) {
  const auto refused = [](const std::vector<Named>& tensors, const EncodeOptions& options) {
    MemorySink sink;
    Writer writer = take(Writer::create(sink, options));
    for (const Named& tensor : tensors) {
      const auto added =
          writer.add(tensor.name, TensorView{DType::kF32, tensor.shape, tensor.bytes});
      if (!added) return added.error().record;
    }
    const auto finished = writer.finish();
    return finished ? std::string("nothing") : finished.error().record;
  };
  EXPECT_EQ(refused(model(), calibrated()), "nothing");
  std::vector<Named> renamed = model();
  renamed[0].name = "conv1";
  EXPECT_EQ(refused(renamed, calibrated()), "conv1");
  std::vector<Named> reshaped = model();
  reshaped[1].shape = {32, 64};
  EXPECT_EQ(refused(reshaped, calibrated()), "linear");
  std::vector<Named> changed = model();
  changed[0].bytes = bytes_from(bell(1, 32 * 36, 0.06));
  EXPECT_EQ(refused(changed, calibrated()), "conv");
}

TEST(StepPresets, OptionsThatMakeNoSense) {
  const auto code = [](const EncodeOptions& options) {
    MemorySink sink;
    return Writer::create(sink, options).error().code;
  };
  EncodeOptions options;
  options.steps = StepPreset::kPrior;  // of what?
  EXPECT_EQ(code(options), ErrorCode::kInvalidArgument);
  options.nmse = 0.01;
  options.steps = StepPreset::kCalibrated;
  EXPECT_EQ(code(options), ErrorCode::kInvalidArgument);
}

// Low frequencies of 3x3 kernels are kept better than high ones.
TEST(StepPresets, PriorOfKernels) {
  const std::vector<Named> tensors = {{"conv", {64, 32, 3, 3}, bytes_from(bell(5, 64 * 288, 0.1))}};
  EncodeOptions options;
  options.bits_per_weight = 3;
  const auto errors_of_sums = [&](std::optional<StepPreset> steps) {
    options.steps = steps;
    const OpenFile file(write_all(tensors, options).file);
    const std::vector<float> before = values_of<float>(tensors[0].bytes);
    const std::vector<float> after = values_of<float>(file.tensor("conv"));
    double squares = 0;
    for (std::size_t kernel = 0; kernel < before.size() / 9; ++kernel) {
      double sum = 0;
      for (std::size_t position = 0; position < 9; ++position) {
        sum += double{after[9 * kernel + position]} - double{before[9 * kernel + position]};
      }
      squares += sum * sum;
    }
    return squares;
  };
  const double flat = errors_of_sums(StepPreset::kFlat);
  EXPECT_LT(errors_of_sums(StepPreset::kPrior), 0.3 * flat);
  // The default of sizes has the table within kernels.
  EXPECT_LT(errors_of_sums(std::nullopt), 0.3 * flat);
  EXPECT_EQ(errors_of_sums(std::nullopt), errors_of_sums(StepPreset::kModel));
}

}  // namespace
}  // namespace cfck::test

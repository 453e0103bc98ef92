#include "cfck/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/bytes.hpp"
#include "base/json_tree.hpp"
#include "base/run_guarded.hpp"
#include "spectral/feedback/second_moments.hpp"
#include "spectral/feedback/step_learning.hpp"
#include "spectral/layout/spectral_geometry.hpp"
#include "spectral/transforms/morton.hpp"

namespace cfck {
namespace {

using Json = nlohmann::json;
using Tree = JsonTree<Json>;

constexpr const char* kFormat = "cfck.calibration";
constexpr const char* kVersion = "1";
// The maximum of log2 steps; more cannot come from a measurement.
constexpr double kMaxOctaves = 40;
// Maximum values in its JSON: far more than the tensors of a file can need.
constexpr std::size_t kMaxJsonValues = std::size_t{1} << 23;

Error unsound(std::string message, std::string name = {}) {
  return Error{ErrorCode::kCorrupt,
               "the calibration is unsound: " + std::move(message),
               std::move(name),
               {}};
}

const std::string* metadata_of(const Reader& reader, std::string_view key) {
  for (const auto& [name, value] : reader.metadata()) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

template <class T>
Result<std::vector<T>> numbers_of(const Reader& reader, const std::string& name, DType dtype) {
  const Record* const record = reader.find(name);
  if (record == nullptr || record->dtype != dtype) {
    return unsound("it has no such numbers", name);
  }
  // The size is checked before memory is allocated for what the file claims.
  CFCK_TRY(reader.check_decoded_bytes(record->decoded_bytes, name));
  std::vector<T> numbers(record->n_elems);
  CFCK_TRY(reader.read(*record, std::as_writable_bytes(std::span(numbers))));
  return numbers;
}

bool is_finite(const std::vector<float>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](float number) { return std::isfinite(number); });
}

// With N inputs the correlation of two of n numbers has an error of about 1/sqrt(N), and there are
// n of them for each: they are shrunk so far that the sum of these errors stays small beside the
// rest.
void shrink(std::uint64_t n, std::uint64_t n_positions, std::vector<float>& moments) {
  if (n_positions == 0) {
    return;
  }
  const auto inputs = static_cast<double>(n_positions);
  const auto kept = static_cast<float>(inputs / (inputs + static_cast<double>(n)));
  for (std::uint64_t i = 0; i < n * n; ++i) {
    moments[i] *= i % (n + 1) == 0 ? 1.0f : kept;
  }
}

// A tensor as the calibration's JSON describes it.
struct Described {
  std::string name;
  Shape shape;
  std::string tied_to;
  int input_axis = 1;
  std::uint64_t n_positions = 0;
};

Result<Tree> parse_json(const std::string& what, const std::string& text) {
  Result<Tree> parsed = Tree::parse(text, {kMaxJsonValues});
  if (parsed) {
    return parsed;
  }
  const bool is_corrupt = parsed.error().code == ErrorCode::kCorrupt;
  const std::string reason = what + " " + parsed.error().message;
  return is_corrupt ? unsound(reason)
                    : Error{parsed.error().code, "the calibration: " + reason, {}, {}};
}

Result<std::vector<Described>> describe_tensors(const std::string& text) {
  CFCK_TRY_ASSIGN(const Tree tree, parse_json("its list of tensors", text));
  const Json& json = tree.root();
  if (!json.is_array()) {
    return unsound("its list of tensors is no JSON array");
  }
  std::vector<Described> described;
  for (const Json& entry : json) {
    static const Json none;
    const auto field = [&](const char* key) -> const Json& {
      const auto found = entry.find(key);  // the end of what is no object
      return found == entry.end() ? none : *found;
    };
    Described tensor;
    const Json& name = field("name");
    const Json& shape = field("shape");
    if (!name.is_string() || !shape.is_array()) {
      return unsound("a tensor in its list has no name or shape");
    }
    tensor.name = name.get<std::string>();
    for (const Json& length : shape) {
      if (!length.is_number_unsigned()) {
        return unsound("the shape of a tensor is not made of numbers", tensor.name);
      }
      tensor.shape.push_back(length.get<std::uint64_t>());
    }
    const Json& tied_to = field("tied_to");
    tensor.tied_to = tied_to.is_string() ? tied_to.get<std::string>() : "";
    const Json& axis = field("input_axis");
    tensor.input_axis = axis.is_number_unsigned() && axis.get<unsigned>() == 0 ? 0 : 1;
    const Json& positions = field("n_positions");
    tensor.n_positions = positions.is_number_unsigned() ? positions.get<std::uint64_t>() : 0;
    described.push_back(std::move(tensor));
  }
  return described;
}

std::string moment_name(const Described& tensor) { return "second_moment/" + tensor.name; }

std::string corrected_name(const Described& tensor) { return "corrected/" + tensor.name; }

// Returns the step of a refined calibration; 0 for others.
Result<double> step_of(const Json& facts) {
  if (!facts.is_object() || !facts.contains("step")) {
    return 0.0;
  }
  const double step = facts["step"].is_number() ? facts["step"].get<double>() : 0;
  if (!(step > 0 && std::isfinite(step))) {
    return unsound("its step is not a positive number");
  }
  return step;
}

// Weights of the inputs of a tensor: the cost of an error by band and channel, summed over groups.
struct InputWeights {
  std::vector<std::uint32_t> sides;  // of the kernel; none: a matrix
  std::vector<double> weights;       // channel by channel, kernel positions within
  std::size_t n_bands = 1;
  bool is_whole = false;  // one matrix for all rows, with all channels and positions
};

class CalibrationReader {
 public:
  explicit CalibrationReader(const Reader& reader) : reader_(reader) {}

  Result<InputWeights> weights_of(const Described& tensor) const {
    InputWeights found;
    const Record* const record = reader_.find(moment_name(tensor));
    if (record == nullptr || tensor.shape.size() < 2) {
      return found;
    }
    const std::size_t rank = record->shape.size();
    const bool is_full = rank == 3 && record->shape[1] == record->shape[2];
    if (record->dtype != DType::kF32 || !(is_full || rank == 2) || record->n_elems == 0) {
      return unsound("a second moment is no matrix", record->name);
    }
    for (const std::uint8_t side : codec::kernel_block(tensor.shape)) {
      found.sides.push_back(side);
      found.n_bands *= side;
    }
    const std::uint64_t n = record->shape[1];
    if (n % found.n_bands != 0 || (found.n_bands > 1 && !is_full)) {
      found.sides.clear();
      found.n_bands = 1;
      return is_full ? unsound("a second moment does not fit its kernel", record->name)
                     : Result<InputWeights>(found);
    }
    CFCK_TRY_ASSIGN(const std::vector<float> moments,
                    numbers_of<float>(reader_, record->name, DType::kF32));
    if (!is_finite(moments)) {
      return unsound("a second moment has numbers that are none", record->name);
    }
    found.weights.assign(n, 0.0);
    found.is_whole = is_full && record->shape[0] == 1;
    for (std::uint64_t group = 0; group < record->shape[0]; ++group) {
      add_group(moments, group, is_full, found);
    }
    return found;
  }

 private:
  static void add_group(const std::vector<float>& moments, std::uint64_t group, bool is_full,
                        InputWeights& found) {
    const std::size_t n = found.weights.size();
    if (!is_full) {
      for (std::size_t i = 0; i < n; ++i) {
        found.weights[i] += std::max(0.0, double{moments[group * n + i]});
      }
      return;
    }
    const std::span<const float> matrix(moments.data() + group * n * n, n * n);
    const std::vector<double> weights = spectral::kernel_weights(matrix, n, found.sides);
    for (std::size_t i = 0; i < n; ++i) {
      found.weights[i] += weights[i];
    }
  }

  const Reader& reader_;
};

// Reorders from kernel positions to band numbers.
std::vector<std::int16_t> by_band(const std::vector<std::int16_t>& by_place,
                                  std::span<const std::uint32_t> sides) {
  const std::vector<std::uint32_t> bands = spectral::band_numbers(sides);
  std::vector<std::int16_t> steps(by_place.size());
  for (std::size_t place = 0; place < by_place.size(); ++place) {
    steps[bands[place]] = by_place[place];
  }
  return steps;
}

void set_steps(const Described& tensor, const InputWeights& inputs, CalibratedSteps& steps) {
  if (inputs.weights.empty()) {
    return;
  }
  std::uint64_t row_values = 1;
  for (std::size_t axis = 1; axis < tensor.shape.size(); ++axis) {
    row_values *= tensor.shape[axis];
  }
  if (inputs.is_whole && tensor.input_axis == 1 && inputs.weights.size() == row_values) {
    steps.second_moment = moment_name(tensor);
    steps.n_positions = tensor.n_positions;
  }
  spectral::SeparableSteps found = spectral::steps_of_weights(inputs.weights, inputs.n_bands);
  const std::uint64_t axis_length = tensor.shape[static_cast<std::size_t>(tensor.input_axis)];
  if (found.columns.size() == axis_length) {
    (tensor.input_axis == 1 ? steps.columns : steps.rows) = std::move(found.columns);
  }
  if (inputs.n_bands > 1) {
    steps.bands = by_band(found.bands, inputs.sides);
  }
}

// The weights that kernels of one size have in common: the mean of their weights, each over its
// mean.
using KernelWeights = std::map<std::vector<std::uint32_t>, std::vector<double>>;

void add_kernel(const InputWeights& inputs, KernelWeights& kernels) {
  double sum = 0;
  for (const double weight : inputs.weights) {
    sum += weight;
  }
  if (inputs.n_bands < 2 || !(sum > 0)) {
    return;
  }
  std::vector<double>& common = kernels[inputs.sides];
  common.resize(inputs.n_bands);
  for (std::size_t i = 0; i < inputs.weights.size(); ++i) {
    common[i % inputs.n_bands] += inputs.weights[i] / sum;
  }
}

// Fails unless the metadata are those of a calibration that this version can read.
Result<void> check_format(const Reader& reader) {
  const std::string* const format = metadata_of(reader, "format");
  if (format == nullptr || *format != kFormat) {
    return Error{ErrorCode::kInvalidArgument,
                 "the file is no calibration; cfck.calibrate in Python makes one",
                 {},
                 {}};
  }
  const std::string* const version = metadata_of(reader, "version");
  if (version == nullptr || *version != kVersion) {
    return Error{ErrorCode::kUnsupported, "the calibration is of a newer version", {}, {}};
  }
  return {};
}

// Fails where there are other than n_tensors numbers of a kind.
Result<void> check_counts(const Reader& reader, std::size_t n_tensors) {
  for (const char* const name : {"sigma", "log2_step"}) {
    const Record* const record = reader.find(name);
    if (record != nullptr && record->n_elems != n_tensors) {
      return unsound("it has not as many numbers as tensors");
    }
  }
  return {};
}

// The steps of a tensor, before its inputs are asked.
Result<CalibratedSteps> stored_steps(const Reader& reader, const Described& tensor, double sigma,
                                     double log2_step) {
  CalibratedSteps steps;
  steps.shape = tensor.shape;
  steps.sigma = std::isfinite(sigma) ? sigma : 0;
  if (!(std::abs(log2_step) <= kMaxOctaves)) {
    return unsound("a step is no number, or beyond 40 octaves", tensor.name);
  }
  steps.log2_step = log2_step;
  if (const Record* const corrected = reader.find(corrected_name(tensor))) {
    if (corrected->dtype != DType::kF32 || corrected->shape != tensor.shape) {
      return unsound("corrected values are no F32 of the tensor's shape", corrected->name);
    }
    steps.corrected = corrected->name;
  }
  return steps;
}

using StepsByName = std::map<std::string, CalibratedSteps, std::less<>>;

// With generated inputs, only the frequencies are like those of real ones.
void set_bands(const KernelWeights& kernels, StepsByName& tensors) {
  for (auto& [name, steps] : tensors) {
    std::vector<std::uint32_t> sides;
    for (const std::uint8_t side : codec::kernel_block(steps.shape)) {
      sides.push_back(side);
    }
    const auto common = kernels.find(sides);
    if (common != kernels.end()) {
      const std::vector<double>& weights = common->second;
      steps.bands = by_band(spectral::steps_of_weights(weights, weights.size()).bands, sides);
    }
  }
}

}  // namespace

Result<void> Calibration::read() {
  const Reader& reader = reader_;
  CFCK_TRY(check_format(reader));
  const std::string* const tensors = metadata_of(reader, "tensors");
  const std::string* const about = metadata_of(reader, "calibration");
  if (tensors == nullptr || about == nullptr) {
    return unsound("it does not say of which tensors it is");
  }
  CFCK_TRY_ASSIGN(const std::vector<Described> described, describe_tensors(*tensors));
  CFCK_TRY(check_counts(reader, described.size()));
  CFCK_TRY_ASSIGN(const auto sigma, numbers_of<double>(reader, "sigma", DType::kF64));
  CFCK_TRY_ASSIGN(const auto log2_step, numbers_of<double>(reader, "log2_step", DType::kF64));
  CFCK_TRY_ASSIGN(const Tree tree, parse_json("what it says about itself", *about));
  const Json& facts = tree.root();
  const std::string source =
      facts.is_object() && facts.contains("source") && facts["source"].is_string()
          ? facts["source"].get<std::string>()
          : "";
  is_of_data_ = source == "batches";
  CFCK_TRY_ASSIGN(step_, step_of(facts));
  has_tensor_steps_ = is_of_data_ || source.find("random tokens") != std::string::npos;
  CalibrationReader matrices(reader);
  KernelWeights kernels;
  for (std::size_t i = 0; i < described.size(); ++i) {
    const Described& tensor = described[i];
    CalibratedSteps& steps = tensors_[tensor.name];
    CFCK_TRY_ASSIGN(steps, stored_steps(reader, tensor, sigma[i], log2_step[i]));
    CFCK_TRY_ASSIGN(const InputWeights inputs, matrices.weights_of(tensor));
    if (is_of_data_) {
      set_steps(tensor, inputs, steps);
    } else {
      add_kernel(inputs, kernels);
    }
  }
  set_bands(kernels, tensors_);
  for (const Described& tensor : described) {
    if (const auto base = tensors_.find(tensor.tied_to); base != tensors_.end()) {
      tensors_[tensor.name] = base->second;
    }
  }
  return {};
}

Result<std::shared_ptr<const Calibration>> Calibration::open(
    std::unique_ptr<const ByteSource> source) {
  return run_guarded([&]() -> Result<std::shared_ptr<const Calibration>> {
    CFCK_TRY_ASSIGN(Reader reader, Reader::open(std::move(source)));
    std::shared_ptr<Calibration> calibration(new Calibration(std::move(reader)));
    CFCK_TRY(calibration->read());
    return std::shared_ptr<const Calibration>(std::move(calibration));
  });
}

Result<std::shared_ptr<const Calibration>> Calibration::open(const std::string& path) {
  CFCK_TRY_ASSIGN(std::unique_ptr<ByteSource> source, open_file(path));
  return open(std::move(source));
}

Result<std::shared_ptr<const codec::SecondMoments>> Calibration::second_moments(
    const CalibratedSteps& steps) const {
  return run_guarded([&]() -> Result<std::shared_ptr<const codec::SecondMoments>> {
    CFCK_TRY_ASSIGN(std::vector<float> moments,
                    numbers_of<float>(reader_, steps.second_moment, DType::kF32));
    const std::uint64_t n = reader_.find(steps.second_moment)->shape[1];
    if (moments.size() != n * n || !is_finite(moments)) {
      return unsound("a second moment has numbers that are none", steps.second_moment);
    }
    shrink(n, steps.n_positions, moments);
    return std::make_shared<const codec::SecondMoments>(std::move(moments), n);
  });
}

Result<std::shared_ptr<const std::vector<float>>> Calibration::corrected_values(
    const CalibratedSteps& steps) const {
  return run_guarded([&]() -> Result<std::shared_ptr<const std::vector<float>>> {
    CFCK_TRY_ASSIGN(std::vector<float> values,
                    numbers_of<float>(reader_, steps.corrected, DType::kF32));
    if (!is_finite(values)) {
      return unsound("corrected values have numbers that are none", steps.corrected);
    }
    return std::make_shared<const std::vector<float>>(std::move(values));
  });
}

const CalibratedSteps* Calibration::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace cfck

#include "calibration/file.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/forks/forks.hpp"
#include "base/json_tree.hpp"
#include "calibration/arrays.hpp"

namespace cfck::calibration {
namespace {

using Json = nlohmann::json;
using Tree = JsonTree<Json>;

constexpr const char* kFormat = "cfck.calibration";
constexpr const char* kVersion = "1";
// Maximum values in its JSON: far more than the tensors of a file can need.
constexpr std::size_t kMaxJsonValues = std::size_t{1} << 23;

const std::string* metadata_of(const Reader& reader, std::string_view key) {
  for (const auto& [name, value] : reader.metadata()) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

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

Result<std::vector<MeasuredTensor>> describe_tensors(const std::string& text) {
  CFCK_TRY_ASSIGN(const Tree tree, parse_json("its list of tensors", text));
  const Json& json = tree.root();
  if (!json.is_array()) {
    return unsound("its list of tensors is not a JSON array");
  }
  std::vector<MeasuredTensor> described;
  for (const Json& entry : json) {
    static constinit MadeOnce<const Json> none;
    const auto field = [&](const char* key) -> const Json& {
      const auto found = entry.find(key);  // the end of what is no object
      return found == entry.end() ? none.get([] { return Json(); }) : *found;
    };
    MeasuredTensor tensor;
    const Json& name = field("name");
    const Json& shape = field("shape");
    if (!name.is_string() || !shape.is_array()) {
      return unsound("a tensor in its list has no name or shape");
    }
    tensor.name = name.get<std::string>();
    for (const Json& length : shape) {
      if (!length.is_number_unsigned()) {
        return unsound("the shape of a tensor is not a list of integers", tensor.name);
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

// The step of a refined calibration; nothing for others.
Result<std::optional<double>> step_of(const Json& facts) {
  if (!facts.is_object() || !facts.contains("step")) {
    return std::optional<double>();
  }
  return std::optional(facts["step"].is_number() ? facts["step"].get<double>() : 0.0);
}

Result<void> check_format(const Reader& reader) {
  const std::string* const format = metadata_of(reader, "format");
  const std::string* const version = metadata_of(reader, "version");
  if (format == nullptr || *format != kFormat) {
    return invalid_argument("not a calibration file; cfck.calibrate in Python makes one");
  }
  if (version == nullptr || *version != kVersion) {
    return unsupported("the calibration file has a newer version");
  }
  return {};
}

Result<void> read_numbers(const Reader& reader, std::vector<MeasuredTensor>& tensors) {
  for (const char* const name : {"sigma", "log2_step"}) {
    const Record* const record = reader.find(name);
    if (record != nullptr && record->n_elems != tensors.size()) {
      return unsound("the number of steps differs from the number of tensors");
    }
  }
  CFCK_TRY_ASSIGN(const auto sigma, numbers_of<double>(reader, "sigma", DType::kF64));
  CFCK_TRY_ASSIGN(const auto log2_step, numbers_of<double>(reader, "log2_step", DType::kF64));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].sigma = sigma[i];
    tensors[i].log2_step = log2_step[i];
  }
  return {};
}

}  // namespace

Result<Measurements> read_measurements(const Reader& reader) {
  CFCK_TRY(check_format(reader));
  const std::string* const tensors = metadata_of(reader, "tensors");
  const std::string* const about = metadata_of(reader, "calibration");
  if (tensors == nullptr || about == nullptr) {
    return unsound("it has no list of tensors");
  }
  Measurements measured;
  CFCK_TRY_ASSIGN(measured.tensors, describe_tensors(*tensors));
  CFCK_TRY(read_numbers(reader, measured.tensors));
  CFCK_TRY_ASSIGN(const Tree tree, parse_json("its description", *about));
  const Json& facts = tree.root();
  if (facts.is_object() && facts.contains("source") && facts["source"].is_string()) {
    measured.source = facts["source"].get<std::string>();
  }
  CFCK_TRY_ASSIGN(measured.step, step_of(facts));
  return measured;
}

}  // namespace cfck::calibration

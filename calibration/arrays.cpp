#include "calibration/arrays.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace cfck::calibration {
namespace {

class FileArrays final : public Arrays {
 public:
  explicit FileArrays(Reader reader) : reader_(std::move(reader)) {}

  std::optional<ArrayShape> find(const std::string& name) const override {
    const Record* const record = reader_.find(name);
    if (record == nullptr) {
      return std::nullopt;
    }
    return ArrayShape{record->dtype, record->shape};
  }

  Result<std::span<const float>> floats(const std::string& name,
                                        std::vector<float>& buffer) const override {
    CFCK_TRY_ASSIGN(buffer, numbers_of<float>(reader_, name, DType::kF32));
    return std::span<const float>(buffer);
  }

 private:
  Reader reader_;
};

class MemoryArrays final : public Arrays {
 public:
  explicit MemoryArrays(std::shared_ptr<const void> owner) : owner_(std::move(owner)) {}

  Result<void> add(std::string name, const TensorView& array) {
    CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, cfck::n_bytes(array.dtype, array.shape));
    if (array.data.size() != n_bytes) {
      return invalid_argument("an array of the calibration has not as many bytes as its shape says")
          .in_record(std::move(name));
    }
    arrays_.emplace(std::move(name), array);
    return {};
  }

  std::optional<ArrayShape> find(const std::string& name) const override {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) {
      return std::nullopt;
    }
    return ArrayShape{found->second.dtype, found->second.shape};
  }

  Result<std::span<const float>> floats(const std::string& name,
                                        std::vector<float>&) const override {
    const auto found = arrays_.find(name);
    if (found == arrays_.end() || found->second.dtype != DType::kF32) {
      return unsound("its record is missing or has another dtype", name);
    }
    const ByteView bytes = found->second.data;
    return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
  }

 private:
  std::shared_ptr<const void> owner_;
  std::map<std::string, TensorView> arrays_;
};

}  // namespace

std::string moment_name(const std::string& tensor) { return "second_moment/" + tensor; }

std::string corrected_name(const std::string& tensor) { return "corrected/" + tensor; }

std::shared_ptr<const Arrays> arrays_of_file(Reader reader) {
  return std::make_shared<const FileArrays>(std::move(reader));
}

Result<std::shared_ptr<const Arrays>> arrays_in_memory(const std::vector<MeasuredTensor>& tensors,
                                                       std::shared_ptr<const void> owner) {
  const auto arrays = std::make_shared<MemoryArrays>(std::move(owner));
  for (const MeasuredTensor& tensor : tensors) {
    // A tied tensor takes the numbers of the one that it is tied to.
    if (!tensor.tied_to.empty()) {
      continue;
    }
    if (tensor.second_moment) {
      CFCK_TRY(arrays->add(moment_name(tensor.name), *tensor.second_moment));
    }
    if (tensor.corrected) {
      CFCK_TRY(arrays->add(corrected_name(tensor.name), *tensor.corrected));
    }
  }
  return std::shared_ptr<const Arrays>(arrays);
}

bool is_finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](float number) { return std::isfinite(number); });
}

Error unsound(std::string message, std::string name) {
  return corrupt("the calibration is invalid: " + std::move(message)).in_record(std::move(name));
}

}  // namespace cfck::calibration

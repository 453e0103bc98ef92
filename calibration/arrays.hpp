// The arrays of a calibration, in its file or in memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cfck/calibration.hpp"
#include "cfck/reader.hpp"

namespace cfck::calibration {

// The name of the array with the second moment of the inputs of a tensor's layer.
std::string moment_name(const std::string& tensor);
// The name of the array with the values that are rounded instead of a tensor's own.
std::string corrected_name(const std::string& tensor);

// The dtype and the dimensions of an array.
struct ArrayShape {
  DType dtype = DType::kF32;
  Shape shape;
};

// Immutable; may be used by several threads at once.
class Arrays {
 public:
  virtual ~Arrays() = default;

  // Nothing where there is no array of this name.
  virtual std::optional<ArrayShape> find(const std::string& name) const = 0;

  // The numbers of an F32 array: in memory where they are, otherwise read into `buffer`. Errors:
  // those of reading; kCorrupt where there is no such array.
  virtual Result<std::span<const float>> floats(const std::string& name,
                                                std::vector<float>& buffer) const = 0;
};

// Arrays of the file that `reader` has open.
std::shared_ptr<const Arrays> arrays_of_file(Reader reader);
// Arrays of tensors in memory; `owner` keeps them there. Error: kInvalidArgument for one that has
// not as many bytes as its dtype and shape say.
Result<std::shared_ptr<const Arrays>> arrays_in_memory(const std::vector<MeasuredTensor>& tensors,
                                                       std::shared_ptr<const void> owner);

// Whether all numbers are finite.
bool is_finite(std::span<const float> numbers);

// The error for a calibration whose parts do not fit each other: kCorrupt.
Error unsound(std::string message, std::string name = {});

// The numbers of a record of this dtype. Errors: as Arrays::floats.
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

}  // namespace cfck::calibration

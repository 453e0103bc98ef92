// The result of calibrating a model: how much errors in each of its tensors matter
// (docs/calibration.md). Made by cfck.calibrate in Python, stored as a .cfck file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/options.hpp"
#include "cfck/reader.hpp"

namespace cfck {

namespace spectral {
class SecondMoments;
}
namespace calibration {
class Arrays;
}

// Steps of codec spectral for one tensor.
struct CalibratedSteps {
  Shape shape;
  // Root mean square of the tensor's values when it was measured; 0 if it was not.
  double sigma = 0;
  // Log2 of its step relative to that of a tensor with equal sigma and mean sensitivity.
  double log2_step = 0;
  // Additional quarter-log2 steps of the bands of a convolution kernel (by number,
  // spectral/transforms.md), of the rows (axis 0) and of the columns (axis 1). Empty:
  // 0.
  std::vector<std::int16_t> bands;
  std::vector<std::int16_t> rows;
  std::vector<std::int16_t> columns;
  // Name of the record with the second moment of the inputs of its rows, [n, n]; empty if there is
  // none that allows error compensation.
  std::string second_moment;
  // Number of inputs on which it was measured; 0 if unknown.
  std::uint64_t n_positions = 0;
  // Name of the record with values that compensate errors in the layers before: they are quantised
  // instead of the tensor's own where errors are compensated. Empty: there is none.
  std::string corrected;
};

// The measurements of one tensor.
struct MeasuredTensor {
  std::string name = {};
  Shape shape = {};
  // The tensor that is the same memory, whose numbers count for this one too; empty: none.
  std::string tied_to = {};
  // The numbers of CalibratedSteps; a sigma that is not finite was not measured.
  double sigma = 0;
  double log2_step = 0;
  // E[x x^T] of the inputs of its layer, F32 of shape (groups, n, n), or (groups, n) where only the
  // diagonals were kept. Not for a tied tensor.
  std::optional<TensorView> second_moment = std::nullopt;
  // The axis of the tensor that has the input channels: 1, or 0 for transposed layers.
  int input_axis = 1;
  std::uint64_t n_positions = 0;
  // The values to round instead of the tensor's own, F32 of its shape. Not for a tied tensor.
  std::optional<TensorView> corrected = std::nullopt;
};

// The measurements of a model, in memory.
struct Measurements {
  // "batches" for inputs that are data, otherwise what was generated.
  std::string source = {};
  // The step of Calibration::step; nothing: it was not refined.
  std::optional<double> step = std::nullopt;
  std::vector<MeasuredTensor> tensors = {};
  // Keeps the arrays alive as long as the calibration lives; nullptr: the caller does.
  std::shared_ptr<const void> owner = nullptr;
};

// Immutable; may be used by several threads at once.
class CFCK_API Calibration {
 public:
  // Reads the whole calibration, but of matrices keeps only what steps depend on. Errors: those of
  // reading; kInvalidArgument for a file that is not a calibration, kUnsupported for one of a newer
  // version, kCorrupt for one whose parts are inconsistent.
  static Result<std::shared_ptr<const Calibration>> open(std::unique_ptr<const ByteSource> source);
  // Reads the calibration in the file at `path`. Errors: also kIo and kNotFound.
  static Result<std::shared_ptr<const Calibration>> open(const std::string& path);
  // Takes measurements that are in memory; arrays stay where they are. Errors: kInvalidArgument
  // for an array of another length than its shape says, kCorrupt as above.
  static Result<std::shared_ptr<const Calibration>> of(const Measurements& measured);

  // Returns nullptr for tensors that it does not know. The result lives as long as this object.
  const CalibratedSteps* find(std::string_view name) const;
  // True if sensitivities of whole tensors are usable: not those of a network that was calibrated
  // with noise as input, but never saw noise.
  bool has_tensor_steps() const noexcept { return has_tensor_steps_; }
  // True if its inputs were real ones, not generated.
  bool is_of_data() const noexcept { return is_of_data_; }
  std::size_t size() const noexcept { return tensors_.size(); }
  // For a calibration that cfck.refine made: the step, as WriteSummary::step, that its corrected
  // values are for. 0: it was not refined.
  double step() const noexcept { return step_; }
  // True if files with these options depend on it: they or a rule have a quality, a target or codec
  // spectral, or it has a step. Options that are refused count as well.
  bool is_used_by(const EncodeOptions& options) const;
  // Reads the matrix that `steps` names, and shrinks what is beside its diagonal as far as few
  // inputs make it uncertain. The result is for writers: its type is not public. Errors: those of
  // reading; kCorrupt.
  Result<std::shared_ptr<const spectral::SecondMoments>> second_moments(
      const CalibratedSteps& steps) const;
  // Reads the corrected values that `steps` names, in the order of the tensor. Errors: those of
  // reading; kCorrupt.
  Result<std::shared_ptr<const std::vector<float>>> corrected_values(
      const CalibratedSteps& steps) const;

 private:
  Calibration() = default;
  CFCK_LOCAL static Result<std::shared_ptr<const Calibration>> make(
      const Measurements& measured, std::shared_ptr<const calibration::Arrays> arrays);

  std::shared_ptr<const calibration::Arrays> arrays_;
  std::map<std::string, CalibratedSteps, std::less<>> tensors_;
  bool has_tensor_steps_ = true;
  bool is_of_data_ = false;
  double step_ = 0;
};

}  // namespace cfck

#include "tools/spectrum/tensor_spectrum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/measure/values.hpp"

namespace cfck::tools {
namespace {

// Of larger tensors a sample is taken.
constexpr std::uint64_t kMaxElems = std::uint64_t{1} << 25;
// The codecs are tried on less: their bits per weight hardly depend on it.
constexpr std::uint64_t kMaxTriedElems = std::uint64_t{1} << 21;

Scales scales_of(std::vector<double> squares, double n_each) {
  Scales scales;
  scales.n = squares.size();
  if (squares.empty()) return scales;
  for (double& sum : squares) sum = std::sqrt(sum / std::max(n_each, 1.0));
  std::sort(squares.begin(), squares.end());
  scales.min = squares.front();
  scales.median = squares[squares.size() / 2];
  scales.max = squares.back();
  return scales;
}

void add_scales(TensorSpectrum& spectrum, const std::vector<double>& values, const Shape& shape) {
  const std::uint64_t n_rows = shape[0];
  const std::uint64_t n_columns = shape[1];
  const std::uint64_t row_values = values.size() / n_rows;
  const std::uint64_t kernel_values = row_values / n_columns;
  std::vector<double> rows(n_rows);
  std::vector<double> columns(n_columns);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double square = values[i] * values[i];
    rows[i / row_values] += square;
    columns[i % row_values / kernel_values] += square;
  }
  spectrum.rows = scales_of(std::move(rows), static_cast<double>(row_values));
  spectrum.columns = scales_of(std::move(columns), static_cast<double>(n_rows * kernel_values));
}

void add_singular_values(TensorSpectrum& spectrum, const std::vector<double>& values,
                         const Shape& shape, std::uint64_t max_side) {
  const std::uint64_t rows = shape[0];
  const std::uint64_t columns = values.size() / rows;
  const std::uint64_t side = std::min(rows, columns);
  if (side > max_side) {
    spectrum.no_singular = fmt::format(
        "not computed above a side of {}; --max-side {} does, in minutes", max_side, side);
    return;
  }
  spectrum.singular = singular_values(values, rows, columns);
}

}  // namespace

bool has_spectrum(const StoredTensor& tensor) {
  const unsigned bits = bits_per_element(tensor.dtype);
  return tensor.n_elems > 0 && bits >= 8 && !is_integer(tensor.dtype) &&
         parts_per_element(tensor.dtype) == 1;
}

Result<TensorSpectrum> tensor_spectrum(const TensorSet& set, const StoredTensor& tensor,
                                       const SpectrumLimits& limits) {
  CFCK_TRY(set.check_alias_bytes(
      tensor, std::min(tensor.n_elems, kMaxElems) * (bits_per_element(tensor.dtype) / 8)));
  CFCK_TRY_ASSIGN(const TensorSample sample, read_sample(set, tensor, kMaxElems));
  TensorSpectrum spectrum;
  spectrum.tensor = &tensor;
  spectrum.is_whole = sample.is_whole;
  std::vector<double> values = finite_values(tensor.dtype, sample.bytes, spectrum.n_not_finite);
  spectrum.n_values = values.size();
  double squares = 0;
  for (const double value : values) squares += value * value;
  spectrum.rms = std::sqrt(squares / static_cast<double>(values.size()));
  const bool is_matrix = tensor.shape.size() > 1 && sample.shape.size() == tensor.shape.size();
  if (is_matrix) {
    add_scales(spectrum, values, sample.shape);
    CFCK_TRY(check_interrupt());
    add_singular_values(spectrum, values, sample.shape, limits.max_side);
  } else {
    spectrum.no_singular =
        tensor.shape.size() > 1 ? "not computed: rows are too long" : "none: this is no matrix";
  }
  CFCK_TRY(check_interrupt());
  const Shape shape = sample.shape.empty() ? Shape{1} : sample.shape;
  spectrum.energy = band_energy(values, shape);
  if (!limits.try_codecs) return spectrum;
  CFCK_TRY(check_interrupt());
  const TensorSample tried = smaller_sample(sample, bits_per_element(tensor.dtype), kMaxTriedElems);
  spectrum.costs_are_of_sample = !tried.is_whole;
  auto costs = codec_costs(tensor.dtype, tried);
  // The trials know the tensor by another name.
  if (!costs) return std::move(costs).error().in_record(tensor.name);
  spectrum.costs = *std::move(costs);
  return spectrum;
}

}  // namespace cfck::tools

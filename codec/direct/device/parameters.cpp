#include "codec/direct/device/parameters.hpp"

#include <algorithm>

namespace cfck::codec {

DeviceParameters device_parameters(const DirectParameters& parameters,
                                   const DirectGeometry& geometry, const DeviceVectors& vectors,
                                   std::uint64_t first_elem) {
  // Rows that are longer end at most once in a chunk: it only counts how far away that is.
  constexpr std::uint64_t kMaxRow = std::uint64_t{1} << 31;
  const std::uint64_t row_values = geometry.row_values();
  const std::uint64_t row = first_elem / row_values;
  const std::uint64_t left_in_row = row_values - first_elem % row_values;
  DeviceParameters result;
  result.step = parameters.step;
  result.row_steps = vectors.row_steps == nullptr ? nullptr : vectors.row_steps + row;
  result.coefficients = vectors.coefficients;
  result.bands = vectors.bands;
  result.rows = vectors.rows == nullptr ? nullptr : vectors.rows + row;
  result.columns = vectors.columns;
  result.kernel_size = geometry.kernel_size;
  result.row_values = static_cast<std::uint32_t>(std::min(row_values, kMaxRow));
  result.first_in_row = result.row_values - static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                                left_in_row, result.row_values));
  result.first_in_kernel = static_cast<std::uint32_t>(first_elem % geometry.kernel_size);
  return result;
}

}  // namespace cfck::codec

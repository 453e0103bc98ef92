#include "codec/direct/chunk/prediction.hpp"

#include "codec/direct/kernels/kernels.hpp"

namespace cfck::codec {
namespace {

// The part of a chunk that consists of whole kernels.
struct WholeKernels {
  std::size_t begin = 0;
  std::size_t end = 0;
};

WholeKernels whole_kernels(std::uint32_t kernel_size, std::uint64_t first_value,
                           std::size_t n_values) {
  const auto before =
      static_cast<std::size_t>((kernel_size - first_value % kernel_size) % kernel_size);
  if (before >= n_values) {
    return {n_values, n_values};
  }
  return {before, before + (n_values - before) / kernel_size * kernel_size};
}

}  // namespace

void predict_indices(const DirectGeometry& geometry, std::span<const std::int16_t> coefficients,
                     std::uint64_t first_value, std::span<std::int32_t> indices) {
  const auto [begin, end] = whole_kernels(geometry.kernel_size, first_value, indices.size());
  direct_kernels().predict(coefficients.data(), geometry.kernel_size,
                           (end - begin) / geometry.kernel_size, indices.data() + begin);
}

bool restore_indices(const DirectGeometry& geometry, std::span<const std::int16_t> coefficients,
                     std::uint64_t first_value, std::span<std::int32_t> indices) {
  const auto [begin, end] = whole_kernels(geometry.kernel_size, first_value, indices.size());
  return direct_kernels().restore(coefficients.data(), geometry.kernel_size,
                                  (end - begin) / geometry.kernel_size, indices.data() + begin);
}

}  // namespace cfck::codec

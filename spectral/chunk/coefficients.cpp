#include "spectral/chunk/coefficients.hpp"

#include <vector>

#include "spectral/chunk/slices.hpp"
#include "spectral/layout/coefficient_fields.hpp"
#include "spectral/transforms/dct.hpp"

namespace cfck::spectral {

Result<void> coefficients_in_steps(const SpectralChunkInfo& info, const SpectralGeometry& geometry,
                                   const SpectralParameters& parameters, ByteView values,
                                   std::span<float> in_steps) {
  const SpectralKernels& kernels = spectral_kernels();
  const std::size_t value_bytes = bits_per_element(info.dtype) / 8;
  CFCK_TRY_ASSIGN(ChunkSlices slices, ChunkSlices::create(geometry, parameters.transforms,
                                                          info.first_elem, in_steps.size()));
  std::vector<double> steps(parameters.steps.empty() ? 0 : in_steps.size());
  if (!steps.empty()) {
    coefficient_steps(geometry, parameters, info.first_elem, steps.size(), steps.data());
  }
  std::vector<double> some(slices.slice_values());
  slices.each([&](std::size_t first, std::size_t n, const SpectralGeometry::Region& region) {
    kernels.load_values(info.dtype, values.data() + first * value_bytes, n, some.data());
    if (parameters.transforms) {
      forward_dct(some.data(), region.shape, region.sides);
    }
    kernels.divide(some.data(), steps.empty() ? nullptr : steps.data() + first, parameters.step, n,
                   in_steps.data() + first);
  });
  return {};
}

}  // namespace cfck::spectral

// Prediction inside whole kernels on a device (codec/direct/spec.md, section 5.1): the same as
// codec/direct/kernels/prediction.hpp.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/bin_codes.hpp"
#include "codec/device_chunk.hpp"

namespace cfck::codec {

// Returns what index t of a kernel is predicted to be from those before it.
CFCK_DEVICE std::int32_t predicted_index(const std::int16_t* coefficients,
                                         const std::int32_t* kernel, std::uint32_t t) {
  std::int64_t sum = 128;
  for (std::uint32_t s = 0; s < t; ++s) {
    const std::int32_t known = kernel[s] <= kMasked ? 0 : kernel[s];
    sum += std::int64_t{coefficients[s]} * known;
  }
  sum >>= 8;
  return static_cast<std::int32_t>(sum > kMaxIndex    ? kMaxIndex
                                   : sum < -kMaxIndex ? -kMaxIndex
                                                      : sum);
}

// Turns indices of a chunk into residuals, a kernel in each lane of n_warps from `warp` on. The
// last positions come first, since all are predicted from the indices before them.
CFCK_DEVICE void predict_device_indices(const DeviceParameters& parameters, std::uint32_t n_values,
                                        std::int32_t* indices, unsigned warp, unsigned n_warps) {
  const std::uint32_t size = parameters.kernel_size;
  const std::uint32_t before = (size - parameters.first_in_kernel) % size;
  const std::uint32_t n_kernels = before < n_values ? (n_values - before) / size : 0;
  for (std::uint32_t k = warp * simt::kWarpLanes + simt::lane(); k < n_kernels;
       k += n_warps * simt::kWarpLanes) {
    std::int32_t* const kernel = indices + before + std::size_t{k} * size;
    for (std::uint32_t t = size - 1; t != 0; --t) {
      if (kernel[t] <= kMasked) {
        continue;
      }
      kernel[t] -= predicted_index(parameters.coefficients + t * (t - 1) / 2, kernel, t);
    }
  }
}

}  // namespace cfck::codec

#include "cuda/host/kernels.hpp"

#include <algorithm>

namespace cfck::cuda {
namespace {

// A warp alone on one of the four schedulers of a multiprocessor waits for memory and for its own
// results most of the time. Up to as many chunks as there is room for teams, these are faster.
constexpr unsigned kTeamChunksOfMultiprocessor = 4;
// Devices that stage (base/simt/staging.cuh).
constexpr unsigned kStagingCapability = 80;

// Kernels of which one warp with staged raw bits decoded faster than a team without, however few
// chunks there were, in prototypes on an H100. With BF16 of codec direct it was the other way
// round: half of its groups have escapes.
bool has_fast_warps(device::Kernel kernel) {
  switch (kernel) {
    case device::Kernel::kDecodeLosslessF32:
    case device::Kernel::kDecodeLosslessBf16:
    case device::Kernel::kDecodeLosslessF16:
    case device::Kernel::kDecodeLosslessE5m2:
    case device::Kernel::kDecodeLosslessE4m3:
    case device::Kernel::kDecodeDirectF32:
      return true;
    default:
      return false;
  }
}

}  // namespace

FormLaunch form_for_items(device::Kernel kernel, std::uint32_t n_items, const DeviceShape& shape) {
  const KernelForms& forms = kKernelForms[static_cast<unsigned>(kernel)];
  const unsigned n_multiprocessors = shape.n_multiprocessors;
  const bool are_few = n_items <= kTeamChunksOfMultiprocessor * n_multiprocessors &&
                       !(shape.capability >= kStagingCapability && has_fast_warps(kernel));
  if (forms.each_warp.name == nullptr || (forms.each_block.name != nullptr && are_few)) {
    const KernelForm& form = forms.each_block;
    return {&form, std::clamp<unsigned>(n_items, 1, n_multiprocessors * form.blocks),
            form.warps_per_block};
  }
  const KernelForm& form = forms.each_warp;
  const std::uint32_t per_multiprocessor = (n_items + n_multiprocessors - 1) / n_multiprocessors;
  const unsigned warps = std::clamp<unsigned>(per_multiprocessor, 1, form.warps_per_block);
  const std::uint32_t blocks = (n_items + warps - 1) / warps;
  return {&form, std::clamp<unsigned>(blocks, 1, n_multiprocessors * form.blocks), warps};
}

}  // namespace cfck::cuda

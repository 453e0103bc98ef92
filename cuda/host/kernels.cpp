#include "cuda/host/kernels.hpp"

#include <algorithm>

namespace cfck::cuda {

bool may_have_blocks_each(const KernelForms& forms, std::uint32_t n_items,
                          unsigned n_multiprocessors) {
  return forms.each_warp.name != nullptr && forms.each_block.name != nullptr &&
         n_items <= forms.each_block.blocks * n_multiprocessors;
}

FormLaunch form_for_items(const KernelForms& forms, std::uint32_t n_items,
                          unsigned n_multiprocessors, unsigned n_fitting) {
  // A warp alone on one of the four schedulers of a multiprocessor waits for its own results most
  // of the time. A second turn of blocks would take as long as the first one, which is more than
  // blocks gain (bench/results/kernel-model-h100.md).
  const unsigned n_at_once = std::min(forms.each_block.blocks, n_fitting) * n_multiprocessors;
  const bool are_few =
      may_have_blocks_each(forms, n_items, n_multiprocessors) && n_items <= n_at_once;
  if (forms.each_warp.name == nullptr || are_few) {
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

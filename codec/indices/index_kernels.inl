// Included once for each CPU level, by a source that is compiled for it and
// defines CFCK_CPU_NAMESPACE.
#include "base/cpu/x86_intrinsics.hpp"
//
#include "codec/indices/index_kernels.hpp"
#include "codec/indices/magnitude_sums.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

const IndexKernels& index_kernel_set() noexcept {
  static constexpr IndexKernels kSet{.add_magnitudes = &add_magnitudes,
                                     .weigh_magnitudes = &weigh_magnitudes};
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

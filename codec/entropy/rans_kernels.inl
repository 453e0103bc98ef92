// Included once for each CPU level, by a source that is compiled for it and defines
// CFCK_CPU_NAMESPACE.
#include "codec/direct/x86_intrinsics.hpp"
//
#include "codec/entropy/rans_scalar.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

const RansKernels& rans_kernel_set() noexcept {
  static constexpr RansKernels kSet{&decode_run_scalar, &encode_runs_scalar};
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

// Included once for each CPU level, by a source that is compiled for it and defines
// CFCK_CPU_NAMESPACE.
#include "base/cpu/x86_intrinsics.hpp"
//
#include "codec/entropy/rans/kernels/trellis.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

bool decode(RansLanes& lanes, const RansDecodeTable* const* tables, const SymbolRun& run) {
  return lanes.n_sets == 4   ? decode_run<4>(lanes, tables, run)
         : lanes.n_sets == 2 ? decode_run<2>(lanes, tables, run)
                             : decode_run<1>(lanes, tables, run);
}

}  // namespace

const RansKernels& rans_kernel_set() noexcept {
  static constexpr RansKernels kSet{&decode, &encode_runs, &decode_chosen, &encode_chosen};
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

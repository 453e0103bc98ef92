// The kernels of kernels.inl for x86-64-v4 with VBMI2; with two tables for a group, the
// kernels of plain x86-64-v4 are used.
#include "base/cpu/x86_intrinsics.hpp"
//
#define CFCK_CPU_NAMESPACE cpu_v4_vbmi
#include "codec/entropy/rans/kernels/encode.hpp"

namespace cfck::codec {

namespace cpu_v4 {
const RansKernels& rans_kernel_set() noexcept;
}

inline namespace CFCK_CPU_NAMESPACE {
namespace {

bool decode(RansLanes& lanes, const RansDecodeTable* const* tables, const SymbolRun& run) {
  return lanes.n_sets == 4   ? decode_run<4>(lanes, tables, run)
         : lanes.n_sets == 2 ? decode_run<2>(lanes, tables, run)
                             : decode_run<1>(lanes, tables, run);
}

}  // namespace

const RansKernels& rans_kernel_set() noexcept {
  static const RansKernels kSet{&decode, &encode_runs, cpu_v4::rans_kernel_set().decode_chosen,
                                cpu_v4::rans_kernel_set().encode_chosen};
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

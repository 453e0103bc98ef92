#include "codec/symboliser/kernel_levels.hpp"

#include "base/cpu/level_switch.hpp"

namespace cfck::codec {

CFCK_DECLARE_LEVELS(KernelSet, kernel_set)

#ifdef CFCK_HAS_X86_LEVELS
namespace cpu_v4_vbmi {
const KernelSet& kernel_set() noexcept;
}
#endif

const KernelSet& kernels_of(CpuLevel level) noexcept {
#ifdef CFCK_HAS_X86_LEVELS
  if (level == CpuLevel::kV4 && has_vbmi2()) {
    return cpu_v4_vbmi::kernel_set();
  }
#endif
  return CFCK_SET_OF_LEVEL(level, kernel_set);
}

template <class Format>
const ChunkKernels<Format>& chunk_kernels() noexcept {
  return std::get<ChunkKernels<Format>>(kernels_of(cpu_level()));
}

template const ChunkKernels<FormatF64>& chunk_kernels() noexcept;
template const ChunkKernels<With32Symbols<FormatF64>>& chunk_kernels() noexcept;
template const ChunkKernels<FormatF32>& chunk_kernels() noexcept;
template const ChunkKernels<With32Symbols<FormatF32>>& chunk_kernels() noexcept;
template const ChunkKernels<FormatBf16>& chunk_kernels() noexcept;
template const ChunkKernels<With32Symbols<FormatBf16>>& chunk_kernels() noexcept;
template const ChunkKernels<FormatF16>& chunk_kernels() noexcept;
template const ChunkKernels<With32Symbols<FormatF16>>& chunk_kernels() noexcept;
template const ChunkKernels<FormatE5m2>& chunk_kernels() noexcept;
template const ChunkKernels<With32Symbols<FormatE5m2>>& chunk_kernels() noexcept;
template const ChunkKernels<FormatE5m2Fnuz>& chunk_kernels() noexcept;
template const ChunkKernels<With32Symbols<FormatE5m2Fnuz>>& chunk_kernels() noexcept;
template const ChunkKernels<FormatE4m3>& chunk_kernels() noexcept;
template const ChunkKernels<With32Symbols<FormatE4m3>>& chunk_kernels() noexcept;

}  // namespace cfck::codec

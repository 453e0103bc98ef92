#include "codec/symboliser/kernel_levels.hpp"

namespace cfck::codec {

// One definition each, from chunk_kernels_LEVEL.cpp.
namespace cpu_baseline {
const KernelSet& kernel_set() noexcept;
}
#ifdef CFCK_HAS_X86_LEVELS
namespace cpu_v3 {
const KernelSet& kernel_set() noexcept;
}
namespace cpu_v4 {
const KernelSet& kernel_set() noexcept;
}
#endif

const KernelSet& kernels_of(CpuLevel level) noexcept {
#ifdef CFCK_HAS_X86_LEVELS
  if (level == CpuLevel::kV4) {
    return cpu_v4::kernel_set();
  }
  if (level == CpuLevel::kV3) {
    return cpu_v3::kernel_set();
  }
#endif
  (void)level;
  return cpu_baseline::kernel_set();
}

template <class Format>
const ChunkKernels<Format>& chunk_kernels() noexcept {
  static const KernelSet& set = kernels_of(cpu_level());
  return std::get<ChunkKernels<Format>>(set);
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

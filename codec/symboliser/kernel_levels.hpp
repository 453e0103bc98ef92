// The kernels of every format for each CPU level.
#pragma once

#include <tuple>

#include "base/cpu/level.hpp"
#include "codec/symboliser/float_format.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

template <class List>
struct KernelSetOf;
template <class... Formats>
struct KernelSetOf<FormatList<Formats...>> {
  using type = std::tuple<ChunkKernels<Formats>...>;
};
using KernelSet = KernelSetOf<AllFormats>::type;

// Requires: `level` is not above cpu_level(). An architecture without code for a level of its own
// has the baseline at every level.
const KernelSet& kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::codec

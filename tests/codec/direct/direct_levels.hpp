// Helpers shared by tests of the kernels of the direct codec.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/codec/direct/direct_cases.hpp"

namespace cfck::codec {

// The kernels of all CPU levels that this machine has, the baseline first.
inline std::vector<const DirectKernels*> levels() {
  std::vector<const DirectKernels*> found;
  for (const CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4}) {
    if (level <= cpu_level()) {
      found.push_back(&direct_kernels_of(level));
    }
  }
  return found;
}

// Indices of about `scale`, with zeros up to a whole group, some large and exact ones.
inline std::vector<std::int32_t> make_indices(std::size_t n, double scale, Random& random) {
  std::vector<std::int32_t> indices((n + kGroupSize - 1) / kGroupSize * kGroupSize);
  for (std::size_t i = 0; i < n; ++i) {
    const double unit = static_cast<double>(random.next() % 20001) / 10000 - 1;
    const double cubed = 4 * unit * unit * unit * scale;
    indices[i] = static_cast<std::int32_t>(std::clamp(cubed, -double{kMaxIndex} - 1.0 * kMaxIndex,
                                                      double{kMaxIndex} + 1.0 * kMaxIndex));
    indices[i] = random.next() % 200 == 0 ? kExact : indices[i];
    indices[i] = random.next() % 300 == 0 ? 2 * kMaxIndex : indices[i];
    indices[i] = random.next() % 300 == 0 ? -2 * kMaxIndex : indices[i];
  }
  return indices;
}

}  // namespace cfck::codec

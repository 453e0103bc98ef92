// Included once for each CPU level, by a source that is compiled for it and defines
// CFCK_CPU_NAMESPACE.
#include <bit>

#include "gradients/kernels/corrections.hpp"
#include "gradients/kernels/kernels.hpp"
#include "gradients/kernels/keys.hpp"
#include "gradients/kernels/lines.hpp"

namespace cfck::gradients {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

void add(const float* g, float* v, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    v[i] += g[i];
  }
}

template <class Correction>
void add_corrected(const float* g, float* u, float* v, std::size_t n, float m) {
  const Correction correction{m};
  for (std::size_t i = 0; i < n; ++i) {
    const float before = u[i];
    u[i] = correction.momentum(g[i], before);
    v[i] = correction.value(g[i], before, v[i]);
  }
}

std::size_t find(const float* values, std::size_t n, std::uint32_t threshold, std::uint32_t first,
                 std::uint64_t* keys) {
  std::uint64_t* to = keys;
  std::size_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    for (std::uint32_t left = reaching(values + i, threshold); left != 0; left &= left - 1) {
      const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(left));
      *to++ = key_of(values[at], first + static_cast<std::uint32_t>(at));
    }
  }
  for (; i < n; ++i) {
    if (magnitude(values[i]) >= threshold) {
      *to++ = key_of(values[i], first + static_cast<std::uint32_t>(i));
    }
  }
  return static_cast<std::size_t>(to - keys);
}

}  // namespace

const GradientKernels& gradient_kernel_set() noexcept {
  static constexpr GradientKernels kSet{.add = &add,
                                        .add_momentum = &add_corrected<PlainMomentum>,
                                        .add_nesterov = &add_corrected<NesterovMomentum>,
                                        .find = &find};
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::gradients

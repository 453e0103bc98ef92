// Selects at run time from functions that are compiled once for each CPU level.
#pragma once

#include "base/cpu/level.hpp"
#include "base/names/detail.hpp"

namespace cfck::detail {

// An architecture without code for a level of its own has the baseline at every level.
template <class Set>
const Set& set_of_level(CpuLevel level, const Set& (*baseline)() noexcept,
                        const Set& (*v3)() noexcept, const Set& (*v4)() noexcept) noexcept {
  return level == CpuLevel::kV4 ? v4() : level == CpuLevel::kV3 ? v3() : baseline();
}

}  // namespace cfck::detail

// CFCK_DECLARE_LEVELS declares `const Set& function() noexcept`, of which the sources
// NAME_LEVEL.cpp define one each; CFCK_SET_OF_LEVEL calls that of a level. The first
// namespace is inline because headers that a file includes may be in it.
#ifdef CFCK_HAS_X86_LEVELS
#define CFCK_DECLARE_LEVELS(Set, function) \
  inline namespace cpu_baseline {          \
  const Set& function() noexcept;          \
  }                                        \
  namespace cpu_v3 {                       \
  const Set& function() noexcept;          \
  }                                        \
  namespace cpu_v4 {                       \
  const Set& function() noexcept;          \
  }
#define CFCK_SET_OF_LEVEL(level, function) \
  set_of_level(level, &cpu_baseline::function, &cpu_v3::function, &cpu_v4::function)
#else
#define CFCK_DECLARE_LEVELS(Set, function) \
  inline namespace cpu_baseline {          \
  const Set& function() noexcept;          \
  }
#define CFCK_SET_OF_LEVEL(level, function) \
  set_of_level(level, &cpu_baseline::function, &cpu_baseline::function, &cpu_baseline::function)
#endif

#include "base/cpu_level.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace cfck {
namespace {

CpuLevel detect() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
                  __builtin_cpu_supports("bmi2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool v4 =
      v3 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0;
  return v4 ? CpuLevel::kV4 : v3 ? CpuLevel::kV3 : CpuLevel::kBaseline;
#else
  return CpuLevel::kBaseline;
#endif
}

CpuLevel requested() noexcept {
  const char* value = std::getenv("CFCK_CPU");
  const std::string_view name = value != nullptr ? value : "";
  return name == "baseline" ? CpuLevel::kBaseline : name == "v3" ? CpuLevel::kV3 : CpuLevel::kV4;
}

}  // namespace

CpuLevel cpu_level() noexcept {
  static const CpuLevel level = std::min(detect(), requested());
  return level;
}

}  // namespace cfck

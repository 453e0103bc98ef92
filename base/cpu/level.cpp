#include "base/cpu/level.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>

#include "base/forks/forks.hpp"
#endif

namespace cfck::detail {
namespace {

#if defined(__x86_64__)
// Parts of x86-64-v3 that not all compilers have names for. Virtual machines may hide
// them where AVX2 is there.
bool has_f16c_and_lzcnt() noexcept {
  constexpr unsigned kF16c = 1U << 29;
  constexpr unsigned kLzcnt = 1U << 5;
  unsigned a = 0, b = 0, c = 0, d = 0;
  unsigned extended = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kF16c) != 0 &&
         __get_cpuid(0x80000001, &a, &b, &extended, &d) != 0 && (extended & kLzcnt) != 0;
}
#endif

CpuLevel detect() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
                  __builtin_cpu_supports("bmi2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                  has_f16c_and_lzcnt();
  const bool v4 =
      v3 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0;
  return v4 ? CpuLevel::kV4 : v3 ? CpuLevel::kV3 : CpuLevel::kBaseline;
#else
  return CpuLevel::kBaseline;
#endif
}

std::string_view requested_name() noexcept {
  const char* value = std::getenv("CFCK_CPU");
  return value != nullptr ? value : "";
}

bool find_vbmi2() noexcept {
#if defined(__x86_64__)
  return requested_name() != "v4-plain" && detect() == CpuLevel::kV4 &&
         __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0 &&
         __builtin_cpu_supports("avx512vnni") != 0 &&
         __builtin_cpu_supports("avx512vpopcntdq") != 0;
#else
  return false;
#endif
}

CpuLevel requested() noexcept {
  const std::string_view name = requested_name();
  return name == "baseline" ? CpuLevel::kBaseline : name == "v3" ? CpuLevel::kV3 : CpuLevel::kV4;
}

std::atomic<CpuLevel>& current() noexcept {
  static constinit MadeOnce<std::atomic<CpuLevel>> level;
  return level.get([] { return std::min(detect(), requested()); });
}

std::atomic<bool>& current_vbmi2() noexcept {
  static constinit MadeOnce<std::atomic<bool>> found;
  return found.get(&find_vbmi2);
}

}  // namespace

CpuLevel cpu_level() noexcept { return current().load(std::memory_order_relaxed); }

void set_cpu_level(CpuLevel level) noexcept {
  current().store(std::min(detect(), level), std::memory_order_relaxed);
}

bool has_vbmi2() noexcept { return current_vbmi2().load(std::memory_order_relaxed); }

void allow_vbmi2(bool allowed) noexcept {
  current_vbmi2().store(allowed && find_vbmi2(), std::memory_order_relaxed);
}

}  // namespace cfck::detail

// The instructions this CPU has, in the steps that compilers know as x86-64-v3 and
// x86-64-v4.
#pragma once

#include <cstdint>

#include "base/names/detail.hpp"

namespace cfck::detail {

enum class CpuLevel : std::uint8_t {
  kBaseline,  // what every machine of the architecture has
  kV3,        // AVX2, BMI2, FMA
  kV4,        // AVX-512 F, BW, CD, DQ, VL
};

// Detected once. The environment variable CFCK_CPU ("baseline", "v3", "v4") lowers it, for tests;
// it never raises it above what the CPU has.
CpuLevel cpu_level() noexcept;

// True if the CPU has, beyond level v4, the extensions that came with AVX512_VBMI2: VBMI, VNNI,
// and VPOPCNTDQ (Ice Lake, Zen 4, and later CPUs). Some kernels of level v4 come in a second
// form for it. Always false with CFCK_CPU=v4-plain.
bool has_vbmi2() noexcept;

// Sets the level from within the process, at any time: for tests that compare levels. A level above
// the CPU's sets the CPU's own.
void set_cpu_level(CpuLevel level) noexcept;
// Lets has_vbmi2() report what was found, or always false.
void allow_vbmi2(bool allowed) noexcept;

}  // namespace cfck::detail

// Repeats a call at each CPU level that this machine has, to see that all give the same.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/cpu/cpu_level.hpp"
#include "cfck/status.hpp"

namespace cfck::test {

inline void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

// Calls `code(bytes)`, which fills in bytes it may also resize, and requires that all
// levels give the same result and, unless it is an error, the same bytes. Bytes are
// `bytes` in the end.
template <class Code>
Result<void> at_every_level(std::vector<std::byte>& bytes, Code&& code) {
  const CpuLevel best = cpu_level();
  const std::size_t n_bytes = bytes.size();
  set_cpu_level(CpuLevel::kBaseline);
  const Result<void> first = code(bytes);
  struct Form {
    CpuLevel level;
    bool allows_vbmi2;
  };
  for (const Form& form :
       {Form{CpuLevel::kV3, false}, Form{CpuLevel::kV4, false}, Form{CpuLevel::kV4, true}}) {
    if (form.level > best) {
      break;
    }
    set_cpu_level(form.level);
    allow_vbmi2(form.allows_vbmi2);
    std::vector<std::byte> other(n_bytes, std::byte{0xa5});
    const Result<void> result = code(other);
    require(result.has_value() == first.has_value());
    if (result) {
      require(other == bytes);
    } else {
      require(result.error().code == first.error().code);
      require(result.error().byte_offset == first.error().byte_offset);
    }
  }
  set_cpu_level(best);
  return first;
}

}  // namespace cfck::test

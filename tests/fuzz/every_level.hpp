// Repeats a call at each CPU level that this machine has, to see that all give the same.
#pragma once

#include <cstdlib>
#include <vector>

#include "cfck/status.hpp"
#include "tests/support/cpu_forms.hpp"

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
  const std::size_t n_bytes = bytes.size();
  const std::vector<CpuForm> forms = cpu_forms();
  const Result<void> first = [&] {
    const UseCpuForm baseline(forms.front());
    return code(bytes);
  }();
  for (const CpuForm& form : forms) {
    const UseCpuForm use(form);
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
  return first;
}

}  // namespace cfck::test

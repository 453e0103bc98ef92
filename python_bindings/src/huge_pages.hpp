// Advice for large memory that is about to be filled.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace cfck::python {

// Fresh memory is filled about twice as fast in huge pages. This is only advice: the result does
// not matter.
inline void advise_huge_pages(std::uintptr_t address, std::size_t n_bytes) {
  constexpr std::uintptr_t kPage = 4096;
  const std::uintptr_t first = (address + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (address + n_bytes) / kPage * kPage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace cfck::python

// The memory in which the C++ library keeps the exceptions of a thread.
#pragma once

#include <exception>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Takes the memory in which the C++ library keeps exceptions of this thread. Otherwise it is taken
// when the thread first needs it, where that library was loaded with dlopen(), as by Python; and
// without memory glibc then ends the process.
inline void take_exception_memory() noexcept {
  // The compiler may leave out a call whose result nobody uses.
  [[maybe_unused]] const volatile int n_exceptions = std::uncaught_exceptions();
}

}  // namespace cfck::detail

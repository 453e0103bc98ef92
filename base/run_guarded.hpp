// The border that no exception crosses: workers of a thread, public functions.
#pragma once

#include <cxxabi.h>

#include <type_traits>
#include <utility>

#include "cfck/status.hpp"

namespace cfck {

// kOutOfMemory. Needs no memory itself.
Error out_of_memory() noexcept;

// The error that stands for the exception being handled: kOutOfMemory, or kInternal for
// anything that is not about memory or threads. Call it in a handler only.
Error error_of_exception() noexcept;

// The same error, or kOutOfMemory where there is no memory for its text.
Error copy_of(const Error& error) noexcept;

// What `function` returns, an Error or a Result; kOutOfMemory, or what else stands for an
// exception, if it throws.
template <class Function>
std::invoke_result_t<Function> run_guarded(Function&& function) {
  try {
    return std::forward<Function>(function)();
#if defined(__GLIBCXX__)
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being cancelled, which nothing may stop
#endif
  } catch (...) {
    return error_of_exception();
  }
}

}  // namespace cfck

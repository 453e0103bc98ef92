// The border that no exception crosses: workers of a thread, public functions.
#pragma once

#include <cxxabi.h>

#include <type_traits>
#include <utility>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

// Returns kOutOfMemory; needs no memory itself.
Error out_of_memory() noexcept;

// Returns the error for the exception being handled: kOutOfMemory, or kInternal for anything that
// is not about memory or threads. Call it in a handler only.
Error error_of_exception() noexcept;

// Returns a copy, or kOutOfMemory where there is no memory for its text.
Error copy_of(const Error& error) noexcept;

// Returns the result of `function`, an Error or a Result; if it throws, kOutOfMemory or the error
// for that exception.
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

}  // namespace cfck::detail

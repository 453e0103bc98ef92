// The border that no exception crosses: workers of a thread, public functions.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "cfck/status.hpp"

namespace cfck {

// Calls `function`, which returns a Result, and turns what it throws into an
// Error: kOutOfMemory, or kInternal for anything that is not about memory.
template <class Function>
std::invoke_result_t<Function> run_guarded(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "not enough memory", {}, {}};
  } catch (const std::length_error&) {
    return Error{ErrorCode::kOutOfMemory, "not enough memory", {}, {}};
  } catch (const std::exception& thrown) {
    return Error{
        ErrorCode::kInternal, std::string("unexpected exception: ") + thrown.what(), {}, {}};
  }
}

}  // namespace cfck

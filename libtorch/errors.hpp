// Errors of libtorch, which throws, as values.
#pragma once

#include <exception>
#include <utility>

#include "cfck/status.hpp"

namespace cfck::libtorch {

// Returns the error of the exception that is being handled.
Error caught_error();

// Calls `work`; what it throws becomes an error.
template <class Work>
auto run_with_torch(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    return caught_error();
  }
}

}  // namespace cfck::libtorch

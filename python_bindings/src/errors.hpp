// Conversion from Result<T> to Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "cfck/status.hpp"
#include "gil.hpp"

namespace cfck::python {

// Throws the subclass of cfck.CfckError that belongs to error.code. Needs the GIL.
[[noreturn]] void raise(const Error& error);

template <class T>
T take(Result<T> result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

inline void take(const Result<void>& result) {
  if (!result) raise(result.error());
}

// Runs `call` with the GIL released. `call` must not touch Python objects.
template <class Call>
auto without_gil(Call&& call) {
  const GilRelease release;
  return std::forward<Call>(call)();
}

}  // namespace cfck::python

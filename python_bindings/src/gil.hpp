// The GIL, given up and taken again by threads that may outlive the interpreter.
//
// Up to Python 3.13 a thread that asks for the GIL while the interpreter ends, as daemon threads
// do, is ended by pthread_exit(), whose unwinding meets functions that are noexcept, and those end
// the process. As from Python 3.14 on, such a thread sleeps instead until the process ends.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>

#include <utility>

#include "base/threads/exception_memory.hpp"

namespace cfck::python {

namespace nb = nanobind;

// Sleeps until the process ends; no signal is handled here.
[[noreturn]] void sleep_forever() noexcept;

// True on the thread that ends the interpreter, which has the GIL, and false before that. Needs the
// GIL.
inline bool ends_interpreter() noexcept { return Py_IsInitialized() == 0; }

// Runs `call`, which needs the GIL and may run code of Python: that gives up the GIL now and then.
template <class Call>
auto run_python(Call&& call) {
#if defined(__GLIBCXX__)
  try {
    return std::forward<Call>(call)();
  } catch (abi::__forced_unwind&) {  // of pthread_exit()
    sleep_forever();
  }
#else
  return std::forward<Call>(call)();
#endif
}

// Gives up the GIL for its lifetime. Needs the GIL.
class GilRelease {
 public:
  GilRelease() noexcept : ends_interpreter_(ends_interpreter()), state_(PyEval_SaveThread()) {
    detail::take_exception_memory();  // before work that may run out of memory
  }
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  const bool ends_interpreter_;
  PyThreadState* const state_;
};

// Has the GIL for its lifetime, on a thread that has given it up or is not of Python.
class GilAcquire {
 public:
  // `ends_interpreter`: what that function said on the thread that waits for this one, or is it.
  explicit GilAcquire(bool ends_interpreter) noexcept;
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace cfck::python

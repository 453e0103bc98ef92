#include "gil.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace cfck::python {

void sleep_forever() noexcept {
  sigset_t all;
  sigfillset(&all);
  (void)::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) ::pause();
}

// Once the interpreter has begun to end, the state of a thread may be gone: it is not looked at.
GilRelease::~GilRelease() {
  if (!ends_interpreter_ && Py_IsInitialized() == 0) sleep_forever();
  run_python([this] { PyEval_RestoreThread(state_); });
}

GilAcquire::GilAcquire(bool ends_interpreter) noexcept {
  if (!ends_interpreter && Py_IsInitialized() == 0) sleep_forever();
  state_ = run_python([] { return PyGILState_Ensure(); });
}

}  // namespace cfck::python

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "tools/cli/command_line.hpp"
#include "tools/output/console.hpp"

namespace {

using cfck::tools::ExitCode;

// More than any command needs on the first thread's stack.
constexpr std::size_t kStackBytes = std::size_t{512} << 10;

// The stack grows by page faults, and where no memory is left for it the system kills the process.
// So it grows now, while an error can still be reported.
[[gnu::noinline]] void reserve_stack() {
  char workspace[kStackBytes];
  std::memset(workspace, 0, sizeof workspace);
  asm volatile("" : : "r"(workspace) : "memory");  // somebody might look: the stores stay
}

// True unless the stack is limited to less: then it must do as it is.
bool has_room_on_stack() {
  struct rlimit limit {};
  return ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur / 4 >= kStackBytes;
}

int report(const char* problem, const char* detail, int code) noexcept {
  for (const char* part : {"cfck: error: ", problem, detail, "\n"}) {
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  return code;
}

// Reports the exception being handled; needs no memory.
int report_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return report("not enough memory; try --threads 1", "", ExitCode::kExitLimit);
  } catch (const std::length_error&) {
    return report("not enough memory; try --threads 1", "", ExitCode::kExitLimit);
  } catch (const std::exception& thrown) {
    return report("a bug in cfck, please report it: ", thrown.what(), ExitCode::kExitBug);
  } catch (...) {
    return report("a bug in cfck, please report it", "", ExitCode::kExitBug);
  }
}

// Ends the program where an exception can go no further, as in a destructor.
[[noreturn]] void end_program() noexcept {
  if (std::current_exception() == nullptr) {
    std::abort();
  }
  ::_exit(report_exception());
}

}  // namespace

int main(int argc, char** argv) {
  if (has_room_on_stack()) reserve_stack();
  std::set_terminate(end_program);
  try {
    return cfck::tools::run_command_line(argc, argv);
  } catch (...) {
    return report_exception();
  }
}

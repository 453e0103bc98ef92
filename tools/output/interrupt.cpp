#include "tools/output/interrupt.hpp"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace cfck::tools {
namespace {

// A handler may write it and all threads read it.
std::atomic<int> noted_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int number) { noted_signal = number; }

}  // namespace

void catch_interrupts() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM}) {
    struct sigaction action {};
    // nohup and background jobs of a shell ignore some of them; so do we.
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = note_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    ::sigaction(number, &action, nullptr);
  }
}

int interrupt_signal() { return noted_signal; }

}  // namespace cfck::tools

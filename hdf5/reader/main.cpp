// cfck-hdf5-reader: the program in which libhdf5 sees the files of strangers. It is started by cfck
// before the first of them is opened, with nothing but a socket, and copies itself for each job: a
// process that reads a file has neither the memory of the program that wants it, nor anything of
// another file. It takes no files and no options, and ends with the last process that has the other
// end of the socket.
#include <fcntl.h>
#include <hdf5.h>
#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "hdf5/archive/reader_link.hpp"
#include "hdf5/library/library.hpp"
#include "hdf5/reader/worker.hpp"
#include "model/formats/adapters.hpp"

namespace {

using cfck::hdf5::receive_ends;
using cfck::hdf5::SentEnds;

constexpr int kControl = STDIN_FILENO;

// Descriptors that the other program left open are none of ours.
void close_others() {
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0) return;
#endif
  const long most = ::sysconf(_SC_OPEN_MAX);
  for (int number = STDERR_FILENO + 1; number < most; ++number) (void)::close(number);
}

// Each job takes two descriptors, and the other program's limit was for its own.
void allow_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

class Program {
 public:
  // Serves until nobody wants anything any more.
  int run(int signals) {
    bool is_wanted = true;
    while (is_wanted || !running_.empty()) {
      std::array<pollfd, 2> events = {pollfd{is_wanted ? kControl : -1, POLLIN, 0},
                                      pollfd{signals, POLLIN, 0}};
      if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return 1;
      if (events[1].revents != 0) {
        signalfd_siginfo info{};
        (void)!::read(signals, &info, sizeof(info));
        tell_ends();
      }
      if (events[0].revents == 0) continue;
      SentEnds ends;
      is_wanted = receive_ends(kControl, ends);
      if (ends.stream >= 0) begin(ends, signals);
    }
    return 0;
  }

 private:
  void begin(const SentEnds& ends, int signals) {
    const pid_t process = ::fork();
    if (process == 0) {
      (void)::close(kControl);
      (void)::close(signals);
      (void)::close(ends.status);
      for (const auto& [other, status] : running_) (void)::close(status);
      (void)std::signal(SIGINT, SIG_DFL);
      sigset_t none;
      ::sigemptyset(&none);
      (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::_exit(cfck::hdf5::do_job(ends.stream));
    }
    (void)::close(ends.stream);
    if (process > 0) {
      running_.emplace(process, ends.status);
    } else {
      (void)::close(ends.status);
    }
  }

  // Says how processes ended that have.
  void tell_ends() {
    int status = 0;
    pid_t process = 0;
    while ((process = ::waitpid(-1, &status, WNOHANG)) > 0) {
      const auto found = running_.find(process);
      if (found == running_.end()) continue;
      (void)!::write(found->second, &status, sizeof(status));
      (void)::close(found->second);
      running_.erase(found);
    }
  }

  std::map<pid_t, int> running_;  // where to tell their status
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string_view(argv[1]) != cfck::model::adapter_build()) {
    return cfck::hdf5::kOtherBuild;
  }
  close_others();
  allow_descriptors();
  // Memory is zeroed when it is given out, and overwritten when it is given back, unless somebody
  // looks for mistakes with other bytes.
  if (std::getenv("MALLOC_PERTURB_") == nullptr) (void)::mallopt(M_PERTURB, 0xff);
  { const cfck::hdf5::Library initialised; }
  // The process that started this one waits for it to end, so that the copy is nobody's child.
  const pid_t process = ::fork();
  if (process != 0) ::_exit(process > 0 ? 0 : 1);
  // A terminal interrupts those that work; this one ends with the other program.
  (void)std::signal(SIGINT, SIG_IGN);
  (void)std::signal(SIGPIPE, SIG_IGN);
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  (void)::sigprocmask(SIG_BLOCK, &children, nullptr);
  const int signals = ::signalfd(-1, &children, SFD_CLOEXEC);
  if (signals < 0) return 1;
  return Program().run(signals);
}

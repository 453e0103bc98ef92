#include "hdf5/archive/apart.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"

namespace cfck::hdf5 {
namespace {

constexpr char kDone = 'd';
constexpr char kFailed = 'f';

bool write_all(int pipe, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(pipe, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// An answer is 8 bytes with the length of what follows: kDone and a value, or kFailed and an error.
bool write_answer(int pipe, char kind, std::string_view text) {
  std::byte length[8];
  store<std::uint64_t>(length, text.size() + 1);
  return write_all(pipe, {reinterpret_cast<const char*>(length), sizeof(length)}) &&
         write_all(pipe, {&kind, 1}) && write_all(pipe, text);
}

// A process that works, and the pipe from it. Other processes that were copied meanwhile may hold
// the other end as long as they live: neither the end of an answer nor that of the process shows as
// an end of the pipe.
class Worker {
 public:
  Worker(pid_t process, int pipe) : process_(process), pipe_(pipe) {}
  ~Worker() {
    (void)::close(pipe_);
    (void)wait(0);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Returns nothing where the process ended before it gave a whole answer.
  std::optional<std::string> answer() {
    std::string length;
    if (!append(length, 8)) return std::nullopt;
    const std::uint64_t n_bytes =
        load<std::uint64_t>(reinterpret_cast<const std::byte*>(length.data()));
    std::string bytes;
    if (n_bytes == 0 || !append(bytes, n_bytes)) return std::nullopt;
    return bytes;
  }

  // The signal that ended the process; 0: none, or one that nobody knows.
  int signal_at_end() {
    (void)wait(0);
    return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
  }

 private:
  // Tells whether the process ended.
  bool wait(int flags) {
    while (!ended_) {
      const pid_t found = ::waitpid(process_, &status_, flags);
      if (found == 0) return false;
      // Where the program takes the ends of all its processes itself, this one has none left.
      ended_ = found > 0 || errno != EINTR;
    }
    return true;
  }

  bool wait_for_bytes() {
    constexpr int kLookMilliseconds = 20;
    bool last_look = false;
    while (true) {
      pollfd wanted{pipe_, POLLIN, 0};
      const int n = ::poll(&wanted, 1, last_look ? 0 : kLookMilliseconds);
      if (n > 0) return true;
      if (n < 0 && errno != EINTR) return false;
      if (last_look && n == 0) return false;
      last_look = wait(WNOHANG);
    }
  }

  bool append(std::string& bytes, std::uint64_t n_bytes) {
    char piece[65536];
    while (n_bytes > 0) {
      if (!wait_for_bytes()) return false;
      const ssize_t n = ::read(pipe_, piece, std::min<std::uint64_t>(sizeof(piece), n_bytes));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.append(piece, static_cast<std::size_t>(n));
      n_bytes -= static_cast<std::uint64_t>(n);
    }
    return true;
  }

  const pid_t process_;
  const int pipe_;
  int status_ = 0;
  bool ended_ = false;
};

std::string text_of(const Error& error) {
  const nlohmann::json json = {{"code", static_cast<int>(error.code)},
                               {"message", error.message},
                               {"record", error.record},
                               {"at", error.byte_offset.has_value()},
                               {"byte", error.byte_offset.value_or(0)}};
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Error error_of(std::string_view text) {
  const auto json = nlohmann::json::parse(text);
  Error error{static_cast<ErrorCode>(json["code"].get<int>()), json["message"], json["record"], {}};
  if (json["at"].get<bool>()) error.byte_offset = json["byte"].get<std::uint64_t>();
  return error;
}

// The bytes of memory that this process may write to; 0 where the system does not say.
std::uint64_t data_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  const int n = std::fscanf(file, "%*u %*u %*u %*u %*u %llu", &pages);
  (void)std::fclose(file);
  return n == 1 ? pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

// A crash is an answer here: it needs neither a message on the terminal, nor a file with the
// memory, nor the handlers of the program.
void leave_quietly(const ApartLimits& limits) {
  for (const int signal :
       {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPIPE, SIGTERM, SIGINT, SIGXCPU}) {
    (void)std::signal(signal, SIG_DFL);
  }
  const rlimit none{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  // Damage may also send libhdf5 round in circles.
  const rlimit time{limits.seconds, limits.seconds + 1};  // SIGXCPU, and then SIGKILL
  (void)::setrlimit(RLIMIT_CPU, &time);
  // Or make it ask for any amount of memory.
  if (const std::uint64_t data = data_bytes(); data != 0) {
    const rlimit memory{data + limits.bytes, data + limits.bytes};
    (void)::setrlimit(RLIMIT_DATA, &memory);
  }
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) (void)::dup2(nowhere, STDERR_FILENO);
}

[[noreturn]] void work_and_exit(int pipe, const ApartLimits& limits,
                                const std::function<Result<std::string>()>& work) {
  leave_quietly(limits);
  Result<std::string> result = detail::run_guarded(work);
  if (!result && result.error().code == ErrorCode::kOutOfMemory) {
    result = limit_exceeded("reading the file takes more than the " +
                            std::to_string(limits.bytes >> 20) +
                            " MiB of memory that it may have, or than there are");
  }
  const bool told = result ? write_answer(pipe, kDone, *result)
                           : write_answer(pipe, kFailed, text_of(result.error()));
  ::_exit(told ? 0 : 1);
}

Error no_process(const char* what) {
  return io_error(std::string("HDF5 files are read in a process of their own, and ") + what + ": " +
                  std::strerror(errno));
}

Error no_answer(int signal, const ApartLimits& limits) {
  switch (signal) {
    case SIGINT:  // of the terminal, for the whole program
    case SIGTERM:
      return cancelled();
    case SIGKILL:
      return io_error(
          "the process that reads HDF5 files was killed; was there too little memory for it?");
    case SIGXCPU:
      return limit_exceeded("libhdf5 computed on this file for more than " +
                            std::to_string(limits.seconds) +
                            " seconds; it is damaged, or made for that: download it again");
    default:
      return corrupt("libhdf5 crashed on this file; it is damaged: download it again");
  }
}

}  // namespace

Result<std::string> run_apart(const ApartLimits& limits,
                              const std::function<Result<std::string>()>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return no_process("there is no pipe to it");
  const pid_t child = ::fork();
  if (child < 0) {
    Error error = no_process("the system has no room for one");
    (void)::close(ends[0]);
    (void)::close(ends[1]);
    return error;
  }
  if (child == 0) {
    (void)::close(ends[0]);
    work_and_exit(ends[1], limits, work);
  }
  (void)::close(ends[1]);
  Worker worker(child, ends[0]);
  std::optional<std::string> answer = worker.answer();
  if (!answer) return no_answer(worker.signal_at_end(), limits);
  if (answer->front() == kFailed) return error_of(std::string_view(*answer).substr(1));
  answer->erase(0, 1);
  return std::move(*answer);
}

}  // namespace cfck::hdf5

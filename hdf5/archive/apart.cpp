#include "hdf5/archive/apart.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

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

// Appends what comes until the other end is closed.
bool read_all(int pipe, std::string& bytes) {
  char piece[65536];
  while (true) {
    const ssize_t n = ::read(pipe, piece, sizeof(piece));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    bytes.append(piece, static_cast<std::size_t>(n));
  }
}

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

// A crash is an answer here: it needs neither a message on the terminal, nor a file with the
// memory, nor the handlers of the program.
void leave_quietly(std::uint64_t max_seconds) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPIPE, SIGTERM, SIGINT}) {
    (void)std::signal(signal, SIG_DFL);
  }
  const rlimit none{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  // Damage may also send libhdf5 round in circles.
  const rlimit time{max_seconds, max_seconds};
  (void)::setrlimit(RLIMIT_CPU, &time);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) (void)::dup2(nowhere, STDERR_FILENO);
}

[[noreturn]] void work_and_exit(int pipe, std::uint64_t max_seconds,
                                const std::function<Result<std::string>()>& work) {
  leave_quietly(max_seconds);
  const Result<std::string> result = detail::run_guarded(work);
  const bool told = write_all(pipe, {result ? &kDone : &kFailed, 1}) &&
                    write_all(pipe, result ? *result : text_of(result.error()));
  ::_exit(told ? 0 : 1);
}

Error no_process(const char* what) {
  return io_error(std::string("HDF5 files are read in a process of their own, and ") + what + ": " +
                  std::strerror(errno));
}

}  // namespace

Result<std::string> run_apart(std::uint64_t max_seconds,
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
    work_and_exit(ends[1], max_seconds, work);
  }
  (void)::close(ends[1]);
  std::string answer;
  const bool complete = read_all(ends[0], answer);
  (void)::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!complete) return no_process("its answer cannot be read");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || answer.empty()) {
    return corrupt(
        "libhdf5 crashed on this file, or found no end; it is damaged: download it again");
  }
  if (answer.front() == kFailed) return error_of(std::string_view(answer).substr(1));
  answer.erase(0, 1);
  return answer;
}

}  // namespace cfck::hdf5

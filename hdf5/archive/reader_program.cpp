#include "hdf5/archive/reader_program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/forks/forks.hpp"
#include "base/modules/modules.hpp"
#include "base/text.hpp"
#include "hdf5/archive/reader_link.hpp"
#include "model/formats/adapters.hpp"

namespace cfck::hdf5 {
namespace {

// The variables that the program gets: those of HDF5 and its plug-ins, of the loader, and of tools
// that look for mistakes in memory. The others are none of its business; some are secrets.
constexpr std::array<std::string_view, 12> kVariables = {
    "HDF5_PLUGIN_",     "CFCK_CPU=",     "LD_LIBRARY_PATH=", "BLOSC_",
    "OMP_NUM_THREADS=", "MALLOC_",       "GLIBC_TUNABLES=",  "ASAN_OPTIONS=",
    "UBSAN_OPTIONS=",   "LSAN_OPTIONS=", "TSAN_OPTIONS=",    "LLVM_PROFILE_FILE="};

std::vector<std::string> passed_environment() {
  // Symbols are resolved once, when the program starts, and not again in each copy of it.
  std::vector<std::string> passed = {"LD_BIND_NOW=1"};
  // A program that runs with the privileges of another user ignores the variables of this one.
  if (::getauxval(AT_SECURE) != 0) return passed;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (std::any_of(kVariables.begin(), kVariables.end(),
                    [&](std::string_view name) { return text.starts_with(name); })) {
      passed.emplace_back(text);
    }
  }
  return passed;
}

Error cannot(const std::string& what, int error) {
  return io_error("HDF5 files are read by a program of their own, and " + what + ": " +
                  std::strerror(error));
}

// The arguments of posix_spawn(), which have to be destroyed.
class Spawning {
 public:
  Spawning() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~Spawning() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  Spawning(const Spawning&) = delete;
  Spawning& operator=(const Spawning&) = delete;

  // Returns 0, or the number of an error.
  int spawn(const std::string& path, int control, std::vector<std::string> environment,
            pid_t& process) {
    std::string name = path;
    std::string build = model::adapter_build();
    const std::array<char*, 3> arguments = {name.data(), build.data(), nullptr};
    std::vector<char*> variables;
    for (std::string& variable : environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    const auto flags = static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    for (const int error :
         {::posix_spawn_file_actions_adddup2(&actions_, control, STDIN_FILENO),
          ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0),
          ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0),
          ::posix_spawnattr_setflags(&attributes_, flags),
          ::posix_spawnattr_setsigmask(&attributes_, &none),
          ::posix_spawnattr_setsigdefault(&attributes_, &all)}) {
      if (error != 0) return error;
    }
    return ::posix_spawn(&process, path.c_str(), &actions_, &attributes_, arguments.data(),
                         variables.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// The program that was started copies itself, and ends: then the copy is nobody's child, and no
// program that waits for all its children waits for it.
Result<void> wait_for_start(const std::string& path, pid_t process) {
  int status = 0;
  pid_t found = 0;
  do {
    found = ::waitpid(process, &status, 0);
  } while (found < 0 && errno == EINTR);
  // A process that ignores SIGCHLD cannot know; the first job will show it.
  if (found < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return {};
  const std::string program = "'" + escaped(path) + "'";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kOtherBuild) {
    return unsupported("the program " + program +
                       ", which reads HDF5 files, is of another build of cfck than this one; "
                       "install both from the same build");
  }
  return io_error(
      "HDF5 files are read by the program " + program +
      ", which ended at once; run `ldd` on it to see which library it misses, or install "
      "cfck again");
}

class Program {
 public:
  // Sends the other ends of a job.
  Result<void> send(int stream, int status) {
    if (passed_environment() != environment_) control_ = Descriptor();
    // A program that was started before may have been killed.
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (control_.get() < 0) CFCK_TRY(start());
      if (send_ends(control_.get(), {stream, status})) return {};
      control_ = Descriptor();
    }
    return cannot("it ended", errno);
  }

 private:
  Result<void> start() {
    const auto found = find_program(kReaderProgram);
    if (!found && found.error().code == ErrorCode::kNotFound) {
      return unsupported("HDF5 files are read by a program of their own, and " +
                         found.error().message + ". Installing cfck again brings it back");
    }
    if (!found) return Error(found.error());
    const std::string& path = *found;
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      return cannot("there is no socket to it", errno);
    }
    Descriptor own(ends[0]);
    const Descriptor other(ends[1]);
    environment_ = passed_environment();
    pid_t process = 0;
    Spawning spawning;
    if (const int error = spawning.spawn(path, other.get(), environment_, process); error != 0) {
      return cannot("'" + escaped(path) + "' cannot be started", error);
    }
    CFCK_TRY(wait_for_start(path, process));
    control_ = std::move(own);
    return {};
  }

  Descriptor control_;
  std::vector<std::string> environment_;
};

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) (void)::close(number_);
}

Result<JobEnds> start_job() {
  int stream[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) != 0) {
    return cannot("there is no socket to it", errno);
  }
  JobEnds ends;
  ends.stream = Descriptor(stream[0]);
  const Descriptor other_stream(stream[1]);
  int status[2];
  if (::pipe2(status, O_CLOEXEC) != 0) return cannot("there is no pipe to it", errno);
  ends.status = Descriptor(status[0]);
  const Descriptor other_status(status[1]);
  // A forked child starts a program of its own. Never destroyed: other static objects may read
  // files after main().
  static constinit MadeOnce<PerProcess<Program>*> programs;
  const auto program = programs.get([] { return new PerProcess<Program>; })->lock();
  CFCK_TRY(program->send(other_stream.get(), other_status.get()));
  return ends;
}

}  // namespace cfck::hdf5

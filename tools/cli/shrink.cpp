#include "tools/cli/shrink.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace cfck::tools {
namespace {

// An empty first entry of the path stands for the working directory, from which nothing is
// imported.
constexpr const char* kScript = R"(import sys
sys.path[:] = [entry for entry in sys.path if entry]
try:
    from cfck.__main__ import main
except ImportError as error:
    print(f'cfck shrink: error: {sys.executable} has no Python package cfck that can shrink models '
          f'({error}); install it with torch and transformers, or set CFCK_PYTHON to a Python that '
          'has them', file=sys.stderr)
    sys.exit(6)
sys.exit(main(sys.argv[1:]))
)";

std::string folder_of_program() {
  char self[PATH_MAX];
  const ssize_t n_bytes = ::readlink("/proc/self/exe", self, sizeof self);
  if (n_bytes <= 0 || n_bytes == static_cast<ssize_t>(sizeof self)) return {};
  std::string folder(self, static_cast<std::size_t>(n_bytes));
  folder.resize(folder.rfind('/') + 1);
  return folder;
}

// A program installed by pip lies beside the Python that it was installed for.
std::string python() {
  if (const char* named = std::getenv("CFCK_PYTHON"); named != nullptr && *named != '\0') {
    return named;
  }
  const std::string folder = folder_of_program();
  if (!folder.empty()) {
    for (const char* name : {"python3", "python"}) {
      if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
    }
  }
  return "python3";
}

}  // namespace

int run_shrink(const std::vector<std::string>& arguments, Console& console) {
  const std::string program = python();
  std::vector<std::string> words = {program, "-c", kScript, "shrink"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(program.c_str(), pointers.data());
  return console.fail({ErrorCode::kUnsupported,
                       fmt::format("models are shrunk in Python, and {} cannot be started: {}; "
                                   "install it with cfck, torch and transformers, or set "
                                   "CFCK_PYTHON",
                                   escaped(program), std::strerror(errno)),
                       {},
                       {}});
}

}  // namespace cfck::tools

// cfck-convert and cfck-inspect: start the program `cfck` of the same folder,
// which goes by the name it was called.
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

int main(int, char** argv) {
  char self[PATH_MAX];
  const ssize_t n_bytes = ::readlink("/proc/self/exe", self, sizeof self);
  if (n_bytes > 0 && n_bytes < static_cast<ssize_t>(sizeof self)) {
    std::string program(self, static_cast<std::size_t>(n_bytes));
    program.resize(program.rfind('/') + 1);
    program += "cfck";
    static char name[] = CFCK_LAUNCHER_NAME;
    argv[0] = name;
    ::execv(program.c_str(), argv);
  }
  std::fprintf(stderr,
               "%s: error: cannot start the program 'cfck' in the same folder; reinstall cfck\n",
               CFCK_LAUNCHER_NAME);
  return 3;
}

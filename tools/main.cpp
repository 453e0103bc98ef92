#include <cstdio>
#include <exception>
#include <new>

#include "tools/command_line.hpp"
#include "tools/console.hpp"

int main(int argc, char** argv) {
  try {
    return cfck::tools::run_command_line(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("cfck: error: not enough memory; try --threads 1\n", stderr);
    return cfck::tools::kExitLimit;
  } catch (const std::exception& thrown) {
    std::fprintf(stderr, "cfck: error: a bug in cfck, please report it: %s\n", thrown.what());
    return cfck::tools::kExitBug;
  }
}

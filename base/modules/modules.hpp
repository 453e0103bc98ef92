// Shared objects that cfck opens when somebody asks for what is in them.
#pragma once

#include <string>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

// A shared object, open as long as the process.
struct Module {
  std::string path;
  void* handle = nullptr;  // of dlopen()
};

// Opens the module called `file`. Looks in the folders of CFCK_ADAPTER_PATH (separated by colons,
// absolute; ignored by programs with privileges of another user), then in cfck/, ../lib/cfck/ and
// ../../../cfck/ beside the program or shared object that has this function, and where cfck was to
// be installed. Errors: kNotFound, with the folders; kIo with the reason of the loader.
// Thread-safe.
Result<Module> open_module(const std::string& file);

// Returns the path of the program called `file`, which is looked for beside the program or shared
// object that has this function, and then where modules are. Errors: kNotFound, with the folders;
// kIo for a file that nobody may execute. Thread-safe.
Result<std::string> find_program(const std::string& file);

}  // namespace cfck::detail

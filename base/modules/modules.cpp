#include "base/modules/modules.hpp"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text.hpp"

namespace cfck::detail {
namespace {

#ifndef CFCK_ADAPTER_FOLDER
#define CFCK_ADAPTER_FOLDER ""
#endif

// Returns the folder of the program or shared object that contains this function.
std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0) return {};
  std::string path = info.dli_fname == nullptr ? "" : info.dli_fname;
  // Programs are known by what they were started as, which may be a link, or no path at all.
  std::vector<char> real(4096);
  if (path.find('/') == std::string::npos || ::access(path.c_str(), R_OK) != 0 ||
      path.front() != '/') {
    const ssize_t n_bytes = ::readlink("/proc/self/exe", real.data(), real.size());
    if (n_bytes <= 0 || static_cast<std::size_t>(n_bytes) == real.size()) return {};
    path.assign(real.data(), static_cast<std::size_t>(n_bytes));
  }
  const std::unique_ptr<char, void (*)(void*)> resolved(::realpath(path.c_str(), nullptr), ::free);
  if (resolved == nullptr) return {};
  path = resolved.get();
  return path.substr(0, path.rfind('/'));
}

struct Folders {
  std::vector<std::string> folders;
  std::string relative;  // those of CFCK_ADAPTER_PATH that are ignored

  // Returns the rest of a sentence about what is in none of them.
  std::string where_not() const {
    std::string tried;
    for (const std::string& folder : folders) {
      tried += (tried.empty() ? "" : ", ") + escaped(folder);
    }
    std::string text = " was not found in " + (tried.empty() ? std::string("any folder") : tried) +
                       "; the environment variable CFCK_ADAPTER_PATH can name its folder";
    if (!relative.empty()) {
      text.append(", by an absolute path: relative folders are ignored, as there (")
          .append(relative)
          .append(")");
    }
    return text;
  }
};

Folders adapter_folders() {
  Folders found;
  std::vector<std::string>& folders = found.folders;
  const char* const given = ::secure_getenv("CFCK_ADAPTER_PATH");
  for (std::string_view rest = given == nullptr ? "" : given; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    // A relative folder would depend on where the program happens to be started.
    const std::string folder(rest.substr(0, end));
    if (folder.starts_with('/')) {
      folders.push_back(folder);
    } else if (!folder.empty()) {
      found.relative.append(found.relative.empty() ? "'" : ", '").append(escaped(folder)) += "'";
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (const std::string own = own_folder(); !own.empty()) {
    folders.push_back(own + "/cfck");
    folders.push_back(own + "/../lib/cfck");
    // An extension module is in lib/pythonX.Y/site-packages/cfck.
    folders.push_back(own + "/../../../cfck");
  }
  constexpr std::string_view kInstalled = CFCK_ADAPTER_FOLDER;
  if (!kInstalled.empty()) folders.emplace_back(kInstalled);
  return found;
}

Result<Module> open_file(const std::string& path) {
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    const char* const reason = ::dlerror();
    return io_error("cannot load '" + escaped(path) +
                    "': " + escaped(reason == nullptr ? "no reason given" : reason));
  }
  return Module{path, module};
}

}  // namespace

Result<Module> open_module(const std::string& file) {
  const Folders folders = adapter_folders();
  for (const std::string& folder : folders.folders) {
    const std::string path = folder + "/" + file;
    if (::access(path.c_str(), F_OK) == 0) return open_file(path);
  }
  return not_found("the module " + file + folders.where_not());
}

Result<std::string> find_program(const std::string& file) {
  Folders folders = adapter_folders();
  if (std::string own = own_folder(); !own.empty()) {
    folders.folders.insert(folders.folders.begin(), std::move(own));
  }
  for (const std::string& folder : folders.folders) {
    std::string path = folder + "/" + file;
    if (::access(path.c_str(), F_OK) != 0) continue;
    if (::access(path.c_str(), X_OK) == 0) return path;
    return io_error("the program '" + escaped(path) +
                    "' may not be executed; `chmod +x` allows it, unless its file system does not");
  }
  return not_found("the program " + file + folders.where_not());
}

}  // namespace cfck::detail

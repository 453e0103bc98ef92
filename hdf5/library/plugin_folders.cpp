#include "hdf5/library/plugin_folders.hpp"

#include <dlfcn.h>
#include <hdf5.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace cfck::hdf5 {
namespace {

namespace fs = std::filesystem;

// Returns the folder of the module that contains this function; empty if it is not known.
std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0) return {};
  if (info.dli_fname == nullptr || info.dli_fname[0] != '/') return {};
  std::error_code error;
  const fs::path path = fs::canonical(info.dli_fname, error);
  return error ? std::string() : path.parent_path().string();
}

// Adds a folder behind those of libhdf5, but before the first that does not exist: libhdf5 1.10
// looks no further than that.
void add_behind(const std::string& folder) {
  unsigned n_folders = 0;
  if (H5PLsize(&n_folders) < 0) return;
  for (unsigned i = 0; i < n_folders; ++i) {
    const ssize_t n_bytes = H5PLget(i, nullptr, 0);
    std::string known(n_bytes > 0 ? static_cast<std::size_t>(n_bytes) : 0, '\0');
    if (n_bytes <= 0 || H5PLget(i, known.data(), known.size() + 1) < 0) continue;
    if (known == folder) return;
    std::error_code error;
    if (fs::is_directory(known, error)) continue;
    (void)H5PLinsert(folder.c_str(), i);
    return;
  }
  (void)H5PLappend(folder.c_str());
}

}  // namespace

std::vector<std::string> plugin_folders(const std::string& own) {
  std::vector<std::string> folders;
  const auto add = [&](const fs::path& folder) {
    std::error_code error;
    if (fs::is_directory(folder, error)) folders.push_back(folder.string());
  };
  const fs::path library = fs::path(own).parent_path();
  add(library / "hdf5" / "plugin");
  std::error_code error;
  std::vector<fs::path> pythons;
  // No exception where a folder goes while it is read.
  for (fs::directory_iterator entry(library, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with("python3")) pythons.push_back(entry->path());
  }
  std::sort(pythons.begin(), pythons.end());
  for (const fs::path& python : pythons) add(python / "site-packages" / "cfck" / "hdf5_plugin");
  return folders;
}

void add_plugin_folders() noexcept {
  static bool is_done = false;  // behind the mutex of Library
  if (is_done) return;
  is_done = true;
  try {
    const std::string own = own_folder();
    if (own.empty()) return;
    for (const std::string& folder : plugin_folders(own)) add_behind(folder);
  } catch (...) {  // no memory: files without the filter are read all the same
  }
}

}  // namespace cfck::hdf5

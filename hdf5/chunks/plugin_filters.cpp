// Filters of plug-ins, by the interface that HDF5 publishes for them (H5PLextern.h). libhdf5 has no
// function that undoes one filter alone.
#include <H5PLextern.h>
#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "base/text.hpp"
#include "hdf5/chunks/filters.hpp"

namespace cfck::hdf5 {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> plugin_files() {
  std::vector<std::string> files;
  unsigned loading = 0;
  if (H5PLget_loading_state(&loading) < 0 || (loading & H5PL_FILTER_PLUGIN) == 0) return files;
  unsigned n_folders = 0;
  if (H5PLsize(&n_folders) < 0) return files;
  for (unsigned i = 0; i < n_folders; ++i) {
    const ssize_t n_bytes = H5PLget(i, nullptr, 0);
    std::string folder(n_bytes > 0 ? static_cast<std::size_t>(n_bytes) : 0, '\0');
    if (n_bytes <= 0 || H5PLget(i, folder.data(), folder.size() + 1) < 0) continue;
    const std::size_t first = files.size();
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with("lib") && name.find(".so") != std::string::npos) {
        files.push_back(entry->path().string());
      }
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  return files;
}

// Returns the filter that a file has, if it is a plug-in with one; it stays loaded.
const H5Z_class2_t* filter_in(const std::string& path, H5Z_filter_t id) {
  void* const module = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (module == nullptr) return nullptr;
  const auto type = reinterpret_cast<H5PL_type_t (*)()>(::dlsym(module, "H5PLget_plugin_type"));
  const auto info = reinterpret_cast<const void* (*)()>(::dlsym(module, "H5PLget_plugin_info"));
  if (type != nullptr && info != nullptr && type() == H5PL_TYPE_FILTER) {
    const auto* const found = static_cast<const H5Z_class2_t*>(info());
    if (found != nullptr && found->id == id && found->filter != nullptr) return found;
  }
  (void)::dlclose(module);
  return nullptr;
}

const H5Z_class2_t* find_filter(H5Z_filter_t id) {
  static std::map<H5Z_filter_t, const H5Z_class2_t*> known;  // behind the mutex of Library
  const auto [found, is_new] = known.try_emplace(id, nullptr);
  if (!is_new) return found->second;
  for (const std::string& path : plugin_files()) {
    found->second = filter_in(path, id);
    if (found->second != nullptr) break;
  }
  return found->second;
}

Error no_plugin(const Filter& filter) {
  if (filter.name.starts_with("cfck:")) {
    return unsupported(
        "the dataset is compressed by the HDF5 filter of cfck, whose plug-in libcfck_hdf5.so "
        "was not found; name its folder in HDF5_PLUGIN_PATH: `python -m cfck.hdf5` prints it, "
        "and where cfck is installed it is lib/hdf5/plugin");
  }
  return unsupported("the dataset is compressed by the filter " + std::to_string(filter.id) +
                     (filter.name.empty() ? "" : " ('" + escaped(filter.name) + "')") +
                     ", for which there is no plug-in here; name the folder of the plug-in in "
                     "HDF5_PLUGIN_PATH (for many filters, `pip install hdf5plugin` has it, and "
                     "hdf5plugin.PLUGIN_PATH is the folder)");
}

}  // namespace

Result<Buffer> undo_plugin(const Filter& filter, Buffer in, std::uint64_t) {
  const H5Z_class2_t* const found = find_filter(filter.id);
  if (found == nullptr) return no_plugin(filter);
  const std::size_t in_bytes = in.size();
  std::size_t buffer_bytes = in_bytes;
  void* data = in.release();
  const std::size_t n_bytes = found->filter(H5Z_FLAG_REVERSE | filter.flags, filter.values.size(),
                                            filter.values.data(), in_bytes, &buffer_bytes, &data);
  Buffer out = Buffer::of(data, n_bytes);
  if (n_bytes == 0 || data == nullptr) {
    return corrupt("a chunk of the dataset is damaged: the plug-in of the filter " +
                   std::to_string(filter.id) + " ('" + escaped(filter.name) +
                   "') cannot read it; download the file again");
  }
  if (n_bytes > kMaxFilterBytes) return chunk_too_large();
  // A plug-in that takes sizes for granted claims more than it has.
  if (n_bytes > ::malloc_usable_size(data)) return damaged_chunk("of a plug-in");
  return out;
}

}  // namespace cfck::hdf5

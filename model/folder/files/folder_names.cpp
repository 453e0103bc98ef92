#include "model/folder/files/folder_names.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string_view>

namespace cfck::model {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

bool is_itself_or_parent(std::string_view name) noexcept { return name == "." || name == ".."; }

// Removes the contents of a folder that is open for reading; takes the descriptor, which may be -1.
void remove_contents(int descriptor) noexcept {
  const OpenFolder folder(descriptor < 0 ? nullptr : ::fdopendir(descriptor));
  if (!folder) {
    if (descriptor >= 0) ::close(descriptor);
    return;
  }
  while (const dirent* const entry = ::readdir(folder.get())) {
    if (is_itself_or_parent(entry->d_name)) continue;
    if (::unlinkat(descriptor, entry->d_name, 0) == 0) continue;
    remove_contents(
        ::openat(descriptor, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    (void)::unlinkat(descriptor, entry->d_name, AT_REMOVEDIR);
  }
}

}  // namespace

bool is_attribute_file(std::string_view name) { return name.starts_with("._"); }

void remove_folder(const std::string& path) noexcept {
  // Listing may fail for lack of memory, and succeed the next time.
  for (int attempt = 0; attempt < 2; ++attempt) {
    remove_contents(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (::rmdir(path.c_str()) == 0) return;
  }
}

}  // namespace cfck::model

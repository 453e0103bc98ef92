#include "base/files/folder_listing.hpp"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <system_error>

#include "base/text.hpp"

namespace cfck::detail {
namespace {

struct CloseListing {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

Error cannot_list(const std::string& folder, int number) {
  return {number == ENOMEM ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
          "cannot read the folder '" + escaped(folder) +
              "': " + std::generic_category().message(number),
          {},
          {}};
}

}  // namespace

Result<std::vector<std::string>> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, CloseListing> listing(::opendir(folder.c_str()));
  if (!listing) return cannot_list(folder, errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return cannot_list(folder, errno);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cfck::detail

#include "base/files/temporary_names.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>

#include "base/files/locks.hpp"

namespace cfck::detail {
namespace {

constexpr std::string_view kMark = ".cfck-tmp-";
constexpr std::size_t kMaxNameBytes = 255;
constexpr std::time_t kDaySeconds = 24 * 60 * 60;

bool all_digits(std::string_view text) noexcept {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string temporary_path(const std::string& target) {
  static std::atomic<std::uint64_t> counter{0};
  const std::size_t slash = target.rfind('/');
  const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
  const std::string suffix =
      std::string(kMark) + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1));
  std::string name = "." + target.substr(start);
  name.resize(std::min(name.size(), kMaxNameBytes - suffix.size()));
  return target.substr(0, start) + name + suffix;
}

bool is_temporary_name(std::string_view name) noexcept {
  const std::size_t mark = name.rfind(kMark);
  if (!name.starts_with('.') || mark == std::string_view::npos || mark == 0) {
    return false;
  }
  const std::string_view numbers = name.substr(mark + kMark.size());
  const std::size_t dash = numbers.find('-');
  return dash != std::string_view::npos && all_digits(numbers.substr(0, dash)) &&
         all_digits(numbers.substr(dash + 1));
}

bool is_leftover(int descriptor) noexcept {
  struct stat info {};
  return ::fstat(descriptor, &info) == 0 && info.st_uid == ::geteuid() &&
         (has_local_locks(descriptor) || std::time(nullptr) - info.st_mtime > kDaySeconds);
}

}  // namespace cfck::detail

#include "base/files/stamp.hpp"

#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <thread>

namespace cfck::detail {
namespace {

// The longest time for which the clock of a file system stands still.
constexpr std::chrono::milliseconds kLongestTick{20};
constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * kNanosecondsPerSecond + time.tv_nsec;
}

// Returns the time that a file gets when it is written to now.
std::int64_t file_clock_ns() {
  timespec now{};
#ifdef CLOCK_REALTIME_COARSE
  (void)::clock_gettime(CLOCK_REALTIME_COARSE, &now);
#else
  (void)::clock_gettime(CLOCK_REALTIME, &now);
#endif
  return nanoseconds(now);
}

FileStamp stamp(const struct stat& found) {
  return {found.st_dev,
          found.st_ino,
          static_cast<std::uint64_t>(found.st_size),
          nanoseconds(found.st_mtim),
          nanoseconds(found.st_ctim),
          found.st_nlink};
}

}  // namespace

std::optional<FileStamp> stamp_of(const std::string& path) noexcept {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? std::optional(stamp(found)) : std::nullopt;
}

std::optional<FileStamp> stamp_of(int descriptor) noexcept {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 ? std::optional(stamp(found)) : std::nullopt;
}

bool was_written_to(int descriptor, const std::string& path, const FileStamp& before) noexcept {
  const std::optional<FileStamp> now = stamp_of(descriptor);
  if (!now) return true;
  if (!now->has_same_contents(before)) return true;
  if (now->status_ns == before.status_ns || now->n_links != before.n_links) return false;
  const std::optional<FileStamp> at_path = stamp_of(path);
  return at_path && at_path->is_same_file(before);
}

bool was_written_to(const std::string& path, const std::optional<FileStamp>& before) noexcept {
  const std::optional<FileStamp> now = stamp_of(path);
  if (!now || !before) return now.has_value() != before.has_value();
  if (!now->is_same_file(*before) || !now->has_same_contents(*before)) return true;
  return now->status_ns != before->status_ns && now->n_links == before->n_links;
}

void wait_for_clock(const FileStamp& stamp) noexcept {
  const auto end = std::chrono::steady_clock::now() + kLongestTick;
  while (stamp.status_ns == file_clock_ns() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace cfck::detail

// Notices that a file was written to after it was opened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/names/detail.hpp"

namespace cfck::detail {

// The identity of a file and the times of its last changes, in nanoseconds since 1970.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  std::uint64_t n_bytes = 0;
  std::int64_t contents_ns = 0;  // programs that copy set it back
  std::int64_t status_ns = 0;    // nobody can set it

  bool operator==(const FileStamp&) const = default;
};

// Returns nullopt where there is no file, or none that may be looked at.
std::optional<FileStamp> stamp_of(const std::string& path) noexcept;

// True if the file of this path is still the one of the stamp, and was written to. One that has
// taken its place is another file: who has opened the first one still reads that.
bool was_written_to(const std::string& path, const FileStamp& before) noexcept;

// Waits until a change of the file would change its stamp: some milliseconds where it was written
// to just now, since the clocks of file systems stand still for that long.
void wait_for_clock(const FileStamp& stamp) noexcept;

}  // namespace cfck::detail

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
  std::uint64_t n_links = 0;     // names of the file

  bool operator==(const FileStamp&) const = default;
  bool is_same_file(const FileStamp& other) const {
    return device == other.device && number == other.number;
  }
  // True if neither the size nor the time of the contents says that they have changed.
  bool has_same_contents(const FileStamp& other) const {
    return n_bytes == other.n_bytes && contents_ns == other.contents_ns;
  }
};

// Return nullopt where there is no file, or none that may be looked at.
std::optional<FileStamp> stamp_of(const std::string& path) noexcept;
std::optional<FileStamp> stamp_of(int descriptor) noexcept;

// True if an open file may have been written to since the stamp was taken. That another file has
// taken its place at `path`, that it was moved, or that it has other names than before, says
// nothing of its contents, though it changes a time. What else changes that time counts as writing:
// a time of the contents can be set back.
bool was_written_to(int descriptor, const std::string& path, const FileStamp& before) noexcept;

// Likewise for a file that is not held open: another file at `path`, or none, counts as well.
bool was_written_to(const std::string& path, const std::optional<FileStamp>& before) noexcept;

// Waits until a change of the file would change its stamp: some milliseconds where it was written
// to just now, since the clocks of file systems stand still for that long.
void wait_for_clock(const FileStamp& stamp) noexcept;

}  // namespace cfck::detail

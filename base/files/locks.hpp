// Locks by which processes tell each other what they do with a file, and functions that rely on
// them. They belong to an open file, not to a process: threads and several files opened in one
// process exclude each other too. Where a file system has no locks, nothing is locked and no file
// seems to be locked.
#pragma once

#include <cstdint>
#include <optional>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Announces that bytes from `offset_bytes` on may be appended. Needs a file opened for
// writing.
void lock_append(int descriptor, std::uint64_t offset_bytes) noexcept;

// Returns where the bytes begin that another open file is appending; takes no lock itself.
std::optional<std::uint64_t> start_of_append(int descriptor) noexcept;

// Marks a temporary file as in use. False if another open file has done so.
bool lock_held(int descriptor) noexcept;

// Gives up these locks and that of flock().
void release_locks(int descriptor) noexcept;

// True if locks on an open file are seen by everybody who can open it, as on file systems of one
// machine.
bool has_local_locks(int descriptor) noexcept;

// See FileSystem::remove_leftovers.
void remove_leftover_files(const char* folder) noexcept;

}  // namespace cfck::detail

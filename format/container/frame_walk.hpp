// Walks the Zstd frames of a file forward, by their lengths, without trusting
// anything else in it (spec/format.md, section 10).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cfck/io.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

struct Frame {
  std::uint64_t offset_bytes = 0;
  std::uint64_t n_bytes = 0;
  bool skippable = false;
  Tag tag = {};  // of skippable frames with our magic number and a tag; else zeros
};

// Calls `visit` for each frame in order until it returns false. Succeeds at the end of
// the source or where `visit` stopped it; kTruncated where the last frame is cut off,
// kCorrupt where no frame starts; offsets say where. Reads headers only, in small
// pieces.
Result<void> walk_frames(const ByteSource& source,
                         const std::function<Result<bool>(const Frame& frame)>& visit);

// A generation whose tail was met during the walk: its hash is right and its file length is where
// it ends.
struct Generation {
  Tail tail;
  std::uint64_t end_bytes = 0;
};

// The newest generation whose index and metadata hash correctly, or nullopt. Damage after it is not
// an error. Errors: kIo.
Result<std::optional<Generation>> find_last_generation(const ByteSource& source);

}  // namespace cfck::format

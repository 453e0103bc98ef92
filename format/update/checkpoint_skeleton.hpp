// Checkpoints that Python's save_checkpoint wrote, in files that are changed by
// programs that do not build their objects. See spec/checkpoint.md.
#pragma once

#include <string_view>

#include "cfck/reader.hpp"
#include "cfck/status.hpp"
#include "cfck/update.hpp"

namespace cfck::format {

// The attachment that nests the tensors of a checkpoint and names every one.
inline constexpr std::string_view kSkeletonAttachment = "cfck.checkpoint";

bool has_skeleton(const Reader& reader);

// Finds out whether the checkpoint of `reader` could still be loaded after `changes`; a file
// without a skeleton always can. Errors: kInvalidArgument with the tensor that prevents it;
// kChecksum, kCorrupt, kIo for the skeleton.
Result<void> check_skeleton_keeps(const Reader& reader, const Update& changes);

}  // namespace cfck::format

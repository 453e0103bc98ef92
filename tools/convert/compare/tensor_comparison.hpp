// Compares the tensors of two archives, value by value: for formats whose files do not get their
// bytes back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "cfck/archive.hpp"
#include "cfck/writer.hpp"
#include "tools/measure/target_check.hpp"

namespace cfck::tools {

// Compares every tensor of `input` with that of the same name in `output`, which was made of it:
// bit for bit, or, where the record of a .cfck file is lossy, by its maximum error and target.
// Returns the totals of the plain target, to which those `kept_lossless` belong that are in it;
// nullopt where tensors without a name of their own, which are compared by their views, are in it.
// `progress` gets the bytes of tensors that are done, and returns false to cancel. Errors:
// kChecksum where they differ; kCancelled; those of reading.
Result<std::optional<TargetTotals>> compare_tensors(
    const TensorArchive& input, const TensorArchive& output,
    std::span<const KeptLossless> kept_lossless,
    const std::function<bool(std::uint64_t done_bytes)>& progress);

}  // namespace cfck::tools

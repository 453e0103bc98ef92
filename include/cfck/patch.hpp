// Patches: files that are stored against a base, applied to that base where it lies in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cfck/dtype.hpp"
#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/reader.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

// A contiguous tensor of the caller, which a patch changes. Nothing is owned.
struct PatchedTensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  MutableBytes data;  // exactly n_bytes(dtype, shape) bytes, none of them of the patch
  // It stands for a tensor that the caller has elsewhere, and is written before all others; after
  // an error it may have any values.
  bool is_copy = false;
};

struct ApplyReport {
  // Names of the tensors that have other values than before, and of those that share elements with
  // one of them, in the order of the patch.
  std::vector<std::string> changed;
};

// Called once, when everything is proven and copies have their new values; others have them in
// part. Told what will have changed. Returns whether to go on: otherwise all but copies are put
// back.
using BeforeWriting = std::function<bool(const ApplyReport& report)>;

// Gives `tensors` the values of the .cfck file in `patch`: all of them or none. Everything is
// decoded and proven by its digest, chunk by chunk. Chunks that are stored against a base are
// changed where they lie, and what they had is noted, in up to 40 MiB; where something turns out to
// be wrong, they are put back. Beyond that, and for other chunks, values are written when all are
// proven, for which chunks are decoded again. This takes memory for the patch, the notes and a few
// chunks, not for another copy of the tensors. A file that is stored against nothing will do too.
// Nobody else may read or write the tensors meanwhile. `progress` counts the bytes that were
// proven, and may cancel until all are; so may `before_writing`, on the thread that calls, when the
// copies among the tensors have their new values.
//
// Errors, after which all tensors but copies are as they were: kMissingBase, with the name of the
// tensor, where names, dtypes, shapes or values are not those that the patch was made for;
// kInvalidArgument for memory of the wrong size and for tensors that share memory, but not in the
// patch; those of opening and reading a file. kOutOfMemory says if it came so late that only some
// tensors have new values.
CFCK_API Result<ApplyReport> apply_patch(const ByteSource& patch,
                                         std::span<const PatchedTensor> tensors,
                                         DecodeOptions options = {},
                                         const ReadProgress& progress = {},
                                         const BeforeWriting& before_writing = {});

}  // namespace cfck

// Reads pickles of PyTorch files without executing anything.
#pragma once

#include "cfck/status.hpp"
#include "interop/pytorch/pickle/values.hpp"

namespace cfck::interop {

inline constexpr std::uint64_t kMaxPickleBytes = std::uint64_t{64} << 20;

// Reads a pickle of protocol 0 to 5. The functions that torch.save needs for tensors, and the types
// of plain values, are understood, not called. Others are kept by their names, and what they would
// return as an object without a value. Tensors lie inside their storages as these are declared.
// Errors: kUnsupported for opcodes that no file of PyTorch has; kLimitExceeded; kCorrupt,
// kTruncated.
Result<Pickle> read_pickle(ByteView bytes);

// Reads a pickle that may be followed by other bytes, which begin at Pickle::n_bytes.
Result<Pickle> read_pickle_at_start(ByteView bytes);

}  // namespace cfck::interop

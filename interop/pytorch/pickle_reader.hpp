// Reads pickles of PyTorch files without executing anything.
#pragma once

#include "cfck/status.hpp"
#include "interop/pytorch/pickle_values.hpp"

namespace cfck::interop {

inline constexpr std::uint64_t kMaxPickleBytes = std::uint64_t{64} << 20;

// Reads a pickle of protocol 2 to 5. Only the functions that torch.save needs for tensors, and the
// types of plain values, may be named in it; they are understood, not called. Tensors lie inside
// their storages as these are declared. Errors: kUnsupported for any other global, with its name
// and byte, and for opcodes of other protocols; kLimitExceeded; kCorrupt, kTruncated.
Result<Pickle> read_pickle(ByteView bytes);

}  // namespace cfck::interop

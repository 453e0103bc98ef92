// What fuzz_index.cpp asks of patches.
#pragma once

#include "cfck/reader.hpp"

namespace cfck::test {

// Applies a file to tensors of its names, dtypes and shapes: those of fixed_base() where it has
// them, zeros elsewhere; once with memory of their own for all, and once with views of a part of
// another tensor in its memory. Aborts where an error changes a tensor, where values are not
// those of their digest, and where they are others than a reader gives. `reader` has the file open
// against fixed_base(). Returns whether the file could be applied, which one with tensors of more
// than `most_bytes` together is not.
bool apply_as_patch(const ByteSource& file, const Reader& reader, const DecodeOptions& options,
                    std::uint64_t most_bytes);

}  // namespace cfck::test

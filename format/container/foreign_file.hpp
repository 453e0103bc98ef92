// Explains a file that is not a whole .cfck file.
#pragma once

#include "cfck/io.hpp"

namespace cfck::format {

// Returns "seems to be a safetensors file", ..., by its first bytes; empty if unknown.
std::string guess_format(ByteView start, std::uint64_t file_bytes);

// The error for a file without a valid tail at its end; `tail_error` is what is wrong there. Reads
// the file from the start.
Error explain_missing_tail(const ByteSource& source, Error tail_error);

}  // namespace cfck::format

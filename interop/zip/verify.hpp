// Checks zip files against the checksums that they have.
#pragma once

#include <span>

#include "cfck/reader.hpp"
#include "interop/zip/directory.hpp"

namespace cfck::interop {

// Reads every member, and compares its CRC-32. Damage is in the report. Errors: those of the file;
// kCancelled; kUnsupported where all checksums are 0, as torch.save writes them on request.
Result<VerifyReport> verify_zip(const ByteSource& file, std::span<const ZipMember> members,
                                const ReadProgress& progress);

}  // namespace cfck::interop

// The members of a zip file, as its central directory lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/status.hpp"

namespace cfck::interop {

struct ZipMember {
  std::string name;
  bool stored = true;              // false: compressed
  std::uint64_t n_bytes = 0;       // of the content
  std::uint64_t offset_bytes = 0;  // of the first stored byte, in the file
  std::uint64_t stored_bytes = 0;
  std::uint32_t crc = 0;  // CRC-32 of the content
};

// True for names that are UTF-8 and stay in the folder in which a file is unpacked.
bool is_safe_member_name(std::string_view name);

enum class MemberNames {
  kUnpacked,  // may become names of files: those of is_safe_member_name, each once
  kAny,       // no more than names: any in UTF-8, also of several members
};

// Reads and checks the directory (APPNOTE.TXT of PKWARE, sections 4.3 and 4.4), zip64 included.
// Members lie inside the file, apart from each other, in the order of their places. Errors:
// kTruncated where the end of the directory is missing; kCorrupt; kUnsupported for encrypted
// members, files of several disks, and methods other than stored and deflated; kLimitExceeded above
// 2^20 members.
Result<std::vector<ZipMember>> read_zip_directory(const ByteSource& source,
                                                  MemberNames names = MemberNames::kUnpacked);

// True for a zip file that has arrays of numpy, and neither what torch.save writes nor a model of
// Keras, whatever member comes first.
bool is_zip_of_numpy(const ByteSource& source);

}  // namespace cfck::interop

// What a file is, by its first bytes; suffixes are only used for names.
#pragma once

#include <string>
#include <string_view>

#include "cfck/io.hpp"
#include "cfck/status.hpp"

namespace cfck::tools {

enum class FileKind { kCfck, kSafetensors };

// Errors: kUnsupported for files of other programs, with what to do about them;
// kTruncated, kCorrupt for what is nothing known; what the source reports.
Result<FileKind> file_kind(const ByteSource& source);

std::string_view suffix_of(FileKind kind);  // ".cfck", ".safetensors"

// `path` with the suffix of `from`, if it has it, replaced by that of `to`.
std::string with_suffix(const std::string& path, FileKind from, FileKind to);

}  // namespace cfck::tools

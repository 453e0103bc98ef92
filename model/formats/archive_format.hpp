// The formats of files with tensors, in one place: how each is recognised, opened and called.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/io.hpp"
#include "cfck/status.hpp"

namespace cfck::model {

struct ArchiveFormat {
  std::string_view name;    // in messages and JSON: "cfck"
  std::string_view suffix;  // of names of files: ".cfck"
  // True if tensors are encoded according to options.
  bool encodes = false;
  // Recognises the first bytes of a file, at most kHeadBytes.
  bool (*recognises)(std::string_view head) = nullptr;
  Result<std::unique_ptr<TensorArchive>> (*open)(std::unique_ptr<ByteSource> source,
                                                 const ArchiveOptions& options) = nullptr;
  // Null for a format that is only read.
  Result<std::unique_ptr<ArchiveWriter>> (*create)(ByteSink& sink,
                                                   const EncodeOptions& options) = nullptr;
  // Recognises first bytes that no valid file has, but damaged files of this format may. Null where
  // `recognises` says all.
  bool (*resembles)(std::string_view head) = nullptr;
  // Further suffixes that names of its files may have.
  std::span<const std::string_view> other_suffixes = {};
  // False where files that are converted and back have the same tensors, but other bytes.
  bool restores_bytes = true;
  // How the names of attachments begin that its files can hold. A format that encodes holds all.
  std::span<const std::string_view> kept_attachments = {};
  bool keeps_metadata = true;
};

// Number of bytes of a file that are read to recognise its format.
inline constexpr std::size_t kHeadBytes = 512;

// The formats that folders of models have, in the order of formats.inc.
std::span<const ArchiveFormat* const> archive_formats();
// Further formats of models in folders: the names of their files decide.
std::span<const ArchiveFormat* const> model_formats();
// All formats: also those whose files are opened one at a time.
std::span<const ArchiveFormat* const> file_formats();

#define CFCK_ARCHIVE_FORMAT(name) const ArchiveFormat& name##_format();
#define CFCK_FILE_FORMAT(name) const ArchiveFormat& name##_format();
#define CFCK_MODEL_FORMAT(name) const ArchiveFormat& name##_format();
#include "model/formats/formats.inc"
#undef CFCK_MODEL_FORMAT
#undef CFCK_FILE_FORMAT
#undef CFCK_ARCHIVE_FORMAT

// Returns how the name of a file ends if it ends as those of `format` do; else nothing.
std::string_view suffix_of(std::string_view name, const ArchiveFormat& format);
bool has_suffix_of(std::string_view name, const ArchiveFormat& format);

// Reads at most kHeadBytes, without a block of the user before them. Errors: those of the source.
Result<std::string> head_of(const ByteSource& source);
// Returns the format of a file that begins with `head`, or nullptr.
const ArchiveFormat* recognised(std::string_view head);
// Also returns the format that a damaged file may have, which no valid file begins with.
const ArchiveFormat* recognised_or_resembled(std::string_view head);

// Returns the format of a file by its first bytes, else by the suffix of its name. Errors:
// kUnsupported for files of other programs, with what to do about them; kTruncated, kCorrupt for
// unknown files; those of the source.
Result<const ArchiveFormat*> format_of(const ByteSource& source);

// Returns the format of this name, or nullptr.
const ArchiveFormat* find_format(std::string_view name);

// Returns the format that a file is converted to: one that encodes for one that does not, and vice
// versa.
const ArchiveFormat& counterpart(const ArchiveFormat& format);
// Returns the format that a file is converted to where the output has this name: that of its
// suffix, if it can be written and is not the same one with files that keep their bytes; else the
// counterpart.
const ArchiveFormat& target_format(const ArchiveFormat& format, std::string_view output);

// Opens one file. Errors have no path except those of open_file().
Result<std::unique_ptr<TensorArchive>> open_archive_file(const std::string& path,
                                                         const ArchiveOptions& options);

// Returns `path` with the suffix of `from`, if it has it, replaced by that of `to`.
std::string with_suffix(const std::string& path, const ArchiveFormat& from,
                        const ArchiveFormat& to);

// Returns "no .cfck and no .safetensors files"; backwards, the formats in reverse order.
std::string no_such_files(bool backwards = false);

}  // namespace cfck::model

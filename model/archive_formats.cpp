#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "model/archive_format.hpp"
#include "model/foreign_formats.hpp"

namespace cfck::model {

std::span<const ArchiveFormat* const> archive_formats() {
  static const std::array kFormats = {
#define CFCK_ARCHIVE_FORMAT(name) &name##_format(),
#define CFCK_FILE_FORMAT(name)
#include "model/formats.inc"
#undef CFCK_FILE_FORMAT
#undef CFCK_ARCHIVE_FORMAT
  };
  return kFormats;
}

std::span<const ArchiveFormat* const> file_formats() {
  static const std::array kFormats = {
#define CFCK_ARCHIVE_FORMAT(name) &name##_format(),
#define CFCK_FILE_FORMAT(name) &name##_format(),
#include "model/formats.inc"
#undef CFCK_FILE_FORMAT
#undef CFCK_ARCHIVE_FORMAT
  };
  return kFormats;
}

bool has_suffix_of(std::string_view name, const ArchiveFormat& format) {
  if (name.ends_with(format.suffix)) return true;
  return std::any_of(format.other_suffixes.begin(), format.other_suffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

namespace {

Result<std::string> bytes_at(const ByteSource& source, std::uint64_t offset_bytes) {
  std::string bytes(std::min<std::uint64_t>(kHeadBytes, source.size() - offset_bytes), '\0');
  CFCK_TRY(source.read_at(offset_bytes, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace

// An HDF5 file may begin with a block of the user, of 512 bytes or a power of 2 above that: every
// file of MATLAB 7.3 does.
Result<std::string> head_of(const ByteSource& source) {
  CFCK_TRY_ASSIGN(std::string head, bytes_at(source, 0));
  if (recognised(head) != nullptr || foreign_format(head, {})) return head;
  for (std::uint64_t at = 512; at < source.size(); at *= 2) {
    CFCK_TRY_ASSIGN(std::string other, bytes_at(source, at));
    if (hdf5_format().recognises(other)) return other;
  }
  return head;
}

const ArchiveFormat* recognised(std::string_view head) {
  const auto formats = file_formats();
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const ArchiveFormat* format) {
    return format->recognises(head);
  });
  return found == formats.end() ? nullptr : *found;
}

const ArchiveFormat* recognised_or_resembled(std::string_view head) {
  if (const ArchiveFormat* const format = recognised(head)) return format;
  for (const ArchiveFormat* format : file_formats()) {
    if (format->resembles != nullptr && format->resembles(head)) return format;
  }
  return nullptr;
}

namespace {

// True for characters of lines, the last of which may be cut off.
bool is_text(std::string_view head) {
  const bool is_printed = std::all_of(head.begin(), head.end(), [](unsigned char c) {
    return c >= 0x20 || (c >= '\t' && c <= '\r');
  });
  constexpr std::size_t kMaxCutBytes = 3;
  for (std::size_t cut = 0; is_printed && cut <= std::min(kMaxCutBytes, head.size()); ++cut) {
    if (valid_utf8(head.substr(0, head.size() - cut))) return true;
    if (head.size() < kHeadBytes) break;
  }
  return false;
}

// Returns what a file seems to be that begins like this; empty: nothing known.
std::string apparent_contents(std::string_view head) {
  if (head.find_first_not_of('\0') == std::string_view::npos) {
    return "it begins with zero bytes only; download it again";
  }
  if (!is_text(head)) return {};
  const std::size_t begin = std::min(head.find_first_not_of(" \t\r\n"), head.size());
  constexpr std::size_t kShownBytes = 24;
  const std::string_view text = head.substr(begin);
  const std::string shown = "'" + escaped(text.substr(0, kShownBytes)) + "'";
  return text.starts_with("<!") || text.starts_with("<html")
             ? "it seems to be a web page (" + shown + "), as a failed download leaves it"
             : "it seems to be text (" + shown + ")";
}

// Returns the error for a file that only its suffix makes one of a format whose files all begin
// alike, so that the reader could only say that something is missing.
std::optional<Error> misnamed_file(const ArchiveFormat& format, std::string_view head) {
  struct Title {
    const ArchiveFormat* format;
    std::string_view title;
  };
  const std::array<Title, 4> titles = {{{&pytorch_format(), "a PyTorch"},
                                        {&npz_format(), "an npz"},
                                        {&npy_format(), "an npy"},
                                        {&keras_format(), "a Keras"}}};
  const auto found = std::find_if(titles.begin(), titles.end(),
                                  [&](const Title& title) { return title.format == &format; });
  if (found == titles.end() || head.starts_with("PK")) return std::nullopt;
  const std::string contents = apparent_contents(head);
  if (contents.empty()) return std::nullopt;
  return corrupt("this is not " + std::string(found->title) +
                 " file, though it is called one: " + contents)
      .at_byte(0);
}

}  // namespace

Result<const ArchiveFormat*> format_of(const ByteSource& source) {
  CFCK_TRY_ASSIGN(const std::string head, head_of(source));
  if (head.empty()) {
    return truncated("the file is empty; download it again");
  }
  if (const ArchiveFormat* const format = recognised_or_resembled(head)) return format;
  const std::string path = source.name();
  if (auto foreign = foreign_format(head, path)) return std::move(*foreign);
  for (const ArchiveFormat* format : file_formats()) {
    if (!has_suffix_of(path, *format)) continue;
    if (auto misnamed = misnamed_file(*format, head)) return std::move(*misnamed);
    return format;
  }
  return corrupt(
             "neither a safetensors file nor a .cfck file, nor a file of any other known format")
      .at_byte(0);
}

const ArchiveFormat* find_format(std::string_view name) {
  const auto formats = file_formats();
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const ArchiveFormat* format) {
    return format->name == name;
  });
  return found == formats.end() ? nullptr : *found;
}

const ArchiveFormat& counterpart(const ArchiveFormat& format) {
  return format.encodes ? safetensors_format() : cfck_format();
}

const ArchiveFormat& target_format(const ArchiveFormat& format, std::string_view output) {
  for (const ArchiveFormat* named : file_formats()) {
    if (named->create == nullptr || !has_suffix_of(output, *named)) continue;
    if (named != &format || !format.restores_bytes) return *named;
  }
  return counterpart(format);
}

Result<std::unique_ptr<TensorArchive>> open_archive_file(const std::string& path,
                                                         const ArchiveOptions& options) {
  CFCK_TRY_ASSIGN(auto source, open_file(path, options.mode));
  CFCK_TRY_ASSIGN(const ArchiveFormat* format, format_of(*source));
  return format->open(std::move(source), options);
}

std::string with_suffix(const std::string& path, const ArchiveFormat& from,
                        const ArchiveFormat& to) {
  std::string stem = path;
  std::string_view suffix = from.suffix;
  for (const std::string_view other : from.other_suffixes) {
    if (stem.ends_with(other)) suffix = other;
  }
  if (stem.ends_with(suffix)) stem.resize(stem.size() - suffix.size());
  return stem.append(to.suffix);
}

std::string no_such_files(bool backwards) {
  const auto formats = archive_formats();
  std::string text;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    text += text.empty() ? "no " : " and no ";
    text += formats[backwards ? formats.size() - 1 - i : i]->suffix;
  }
  return text + " files";
}

}  // namespace cfck::model

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/forks/forks.hpp"
#include "base/text.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/foreign_formats.hpp"

namespace cfck::model {
namespace {

// The use of a format, which the macro of its line in formats.inc says.
enum class Use : std::uint8_t { kFolders, kFiles, kModels };

struct Line {
  const ArchiveFormat& (*format)();
  Use use;
};

constexpr std::array kLines = {
#define CFCK_ARCHIVE_FORMAT(name) Line{&name##_format, Use::kFolders},
#define CFCK_FILE_FORMAT(name) Line{&name##_format, Use::kFiles},
#define CFCK_MODEL_FORMAT(name) Line{&name##_format, Use::kModels},
#include "model/formats/formats.inc"
#undef CFCK_MODEL_FORMAT
#undef CFCK_FILE_FORMAT
#undef CFCK_ARCHIVE_FORMAT
};

struct Formats {
  std::array<const ArchiveFormat*, kLines.size()> all = {};
  std::size_t n_formats = 0;

  operator std::span<const ArchiveFormat* const>() const { return {all.data(), n_formats}; }
};

// Returns the formats of one use, or all, in the order of formats.inc.
Formats formats_of(std::optional<Use> use) {
  Formats formats;
  for (const Line& line : kLines) {
    if (!use || line.use == *use) formats.all[formats.n_formats++] = &line.format();
  }
  return formats;
}

}  // namespace

std::span<const ArchiveFormat* const> archive_formats() {
  static constinit MadeOnce<const Formats> formats;
  return formats.get([] { return formats_of(Use::kFolders); });
}

std::span<const ArchiveFormat* const> model_formats() {
  static constinit MadeOnce<const Formats> formats;
  return formats.get([] { return formats_of(Use::kModels); });
}

std::span<const ArchiveFormat* const> file_formats() {
  static constinit MadeOnce<const Formats> formats;
  return formats.get([] { return formats_of(std::nullopt); });
}

std::string_view suffix_of(std::string_view name, const ArchiveFormat& format) {
  if (name.ends_with(format.suffix)) return format.suffix;
  const auto& others = format.other_suffixes;
  const auto found = std::find_if(others.begin(), others.end(),
                                  [&](std::string_view suffix) { return name.ends_with(suffix); });
  return found == others.end() ? std::string_view() : *found;
}

bool has_suffix_of(std::string_view name, const ArchiveFormat& format) {
  return !suffix_of(name, format).empty();
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

// Returns "a safetensors file" for a name that ends as those of such files; empty: for other names.
std::string_view title_of(std::string_view name) {
  const std::array<std::pair<const ArchiveFormat*, std::string_view>, 7> titles = {
      {{&pytorch_format(), "a PyTorch file"},
       {&npz_format(), "an npz file"},
       {&npy_format(), "an npy file"},
       {&keras_format(), "a Keras file"},
       {&hdf5_format(), "an HDF5 file"},
       {&safetensors_format(), "a safetensors file"},
       {&cfck_format(), "a .cfck file"}}};
  const auto found = std::find_if(titles.begin(), titles.end(), [&](const auto& title) {
    return has_suffix_of(name, *title.first);
  });
  return found == titles.end() ? std::string_view() : found->second;
}

}  // namespace

Result<const ArchiveFormat*> format_of(const ByteSource& source) {
  CFCK_TRY_ASSIGN(const std::string head, head_of(source));
  if (head.empty()) {
    return truncated("the file is empty; download it again");
  }
  const std::string path = source.name();
  if (auto foreign = foreign_by_name(head, path)) return std::move(*foreign);
  if (const ArchiveFormat* const format = recognised(head)) return format;
  if (auto foreign = foreign_format(head, path)) return std::move(*foreign);
  // A .cfck file may have lost its first bytes, of which its reader knows more, and HDF5 files may
  // have anything before their own.
  const bool is_erased = head.find_first_not_of('\0') == head.npos;
  const bool is_left_to_reader = (is_erased && has_suffix_of(path, cfck_format())) ||
                                 (!head.starts_with('<') && has_suffix_of(path, hdf5_format()));
  if (!is_left_to_reader) {
    if (auto other = no_tensors(head, title_of(path))) return std::move(*other);
  }
  if (has_suffix_of(path, cfck_format())) return &cfck_format();
  if (const ArchiveFormat* const format = recognised_or_resembled(head)) return format;
  for (const ArchiveFormat* format : file_formats()) {
    if (has_suffix_of(path, *format)) return format;
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
  stem.resize(stem.size() - suffix_of(path, from).size());
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

#include "format/container/foreign_file.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "format/container/container.hpp"
#include "format/container/frame_walk.hpp"

namespace cfck::format {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes;
  std::string_view what;
};

constexpr Signature kSignatures[] = {
    {"PK\x03\x04"sv, "a zip archive, such as a PyTorch checkpoint (.pt, .bin, .ckpt) or .npz"},
    {"GGUF"sv, "a GGUF file"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "a NumPy array (.npy)"},
    {"\x80\x02"sv, "a Python pickle, such as an old PyTorch checkpoint"},
    {"\x80\x03"sv, "a Python pickle"},
    {"\x80\x04"sv, "a Python pickle"},
    {"\x80\x05"sv, "a Python pickle"},
    {"\x28\xb5\x2f\xfd"sv, "a file compressed with zstd"},
    {"\x1f\x8b"sv, "a file compressed with gzip"},
    {"version https://git-lfs"sv, "a Git LFS pointer; fetch the real file with 'git lfs pull'"},
    {"<!DOCTYPE"sv, "a web page"},
};

Error with_file_name(const ByteSource& source, ErrorCode code, const std::string& reason,
                     std::optional<std::uint64_t> byte_offset = {}) {
  return Error{code, "'" + escaped(source.name()) + "' " + reason, {}, byte_offset};
}

Error explain_torn_file(const ByteSource& source, Error tail_error) {
  const Result<std::optional<Generation>> found = find_last_generation(source);
  if (found && *found) {
    const Generation& generation = **found;
    return with_file_name(source, ErrorCode::kTruncated,
                          "ends in the middle of an update: generation " +
                              std::to_string(generation.tail.generation) +
                              " is whole and ends at byte " + std::to_string(generation.end_bytes) +
                              ". Get it back with: cfck repair FILE -o NEW",
                          generation.end_bytes);
  }
  Tag last = {};
  const Result<void> walked = walk_frames(source, [&](const Frame& frame) -> Result<bool> {
    last = frame.tag;
    return true;
  });
  // The cut may fall between two frames.
  if (walked ? last != kTailTag : walked.error().code == ErrorCode::kTruncated) {
    return with_file_name(
        source, ErrorCode::kTruncated,
        "was cut off after " + std::to_string(source.size()) +
            " bytes: the end with the index is missing. Download or write it again",
        walked ? std::nullopt : walked.error().byte_offset);
  }
  tail_error.message = "'" + escaped(source.name()) + "': " + tail_error.message +
                       ", and no older generation is whole. Download the file again";
  return tail_error;
}

}  // namespace

std::string guess_format(ByteView start, std::uint64_t file_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  for (const Signature& signature : kSignatures) {
    if (text.starts_with(signature.bytes)) {
      return std::string(signature.what);
    }
  }
  if (start.size() > 8 && text[8] == '{') {
    const auto header_bytes = load<std::uint64_t>(start.data());
    if (header_bytes >= 2 && file_bytes >= 8 && header_bytes <= file_bytes - 8) {
      return "a safetensors file; convert it with: cfck convert FILE";
    }
  }
  return {};
}

Error explain_missing_tail(const ByteSource& source, Error tail_error) {
  const std::uint64_t file_bytes = source.size();
  if (file_bytes == 0) {
    return with_file_name(source, ErrorCode::kTruncated, "is empty", 0);
  }
  std::array<std::byte, 32> buffer;
  const MutableBytes start =
      MutableBytes(buffer).first(std::min<std::uint64_t>(buffer.size(), file_bytes));
  if (Result<void> read = source.read_at(0, start); !read) {
    return std::move(read).error();
  }
  const std::string guess = guess_format(start, file_bytes);
  if (!guess.empty()) {
    return with_file_name(source, ErrorCode::kCorrupt,
                          "is not a cfck file; it seems to be " + guess, 0);
  }
  const Result<void> head = decode_head(start);
  if (!head) {
    if (head.error().code == ErrorCode::kTruncated) {
      return with_file_name(
          source, ErrorCode::kTruncated,
          "has only " + std::to_string(file_bytes) + " bytes; no cfck file is so short", 0);
    }
    if (head.error().code == ErrorCode::kUnsupported) {
      return head.error();
    }
    return with_file_name(source, ErrorCode::kCorrupt, "is not a cfck file", 0);
  }
  return explain_torn_file(source, std::move(tail_error));
}

}  // namespace cfck::format

// Head and tail.
#include "format/container/container.hpp"

#include "base/hashing/hashing.hpp"
#include "base/text.hpp"
#include "cfck/version.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {
namespace {

std::string version_text(std::uint16_t major, std::uint16_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

Result<void> check_version(std::uint16_t major, std::uint16_t minor, std::uint64_t offset_bytes) {
  if (major == kFormatMajor && minor == kFormatMinor) {
    return {};
  }
  return unsupported("the file has format version " + version_text(major, minor) +
                     "; this version of cfck reads " + version_text(kFormatMajor, kFormatMinor) +
                     " only. Read it with the version of cfck that wrote it, and write it again "
                     "with this one")
      .at_byte(offset_bytes);
}

// Checks the relations between the fields of one tail.
Result<void> check_tail_fields(const Tail& tail, std::uint64_t frame_offset) {
  const std::uint64_t unknown = tail.required_features & ~kKnownFeatures;
  if (unknown != 0) {
    return unsupported("the file needs features that this version of cfck does not have (bits " +
                       std::to_string(unknown) + "). Use a newer cfck")
        .at_byte(frame_offset + 16);
  }
  if (tail.file_bytes != frame_offset + kTailBytes) {
    return corrupt("the tail says that the file has " + std::to_string(tail.file_bytes) +
                       " bytes, but ends at byte " + std::to_string(frame_offset + kTailBytes),
                   frame_offset + 112);
  }
  if ((tail.generation == 0) != (tail.previous_file_bytes == 0)) {
    return corrupt("the tail's generation and previous length contradict each other",
                   frame_offset + 32);
  }
  std::uint64_t metadata_end = 0;
  std::uint64_t index_end = 0;
  if (!checked_add(tail.metadata.offset_bytes, tail.metadata.n_bytes, metadata_end) ||
      !checked_add(tail.index.offset_bytes, tail.index.n_bytes, index_end) ||
      metadata_end != tail.index.offset_bytes || index_end != frame_offset ||
      tail.metadata.offset_bytes < kHeadBytes || tail.metadata.n_bytes < kFrameHeaderBytes ||
      tail.index.n_bytes < kFrameHeaderBytes) {
    return corrupt("metadata, index and tail do not follow one another", frame_offset + 48);
  }
  if (tail.generation != 0 && (tail.previous_file_bytes < kHeadBytes + kTailBytes ||
                               tail.previous_file_bytes > tail.metadata.offset_bytes)) {
    return corrupt("the tail names an impossible length of the previous generation",
                   frame_offset + 40);
  }
  return {};
}

}  // namespace

std::string tag_text(const Tag& tag) { return escaped(std::string_view(tag.data(), tag.size())); }

Result<void> check_frame_header(ByteView frame, const Tag& tag, std::uint64_t n_bytes,
                                std::uint64_t frame_offset) {
  if (frame.size() < kFrameHeaderBytes || n_bytes < kFrameHeaderBytes) {
    return cfck::truncated("the " + tag_text(tag) + " frame is truncated").at_byte(frame_offset);
  }
  if (load<std::uint32_t>(frame.data()) != kSkippableMagic) {
    return corrupt("no frame starts where " + tag_text(tag) + " is expected", frame_offset);
  }
  if (load<std::uint32_t>(frame.data() + 4) != n_bytes - 8) {
    return corrupt("the " + tag_text(tag) + " frame has a length that differs from the index",
                   frame_offset + 4);
  }
  const Tag found = load<Tag>(frame.data() + 8);
  if (found != tag) {
    return corrupt(
        "the frame is tagged " + tag_text(found) + " where " + tag_text(tag) + " is expected",
        frame_offset + 8);
  }
  return {};
}

Result<void> decode_head(ByteView frame) {
  if (frame.size() < kHeadBytes) {
    return cfck::truncated("the head of the file is truncated").at_byte(0);
  }
  CFCK_TRY(check_frame_header(frame, kHeadTag, kHeadBytes, 0));
  return check_version(load<std::uint16_t>(frame.data() + 12),
                       load<std::uint16_t>(frame.data() + 14), 12);
}

Result<Tail> decode_tail(ByteView frame, std::uint64_t frame_offset) {
  if (frame.size() != kTailBytes) {
    return cfck::truncated("the tail of the file is truncated").at_byte(frame_offset);
  }
  CFCK_TRY(check_frame_header(frame, kTailTag, kTailBytes, frame_offset));
  if (load<std::uint64_t>(frame.data() + 120) != hash64(frame.first(120))) {
    return wrong_checksum("the tail of the file is damaged").at_byte(frame_offset);
  }
  FieldReader fields(frame.subspan(kFrameHeaderBytes), frame_offset + kFrameHeaderBytes);
  Tail tail;
  tail.major = fields.take<std::uint16_t>();
  tail.minor = fields.take<std::uint16_t>();
  CFCK_TRY(check_version(tail.major, tail.minor, frame_offset + 12));
  tail.required_features = fields.take<std::uint64_t>();
  tail.optional_features = fields.take<std::uint64_t>();
  tail.generation = fields.take<std::uint64_t>();
  tail.previous_file_bytes = fields.take<std::uint64_t>();
  tail.metadata = {fields.take<std::uint64_t>(), 0};
  tail.metadata.n_bytes = fields.take<std::uint64_t>();
  tail.metadata_hash = fields.take_digest();
  tail.index = {fields.take<std::uint64_t>(), 0};
  tail.index.n_bytes = fields.take<std::uint64_t>();
  tail.index_hash = fields.take_digest();
  tail.file_bytes = fields.take<std::uint64_t>();
  CFCK_TRY(check_tail_fields(tail, frame_offset));
  return tail;
}

}  // namespace cfck::format

// Reads the metadata (section 6 of the specification).
#include "base/text.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kEntryBytes = 8;        // without key and value
constexpr std::uint64_t kAttachmentBytes = 40;  // without the name

Error cut_off(const FieldReader& fields) {
  return corrupt("the metadata is shorter than its entries", fields.offset_bytes());
}

Result<void> take_entry(FieldReader& fields, Metadata& entries) {
  const std::uint64_t offset_bytes = fields.offset_bytes();
  if (fields.remaining() < kEntryBytes) {
    return cut_off(fields);
  }
  const std::uint64_t key_bytes = fields.take<std::uint32_t>();
  const std::uint64_t value_bytes = fields.take<std::uint32_t>();
  if (key_bytes + value_bytes > fields.remaining()) {
    return cut_off(fields);
  }
  const std::string_view key = fields.take_text(key_bytes);
  const std::string_view value = fields.take_text(value_bytes);
  if (!valid_utf8(key) || !valid_utf8(value)) {
    return corrupt("a metadata entry is not valid UTF-8", offset_bytes);
  }
  if (!entries.empty() && entries.rbegin()->first >= key) {
    return corrupt("the keys of the metadata are not sorted or not different", offset_bytes);
  }
  entries.emplace_hint(entries.end(), key, value);
  return {};
}

Result<void> take_attachment(FieldReader& fields, std::vector<StoredAttachment>& attachments) {
  const std::uint64_t offset_bytes = fields.offset_bytes();
  if (fields.remaining() < kAttachmentBytes) {
    return cut_off(fields);
  }
  const std::uint64_t name_bytes = fields.take<std::uint32_t>();
  const auto zero = fields.take<std::uint32_t>();
  StoredAttachment attachment;
  attachment.extent.offset_bytes = fields.take<std::uint64_t>();
  attachment.extent.n_bytes = fields.take<std::uint64_t>();
  attachment.decoded_bytes = fields.take<std::uint64_t>();
  attachment.hash = fields.take<std::uint64_t>();
  if (name_bytes > fields.remaining()) {
    return cut_off(fields);
  }
  attachment.name = fields.take_text(name_bytes);
  if (zero != 0 || attachment.extent.n_bytes == 0) {
    return corrupt("the entry of an attachment is impossible", offset_bytes);
  }
  if (!valid_utf8(attachment.name)) {
    return corrupt("the name of an attachment is not valid UTF-8", offset_bytes);
  }
  if (!attachments.empty() && attachments.back().name >= attachment.name) {
    return corrupt("the names of the attachments are not sorted or not different", offset_bytes);
  }
  attachments.push_back(std::move(attachment));
  return {};
}

}  // namespace

Result<MetadataFrame> decode_metadata(ByteView frame, std::uint64_t frame_offset) {
  CFCK_TRY(check_frame_header(frame, kMetadataTag, frame.size(), frame_offset));
  FieldReader fields(frame.subspan(kFrameHeaderBytes), frame_offset + kFrameHeaderBytes);
  if (fields.remaining() < 8) {
    return cut_off(fields);
  }
  const auto n_entries = fields.take<std::uint32_t>();
  const auto n_attachments = fields.take<std::uint32_t>();
  MetadataFrame metadata;
  for (std::uint32_t i = 0; i < n_entries; ++i) {
    CFCK_TRY(take_entry(fields, metadata.entries));
  }
  for (std::uint32_t i = 0; i < n_attachments; ++i) {
    CFCK_TRY(take_attachment(fields, metadata.attachments));
  }
  if (fields.remaining() != 0) {
    return corrupt("bytes follow the last entry of the metadata", fields.offset_bytes());
  }
  return metadata;
}

}  // namespace cfck::format

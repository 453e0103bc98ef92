// The end of a file: attachments, metadata, index, tail.
#include <zstd.h>

#include <algorithm>

#include "base/hashing/hashing.hpp"
#include "base/text.hpp"
#include "cfck/base.hpp"
#include "codec/entropy/entropy.hpp"
#include "format/container/container.hpp"
#include "format/container/index/checks.hpp"
#include "format/container/tensor_checks.hpp"
#include "format/write/file_end.hpp"
#include "format/write/writer_impl.hpp"

namespace cfck {
namespace {

constexpr int kAttachmentLevel = 3;

Result<void> check_options(const EncodeOptions& options) {
  const auto refuse = [](std::string message) { return invalid_argument(std::move(message)); };
  if (!codec::has_entropy_stage(options.entropy)) {
    return refuse("a file cannot be written with entropy stage " +
                  std::to_string(static_cast<unsigned>(options.entropy)) + " (" +
                  std::string(entropy_name(options.entropy)) + "); choose zstd or rans");
  }
  if (encode_level_name(options.level) == "unknown") {
    return refuse("there is no level " + std::to_string(static_cast<unsigned>(options.level)) +
                  "; choose fast, default or archive");
  }
  const std::string_view base_name =
      options.base != nullptr ? options.base->name() : std::string_view();
  if (!base_name.empty() && (!format::is_base_name(base_name) || !valid_utf8(base_name))) {
    return refuse("a file cannot name '" + escaped(base_name) +
                  "' as its base: names are valid UTF-8, without '/' and '\\'; rename the base");
  }
  return {};
}

// Returns the number of the record that has the bytes of record `number`.
std::uint32_t owner_of_bytes(const Record& record, std::uint32_t number) {
  const bool shares = record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate;
  return shares ? record.base : number;
}

}  // namespace

Result<void> Writer::Impl::attach(std::string_view name, ByteView bytes) {
  CFCK_TRY(format::check_attachment_name(name));
  if (bytes.size() > kMaxAttachmentBytes) {
    return limit_exceeded(
        "attachment '" + escaped(name) + "' has " + std::to_string(bytes.size()) +
        " bytes, more than the " + std::to_string(kMaxAttachmentBytes) +
        " that readers accept by default (max_attachment_bytes); store it as a tensor "
        "of dtype U8");
  }
  PendingAttachment attachment;
  attachment.decoded_bytes = bytes.size();
  attachment.frame.resize(ZSTD_compressBound(bytes.size()));
  const std::size_t written = ZSTD_compress(attachment.frame.data(), attachment.frame.size(),
                                            bytes.data(), bytes.size(), kAttachmentLevel);
  if (ZSTD_isError(written) != 0U) {
    return Error{
        ErrorCode::kOutOfMemory,
        "cannot compress attachment '" + escaped(name) + "': " + ZSTD_getErrorName(written),
        {},
        {}};
  }
  attachment.frame.resize(written);
  attachment.frame.shrink_to_fit();
  pending.insert_or_assign(std::string(name), std::move(attachment));
  return {};
}

Result<void> Writer::Impl::finish_data() {
  CFCK_TRY(encode_deferred());
  CFCK_TRY(encoder.drain());
  CFCK_TRY(layout.close_pack());
  CFCK_TRY(check_decided());
  for (const std::uint32_t number : equal_to_base) {
    record(number).digest = record(record(number).base).digest;
  }
  std::map<std::uint32_t, LosslessReason>& reasons = encoder.kept_lossless();
  for (const std::uint32_t number : lossy_shares) {
    if (const auto found = reasons.find(record(number).base); found != reasons.end()) {
      reasons.emplace(number, found->second);
    }
  }
  for (format::StoredRecord& stored : layout.index().records) {
    Record& entry = stored.record;
    if (entry.kind == RecordKind::kAlias || entry.kind == RecordKind::kDuplicate) {
      const Record& base = record(entry.base);
      entry.codec = base.codec;
      entry.entropy = base.entropy;
      entry.scan = base.scan;
      entry.error = base.error;
    }
  }
  return write_attachments(layout, metadata.attachments);
}

Result<void> Writer::Impl::write_attachments(format::RecordLayout& to,
                                             std::vector<format::StoredAttachment>& kept) const {
  std::erase_if(kept, [&](const auto& attachment) { return pending.contains(attachment.name); });
  for (const auto& [name, attachment] : pending) {
    kept.push_back({name,
                    {to.offset_bytes(), attachment.frame.size()},
                    attachment.decoded_bytes,
                    tiled_hash64(attachment.frame)});
    CFCK_TRY(to.write(attachment.frame));
  }
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return {};
}

std::uint64_t Writer::Impl::own_bytes(const format::StoredRecord& stored) const {
  if (stored.record.kind == RecordKind::kPacked) {
    return stored.payload_bytes;
  }
  std::uint64_t n_bytes = 0;
  if (stored.record.kind == RecordKind::kChunked) {
    const std::uint64_t n_entries = stored.record.n_chunks + (stored.has_preamble ? 1 : 0);
    for (std::uint64_t i = 0; i < n_entries; ++i) {
      n_bytes += layout.index().chunks[stored.first_chunk + i].n_bytes;
    }
  }
  return n_bytes;
}

Result<WriteSummary> Writer::Impl::finish_index() {
  WriteSummary summary;
  const std::vector<format::StoredRecord>& records = layout.index().records;
  for (std::uint32_t number = 0; number < records.size(); ++number) {
    const format::StoredRecord& stored = records[number];
    if (stored.record.kind == RecordKind::kPacked) {
      summary.stored_bytes += stored.payload_bytes;
    }
    if (!stored.record.hidden) {
      summary.n_records += 1;
      summary.decoded_bytes += stored.record.decoded_bytes;
      if (stored.record.error) {
        summary.lossy.push_back({stored.record.name, *stored.record.error, stored.record.n_elems,
                                 own_bytes(stored), stored.record.shape.size(),
                                 emitter.value_rms(owner_of_bytes(stored.record, number))});
      }
    }
  }
  for (const format::ChunkEntry& chunk : layout.index().chunks) {
    summary.stored_bytes += chunk.n_bytes;
  }
  for (const auto& [number, reason] : encoder.kept_lossless()) {
    if (!record(number).hidden) {
      summary.kept_lossless.push_back(
          {record(number).name, reason, lossless_in_target.contains(number)});
    }
  }
  if (options.base != nullptr) {
    layout.index().base_name = options.base->name();
  }
  summary.step = file_step;
  summary.stored_apart = stored_apart;
  summary.unmatched_rules = rules.unmatched();
  CFCK_TRY_ASSIGN(summary.file_bytes,
                  format::write_end(layout, metadata, generation, previous_file_bytes));
  finished = true;
  output.writer_finished();
  return summary;
}

Result<Writer> WriterAccess::append(ByteSink& sink, EncodeOptions options, WriterStart start) {
  CFCK_TRY(check_options(options));
  if (options.base != nullptr && start.generation != 0) {
    return invalid_argument("an update is not stored against a base; write a new file against it");
  }
  if (options.size && start.generation != 0) {
    return invalid_argument(
        "size applies to a whole new file; for the tensors of an update use nmse, psnr or "
        "bits_per_weight");
  }
  CFCK_TRY_ASSIGN(encode::EncodeRules rules, encode::EncodeRules::create(options));
  return Writer(
      std::make_unique<Writer::Impl>(sink, std::move(options), std::move(rules), std::move(start)));
}

Result<void> WriterAccess::finish_data(Writer& writer) {
  return call(writer, [](Writer::Impl& impl) { return impl.finish_data(); });
}

Result<WriteSummary> WriterAccess::finish_index(Writer& writer) {
  return call(writer, [](Writer::Impl& impl) { return impl.finish_index(); });
}

}  // namespace cfck

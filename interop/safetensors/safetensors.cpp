#include "cfck/safetensors.hpp"

#include <memory>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "format/read/reader_access.hpp"
#include "interop/safetensors/header.hpp"
#include "interop/safetensors/write.hpp"
#include "model/cfck_archive.hpp"

namespace cfck {
namespace {

using interop::kMaxSafetensorsHeaderBytes;
using interop::kSafetensorsHeaderAttachment;
using interop::kSafetensorsLengthBytes;

Result<SafetensorsHeader> read_header(const ByteSource& source) {
  const std::uint64_t file_bytes = source.size();
  if (file_bytes < kSafetensorsLengthBytes) {
    return truncated("a safetensors file has at least 8 bytes, this one has " +
                     std::to_string(file_bytes) + "; download it again")
        .at_byte(0);
  }
  std::byte length_bytes[kSafetensorsLengthBytes];
  CFCK_TRY(source.read_at(0, length_bytes));
  const auto header_bytes = load<std::uint64_t>(length_bytes);
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    return limit_exceeded(
               "not a safetensors file, or one with a header above the 100 MB that safetensors "
               "allows: its length is given as " +
               std::to_string(header_bytes) + " bytes")
        .at_byte(0);
  }
  if (header_bytes > file_bytes - kSafetensorsLengthBytes) {
    return truncated("the safetensors header should have " + std::to_string(header_bytes) +
                     " bytes, but the file is shorter; download it again")
        .at_byte(0);
  }
  std::string json(header_bytes, '\0');
  CFCK_TRY(source.read_at(kSafetensorsLengthBytes,
                          MutableBytes(reinterpret_cast<std::byte*>(json.data()), json.size())));
  return interop::parse_safetensors_header(std::move(json),
                                           file_bytes - kSafetensorsLengthBytes - header_bytes);
}

}  // namespace

Result<SafetensorsHeader> read_safetensors_header(const ByteSource& source) {
  return run_guarded([&] { return read_header(source); });
}

Result<SafetensorsHeader> safetensors_header_for(const Reader& reader) {
  return run_guarded([&]() -> Result<SafetensorsHeader> {
    CFCK_TRY_ASSIGN(const auto archive, model::borrow_reader(reader));
    return interop::header_for(*archive);
  });
}

Result<void> add_safetensors(Writer& writer, const ByteSource& source,
                             const SafetensorsHeader& header) {
  return run_guarded([&]() -> Result<void> {
    for (const auto& [key, value] : header.metadata) CFCK_TRY(writer.set_metadata(key, value));
    CFCK_TRY(writer.attach(kSafetensorsHeaderAttachment, std::as_bytes(std::span(header.json))));
    for (const SafetensorsEntry& entry : header.entries) {
      CFCK_TRY(writer.add(entry.name,
                          TensorSource{entry.dtype, entry.shape, &source, entry.offset_bytes}));
    }
    for (const SafetensorsTie& tie : header.ties) {
      // Where a tie is not possible, the metadata still records it.
      CFCK_TRY(writer.tie(tie.name, header.entries[tie.entry].name));
    }
    return {};
  });
}

Result<void> write_safetensors(const Reader& reader, ByteSink& sink, const ReadProgress& progress,
                               unsigned threads) {
  return run_guarded([&]() -> Result<void> {
    CFCK_TRY(format::check_open(reader));
    CFCK_TRY_ASSIGN(const auto archive, model::borrow_reader(reader));
    CFCK_TRY_ASSIGN(const SafetensorsHeader header, interop::header_for(*archive));
    sink.writer_began();
    CFCK_TRY(interop::write_archive(*archive, header, sink, progress, threads));
    sink.writer_finished();
    return {};
  });
}

}  // namespace cfck

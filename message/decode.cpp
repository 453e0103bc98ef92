#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "cfck/message.hpp"
#include "message/chunk_decode.hpp"
#include "message/layout.hpp"
#include "message/workspace.hpp"

namespace cfck {
namespace message {
namespace {

// A message that is complete and as it was written.
struct Verified {
  Header header;
  ByteView bytes;  // without the hash
};

// The first bytes are checked before the hash, so that another kind of bytes is not called damaged,
// and all that they say of the tensor after it.
Result<Verified> verify(ByteView message) {
  const std::size_t n_fixed = kFixedBytes + kHashBytes;
  if (message.size() >= n_fixed && message[0] == kMark &&
      static_cast<std::uint8_t>(message[1]) == kVersion) {
    const ByteView bytes = message.first(message.size() - kHashBytes);
    if (tiled_hash64(bytes) != load<std::uint64_t>(message.data() + bytes.size())) {
      return wrong_checksum(
                 "the checksum of the message is wrong: it was cut or changed after it was "
                 "written, or other bytes follow it; receive it again, and give its bytes alone")
          .at_byte(bytes.size());
    }
    CFCK_TRY_ASSIGN(const Header header, read_header(bytes));
    return Verified{header, bytes};
  }
  CFCK_TRY(read_header(message));  // says what is wrong
  return truncated("the message has " + std::to_string(message.size()) +
                   " bytes, fewer than any has; receive it again")
      .at_byte(message.size());
}

codec::ChunkInfo info_of(const Header& header) {
  codec::ChunkInfo info;
  info.dtype = header.dtype;
  info.entropy = header.entropy;
  info.n_elems = header.n_elems;
  info.shape = header.shape();
  return info;
}

Result<void> decode_one_chunk(const Verified& message, codec::Scratch& scratch, MutableBytes out) {
  const Header& header = message.header;
  const ByteView payload = message.bytes.subspan(header.size());
  if (header.codec == CodecId::kRaw && payload.size() != out.size()) {
    return corrupt("the message has " + std::to_string(payload.size()) +
                   " bytes of values, and its shape " + std::to_string(out.size()))
        .at_byte(header.size());
  }
  return decode_chunk(header.codec, info_of(header), payload, header.size(), scratch, out);
}

Result<void> decode_chunks(const Verified& message, codec::Scratch& scratch, MutableBytes out) {
  const Header& header = message.header;
  CFCK_TRY_ASSIGN(const ChunkTable table, read_table(header, message.bytes, header.size()));
  std::size_t at = header.size() + table.size();
  codec::ChunkInfo info = info_of(header);
  info.preamble = message.bytes.subspan(at, table.preamble_bytes);
  at += table.preamble_bytes;
  for (std::uint64_t chunk = 0; chunk < table.geometry.n_chunks; ++chunk) {
    info.first_elem = chunk * table.geometry.chunk_elems;
    info.n_elems = table.geometry.elems_of(chunk);
    const ByteView payload = message.bytes.subspan(at, table.length_of(chunk));
    CFCK_TRY(decode_chunk(
        header.codec, info, payload, at, scratch,
        out.subspan(chunk * table.geometry.chunk_bytes, table.geometry.bytes_of(chunk))));
    at += payload.size();
  }
  return {};
}

Result<void> decode(ByteView bytes, MutableBytes out, codec::Scratch& scratch) {
  CFCK_TRY_ASSIGN(const Verified message, verify(bytes));
  if (out.size() != message.header.n_bytes) {
    return invalid_argument("the message has " + std::to_string(message.header.n_bytes) +
                            " decoded bytes, and there is space for " + std::to_string(out.size()) +
                            "; ask message_info()");
  }
  CFCK_TRY(check_apart(out, bytes, "the message"));
  return message.header.has_table ? decode_chunks(message, scratch, out)
                                  : decode_one_chunk(message, scratch, out);
}

}  // namespace
}  // namespace message

MessageWorkspace::MessageWorkspace() noexcept = default;
MessageWorkspace::~MessageWorkspace() = default;
MessageWorkspace::MessageWorkspace(MessageWorkspace&&) noexcept = default;
MessageWorkspace& MessageWorkspace::operator=(MessageWorkspace&&) noexcept = default;

Result<MessageInfo> message_info(ByteView bytes) {
  return detail::run_guarded([&]() -> Result<MessageInfo> {
    CFCK_TRY_ASSIGN(const message::Header header, message::read_header(bytes));
    MessageInfo info;
    info.dtype = header.dtype;
    info.shape.assign(header.shape().begin(), header.shape().end());
    info.n_elems = header.n_elems;
    info.n_bytes = header.n_bytes;
    info.codec = header.codec;
    info.entropy = header.entropy;
    info.has_chunks = header.has_table;
    return info;
  });
}

Result<void> decode_message(ByteView message, MutableBytes out, MessageWorkspace& workspace) {
  return detail::run_guarded(
      [&] { return message::decode(message, out, MessageMemory::scratch_of(workspace)); });
}

}  // namespace cfck

#include "message/layout.hpp"

#include <string>

#include "base/bytes.hpp"
#include "base/tensors/sizes.hpp"
#include "codec/codec.hpp"

namespace cfck::message {
namespace {

Error damaged(std::string what, std::uint64_t offset) {
  return corrupt(std::move(what) + "; the message is damaged, or is none of cfck").at_byte(offset);
}

Error newer(std::string_view what, unsigned number, std::uint64_t offset) {
  return unsupported("the message has " + std::string(what) + " " + std::to_string(number) +
                     ", which this version of cfck does not know; install a newer one")
      .at_byte(offset);
}

std::uint8_t byte_of(ByteView bytes, std::size_t at) {
  return static_cast<std::uint8_t>(bytes[at]);
}

// The first eight bytes. Dimensions are left out.
Result<Header> read_fixed(ByteView bytes) {
  if (bytes.size() < kFixedBytes) {
    return truncated("the message has " + std::to_string(bytes.size()) +
                     " bytes, fewer than its header; receive it again")
        .at_byte(bytes.size());
  }
  if (bytes[0] != kMark) {
    return damaged("the bytes do not begin as a message", 0);
  }
  if (byte_of(bytes, 1) != kVersion) {
    return unsupported("the message has version " + std::to_string(byte_of(bytes, 1)) +
                       "; this version of cfck reads " + std::to_string(kVersion) +
                       " only. Use the same version of cfck on both sides")
        .at_byte(1);
  }
  Header header;
  header.dtype = static_cast<DType>(bytes[2]);
  header.codec = static_cast<CodecId>(bytes[3]);
  header.entropy = static_cast<EntropyId>(bytes[4]);
  header.rank = byte_of(bytes, 5);
  header.has_table = (byte_of(bytes, 6) & kHasTable) != 0;
  if (header.rank > kMaxRank) {
    return damaged(
        "a message has at most 64 dimensions, and this one " + std::to_string(header.rank), 5);
  }
  if ((byte_of(bytes, 6) & ~kHasTable) != 0 || bytes[7] != std::byte{0}) {
    const std::size_t at = bytes[7] != std::byte{0} ? 7 : 6;
    return damaged("bits of the message that are not in use are set", at);
  }
  return header;
}

// Whether codec, entropy stage and size go together.
Result<void> check_coding(const Header& header) {
  if (header.codec == CodecId::kRaw) {
    if (header.entropy != EntropyId::kNone) {
      return damaged("a raw message has no entropy stage", 4);
    }
    if (header.has_table) {
      return damaged("a raw message has no table of chunks", 6);
    }
    return {};
  }
  if (codec::find_decoder(header.codec) == nullptr) {
    return newer("codec", static_cast<unsigned>(header.codec), 3);
  }
  if (header.entropy == EntropyId::kNone) {
    return damaged("the codec of the message needs an entropy stage", 4);
  }
  if (header.entropy != EntropyId::kZstd && header.entropy != EntropyId::kRans) {
    return newer("entropy stage", static_cast<unsigned>(header.entropy), 4);
  }
  if (header.n_elems == 0) {
    return damaged("a message without values is raw", 3);
  }
  if (!header.has_table && header.n_bytes > codec::kMaxChunkBytes) {
    return damaged(
        "a message of " + std::to_string(header.n_bytes) + " decoded bytes needs a table of chunks",
        6);
  }
  return {};
}

}  // namespace

Result<Header> read_header(ByteView bytes) {
  CFCK_TRY_ASSIGN(Header header, read_fixed(bytes));
  if (bytes.size() < header.size()) {
    return truncated("the message ends within its dimensions; receive it again")
        .at_byte(bytes.size());
  }
  for (std::size_t i = 0; i < header.rank; ++i) {
    header.dims[i] = load<std::uint64_t>(bytes.data() + kFixedBytes + 8 * i);
  }
  if (bits_per_element(header.dtype) == 0) {
    return newer("dtype", static_cast<unsigned>(header.dtype), 2);
  }
  const Result<std::uint64_t> n_elems = count_elems(header.shape());
  const Result<std::uint64_t> n_bytes = count_bytes(header.dtype, header.shape());
  if (!n_elems || !n_bytes) {
    return damaged((n_elems ? n_bytes : n_elems).error().message, kFixedBytes);
  }
  header.n_elems = *n_elems;
  header.n_bytes = *n_bytes;
  CFCK_TRY(check_coding(header));
  return header;
}

void write_header(const Header& header, std::byte* to) noexcept {
  to[0] = kMark;
  to[1] = std::byte{kVersion};
  to[2] = static_cast<std::byte>(header.dtype);
  to[3] = static_cast<std::byte>(header.codec);
  to[4] = static_cast<std::byte>(header.entropy);
  to[5] = static_cast<std::byte>(header.rank);
  to[6] = std::byte{header.has_table ? kHasTable : std::uint8_t{0}};
  to[7] = std::byte{0};
  for (std::size_t i = 0; i < header.rank; ++i) {
    store<std::uint64_t>(to + kFixedBytes + 8 * i, header.dims[i]);
  }
}

std::uint64_t ChunkTable::length_of(std::uint64_t chunk) const noexcept {
  return load<std::uint32_t>(lengths.data() + kLengthBytes * chunk);
}

Result<ChunkTable> read_table(const Header& header, ByteView bytes, std::size_t at) {
  if (bytes.size() - at < kTableFixedBytes) {
    return truncated("the message ends within its table of chunks").at_byte(bytes.size());
  }
  const std::uint64_t chunk_elems = load<std::uint32_t>(bytes.data() + at);
  const unsigned bits = bits_per_element(header.dtype);
  if (chunk_elems == 0 || chunk_elems >= header.n_elems || (bits < 8 && chunk_elems % 8 != 0) ||
      chunk_elems * bits / 8 > codec::kMaxChunkBytes) {
    return damaged("the chunks of the message have " + std::to_string(chunk_elems) +
                       " values each, which is out of range",
                   at);
  }
  ChunkTable table;
  table.geometry = codec::chunk_geometry(header.dtype, header.n_elems, header.n_bytes, chunk_elems);
  table.preamble_bytes = load<std::uint32_t>(bytes.data() + at + 4);
  const std::uint64_t n_left = bytes.size() - at - kTableFixedBytes;
  if (table.geometry.n_chunks > n_left / kLengthBytes) {
    return truncated("the message ends within its table of chunks").at_byte(bytes.size());
  }
  table.lengths = bytes.subspan(at + kTableFixedBytes, kLengthBytes * table.geometry.n_chunks);
  std::uint64_t n_stored = table.preamble_bytes;  // below 2^32 times the chunks of the message
  for (std::uint64_t chunk = 0; chunk < table.geometry.n_chunks; ++chunk) {
    const std::uint64_t length = table.length_of(chunk);
    if (length == 0) {
      return damaged("a chunk of the message is empty",
                     at + kTableFixedBytes + kLengthBytes * chunk);
    }
    n_stored += length;
  }
  if (n_stored != n_left - table.lengths.size()) {
    return damaged("the chunks of the message have " + std::to_string(n_stored) +
                       " bytes, and the message has " +
                       std::to_string(n_left - table.lengths.size()) + " for them",
                   at + 4);
  }
  return table;
}

}  // namespace cfck::message

#include "hdf5/filter/chunk_codec.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "hdf5/filter/chunk_choice.hpp"
#include "hdf5/filter/chunk_encode.hpp"
#include "hdf5/filter/fill_values.hpp"
#include "message/chunk_decode.hpp"

namespace cfck::hdf5 {
namespace {

constexpr char kMagic[4] = {'C', 'F', 'H', '2'};
constexpr std::size_t kHashAt = 16;
constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kMaskAt = kHeaderBytes + 4;
constexpr std::uint8_t kReversed = 1;
constexpr std::uint8_t kHidesFill = 2;

struct Header {
  CodecId codec = CodecId::kRaw;
  EntropyId entropy = EntropyId::kNone;
  DType dtype = DType::kU8;
  std::uint8_t flags = 0;
  std::uint64_t n_bytes = 0;
  std::uint32_t mask_bytes = 0;

  bool hides_fill() const { return (flags & kHidesFill) != 0; }
  // With the mask.
  std::uint64_t size() const { return kHeaderBytes + (hides_fill() ? 4u + mask_bytes : 0u); }
};

Error damaged(const std::string& what, std::uint64_t offset) {
  return corrupt(what + "; the chunk is damaged, download the file again").at_byte(offset);
}

// What is encoded: the bytes themselves, or a copy with reversed values and without fill values.
// Sets the choice, which depends on the values before those are hidden.
Result<ByteView> prepare(const FilterRequest& request, const ChunkValues& values, ByteView bytes,
                         ChunkMemory& memory, Header& header, ChunkChoice& choice) {
  ByteView prepared = bytes;
  if (values.is_big_endian) {
    memory.values.resize(bytes.size());
    reverse_bytes(bits_per_element(values.dtype) / 8, bytes, memory.values.data());
    header.flags |= kReversed;
    prepared = memory.values;
  }
  CFCK_TRY_ASSIGN(choice, choose_for_chunk(request, values, prepared));
  if (!choice.may_lose() || !is_apart(values.dtype, values.fill_bits)) {
    return prepared;
  }
  if (prepared.data() == bytes.data()) {
    memory.values.assign(bytes.begin(), bytes.end());
  }
  if (hide_fill(values.dtype, values.fill_bits, memory.values, memory.mask)) {
    CFCK_TRY(codec::compress_bytes(memory.mask, memory.worker.scratch, memory.mask_frame));
    header.flags |= kHidesFill;
    header.mask_bytes = static_cast<std::uint32_t>(memory.mask_frame.size());
  }
  return ByteView(memory.values);
}

std::vector<std::byte> write_header(const Header& header, ByteView mask_frame, ByteView payload) {
  std::vector<std::byte> bytes(header.size());
  std::memcpy(bytes.data(), kMagic, sizeof(kMagic));
  bytes[4] = static_cast<std::byte>(header.codec);
  bytes[5] = static_cast<std::byte>(header.entropy);
  bytes[6] = static_cast<std::byte>(header.dtype);
  bytes[7] = static_cast<std::byte>(header.flags);
  store<std::uint64_t>(bytes.data() + 8, header.n_bytes);
  if (header.hides_fill()) {
    store<std::uint32_t>(bytes.data() + kHeaderBytes, header.mask_bytes);
    std::copy(mask_frame.begin(), mask_frame.end(), bytes.begin() + kMaskAt);
  }
  // The hash of the payload, and then of all the header but the hash.
  store<std::uint64_t>(bytes.data() + kHashAt, hash64(payload));
  store<std::uint64_t>(bytes.data() + kHashAt, hash64(bytes));
  return bytes;
}

// Requires: the header is no longer than what is stored.
std::uint64_t hash_of(ByteView stored, std::size_t header_bytes) {
  std::vector<std::byte> header(stored.begin(), stored.begin() + header_bytes);
  store<std::uint64_t>(header.data() + kHashAt, hash64(stored.subspan(header_bytes)));
  return hash64(header);
}

Header read_header(ByteView stored) {
  Header header;
  header.codec = static_cast<CodecId>(stored[4]);
  header.entropy = static_cast<EntropyId>(stored[5]);
  header.dtype = static_cast<DType>(stored[6]);
  header.flags = static_cast<std::uint8_t>(stored[7]);
  header.n_bytes = load<std::uint64_t>(stored.data() + 8);
  if (header.hides_fill() && stored.size() >= kMaskAt) {
    header.mask_bytes = load<std::uint32_t>(stored.data() + kHeaderBytes);
  }
  return header;
}

// Whether the header agrees with itself and with the dataset. Its bytes are those that were
// written.
Result<void> check_header(const Header& header, const ChunkValues& values, std::size_t n_stored) {
  if ((header.flags & ~(kReversed | kHidesFill)) != 0) {
    return unsupported(
        "the chunk was written by a newer cfck, which marks it in a way that this "
        "plug-in does not know; install that");
  }
  const unsigned bits = bits_per_element(header.dtype);
  if (bits == 0 || bits % 8 != 0 || header.n_bytes == 0 || header.n_bytes > codec::kMaxChunkBytes ||
      header.n_bytes % (bits / 8) != 0) {
    return damaged("the header of the chunk says that it has " + std::to_string(header.n_bytes) +
                       " bytes of type " + std::string(dtype_name(header.dtype)),
                   6);
  }
  const bool is_lossless = header.codec == CodecId::kRaw || header.codec == CodecId::kLossless;
  const bool is_plain = header.dtype == DType::kU8 && header.flags == 0 && is_lossless;
  const bool is_described = header.dtype == values.dtype && header.n_bytes == values.n_bytes() &&
                            ((header.flags & kReversed) != 0) == values.is_big_endian;
  if (!is_described && !is_plain) {
    return damaged("the chunk has other values than the dataset", 6);
  }
  // libhdf5 reads as many bytes as a chunk of the dataset has, without asking how many there are.
  if (values.size_is_known() && header.n_bytes != values.n_bytes()) {
    return damaged("the chunk has " + std::to_string(header.n_bytes) + " bytes, and those of the " +
                       "dataset have " + std::to_string(values.n_bytes()),
                   8);
  }
  if (header.hides_fill() && !is_float(header.dtype)) {
    return damaged("the chunk hides a fill value, and has no floats", 7);
  }
  if (header.codec == CodecId::kRaw && header.n_bytes != n_stored - header.size()) {
    return damaged("the chunk has another length than its header says", 8);
  }
  if (header.codec != CodecId::kRaw && codec::find_decoder(header.codec) == nullptr) {
    return unsupported("the chunk has codec " +
                       std::to_string(static_cast<unsigned>(header.codec)) +
                       ", which this plug-in does not know; install a newer cfck");
  }
  return {};
}

}  // namespace

Result<StoredChunk> store_chunk(const FilterRequest& request, const ChunkValues& described,
                                ByteView bytes, ChunkMemory& memory) {
  const bool is_whole = bytes.size() == described.n_bytes();
  if (!is_whole && described.size_is_known()) {
    return invalid_argument("the chunk has " + std::to_string(bytes.size()) + " bytes and not " +
                            std::to_string(described.n_bytes()) +
                            ", as those of the dataset; create the dataset again");
  }
  if (!is_whole && request.is_lossy()) {
    return invalid_argument("the chunk has " + std::to_string(bytes.size()) + " bytes and not " +
                            std::to_string(described.n_bytes()) +
                            ": another filter changed it before; bounds and targets need cfck to "
                            "be the first filter");
  }
  if (bytes.empty() || bytes.size() > codec::kMaxChunkBytes) {
    return unsupported("a chunk of the dataset has more than 64 MiB; choose smaller chunks");
  }
  const ChunkValues values =
      is_whole ? described : ChunkValues{DType::kU8, false, 0, {bytes.size()}};
  Header header;
  header.dtype = values.dtype;
  header.n_bytes = bytes.size();
  ChunkChoice choice;
  CFCK_TRY_ASSIGN(const ByteView prepared, prepare(request, values, bytes, memory, header, choice));
  CFCK_TRY_ASSIGN(
      const encode::SingleChoice chosen,
      encode_values(request, values, std::move(choice), prepared, header.size(), memory.worker));
  header.codec = chosen.candidate.codec;
  header.entropy = chosen.candidate.entropy;
  StoredChunk stored;
  stored.payload =
      header.codec == CodecId::kRaw ? prepared : ByteView(memory.worker.encoded.payload);
  stored.header = write_header(header, memory.mask_frame, stored.payload);
  return stored;
}

Result<std::uint64_t> check_stored(const ChunkValues& values, ByteView stored) {
  if (stored.size() < kHeaderBytes) {
    return truncated("the chunk has " + std::to_string(stored.size()) +
                     " bytes, fewer than its header; download the file again");
  }
  if (std::memcmp(stored.data(), kMagic, 3) != 0) {
    return damaged("the chunk does not begin as one of the cfck filter", 0);
  }
  if (stored[3] != static_cast<std::byte>(kMagic[3])) {
    return unsupported("the chunk was written by another version of the cfck filter, '" +
                       std::string(1, static_cast<char>(stored[3])) + "'; this plug-in reads '" +
                       std::string(1, kMagic[3]) + "'; install the cfck that wrote the file");
  }
  const Header header = read_header(stored);
  if (stored.size() < header.size() ||
      hash_of(stored, header.size()) != load<std::uint64_t>(stored.data() + kHashAt)) {
    return wrong_checksum(
        "the bytes of the chunk changed after they were written: their checksum is wrong; download "
        "the file again");
  }
  CFCK_TRY(check_header(header, values, stored.size()));
  return header.n_bytes;
}

Result<void> load_chunk(const ChunkValues& values, ByteView stored, ChunkMemory& memory,
                        MutableBytes out) {
  const Header header = read_header(stored);
  const ByteView payload = stored.subspan(header.size());
  codec::ChunkInfo info;
  info.dtype = header.dtype;
  info.entropy = header.entropy;
  info.n_elems = header.n_bytes * 8 / bits_per_element(header.dtype);
  const std::uint64_t flat[] = {info.n_elems};
  const bool is_whole = header.n_bytes == values.n_bytes() && header.dtype == values.dtype;
  info.shape = is_whole ? std::span<const std::uint64_t>(values.shape) : flat;
  CFCK_TRY(message::decode_chunk(header.codec, info, payload, header.size(), memory.worker.scratch,
                                 out));
  if (header.hides_fill()) {
    memory.mask.resize(ceil_div(out.size() / (bits_per_element(header.dtype) / 8), 8));
    CFCK_TRY(codec::decompress_frame(stored.subspan(kMaskAt, header.mask_bytes),
                                     memory.worker.scratch, memory.mask));
    show_fill(header.dtype, values.fill_bits, memory.mask, out);
  }
  if ((header.flags & kReversed) != 0) {
    reverse_bytes(bits_per_element(header.dtype) / 8, out, out.data());
  }
  return {};
}

}  // namespace cfck::hdf5

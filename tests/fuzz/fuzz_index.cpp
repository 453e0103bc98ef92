// Opens arbitrary bytes as a file and reads everything in it. The hashes of tail,
// index and metadata are made right first, so that what lies behind them is met.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/bytes.hpp"
#include "base/hashing.hpp"
#include "cfck/cfck.hpp"
#include "format/container.hpp"

namespace {

using namespace cfck;
using namespace cfck::format;

constexpr std::uint64_t kMaxTensorBytes = 1 << 20;

ByteView extent_of(const std::vector<std::byte>& bytes, std::size_t field) {
  const auto offset = load<std::uint64_t>(bytes.data() + field);
  const auto n_bytes = load<std::uint64_t>(bytes.data() + field + 8);
  if (offset > bytes.size() || n_bytes > bytes.size() - offset) {
    return {};
  }
  return ByteView(bytes).subspan(offset, n_bytes);
}

void repair_hashes(std::vector<std::byte>& bytes) {
  if (bytes.size() < kTailBytes) {
    return;
  }
  const std::size_t tail = bytes.size() - kTailBytes;
  store(bytes.data() + tail + 64, hash128(extent_of(bytes, tail + 48)));
  store(bytes.data() + tail + 96, hash128(extent_of(bytes, tail + 80)));
  store(bytes.data() + tail + 112, std::uint64_t{bytes.size()});
  store(bytes.data() + tail + 120, hash64(ByteView(bytes).subspan(tail, 120)));
}

void read_record(const Reader& reader, const Record& record) {
  if (record.decoded_bytes > kMaxTensorBytes) {
    return;
  }
  std::vector<std::byte> whole(record.decoded_bytes);
  const bool readable = reader.read(record, whole).has_value();
  const unsigned bits = bits_per_element(record.dtype);
  if (!readable || record.n_elems < 2 || bits < 8) {
    return;
  }
  // A part of it must be what the whole has there.
  const std::uint64_t first = record.n_elems / 3;
  const std::uint64_t count = record.n_elems / 2;
  std::vector<std::byte> part(count * bits / 8);
  const Result<void> read = reader.read_elements(record, first, count, part);
  if (!read || std::memcmp(part.data(), whole.data() + first * bits / 8, part.size()) != 0) {
    std::abort();
  }
  (void)reader.map(record);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* start = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(start, start + size);
  repair_hashes(bytes);
  const MemorySource source(bytes);
  DecodeOptions options;
  options.threads = 1;
  options.verify_chunks = false;
  options.limits.max_decoded_bytes = 4 * kMaxTensorBytes;
  options.limits.max_attachment_bytes = kMaxTensorBytes;
  const Result<Reader> reader = Reader::open(source, options);
  if (!reader) {
    return 0;
  }
  for (const Record& record : reader->records()) {
    read_record(*reader, record);
  }
  for (const Attachment& attachment : reader->attachments()) {
    (void)reader->attachment(attachment.name);
  }
  if (!reader->verify(VerifyLevel::kHashes)) {
    std::abort();
  }
  return 0;
}

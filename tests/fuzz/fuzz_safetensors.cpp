// Import of safetensors files: any bytes are either refused, or converted to .cfck
// and back to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "cfck/reader.hpp"
#include "cfck/safetensors.hpp"
#include "cfck/writer.hpp"

namespace {

// Header checks alone find most of what can go wrong; files above this size are
// not converted, to keep the runs short.
constexpr std::size_t kMaxConvertedBytes = 1 << 20;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

cfck::Result<void> round_trip(const cfck::ByteSource& source, const cfck::SafetensorsHeader& header,
                              cfck::MemorySink& out) {
  cfck::MemorySink packed;
  cfck::EncodeOptions encode;
  encode.threads = 1;
  encode.chunk_elems = 64;
  CFCK_TRY_ASSIGN(cfck::Writer writer, cfck::Writer::create(packed, encode));
  CFCK_TRY(cfck::add_safetensors(writer, source, header));
  CFCK_TRY(writer.finish());
  const cfck::MemorySource packed_source(packed.bytes());
  cfck::DecodeOptions decode;
  decode.threads = 1;
  CFCK_TRY_ASSIGN(const cfck::Reader reader, cfck::Reader::open(packed_source, decode));
  return cfck::write_safetensors(reader, out, {}, 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n_bytes) {
  const cfck::ByteView bytes(reinterpret_cast<const std::byte*>(data), n_bytes);
  const cfck::MemorySource source(bytes);
  const auto header = cfck::read_safetensors_header(source);
  if (!header) {
    require(!header.error().message.empty(), "an error without a message");
    return 0;
  }
  std::uint64_t position = 8 + header->json.size();
  for (const auto& entry : header->entries) {
    require(entry.offset_bytes == position, "entries with gaps");
    position += entry.n_bytes;
  }
  require(position == n_bytes, "bytes that no entry covers");
  if (n_bytes > kMaxConvertedBytes) return 0;
  cfck::MemorySink out;
  const auto converted = round_trip(source, *header, out);
  // More dimensions, or longer names, than a .cfck file can have.
  if (!converted) {
    const auto code = converted.error().code;
    require(code == cfck::ErrorCode::kLimitExceeded || code == cfck::ErrorCode::kInvalidArgument,
            converted.error().message.c_str());
    return 0;
  }
  require(
      out.bytes().size() == n_bytes && std::equal(bytes.begin(), bytes.end(), out.bytes().begin()),
      "not the same bytes again");
  return 0;
}

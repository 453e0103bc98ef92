// The bytes of a message around its payloads (spec/message.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/names/detail.hpp"
#include "cfck/message.hpp"
#include "codec/chunk_geometry.hpp"

namespace cfck::message {

inline constexpr std::byte kMark{0xCF};
inline constexpr std::uint8_t kVersion = 2;
inline constexpr std::size_t kFixedBytes = 8;  // before the dimensions
inline constexpr std::size_t kHashBytes = 8;   // the last ones
inline constexpr std::size_t kMaxRank = 64;
inline constexpr std::size_t kTableFixedBytes = 8;  // before the lengths of the payloads
inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::uint8_t kHasTable = 1;  // flag

// The header. `dims` beyond the rank are unspecified.
struct Header {
  DType dtype = DType::kU8;
  CodecId codec = CodecId::kRaw;
  EntropyId entropy = EntropyId::kNone;
  bool has_table = false;
  std::size_t rank = 0;
  std::array<std::uint64_t, kMaxRank> dims;
  std::uint64_t n_elems = 0;
  std::uint64_t n_bytes = 0;  // decoded

  std::span<const std::uint64_t> shape() const noexcept { return {dims.data(), rank}; }
  std::size_t size() const noexcept { return kFixedBytes + 8 * rank; }
};

// Reads a header, at the start of `bytes`, and checks all that it says. Errors: kTruncated,
// kCorrupt, kUnsupported.
Result<Header> read_header(ByteView bytes);
// Requires: `to` has space for header.size() bytes.
void write_header(const Header& header, std::byte* to) noexcept;

// The length of each chunk's payload and, before them, of the preamble.
struct ChunkTable {
  codec::ChunkGeometry geometry;
  std::uint64_t preamble_bytes = 0;
  ByteView lengths;  // n_chunks of four bytes

  std::uint64_t length_of(std::uint64_t chunk) const noexcept;
  std::size_t size() const noexcept { return kTableFixedBytes + lengths.size(); }
};

// Reads the table at `at`. `bytes` is the message without its hash. Errors: kTruncated, kCorrupt;
// that preamble and payloads have the right lengths is checked, too.
Result<ChunkTable> read_table(const Header& header, ByteView bytes, std::size_t at);

// Returns the bytes of a table for that many chunks.
constexpr std::uint64_t table_bytes(std::uint64_t n_chunks) noexcept {
  return kTableFixedBytes + kLengthBytes * n_chunks;
}

}  // namespace cfck::message

// The bytes of a gradient packet around its messages (spec/gradients.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "cfck/gradients.hpp"

namespace cfck::gradients {

inline constexpr std::byte kMark{0xC9};
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kTensorBytes = 12;
inline constexpr std::size_t kHashBytes = 8;  // the last ones
// Gaps below this are integers that F32 has.
inline constexpr std::uint32_t kMaxFloatGap = 1U << 24;

// The parts of a packet; spans point into it.
struct Packet {
  std::uint32_t n_tensors = 0;
  std::uint64_t n_values = 0;
  ByteView table;
  ByteView gaps;    // a message; empty without values
  ByteView values;  // likewise

  SparseShape shape_of(std::size_t tensor) const noexcept;
  float scale_of(std::size_t tensor) const noexcept;
  std::size_t gaps_at() const noexcept { return kHeaderBytes + table.size(); }
  std::size_t values_at() const noexcept { return gaps_at() + gaps.size(); }
};

// Reads the parts, without the hash. Errors: kTruncated, kCorrupt, kUnsupported.
Result<Packet> read_packet(ByteView bytes);
// Reads the parts and compares the hash. Error: also kChecksum.
Result<Packet> verify_packet(ByteView bytes);

// Writes what comes before the messages. Requires: `to` has kHeaderBytes, and the table is written.
void write_header(std::uint32_t n_tensors, std::uint32_t n_gap_bytes, std::uint32_t n_value_bytes,
                  std::byte* to) noexcept;
void write_tensor(const SparseShape& shape, float scale, std::byte* to) noexcept;

}  // namespace cfck::gradients

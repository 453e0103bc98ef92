// The bytes of a packet of rows around its messages (spec/embeddings.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "cfck/embeddings.hpp"

namespace cfck::embeddings {

inline constexpr std::byte kMark{0xCA};
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 24;
// A batch takes at most so much in the table: two bytes, six numbers of up to five, and a step.
inline constexpr std::size_t kMostBatchBytes = 2 + 6 * 5 + 8;
inline constexpr std::size_t kHashBytes = 8;  // the last ones

// How the rows of a batch follow from those that are sent.
enum class RowOrder : std::uint8_t {
  kPlain = 0,      // row i is row i
  kIds = 1,        // each row has an id in the packet
  kFollowing = 2,  // as kIds, but for the rows whose row in an earlier batch came before
  kKeys = 3,       // by order of first appearance of the keys, which the packet does not hold
};

struct BatchHeader {
  RowShape shape;
  RowOrder order = RowOrder::kPlain;
  std::uint32_t leader = 0;       // of kFollowing: the earlier batch
  std::uint32_t n_exact = 0;      // of the rows that are sent, those bit for bit
  std::uint32_t exact_bytes = 0;  // of the message that holds them
  double step = 0;                // of the others

  // Whether the packet says which rows are exact.
  bool has_marks() const noexcept { return n_exact != 0 && n_exact != shape.n_unique; }
  bool has_ids() const noexcept { return order == RowOrder::kIds || order == RowOrder::kFollowing; }
  std::uint64_t n_coded_elems() const noexcept {
    return std::uint64_t{shape.n_unique - n_exact} * shape.row_elems;
  }
  std::uint64_t n_exact_elems() const noexcept { return std::uint64_t{n_exact} * shape.row_elems; }
};

// The parts of a packet; spans point into it.
struct Packet {
  std::vector<BatchHeader> batches;
  ByteView table;
  ByteView buckets;  // a message; empty where no batch has ids
  ByteView bits;     // marks of exact rows, and offsets of ids in their buckets
  ByteView codes;    // a message; empty where all rows are exact
  ByteView exact;    // messages

  std::size_t table_at() const noexcept { return kHeaderBytes; }
  std::size_t buckets_at() const noexcept { return kHeaderBytes + table.size(); }
  std::size_t bits_at() const noexcept { return buckets_at() + buckets.size(); }
  std::size_t codes_at() const noexcept { return bits_at() + bits.size(); }
  std::size_t exact_at() const noexcept { return codes_at() + codes.size(); }
};

// Reads the parts, and checks what the table says; without the hash. Errors: kTruncated, kCorrupt,
// kUnsupported.
Result<Packet> read_packet(ByteView bytes);
// Does the same and compares the hash. Error: also kChecksum.
Result<Packet> verify_packet(ByteView bytes);

struct PartBytes {
  std::uint32_t table = 0;
  std::uint32_t buckets = 0;
  std::uint32_t bits = 0;
  std::uint32_t codes = 0;
  std::uint32_t exact = 0;
};

// Fills kHeaderBytes.
void write_header(const PartBytes& parts, std::byte* to) noexcept;
// Appends at most kMostBatchBytes.
void append_batch(const BatchHeader& batch, std::vector<std::byte>& table);

}  // namespace cfck::embeddings

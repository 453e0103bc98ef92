// Looked-up rows of embedding tables, as bytes for the wire (spec/embeddings.md): rows that repeat
// are sent once, with an error that the caller bounds.
//
// Tables lie in host memory. Threads share nothing: each has a workspace of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cfck/dtype.hpp"
#include "cfck/export.hpp"
#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck {

// Memory of one thread, kept from call to call. Not thread-safe.
class CFCK_API RowWorkspace {
 public:
  RowWorkspace() noexcept;
  ~RowWorkspace();
  RowWorkspace(RowWorkspace&&) noexcept;
  RowWorkspace& operator=(RowWorkspace&&) noexcept;

  struct Memory;

 private:
  friend struct RowMemory;
  std::unique_ptr<Memory> memory_;  // made at first use
};

// Rows that were looked up in one table: n_rows times row_elems values, row-major.
struct RowBatch {
  DType dtype = DType::kF32;  // F32, F16 or BF16
  std::uint32_t n_rows = 0;   // at most kMaxBatchRows
  std::uint32_t row_elems = 0;
  ByteView values;
  // The most by which a value may change; 0: no bit is lost. Rows with NaN or infinities, and those
  // with values that the bound does not allow to be quantised, are kept bit for bit.
  double max_abs_error = 0;
  // One for each row, or empty. Rows with equal keys have equal bytes, and whoever decodes the
  // packet has the keys as well: which rows are equal is not sent then.
  std::span<const std::int64_t> keys = {};
};

inline constexpr std::uint32_t kMaxBatchRows = std::uint32_t{1} << 21;

struct RowPacketOptions {
  EncodeLevel level = EncodeLevel::kFast;
  // The rate of the network, in bytes per second. Rows are looked for that repeat where the time on
  // the wire that this saves is more than the time that it takes.
  double bytes_per_second = 1.25e9;
};

// Returns the most bytes of a packet of such batches, whatever their values. Errors:
// kInvalidArgument for another dtype, or values or keys of another length than the numbers say;
// kLimitExceeded.
CFCK_API Result<std::uint64_t> max_row_packet_bytes(std::span<const RowBatch> batches);

// Encodes the batches into `out`, which has at least max_row_packet_bytes(), and returns the length
// of the packet. Equal calls give equal bytes. Errors: those of max_row_packet_bytes();
// kInvalidArgument for an error that is negative or not finite, for rows with equal keys that
// differ, for a rate that is not positive and for an `out` that is too small or overlaps the
// batches; kOutOfMemory.
CFCK_API Result<std::uint64_t> encode_rows(std::span<const RowBatch> batches,
                                           const RowPacketOptions& options, MutableBytes out,
                                           RowWorkspace& workspace);

// Holds what a packet says of a batch.
struct RowShape {
  DType dtype = DType::kF32;
  std::uint32_t n_rows = 0;
  std::uint32_t row_elems = 0;
  std::uint32_t n_unique = 0;  // rows of it that the packet holds
  bool needs_keys = false;

  bool operator==(const RowShape&) const = default;
};

// Reads what a packet says of its batches, unverified. Errors: kTruncated, kCorrupt, kUnsupported.
CFCK_API Result<std::vector<RowShape>> row_packet_shapes(ByteView packet);

// Where a batch is decoded to: as many bytes as its shape says; and its keys, if it needs them.
struct DecodedRows {
  MutableBytes values;
  std::span<const std::int64_t> keys = {};
};

// Verifies and decodes a packet. Errors, with the byte of the packet where something is wrong:
// kTruncated, kCorrupt, kChecksum, kUnsupported; kInvalidArgument for another number of batches,
// for memory or keys of another size, for memory that overlaps the packet, and for keys that are
// not those of the packet, as far as their number of different ones tells; kOutOfMemory. After an
// error the contents are unspecified.
CFCK_API Result<void> decode_rows(ByteView packet, std::span<const DecodedRows> batches,
                                  RowWorkspace& workspace);

}  // namespace cfck

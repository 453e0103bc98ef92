// The header of a chunk of rows (codec/rows/spec.md, sections 1 and 2).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codec/codec.hpp"
#include "codec/common/lossless_fallback.hpp"

namespace cfck::codec {

enum class RowsMode : std::uint8_t {
  kDictionary = kFirstLossyMode,
  kOther = kFirstLossyMode + 1,  // the chunk as another codec stores it
};

// The rows of a chunk.
struct RowGeometry {
  std::uint64_t n_rows = 0;
  std::uint64_t row_elems = 0;
  std::uint64_t row_bytes = 0;
};

// Returns nothing where a chunk has no whole rows.
std::optional<RowGeometry> row_geometry(const ChunkInfo& info) noexcept;

// True if the codec may store the rows of a dictionary.
bool may_hold_rows(CodecId codec) noexcept;

struct RowsHeader {
  RowsMode mode = RowsMode::kDictionary;
  CodecId codec = CodecId::kLossless;  // of the rows
  std::uint32_t n_different = 0;
  std::uint32_t n_repeated = 0;
  std::uint32_t bucket_bytes = 0;
  std::uint32_t offset_bytes = 0;
  std::uint32_t row_bytes = 0;     // of the payload of the other codec
  std::uint32_t header_bytes = 0;  // filled in by readers

  std::uint64_t buckets_at() const noexcept { return header_bytes; }
  std::uint64_t offsets_at() const noexcept { return buckets_at() + bucket_bytes; }
  std::uint64_t rows_at() const noexcept { return offsets_at() + offset_bytes; }
  std::uint64_t body_bytes() const noexcept { return rows_at() + row_bytes; }
};

void append_header(const RowsHeader& header, std::vector<std::byte>& out);
// Reads the header of a payload in mode 4 or 5. Errors: kTruncated, kCorrupt, kUnsupported for
// another codec that this version does not know there.
Result<RowsHeader> parse_rows_header(const ChunkInfo& info, ByteView payload);

// A chunk that is a tensor of its own, without a preamble, as another codec gets it.
class OwnTensor {
 public:
  // Rows of a chunk of the record.
  OwnTensor(const ChunkInfo& of_record, std::uint64_t n_rows, std::uint64_t row_elems) noexcept;
  // All of a chunk of the record: its rows, or a tensor of one axis if it has no whole rows.
  explicit OwnTensor(const ChunkInfo& of_record) noexcept;
  // Numbers up to 255 for the n rows of a chunk, which codec lossless has.
  static OwnTensor of_bytes(const ChunkInfo& of_record, std::uint64_t n) noexcept;

  std::span<const std::uint64_t> shape() const noexcept { return {shape_, rank_}; }
  // It lasts as long as this object and what the record's chunk refers to.
  ChunkInfo chunk() const noexcept;

 private:
  ChunkInfo info_;
  std::uint64_t shape_[2] = {1, 1};
  std::size_t rank_ = 2;
};

}  // namespace cfck::codec

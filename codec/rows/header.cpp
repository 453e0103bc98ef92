#include "codec/rows/header.hpp"

#include <limits>

#include "codec/common/varint.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {

std::optional<RowGeometry> row_geometry(const ChunkInfo& info) noexcept {
  if (info.shape.size() < 2 || info.shape.back() == 0) {
    return std::nullopt;
  }
  const std::uint64_t row_elems = info.shape.back();
  if (info.first_elem % row_elems != 0 || info.n_elems % row_elems != 0 ||
      info.n_elems > kMaxChunkBytes * 2) {
    return std::nullopt;
  }
  const std::uint64_t row_bits = row_elems * bits_per_element(info.dtype);
  if (row_bits % 8 != 0) {
    return std::nullopt;
  }
  return RowGeometry{info.n_elems / row_elems, row_elems, row_bits / 8};
}

bool may_hold_rows(CodecId codec) noexcept {
  return codec == CodecId::kLossless || codec == CodecId::kDirect;
}

void append_header(const RowsHeader& header, std::vector<std::byte>& out) {
  out.push_back(static_cast<std::byte>(header.mode));
  out.push_back(static_cast<std::byte>(header.codec));
  if (header.mode == RowsMode::kDictionary) {
    append_varint(header.n_different, out);
    append_varint(header.n_repeated, out);
    append_varint(header.bucket_bytes, out);
    append_varint(header.offset_bytes, out);
  }
  append_varint(header.row_bytes, out);
}

namespace {

Result<void> parse_dictionary(const ChunkInfo& info, VarintReader& fields, RowsHeader& header) {
  const std::optional<RowGeometry> rows = row_geometry(info);
  if (!rows) {
    return corrupt("a chunk without whole rows has a dictionary of rows", 0);
  }
  const std::size_t at = fields.position();
  CFCK_TRY_ASSIGN(header.n_different, fields.varint());
  CFCK_TRY_ASSIGN(header.n_repeated, fields.varint());
  if (header.n_different == 0 || header.n_different > rows->n_rows ||
      header.n_repeated > header.n_different) {
    return corrupt("the numbers of rows in the header of a dictionary are out of range", at);
  }
  CFCK_TRY_ASSIGN(header.bucket_bytes, fields.varint());
  CFCK_TRY_ASSIGN(header.offset_bytes, fields.varint());
  if (header.bucket_bytes == 0) {
    return corrupt("a dictionary of rows has no buckets", at);
  }
  return {};
}

}  // namespace

Result<RowsHeader> parse_rows_header(const ChunkInfo& info, ByteView payload) {
  VarintReader fields(payload);
  RowsHeader header;
  CFCK_TRY_ASSIGN(const std::uint8_t mode, fields.byte());
  header.mode = static_cast<RowsMode>(mode);
  if (header.mode != RowsMode::kDictionary && header.mode != RowsMode::kOther) {
    return corrupt("unknown mode of a chunk of rows", 0);
  }
  CFCK_TRY_ASSIGN(const std::uint8_t codec, fields.byte());
  header.codec = static_cast<CodecId>(codec);
  if (!may_hold_rows(header.codec)) {
    return codec_error(ErrorCode::kUnsupported,
                       "the rows of a chunk are stored by a codec that this version does not know "
                       "there; install a newer one",
                       1);
  }
  if (header.mode == RowsMode::kDictionary) {
    CFCK_TRY(parse_dictionary(info, fields, header));
  }
  const std::size_t at = fields.position();
  CFCK_TRY_ASSIGN(header.row_bytes, fields.varint());
  header.header_bytes = static_cast<std::uint32_t>(fields.position());
  if (header.row_bytes == 0 || header.body_bytes() > std::numeric_limits<std::uint32_t>::max()) {
    return corrupt("the lengths in the header of a chunk of rows are out of range", at);
  }
  return header;
}

OwnTensor::OwnTensor(const ChunkInfo& of_record, std::uint64_t n_rows,
                     std::uint64_t row_elems) noexcept
    : info_(of_record), shape_{n_rows, row_elems} {
  info_.n_elems = n_rows * row_elems;
}

OwnTensor::OwnTensor(const ChunkInfo& of_record) noexcept : info_(of_record) {
  if (const std::optional<RowGeometry> rows = row_geometry(of_record)) {
    shape_[0] = rows->n_rows;
    shape_[1] = rows->row_elems;
  } else {
    shape_[0] = of_record.n_elems;
    rank_ = 1;
  }
}

OwnTensor OwnTensor::of_bytes(const ChunkInfo& of_record, std::uint64_t n) noexcept {
  OwnTensor bytes(of_record, n, 1);
  bytes.rank_ = 1;
  bytes.info_.dtype = DType::kU8;
  bytes.info_.entropy = EntropyId::kZstd;
  return bytes;
}

ChunkInfo OwnTensor::chunk() const noexcept {
  ChunkInfo info = info_;
  info.shape = shape();
  info.first_elem = 0;
  info.preamble = {};
  return info;
}

}  // namespace cfck::codec

#include "codec/direct/chunk/header.hpp"

#include "codec/common/chunk_shape.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {
namespace {

// Reads the fields in the order of section 2 of the specification.
Result<void> read_fields(VarintReader& in, EntropyId entropy, bool has_field, DirectHeader& h) {
  CFCK_TRY_ASSIGN(h.flags, in.byte());
  if (!has_field) {
    CFCK_TRY_ASSIGN(h.first_bin, in.varint());
  }
  if (h.flags & kDirectMask) {
    CFCK_TRY_ASSIGN(h.mask_bytes, in.varint());
    CFCK_TRY_ASSIGN(h.n_masked, in.varint());
  }
  if (h.flags & kDirectEscapes) {
    CFCK_TRY_ASSIGN(h.n_escapes, in.varint());
    CFCK_TRY_ASSIGN(h.n_exact, in.varint());
    CFCK_TRY_ASSIGN(h.code_bytes, in.varint());
  }
  if (h.flags & kDirectBinEscapes) {
    CFCK_TRY_ASSIGN(h.n_bin_escapes, in.varint());
  }
  if (entropy == EntropyId::kRans) {
    CFCK_TRY_ASSIGN(h.coded_bytes, in.varint());
  }
  if (h.flags & kDirectRaw) {
    CFCK_TRY_ASSIGN(h.raw_bytes, in.varint());
  }
  return {};
}

Result<std::uint64_t> check_fields(const DirectHeader& h, bool has_field, const ChunkShape& shape) {
  const std::uint64_t n_left = shape.n_values - h.n_masked;
  const std::uint64_t n_groups = (n_left + kGroupSize - 1) / kGroupSize;
  if (h.flags > (kDirectMask | kDirectEscapes | kDirectBinEscapes | kDirectRaw) ||
      (has_field && (h.flags & kDirectBinEscapes)) ||
      ((h.flags & kDirectEscapes) != 0) != (h.n_escapes != 0) ||
      ((h.flags & kDirectBinEscapes) != 0) != (h.n_bin_escapes != 0) ||
      ((h.flags & kDirectRaw) != 0) != (h.raw_bytes != 0)) {
    return corrupt("the flags of a direct chunk contradict its contents", 1);
  }
  if (h.n_masked >= shape.n_values || h.mask_bytes > (shape.n_values + 7) / 8) {
    return corrupt("the mask does not fit the chunk", 1);
  }
  const std::uint32_t n_indices = h.n_escapes - h.n_exact;
  if (h.first_bin > kMaxDirectBin || h.n_escapes > n_left || h.n_exact > h.n_escapes ||
      h.code_bytes < n_indices || h.code_bytes > std::uint64_t{5} * n_indices ||
      h.n_bin_escapes > n_groups || h.raw_bytes > 4 * (n_left + kGroupSize) ||
      h.coded_bytes > max_section_bytes(n_left)) {
    return corrupt("a count in the header of the chunk is out of range", 1);
  }
  return std::uint64_t{h.mask_bytes} + 2 * std::uint64_t{h.n_bin_escapes} +
         (std::uint64_t{h.n_escapes} + 7) / 8 + h.code_bytes +
         std::uint64_t{h.n_exact} * shape.value_bytes + h.coded_bytes + h.raw_bytes;
}

}  // namespace

ChunkInfo lossless_info(const DirectChunkInfo& info) {
  return {info.dtype, info.entropy, ScanId::kStorageOrder, info.n_elems,
          {},         info.shape,   info.first_elem};
}

ValueSteps value_steps(const DirectGeometry& geometry, const DirectParameters& parameters,
                       const DirectBounds& bounds, std::uint64_t first_elem) {
  ValueSteps steps;
  steps.step = parameters.step;
  steps.bound = bounds.bound;
  steps.row_steps = parameters.row_steps.empty() ? nullptr : parameters.row_steps.data();
  steps.row_bounds = bounds.rows.empty() ? nullptr : bounds.rows.data();
  steps.n_rows = geometry.rows;
  steps.row_values = geometry.row_values();
  steps.first_value = first_elem;
  return steps;
}

Result<DirectGeometry> check_direct_chunk(const DirectChunkInfo& info) {
  if (info.dtype != DType::kF32 && info.dtype != DType::kF64 && info.dtype != DType::kF16 &&
      info.dtype != DType::kBF16) {
    return unsupported("error bounds apply to F64, F32, BF16 and F16 only");
  }
  CFCK_TRY(chunk_shape(lossless_info(info)));
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, direct_geometry(info.shape));
  if (info.first_elem >= geometry.n_values() ||
      info.n_elems > geometry.n_values() - info.first_elem) {
    return invalid_argument("the chunk is not part of its tensor");
  }
  return geometry;
}

Result<DirectHeader> parse_direct_header(const DirectChunkInfo& info,
                                         const DirectGeometry& geometry, ByteView payload) {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(lossless_info(info)));
  VarintReader in(payload);
  DirectHeader header;
  CFCK_TRY_ASSIGN(const std::uint8_t mode, in.byte());
  const DirectParameters* parameters = info.parameters;
  if (mode == kDirectInline) {
    // Constant vectors of a field have no bytes that limit their length; but then no more numbers
    // are made than the chunk has values.
    if (has_scale_field(payload.subspan(1)) && info.n_elems != geometry.n_values()) {
      return corrupt("an inline scale field in a chunk that is not the whole tensor", 1);
    }
    CFCK_TRY_ASSIGN(header.parameters, read_parameters(geometry, in));
    parameters = &*header.parameters;
  }
  if (parameters == nullptr) {
    return corrupt("the chunk needs parameters, and the record has no preamble", 0);
  }
  const bool has_field = !parameters->field.empty();
  CFCK_TRY(read_fields(in, info.entropy, has_field, header));
  CFCK_TRY_ASSIGN(const std::uint64_t section_bytes, check_fields(header, has_field, shape));
  if (section_bytes + in.position() > 0xffffffffu) {
    return corrupt("the sections of the chunk are too long", 0);
  }
  header.header_bytes = static_cast<std::uint32_t>(in.position());
  header.body_bytes = static_cast<std::uint32_t>(section_bytes + in.position());
  return header;
}

void append_direct_header(const DirectHeader& h, EntropyId entropy, bool has_field,
                          const DirectParameters* inline_parameters, std::vector<std::byte>& out) {
  out.push_back(std::byte{inline_parameters == nullptr ? kDirectPreamble : kDirectInline});
  if (inline_parameters != nullptr) {
    append_parameters(*inline_parameters, out);
  }
  out.push_back(static_cast<std::byte>(h.flags));
  if (!has_field) {
    append_varint(h.first_bin, out);
  }
  if (h.flags & kDirectMask) {
    append_varint(h.mask_bytes, out);
    append_varint(h.n_masked, out);
  }
  if (h.flags & kDirectEscapes) {
    append_varint(h.n_escapes, out);
    append_varint(h.n_exact, out);
    append_varint(h.code_bytes, out);
  }
  if (h.flags & kDirectBinEscapes) {
    append_varint(h.n_bin_escapes, out);
  }
  if (entropy == EntropyId::kRans) {
    append_varint(h.coded_bytes, out);
  }
  if (h.flags & kDirectRaw) {
    append_varint(h.raw_bytes, out);
  }
}

Result<std::uint32_t> direct_body_bytes(const DirectChunkInfo& info, ByteView payload) {
  if (is_lossless_payload(payload)) {
    return lossless_body_bytes(lossless_info(info), payload);
  }
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, check_direct_chunk(info));
  if (payload.empty() || payload[0] > std::byte{kDirectPreamble}) {
    return payload.empty() ? truncated("the chunk is empty", 0)
                           : corrupt("unknown mode of a direct chunk", 0);
  }
  CFCK_TRY_ASSIGN(const DirectHeader header, parse_direct_header(info, geometry, payload));
  return header.body_bytes;
}

}  // namespace cfck::codec

#include "codec/direct/chunk/header.hpp"

#include <algorithm>
#include <span>

#include "codec/common/chunk_shape.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {
namespace {

// Which fields a header has.
struct HeaderShape {
  bool has_field = false;
  bool is_rans = false;
  bool may_have_segments = false;
};

HeaderShape header_shape(const DirectParameters& parameters, EntropyId entropy) {
  return {!parameters.field.empty(), entropy == EntropyId::kRans,
          may_have_segments(parameters, entropy)};
}

// The next functions take fields in the order of section 2 of the specification.
Result<void> read_counts(VarintReader& in, const HeaderShape& shape, std::uint8_t flags,
                         DirectSegment& segment) {
  if (flags & kDirectEscapes) {
    CFCK_TRY_ASSIGN(segment.n_escapes, in.varint());
    CFCK_TRY_ASSIGN(segment.n_exact, in.varint());
    CFCK_TRY_ASSIGN(segment.code_bytes, in.varint());
  }
  if (flags & kDirectBinEscapes) {
    CFCK_TRY_ASSIGN(segment.n_bin_escapes, in.varint());
  }
  if (shape.is_rans) {
    CFCK_TRY_ASSIGN(segment.coded_bytes, in.varint());
  }
  if (flags & kDirectRaw) {
    CFCK_TRY_ASSIGN(segment.raw_bytes, in.varint());
  }
  return {};
}

Result<void> read_segments(VarintReader& in, const HeaderShape& shape, DirectHeader& h) {
  CFCK_TRY_ASSIGN(h.n_segments, in.byte());
  if (h.n_segments < 2 || h.n_segments > kMaxSegments) {
    return corrupt("bad number of segments", in.position() - 1);
  }
  CFCK_TRY_ASSIGN(h.table_bytes, in.varint());
  for (DirectSegment& segment : std::span(h.segments).first(h.n_segments)) {
    CFCK_TRY_ASSIGN(segment.first_bin, in.varint());
    CFCK_TRY(read_counts(in, shape, h.flags, segment));
  }
  return {};
}

Result<void> read_fields(VarintReader& in, const HeaderShape& shape, DirectHeader& h) {
  CFCK_TRY_ASSIGN(h.flags, in.byte());
  if (h.flags & kDirectSegments) {
    if (!shape.may_have_segments || (h.flags & kDirectMask) != 0) {
      return corrupt("segments in a chunk that cannot have any", in.position() - 1);
    }
    return read_segments(in, shape, h);
  }
  if (!shape.has_field) {
    CFCK_TRY_ASSIGN(h.segments[0].first_bin, in.varint());
  }
  if (h.flags & kDirectMask) {
    CFCK_TRY_ASSIGN(h.mask_bytes, in.varint());
    CFCK_TRY_ASSIGN(h.n_masked, in.varint());
  }
  return read_counts(in, shape, h.flags, h.segments[0]);
}

// `n` is the number of values of the segment that are not masked.
bool is_in_range(const DirectSegment& segment, std::uint64_t n) {
  const std::uint32_t n_indices = segment.n_escapes - segment.n_exact;
  return segment.first_bin <= kMaxDirectBin && segment.n_escapes <= n &&
         segment.n_exact <= segment.n_escapes && segment.code_bytes >= n_indices &&
         segment.code_bytes <= std::uint64_t{5} * n_indices &&
         segment.n_bin_escapes <= (n + kGroupSize - 1) / kGroupSize &&
         segment.raw_bytes <= 4 * (n + kGroupSize) && segment.coded_bytes <= max_section_bytes(n);
}

// Whether the flag says that some segment has what `number` counts.
bool is_told(const DirectHeader& h, DirectFlag flag, std::uint32_t DirectSegment::*number) {
  const bool has_some =
      std::ranges::any_of(std::span(h.segments).first(h.n_segments),
                          [&](const DirectSegment& segment) { return segment.*number != 0; });
  return ((h.flags & flag) != 0) == has_some;
}

// Returns the bytes of all sections.
Result<std::uint64_t> check_fields(const DirectHeader& h, bool has_field, const ChunkShape& shape) {
  if (h.flags > (kDirectMask | kDirectEscapes | kDirectBinEscapes | kDirectRaw | kDirectSegments) ||
      (has_field && (h.flags & kDirectBinEscapes)) ||
      !is_told(h, kDirectEscapes, &DirectSegment::n_escapes) ||
      !is_told(h, kDirectBinEscapes, &DirectSegment::n_bin_escapes) ||
      !is_told(h, kDirectRaw, &DirectSegment::raw_bytes)) {
    return corrupt("the flags of a direct chunk contradict its contents", 1);
  }
  if (h.n_masked >= shape.n_values || h.mask_bytes > (shape.n_values + 7) / 8) {
    return corrupt("the mask does not fit the chunk", 1);
  }
  const SegmentedGroups groups(shape.n_values - h.n_masked, h.n_segments);
  if (!groups.have_all_some()) {
    return corrupt("the chunk has more segments than its values fill", 1);
  }
  bool fits = h.table_bytes <= max_section_bytes(0);
  std::uint64_t n_bytes = std::uint64_t{h.mask_bytes} + h.table_bytes;
  for (unsigned i = 0; i < h.n_segments; ++i) {
    fits = fits && is_in_range(h.segments[i], groups.n_values(i));
    n_bytes += h.segments[i].section_bytes(shape.value_bytes);
  }
  if (!fits) {
    return corrupt("a count in the header of the chunk is out of range", 1);
  }
  return n_bytes;
}

void append_counts(const DirectSegment& segment, std::uint8_t flags, bool is_rans,
                   std::vector<std::byte>& out) {
  if (flags & kDirectEscapes) {
    append_varint(segment.n_escapes, out);
    append_varint(segment.n_exact, out);
    append_varint(segment.code_bytes, out);
  }
  if (flags & kDirectBinEscapes) {
    append_varint(segment.n_bin_escapes, out);
  }
  if (is_rans) {
    append_varint(segment.coded_bytes, out);
  }
  if (flags & kDirectRaw) {
    append_varint(segment.raw_bytes, out);
  }
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
  const HeaderShape fields = header_shape(*parameters, info.entropy);
  CFCK_TRY(read_fields(in, fields, header));
  CFCK_TRY_ASSIGN(const std::uint64_t section_bytes, check_fields(header, fields.has_field, shape));
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
  const bool is_rans = entropy == EntropyId::kRans;
  if (h.flags & kDirectSegments) {
    out.push_back(static_cast<std::byte>(h.n_segments));
    append_varint(h.table_bytes, out);
    for (const DirectSegment& segment : std::span(h.segments).first(h.n_segments)) {
      append_varint(segment.first_bin, out);
      append_counts(segment, h.flags, is_rans, out);
    }
    return;
  }
  if (!has_field) {
    append_varint(h.segments[0].first_bin, out);
  }
  if (h.flags & kDirectMask) {
    append_varint(h.mask_bytes, out);
    append_varint(h.n_masked, out);
  }
  append_counts(h.segments[0], h.flags, is_rans, out);
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

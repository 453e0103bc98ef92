#include "codec/lossless/chunk_header.hpp"

#include <span>

#include "codec/common/segments.hpp"
#include "codec/common/varint.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/errors.hpp"
#include "codec/symboliser/float_format.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {
namespace {

struct FormatLimits {
  bool is_float = false;
  std::uint32_t max_bin = 0;
  unsigned raw_bits = 0;
};

FormatLimits format_limits(DType dtype, EntropyId entropy) {
  return visit_format(
      dtype,
      [entropy](auto tag) {
        using Format = typename decltype(tag)::type;
        const unsigned raw_bits = entropy == EntropyId::kRans
                                      ? unsigned{With32Symbols<Format>::kRawBits}
                                      : unsigned{Format::kRawBits};
        return FormatLimits{true, max_bin<Format>(), raw_bits};
      },
      [] { return FormatLimits{}; });
}

// The next functions take fields in the order of section 3.1 of the specification.
Result<void> read_escape_counts(VarintReader& in, std::uint8_t flags, SegmentHeader& segment) {
  if (flags & kHasEscapes) {
    CFCK_TRY_ASSIGN(segment.n_bin_escapes, in.varint());
    CFCK_TRY_ASSIGN(segment.n_escapes, in.varint());
  }
  return {};
}

Result<void> read_segments(VarintReader& in, SymbolsHeader& h) {
  CFCK_TRY_ASSIGN(h.n_segments, in.byte());
  if (h.n_segments < 2 || h.n_segments > kMaxSegments) {
    return corrupt("bad number of segments", in.position() - 1);
  }
  CFCK_TRY_ASSIGN(h.table_bytes, in.varint());
  for (SegmentHeader& segment : std::span(h.segments).first(h.n_segments)) {
    CFCK_TRY_ASSIGN(segment.first_bin, in.varint());
    CFCK_TRY(read_escape_counts(in, h.flags, segment));
    CFCK_TRY_ASSIGN(segment.coded_bytes, in.varint());
    CFCK_TRY_ASSIGN(segment.raw_bytes, in.varint());
  }
  return {};
}

Result<SymbolsHeader> read_rans_header(VarintReader& in) {
  SymbolsHeader h;
  SegmentHeader& all = h.segments[0];
  CFCK_TRY_ASSIGN(h.flags, in.byte());
  const bool has_segments = (h.flags & kHasSegments) != 0;
  if ((h.flags & kHasFourTables) != 0 || (has_segments && (h.flags & kHasMask) != 0)) {
    return corrupt("flags that the entropy stage rans does not have", 1);
  }
  if (!has_segments) {
    CFCK_TRY_ASSIGN(all.first_bin, in.varint());
  }
  if (h.flags & kHasMask) {
    CFCK_TRY_ASSIGN(h.mask_bytes, in.varint());
    CFCK_TRY_ASSIGN(h.n_masked, in.varint());
  }
  if (h.flags & kHasTrailingZeroBase) {
    CFCK_TRY_ASSIGN(h.trailing_zero_base, in.byte());
  }
  if (has_segments) {
    CFCK_TRY(read_segments(in, h));
    return h;
  }
  CFCK_TRY(read_escape_counts(in, h.flags, all));
  CFCK_TRY_ASSIGN(all.coded_bytes, in.varint());
  CFCK_TRY_ASSIGN(all.raw_bytes, in.varint());
  return h;
}

Result<SymbolsHeader> read_zstd_header(VarintReader& in) {
  SymbolsHeader h;
  SegmentHeader& all = h.segments[0];
  CFCK_TRY_ASSIGN(h.flags, in.byte());
  CFCK_TRY_ASSIGN(all.first_bin, in.varint());
  if (h.flags & kHasMask) {
    CFCK_TRY_ASSIGN(h.mask_bytes, in.varint());
    CFCK_TRY_ASSIGN(h.n_masked, in.varint());
  }
  if (h.flags & kHasTrailingZeroBase) {
    CFCK_TRY_ASSIGN(h.trailing_zero_base, in.byte());
  }
  if (h.flags & kHasZeroGroups) {
    CFCK_TRY_ASSIGN(h.n_symbols, in.varint());
  }
  if (h.flags & kHasFourTables) {
    for (std::uint32_t& n : h.table_symbols) {
      CFCK_TRY_ASSIGN(n, in.varint());
    }
  }
  CFCK_TRY(read_escape_counts(in, h.flags, all));
  CFCK_TRY_ASSIGN(all.raw_bytes, in.varint());
  return h;
}

// `n` is the number of values that the segment has, `n_room` one that its bytes are limited by.
bool is_in_range(const SegmentHeader& segment, std::uint64_t n, std::uint64_t n_room,
                 unsigned value_bytes, std::uint32_t max_bin) {
  return segment.first_bin <= max_bin && segment.n_escapes <= n &&
         segment.n_bin_escapes <= (n + kGroupSize - 1) / kGroupSize &&
         segment.raw_bytes <= (n_room + kGroupSize) * value_bytes &&
         segment.coded_bytes <= max_section_bytes(n_room);
}

// Returns the bytes of all sections.
Result<std::uint64_t> check_symbols_header(SymbolsHeader& h, const ChunkShape& shape,
                                           EntropyId entropy, const FormatLimits& limits) {
  if (!limits.is_float) {
    return corrupt("chunk mode 2 is for float types only", 0);
  }
  if ((h.flags & kHasMaskSigns) && !(h.flags & kHasMask)) {
    return corrupt("signs of masked values without a mask", 1);
  }
  const std::uint64_t n = shape.n_values;
  if (h.n_masked >= n || h.mask_bytes > (n + 7) / 8) {
    return corrupt("the mask does not fit the chunk", 1);
  }
  const std::uint64_t n_left = n - h.n_masked;
  if (entropy == EntropyId::kRans || !(h.flags & kHasZeroGroups)) {
    h.n_symbols = static_cast<std::uint32_t>(n_left);
  }
  const std::uint64_t in_tables =
      std::uint64_t{h.table_symbols[0]} + h.table_symbols[1] + h.table_symbols[2];
  const SegmentedGroups groups(n_left, h.n_segments);
  if (!groups.have_all_some()) {
    return corrupt("the chunk has more segments than its values fill", 1);
  }
  bool fits = h.trailing_zero_base < limits.raw_bits && h.n_symbols <= n_left &&
              in_tables <= h.n_symbols && h.table_bytes <= max_section_bytes(0);
  std::uint64_t n_bytes = std::uint64_t{h.mask_bytes} + h.sign_bytes() + h.table_bytes;
  for (unsigned i = 0; i < h.n_segments; ++i) {
    const std::uint64_t in_segment = groups.n_values(i);
    const bool is_all = h.n_segments == 1;
    fits = fits && is_in_range(h.segments[i], is_all ? h.n_symbols : in_segment,
                               is_all ? n : in_segment, shape.value_bytes, limits.max_bin);
    n_bytes += h.segments[i].section_bytes(shape.value_bytes);
  }
  if (!fits) {
    return corrupt("a count in the header of the chunk is out of range", 1);
  }
  return n_bytes;
}

// Returns the bytes of all sections.
Result<std::uint64_t> read_planes_header(VarintReader& in, const ChunkShape& shape,
                                         PlanesHeader& header) {
  CFCK_TRY_ASSIGN(const std::uint8_t transform, in.byte());
  if (transform > static_cast<std::uint8_t>(PlaneTransform::kDelta)) {
    return corrupt("unknown transform of byte planes", 1);
  }
  header.transform = static_cast<PlaneTransform>(transform);
  std::uint64_t total = 0;
  for (unsigned i = 0; i < shape.value_bytes; ++i) {
    PlaneHeader& plane = header.planes[i];
    const std::uint32_t at = static_cast<std::uint32_t>(in.position());
    CFCK_TRY_ASSIGN(const std::uint8_t coding, in.byte());
    plane.coding = static_cast<PlaneCoding>(coding);
    switch (plane.coding) {
      case PlaneCoding::kRaw:
        plane.stored_bytes = static_cast<std::uint32_t>(shape.n_values);
        break;
      case PlaneCoding::kConstant: {
        CFCK_TRY_ASSIGN(const std::uint8_t value, in.byte());
        plane.value = std::byte{value};
        break;
      }
      case PlaneCoding::kZstd: {
        CFCK_TRY_ASSIGN(plane.stored_bytes, in.varint());
        if (plane.stored_bytes >= shape.n_values) {
          return corrupt("a coded byte plane is not shorter than a raw one", at);
        }
        break;
      }
      default:
        return corrupt("unknown coding of a byte plane", at);
    }
    total += plane.stored_bytes;
  }
  return total;
}

void append_escape_counts(std::uint8_t flags, const SegmentHeader& segment,
                          std::vector<std::byte>& out) {
  if (flags & kHasEscapes) {
    append_varint(segment.n_bin_escapes, out);
    append_varint(segment.n_escapes, out);
  }
}

void append_segments(const SymbolsHeader& h, std::vector<std::byte>& out) {
  out.push_back(static_cast<std::byte>(h.n_segments));
  append_varint(h.table_bytes, out);
  for (const SegmentHeader& segment : std::span(h.segments).first(h.n_segments)) {
    append_varint(segment.first_bin, out);
    append_escape_counts(h.flags, segment, out);
    append_varint(segment.coded_bytes, out);
    append_varint(segment.raw_bytes, out);
  }
}

}  // namespace

Result<ChunkHeader> parse_chunk_header(const ChunkInfo& info, ByteView payload) {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  VarintReader in(payload);
  ChunkHeader header;
  CFCK_TRY_ASSIGN(const std::uint8_t mode, in.byte());
  header.mode = static_cast<ChunkMode>(mode);
  std::uint64_t section_bytes = 0;
  switch (header.mode) {
    case ChunkMode::kStored:
      section_bytes = shape.n_bytes();
      break;
    case ChunkMode::kConstant:
      section_bytes = shape.value_bytes;
      break;
    case ChunkMode::kSymbols: {
      CFCK_TRY_ASSIGN(header.symbols, info.entropy == EntropyId::kRans ? read_rans_header(in)
                                                                       : read_zstd_header(in));
      CFCK_TRY_ASSIGN(section_bytes, check_symbols_header(header.symbols, shape, info.entropy,
                                                          format_limits(info.dtype, info.entropy)));
      break;
    }
    case ChunkMode::kPlanes: {
      CFCK_TRY_ASSIGN(section_bytes, read_planes_header(in, shape, header.planes));
      break;
    }
    default:
      return corrupt("unknown mode of a lossless chunk", 0);
  }
  header.header_bytes = static_cast<std::uint32_t>(in.position());
  if (section_bytes + header.header_bytes > 0xffffffffu) {
    return corrupt("the sections of the chunk are too long", 0);
  }
  header.body_bytes = static_cast<std::uint32_t>(section_bytes + header.header_bytes);
  return header;
}

void append_symbols_header(const SymbolsHeader& h, EntropyId entropy, std::vector<std::byte>& out) {
  const bool is_rans = entropy == EntropyId::kRans;
  const bool has_segments = is_rans && (h.flags & kHasSegments) != 0;
  const SegmentHeader& all = h.segments[0];
  out.push_back(static_cast<std::byte>(ChunkMode::kSymbols));
  out.push_back(static_cast<std::byte>(h.flags));
  if (!has_segments) {
    append_varint(all.first_bin, out);
  }
  if (h.flags & kHasMask) {
    append_varint(h.mask_bytes, out);
    append_varint(h.n_masked, out);
  }
  if (h.flags & kHasTrailingZeroBase) {
    out.push_back(static_cast<std::byte>(h.trailing_zero_base));
  }
  if (has_segments) {
    append_segments(h, out);
    return;
  }
  if (!is_rans && (h.flags & kHasZeroGroups)) {
    append_varint(h.n_symbols, out);
  }
  if (h.flags & kHasFourTables) {
    for (const std::uint32_t n : h.table_symbols) {
      append_varint(n, out);
    }
  }
  append_escape_counts(h.flags, all, out);
  if (is_rans) {
    append_varint(all.coded_bytes, out);
  }
  append_varint(all.raw_bytes, out);
}

void append_planes_header(const PlanesHeader& header, unsigned n_planes,
                          std::vector<std::byte>& out) {
  out.push_back(static_cast<std::byte>(ChunkMode::kPlanes));
  out.push_back(static_cast<std::byte>(header.transform));
  for (unsigned i = 0; i < n_planes; ++i) {
    const PlaneHeader& plane = header.planes[i];
    out.push_back(static_cast<std::byte>(plane.coding));
    if (plane.coding == PlaneCoding::kConstant) {
      out.push_back(plane.value);
    } else if (plane.coding == PlaneCoding::kZstd) {
      append_varint(plane.stored_bytes, out);
    }
  }
}

}  // namespace cfck::codec

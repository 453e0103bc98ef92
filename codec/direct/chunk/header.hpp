// The header of a chunk of the direct codec (codec/direct/spec.md, section 2).
#pragma once

#include <array>
#include <optional>

#include "base/cpu/host_device.hpp"
#include "codec/common/segments.hpp"
#include "codec/direct/chunk/direct.hpp"

namespace cfck::codec {

// Lower modes are those of the lossless codec (codec/common/lossless_fallback.hpp).
inline constexpr std::uint8_t kDirectInline = 4;
inline constexpr std::uint8_t kDirectPreamble = 5;

enum DirectFlag : std::uint8_t {
  kDirectMask = 1 << 0,
  kDirectEscapes = 1 << 1,
  kDirectBinEscapes = 1 << 2,
  kDirectRaw = 1 << 3,
  kDirectSegments = 1 << 4,
};

// What each segment has of its own.
struct DirectSegment {
  std::uint32_t first_bin = 0;  // where there is no scale field
  std::uint32_t n_escapes = 0;
  std::uint32_t n_exact = 0;
  std::uint32_t code_bytes = 0;
  std::uint32_t n_bin_escapes = 0;
  std::uint32_t coded_bytes = 0;  // with `rans`
  std::uint32_t raw_bytes = 0;

  // Bytes of its sections.
  CFCK_HD std::uint64_t section_bytes(unsigned value_bytes) const {
    return 2 * std::uint64_t{n_bin_escapes} + (std::uint64_t{n_escapes} + 7) / 8 + code_bytes +
           std::uint64_t{n_exact} * value_bytes + coded_bytes + raw_bytes;
  }
};

// Fields that the flags declare absent are zero.
struct DirectHeader {
  std::uint8_t flags = 0;
  std::uint32_t mask_bytes = 0;
  std::uint32_t n_masked = 0;
  std::uint32_t table_bytes = 0;  // with kDirectSegments
  unsigned n_segments = 1;
  std::array<DirectSegment, kMaxSegments> segments;  // the first n_segments
  std::uint32_t header_bytes = 0;
  std::uint32_t body_bytes = 0;
  std::optional<DirectParameters> parameters;  // mode 4
};

// Whether a chunk with such parameters may have segments: its values are coded in storage order,
// each alone.
inline bool may_have_segments(const DirectParameters& parameters, EntropyId entropy) {
  return entropy == EntropyId::kRans && parameters.field.empty() && parameters.coefficients.empty();
}

// Requires: the first byte is mode 4 or 5. Errors: kTruncated, kCorrupt.
Result<DirectHeader> parse_direct_header(const DirectChunkInfo& info,
                                         const DirectGeometry& geometry, ByteView payload);

// Appends mode byte, inline parameters if there are any, and header.
void append_direct_header(const DirectHeader& header, EntropyId entropy, bool has_field,
                          const DirectParameters* inline_parameters, std::vector<std::byte>& out);

}  // namespace cfck::codec

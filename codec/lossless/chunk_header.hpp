// The header of a lossless chunk (codec/lossless/spec.md, sections 2 to 4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/cpu/host_device.hpp"
#include "cfck/dtype.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/codec.hpp"
#include "codec/common/chunk_shape.hpp"
#include "codec/common/segments.hpp"

namespace cfck::codec {

enum class ChunkMode : std::uint8_t {
  kStored = 0,    // the values' bytes
  kConstant = 1,  // one value
  kSymbols = 2,   // through the symboliser
  kPlanes = 3,    // byte planes
};

enum ChunkFlag : std::uint8_t {
  kHasMask = 1 << 0,
  kHasMaskSigns = 1 << 1,
  kHasTrailingZeroBase = 1 << 2,
  kHasTrailingZeroStream = 1 << 3,
  kHasZeroGroups = 1 << 4,  // with the entropy stage `zstd`
  kHasSegments = 1 << 4,    // with `rans`
  kHasFourTables = 1 << 5,
  kHasNoSigns = 1 << 6,
  kHasEscapes = 1 << 7,  // of bins or of values
};

// What each segment has of its own.
struct SegmentHeader {
  std::uint32_t first_bin = 0;
  std::uint32_t n_bin_escapes = 0;
  std::uint32_t n_escapes = 0;
  std::uint32_t coded_bytes = 0;  // with the entropy stage `rans`
  std::uint32_t raw_bytes = 0;

  // Bytes of its sections.
  CFCK_HD constexpr std::uint64_t section_bytes(unsigned value_bytes) const {
    return 2 * std::uint64_t{n_bin_escapes} + std::uint64_t{value_bytes} * n_escapes + coded_bytes +
           raw_bytes;
  }
};

// Fields that the flags declare absent are zero.
struct SymbolsHeader {
  std::uint8_t flags = 0;
  std::uint32_t mask_bytes = 0;
  std::uint32_t n_masked = 0;
  std::uint8_t trailing_zero_base = 0;
  std::uint32_t n_symbols = 0;  // with kHasZeroGroups
  std::array<std::uint32_t, 3> table_symbols{};
  std::uint32_t table_bytes = 0;  // with kHasSegments
  unsigned n_segments = 1;
  std::array<SegmentHeader, kMaxSegments> segments;  // the first n_segments

  std::uint32_t sign_bytes() const { return (flags & kHasMaskSigns) != 0 ? (n_masked + 7) / 8 : 0; }
};

enum class PlaneCoding : std::uint8_t { kRaw = 0, kConstant = 1, kZstd = 2 };

struct PlaneHeader {
  PlaneCoding coding = PlaneCoding::kRaw;
  std::byte value{};               // kConstant
  std::uint32_t stored_bytes = 0;  // after the header; of raw and zstd planes
};

enum class PlaneTransform : std::uint8_t { kNone = 0, kDelta = 1 };

struct PlanesHeader {
  PlaneTransform transform = PlaneTransform::kNone;
  std::array<PlaneHeader, 8> planes;
};

struct ChunkHeader {
  ChunkMode mode = ChunkMode::kStored;
  SymbolsHeader symbols;  // kSymbols
  PlanesHeader planes;    // kPlanes
  std::uint32_t header_bytes = 0;
  std::uint32_t body_bytes = 0;  // header and sections
};

// Parses and checks all that can be checked without the sections: every length fits the chunk. The
// payload may be longer or shorter than the body.
Result<ChunkHeader> parse_chunk_header(const ChunkInfo& info, ByteView payload);

// Append a header, mode byte included.
void append_symbols_header(const SymbolsHeader& header, EntropyId entropy,
                           std::vector<std::byte>& out);
void append_planes_header(const PlanesHeader& header, unsigned n_planes,
                          std::vector<std::byte>& out);

}  // namespace cfck::codec

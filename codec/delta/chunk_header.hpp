// The header of a chunk (spec.md, sections 2 and 3).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codec/codec.hpp"
#include "codec/common/chunk_shape.hpp"
#include "codec/delta/kernels/kernels.hpp"
#include "codec/delta/kernels/unit_format.hpp"

namespace cfck::codec {

enum class DeltaMode : std::uint8_t { kStored = 0, kUnchanged = 1, kClasses = 2 };

inline constexpr std::uint8_t kDeltaNibbles = 4;
inline constexpr std::uint8_t kDeltaPauses = 8;
inline constexpr unsigned kDeltaClassesShift = 4;

// The byte of a class.
struct DeltaClass {
  std::uint8_t code = 0;

  static DeltaClass sparse(unsigned width, bool is_wide) {
    return {static_cast<std::uint8_t>(1 + width + (is_wide ? 32 : 0))};
  }
  static DeltaClass dense(unsigned low_width) {
    return {static_cast<std::uint8_t>(128 + low_width)};
  }
  bool is_dense() const { return code >= 128; }
  bool is_sparse() const { return code != 0 && code < 128; }
  unsigned width() const { return (code - 1u) % 32; }  // of gaps
  bool is_wide() const { return code > 32; }
  unsigned low_width() const { return code - 128u; }  // of dense ones
};

struct DeltaHeader {
  DeltaMode mode = DeltaMode::kStored;
  bool nibbles = false;
  UnitFormat format;
  std::uint64_t n_units = 0;
  unsigned n_classes = 1;
  std::array<std::uint32_t, kMaxDeltaClasses> thresholds{};  // that of class 0 is 0
  std::array<DeltaClass, kMaxDeltaClasses> classes{};
  std::uint32_t sparse_bytes = 0;
  std::uint32_t n_escapes = 0;
  std::uint32_t coded_bytes = 0;
  std::uint32_t raw_bytes = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t body_bytes = 0;

  unsigned word_bytes() const { return format.bits < 8 ? 1 : format.bits / 8; }
  std::uint64_t n_blocks() const { return (n_units + kDeltaBlock - 1) / kDeltaBlock; }
  bool has_sparse() const;
  bool has_dense() const;
  ClassRanges ranges() const;
};

// A run of blocks that are not in a pause.
struct ActiveSpan {
  std::uint64_t first_block = 0;
  std::uint64_t n_blocks = 0;
};

// Sets what format and units follow from the dtype and the flag.
void set_units(const ChunkInfo& info, const ChunkShape& shape, bool nibbles, DeltaHeader& header);

// Parses a header and, where `active` is not null, lists the active spans. Errors: kTruncated,
// kCorrupt.
Result<DeltaHeader> parse_delta_header(const ChunkInfo& info, const ChunkShape& shape,
                                       ByteView payload, std::vector<ActiveSpan>* active);

// Appends a header, mode byte included.
void append_delta_header(const DeltaHeader& header, const std::vector<ActiveSpan>& active,
                         std::vector<std::byte>& out);

}  // namespace cfck::codec

// The symboliser turns floats into scale bins, symbols and raw bits, and back
// (codec/symboliser/spec.md). This header has what all CPU levels share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"

namespace cfck::codec {

template <class Format>
CFCK_HD constexpr std::uint32_t max_bin() {
  return 4 * Format::kMaxExponent + 31;
}

// Properties that all groups of a chunk share.
struct SymbolLayout {
  unsigned n_tables = 1;  // or kPhases
  bool has_signs = true;  // if false, no value is negative, and signs are not stored
};

// Returns the bytes of the raw bits of one group of `n` values.
template <class Format>
CFCK_HD constexpr std::size_t raw_group_bytes(bool has_signs, unsigned trailing_zero_bits,
                                              std::size_t n) {
  const unsigned low_bits = trailing_zero_bits == 0 ? Format::kLowBits : 0;
  const unsigned n_packed = Format::kRawBits - (has_signs ? 0 : 1) - trailing_zero_bits - low_bits;
  return packed_bytes(n_packed, n) + n * (low_bits / 8);
}

// The positions that split() writes to; each pointer is advanced. With one table all of `streams`
// but the first are unused.
struct SplitCursors {
  std::uint8_t* streams[kPhases] = {};
  std::byte* raw = nullptr;
  std::byte* escapes = nullptr;
};

struct MergeCursors {
  const std::uint8_t* streams[kPhases] = {};
  const std::byte* raw = nullptr;
  const std::byte* escapes = nullptr;
  std::size_t n_escapes = 0;  // left
};

struct RansLanes;
struct RansDecodeTable;

struct ZeroCounts {
  std::size_t positive = 0;  // +0
  std::size_t negative = 0;  // -0
};

struct ChunkAnalysis {
  bool has_signs = false;  // some value is negative
  // Set by analyse_and_split() only: everything is split. If false, its cursors are unspecified.
  bool is_split = false;
  ZeroCounts zeros;
};

// The passes over a chunk. Values are little-endian, of any alignment. `groups`
// has one entry for each 128 values, the last for what is left. Stream regions
// must have space for (split) or hold (merge) the symbols of all their groups
// and 128 bytes more.
template <class Format>
struct ChunkKernels {
  ChunkAnalysis (*analyse)(const std::byte* values, std::size_t n_values, GroupCode* groups);
  // Analyses and splits at once, as long as that is likely to be of use: into one stream, with
  // signs, and every group's own trailing zero bits. Formats of 32 symbols only.
  ChunkAnalysis (*analyse_and_split)(const std::byte* values, std::size_t n_values,
                                     GroupCode* groups, SplitCursors& to);
  void (*split)(const std::byte* values, std::size_t n_values, const GroupCode* groups,
                const SymbolLayout& layout, SplitCursors& to);
  // False if there are more escapes than MergeCursors says, or invalid symbols.
  bool (*merge)(std::byte* values, std::size_t n_values, const GroupCode* groups,
                const SymbolLayout& layout, MergeCursors& from);
  // Merges values from symbols that the lanes still hold; `tables` are those of the phases. Returns
  // false also if the lanes run out of words. Formats of 32 symbols only.
  bool (*merge_coded)(std::byte* values, std::size_t n_values, const GroupCode* groups,
                      const SymbolLayout& layout, RansLanes& lanes,
                      const RansDecodeTable* const* tables, MergeCursors& from);
};

// Returns the kernels of the best level of this CPU, or of the level that CFCK_CPU names.
template <class Format>
const ChunkKernels<Format>& chunk_kernels() noexcept;

}  // namespace cfck::codec

// Passes over the units of a chunk, compiled once for each CPU level.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/cpu/level.hpp"
#include "codec/change_log.hpp"
#include "codec/delta/kernels/unit_format.hpp"

namespace cfck::codec {

inline constexpr unsigned kDeltaBlock = 64;  // units
inline constexpr unsigned kMaxDeltaClasses = 16;
// Blocks whose masks are made at once, so that they stay in the cache.
inline constexpr std::size_t kDeltaTileBlocks = 32;
static_assert(kDeltaTileBlocks * kDeltaBlock == kTileUnits);

// Which units of a block belong to each class.
using ClassMasks = std::array<std::uint64_t, kMaxDeltaClasses>;

// A class begins where the key of a unit, its bits `key_mask` shifted right by key_shift, is at
// least its threshold; that of class 0 is 0.
struct ClassRanges {
  std::uint64_t key_mask = 0;
  unsigned key_shift = 0;
  bool may_have_high_bit = false;  // the bits `key_mask` may have the highest one of a word
  unsigned n_classes = 1;
  std::array<std::uint32_t, kMaxDeltaClasses> thresholds{};
};

// The state of a decoder of sparse classes (spec.md, section 4), by class.
struct SparseWalk {
  UnitFormat format;
  unsigned n_classes = 0;
  unsigned sparse = 0;  // a bit for each class that is
  // Units before the next change: kNoChange in classes that are not sparse.
  std::array<std::uint64_t, kMaxDeltaClasses> left{};
  std::array<std::uint8_t, kMaxDeltaClasses> widths{};
  std::array<std::uint8_t, kMaxDeltaClasses> are_wide{};  // 0 or 1
  // The bit string; kSparseSlack zero bytes follow it.
  const std::byte* bits = nullptr;
  std::uint64_t position = 0;
  std::uint64_t end = 0;            // in bits
  ChangedUnits* changed = nullptr;  // what is changed is added to it
};
inline constexpr std::size_t kSparseSlack = 32;
inline constexpr std::uint64_t kNoChange = std::uint64_t{1} << 62;

inline constexpr unsigned kDenseEscape = 31;
// Buckets of dense classes have two lengths for each power of two: lengths of top bits above this
// escape.
inline constexpr unsigned kMaxDenseLength = 15;
// Vectors are read and written behind the differences of a class, and read behind raw bits.
inline constexpr std::size_t kDenseSlack = 64;
inline constexpr std::size_t kRawSlack = 72;
// Raw bits of a symbol that are in one word wherever they begin.
inline constexpr unsigned kMostRawAtOnce = 57;

// Places in the differences of dense classes, by class.
template <class Byte>
struct DenseCursors {
  unsigned n_classes = 0;
  std::array<std::uint8_t, kMaxDeltaClasses> numbers{};
  std::array<Byte*, kMaxDeltaClasses> next{};
};

// A bit string that is being written.
struct RawBits {
  std::byte* next = nullptr;
  std::uint64_t bits = 0;  // that are not yet in whole bytes
  unsigned n_bits = 0;     // below 8
};

// Where an encoder of differences writes.
struct DenseOutput {
  std::uint8_t* symbols = nullptr;
  std::byte* escapes = nullptr;
  RawBits raw;
};

// Where a decoder of differences is.
struct DenseInput {
  const std::byte* raw = nullptr;  // kRawSlack bytes follow the string
  std::uint64_t position = 0;      // in bits
  const std::byte* escapes = nullptr;
};

// A changed unit of a sparse class.
struct DeltaChange {
  std::uint32_t unit = 0;  // its place in the chunk
  std::uint32_t gap = 0;   // units of its class since the change before
  std::uint8_t class_number = 0;
  // For the encoder, which fills them in.
  bool is_negative = false;
  std::uint64_t magnitude = 0;
};

// The state of an encoder of sparse classes, by class.
struct ChangeWalk {
  unsigned n_classes = 0;
  unsigned sparse = 0;                                   // a bit for each class that is sparse
  std::array<std::uint32_t, kMaxDeltaClasses> units{};   // so far
  std::array<std::uint32_t, kMaxDeltaClasses> listed{};  // those up to the last change
  DeltaChange* next = nullptr;

  std::uint32_t since(unsigned c) const { return units[c] - listed[c]; }
};

inline constexpr unsigned kCountedLengths = 4;

struct DeltaKernels {
  // Sets a bit of masks[i] for each unit of block i that differs; the last block may be shorter.
  // Returns their number.
  std::size_t (*changed)(const std::byte* base, const std::byte* values, std::size_t n_units,
                         std::uint64_t* masks);
  // Lists the units that differ, of at most kDeltaTileBlocks blocks.
  void (*list_changed)(const std::byte* base, const std::byte* values, std::size_t n_units,
                       ChangedUnits& changed);
  // Lists the places of the bits of the masks of at most kDeltaTileBlocks blocks. Returns their
  // number; behind them kPlacesSlack places may be written to.
  std::size_t (*list_places)(const std::uint64_t* masks, std::size_t n_blocks,
                             std::uint16_t* places);
  // Makes the masks of all blocks of at most kDeltaTileBlocks.
  void (*classes)(const std::byte* base, std::size_t n_units, const ClassRanges& ranges,
                  ClassMasks* masks);
  // Changes units of `values`, which are those of the base before, in the blocks of `masks`.
  // Returns false where the bit string ends too early, or has what no writer writes.
  bool (*apply_sparse)(const ClassMasks* masks, std::size_t n_blocks, SparseWalk& walk,
                       std::byte* values);
  // Adds differences to units of `values`, which are those of the base before. kDenseSlack bytes
  // follow the differences of the last class.
  void (*apply_dense)(const ClassMasks* masks, std::size_t n_units, const UnitFormat& format,
                      DenseCursors<const std::byte>& cursors, std::byte* values);
  // The other direction: lists the changes of sparse classes, and the differences of dense ones.
  // kDenseSlack bytes follow those of each class.
  void (*list_changes)(const ClassMasks* masks, const std::uint64_t* changed, std::size_t n_blocks,
                       std::uint32_t first_unit, ChangeWalk& walk);
  void (*list_differences)(const ClassMasks* masks, std::size_t n_units, const UnitFormat& format,
                           const std::byte* base, const std::byte* values,
                           DenseCursors<std::byte>& cursors);
  // Adds the number of units of each class.
  void (*count)(const std::byte* base, std::size_t n_units, const ClassRanges& ranges,
                std::uint64_t* counts);
  // Returns the length of the largest |d| - 1.
  unsigned (*longest)(const std::byte* differences, std::size_t n, const UnitFormat& format);
  // Sets counts[i] to the number of |d| - 1 that have at least `length - i` bits; these are not 0.
  void (*count_long)(const std::byte* differences, std::size_t n, const UnitFormat& format,
                     unsigned length, std::uint32_t (&counts)[kCountedLengths]);
  // Codes the differences of a class.
  void (*code_differences)(const std::byte* differences, std::size_t n, const UnitFormat& format,
                           unsigned low_width, DenseOutput& out);
  // Counts raw bits and escapes of the symbols of a class.
  void (*count_raw)(const std::uint8_t* symbols, std::size_t n, unsigned low_width,
                    std::uint64_t& n_bits, std::uint64_t& n_escapes);
  // The inverse of code_differences(). Returns false if one is larger than its units.
  bool (*decode_differences)(const std::uint8_t* symbols, std::size_t n, const UnitFormat& format,
                             unsigned low_width, DenseInput& in, std::byte* differences);
};

// Returns the kernels for words of that many bytes, of the best level of this CPU, or of the level
// that CFCK_CPU names.
const DeltaKernels& delta_kernels(unsigned word_bytes) noexcept;

struct DeltaKernelSet {
  DeltaKernels of_bytes[4];  // words of 1, 2, 4, 8 bytes
};
// Requires: `level` is not above cpu_level().
const DeltaKernelSet& delta_kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::codec

// Passes over the units of a chunk, compiled once for each CPU level.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/cpu/level.hpp"
#include "codec/delta/kernels/unit_format.hpp"

namespace cfck::codec {

inline constexpr unsigned kDeltaBlock = 64;  // units
inline constexpr unsigned kMaxDeltaClasses = 16;
// Blocks whose masks are made at once, so that they stay in the cache.
inline constexpr std::size_t kDeltaTileBlocks = 32;

// Which units of a block belong to each class.
using ClassMasks = std::array<std::uint64_t, kMaxDeltaClasses>;

// A class begins where the bits `key_mask` of a unit are at least its threshold; that of class 0 is
// 0.
struct ClassRanges {
  std::uint64_t key_mask = 0;
  bool may_have_high_bit = false;  // the key may have the highest bit of a word
  unsigned n_classes = 1;
  std::array<std::uint64_t, kMaxDeltaClasses> thresholds{};
};

struct SparseClass {
  std::uint64_t left = 0;  // units of the class before its next change
  std::uint8_t number = 0;
  std::uint8_t width = 0;
  bool is_wide = false;
};

// The state of a decoder of sparse classes (spec.md, section 4).
struct SparseWalk {
  UnitFormat format;
  unsigned n_classes = 0;  // sparse ones
  std::array<SparseClass, kMaxDeltaClasses> classes{};
  // The bit string; kSparseSlack zero bytes follow it.
  const std::byte* bits = nullptr;
  std::uint64_t position = 0;
  std::uint64_t end = 0;  // in bits
};
inline constexpr std::size_t kSparseSlack = 32;

// Places in the differences of dense classes, by class.
template <class Byte>
struct DenseCursors {
  unsigned n_classes = 0;
  std::array<std::uint8_t, kMaxDeltaClasses> numbers{};
  std::array<Byte*, kMaxDeltaClasses> next{};
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

// The state of an encoder of sparse classes.
struct ChangeWalk {
  unsigned n_classes = 0;  // sparse ones
  std::array<std::uint8_t, kMaxDeltaClasses> numbers{};
  std::array<std::uint32_t, kMaxDeltaClasses> since{};  // by class: units since its last change
  DeltaChange* next = nullptr;
};

struct DeltaKernels {
  // Sets a bit of masks[i] for each unit of block i that differs; the last block may be shorter.
  // Returns their number.
  std::size_t (*changed)(const std::byte* base, const std::byte* values, std::size_t n_units,
                         std::uint64_t* masks);
  // Makes the masks of all blocks of at most kDeltaTileBlocks.
  void (*classes)(const std::byte* base, std::size_t n_units, const ClassRanges& ranges,
                  ClassMasks* masks);
  // Changes units of `values`, which are those of the base before, in the blocks of `masks`.
  // Returns false where the bit string ends too early, or has what no writer writes.
  bool (*apply_sparse)(const ClassMasks* masks, std::size_t n_blocks, SparseWalk& walk,
                       std::byte* values);
  // Adds differences to units of `values`, which are those of the base before.
  void (*apply_dense)(const ClassMasks* masks, std::size_t n_blocks, const UnitFormat& format,
                      DenseCursors<const std::byte>& cursors, std::byte* values);
  // The other direction: lists the changes of sparse classes, and the differences of dense ones.
  void (*list_changes)(const ClassMasks* masks, const std::uint64_t* changed, std::size_t n_blocks,
                       std::uint32_t first_unit, ChangeWalk& walk);
  void (*list_differences)(const ClassMasks* masks, std::size_t n_blocks, const UnitFormat& format,
                           const std::byte* base, const std::byte* values,
                           DenseCursors<std::byte>& cursors);
  // Adds the number of units of each class.
  void (*count)(const ClassMasks* masks, std::size_t n_blocks, unsigned n_classes,
                std::uint64_t* counts);
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

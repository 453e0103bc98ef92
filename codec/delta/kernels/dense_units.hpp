// Dense classes: from the differences of all units of a block to those of each class, side by side,
// and back.
#pragma once

#include "codec/delta/kernels/unit_lanes_v4.hpp"
//

#include <bit>
#include <cstring>

#include "codec/delta/kernels/block_masks.hpp"
#include "codec/delta/kernels/kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The reference: one unit after another.
template <class Word>
struct SerialUnits {
  explicit SerialUnits(const UnitFormat& format) : words(format) {}

  void apply(const ClassMasks& masks, DenseCursors<const std::byte>& cursors,
             std::byte* values) const {
    for (unsigned i = 0; i < cursors.n_classes; ++i) {
      const std::byte* next = cursors.next[i];
      for (std::uint64_t mask = masks[cursors.numbers[i]]; mask != 0; mask &= mask - 1) {
        std::byte* const at = values + static_cast<unsigned>(std::countr_zero(mask)) * sizeof(Word);
        const Word unit = words.apply(load_word<Word>(at), load_word<Word>(next));
        std::memcpy(at, &unit, sizeof(unit));
        next += sizeof(Word);
      }
      cursors.next[i] = next;
    }
  }

  void list(const ClassMasks& masks, const std::byte* base, const std::byte* values,
            DenseCursors<std::byte>& cursors) const {
    for (unsigned i = 0; i < cursors.n_classes; ++i) {
      std::byte* next = cursors.next[i];
      for (std::uint64_t mask = masks[cursors.numbers[i]]; mask != 0; mask &= mask - 1) {
        const std::size_t at = static_cast<unsigned>(std::countr_zero(mask)) * sizeof(Word);
        const Word difference =
            words.difference(load_word<Word>(base + at), load_word<Word>(values + at));
        std::memcpy(next, &difference, sizeof(difference));
        next += sizeof(Word);
      }
      cursors.next[i] = next;
    }
  }

  UnitWords<Word> words;
};

#if defined(__AVX512BW__)

// Whole blocks: the units of a class are compressed, or expanded, at once.
template <class Word>
struct VectorUnits {
  using Lanes = UnitLanes<Word>;

  explicit VectorUnits(const UnitFormat& format) : lanes(format) {}

  void apply(const ClassMasks& masks, DenseCursors<const std::byte>& cursors,
             std::byte* values) const {
    __m512i differences[Lanes::kVectors];
    for (__m512i& some : differences) {
      some = _mm512_setzero_si512();
    }
    for (unsigned i = 0; i < cursors.n_classes; ++i) {
      const std::uint64_t mask = masks[cursors.numbers[i]];
      if (mask == 0) {
        continue;
      }
      const std::byte* next = cursors.next[i];
#pragma GCC unroll 8
      for (unsigned v = 0; v < Lanes::kVectors; ++v) {
        const auto part = Lanes::part(mask, v);
        differences[v] = Lanes::expand(differences[v], part, Lanes::load(next));
        next += static_cast<unsigned>(std::popcount(part)) * sizeof(Word);
      }
      cursors.next[i] = next;
    }
#pragma GCC unroll 8
    for (unsigned v = 0; v < Lanes::kVectors; ++v) {
      std::byte* const at = values + v * Lanes::kUnits * sizeof(Word);
      Lanes::store(at, lanes.apply(Lanes::load(at), differences[v]));
    }
  }

  void list(const ClassMasks& masks, const std::byte* base, const std::byte* values,
            DenseCursors<std::byte>& cursors) const {
    __m512i differences[Lanes::kVectors];
#pragma GCC unroll 8
    for (unsigned v = 0; v < Lanes::kVectors; ++v) {
      const std::size_t at = v * Lanes::kUnits * sizeof(Word);
      differences[v] = lanes.difference(Lanes::load(base + at), Lanes::load(values + at));
    }
    for (unsigned i = 0; i < cursors.n_classes; ++i) {
      const std::uint64_t mask = masks[cursors.numbers[i]];
      if (mask == 0) {
        continue;
      }
      std::byte* next = cursors.next[i];
#pragma GCC unroll 8
      for (unsigned v = 0; v < Lanes::kVectors; ++v) {
        const auto part = Lanes::part(mask, v);
        Lanes::store(next, Lanes::compress(part, differences[v]));
        next += static_cast<unsigned>(std::popcount(part)) * sizeof(Word);
      }
      cursors.next[i] = next;
    }
  }

  Lanes lanes;
};

template <class Word>
using WholeUnits = VectorUnits<Word>;
#else
template <class Word>
using WholeUnits = SerialUnits<Word>;
#endif

template <class Word>
void apply_dense(const ClassMasks* masks, std::size_t n_units, const UnitFormat& format,
                 DenseCursors<const std::byte>& cursors, std::byte* values) {
  const WholeUnits<Word> whole(format);
  std::size_t b = 0;
  for (; b < n_units / kDeltaBlock; ++b) {
    whole.apply(masks[b], cursors, values + b * kDeltaBlock * sizeof(Word));
  }
  if (n_units % kDeltaBlock != 0) {
    SerialUnits<Word>(format).apply(masks[b], cursors, values + b * kDeltaBlock * sizeof(Word));
  }
}

template <class Word>
void list_differences(const ClassMasks* masks, std::size_t n_units, const UnitFormat& format,
                      const std::byte* base, const std::byte* values,
                      DenseCursors<std::byte>& cursors) {
  const WholeUnits<Word> whole(format);
  std::size_t at = 0;
  std::size_t b = 0;
  for (; b < n_units / kDeltaBlock; ++b, at += kDeltaBlock * sizeof(Word)) {
    whole.list(masks[b], base + at, values + at, cursors);
  }
  if (n_units % kDeltaBlock != 0) {
    SerialUnits<Word>(format).list(masks[b], base + at, values + at, cursors);
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

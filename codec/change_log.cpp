#include "codec/change_log.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cfck::codec {
namespace {

// A head comes before the notes of a tile. Each note begins with the place of a unit, in its low
// bits, and has the bits that differ: one byte, or all of a word where kIsWhole is set.
struct TileHead {
  std::uint32_t first_byte = 0;
  std::uint16_t n_units = 0;
  std::uint16_t word_bytes = 0;
};
using NoteHead = std::uint16_t;
constexpr unsigned kIsWhole = 1u << 15;
static_assert(kTileUnits <= kIsWhole);
// Whole words are written, of which only a byte may count.
constexpr std::size_t kNotesSlack = sizeof(std::uint64_t);

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Without a branch that depends on what differs.
template <class Word>
std::byte* append(const ChangedUnits& changed, std::byte* next) {
  for (std::size_t i = 0; i < changed.n; ++i) {
    const auto bits = load<Word>(changed.bits + i * sizeof(Word));
    const bool is_whole = bits > 0xff;
    const auto head = static_cast<NoteHead>(changed.places[i] | (is_whole ? kIsWhole : 0));
    std::memcpy(next, &head, sizeof(head));
    std::memcpy(next + sizeof(head), &bits, sizeof(bits));
    next += sizeof(head) + (is_whole ? sizeof(Word) : 1);
  }
  return next;
}

std::byte* append(unsigned word_bytes, const ChangedUnits& changed, std::byte* next) {
  switch (word_bytes) {
    case 1:
      return append<std::uint8_t>(changed, next);
    case 2:
      return append<std::uint16_t>(changed, next);
    case 4:
      return append<std::uint32_t>(changed, next);
    default:
      return append<std::uint64_t>(changed, next);
  }
}

}  // namespace

void ChangeLog::move_to(std::size_t capacity) {
  auto memory = std::make_unique_for_overwrite<std::byte[]>(capacity);
  std::copy_n(notes_.get(), n_bytes_, memory.get());
  notes_ = std::move(memory);
  capacity_ = capacity;
}

void ChangeLog::reserve(std::size_t n_units, unsigned word_bytes) {
  const std::size_t wanted =
      n_bytes_ + sizeof(TileHead) + n_units * (sizeof(NoteHead) + word_bytes) + kNotesSlack;
  if (wanted > capacity_) {
    move_to(std::max(wanted, 2 * capacity_));
  }
}

void ChangeLog::shrink() { move_to(n_bytes_); }

void ChangeLog::note(std::size_t first_byte, unsigned word_bytes,
                     const ChangedUnits& changed) noexcept {
  if (changed.n == 0) {
    return;
  }
  std::byte* const begin = notes_.get() + n_bytes_;
  const TileHead head{static_cast<std::uint32_t>(first_byte), static_cast<std::uint16_t>(changed.n),
                      static_cast<std::uint16_t>(word_bytes)};
  std::memcpy(begin, &head, sizeof(head));
  const std::byte* const end = append(word_bytes, changed, begin + sizeof(head));
  n_bytes_ += static_cast<std::size_t>(end - begin);
}

void ChangeLog::undo(MutableBytes values) const noexcept {
  for (std::size_t i = 0; i < n_bytes_;) {
    const auto tile = load<TileHead>(&notes_[i]);
    i += sizeof(tile);
    for (unsigned unit = 0; unit < tile.n_units; ++unit) {
      const auto head = load<NoteHead>(&notes_[i]);
      i += sizeof(head);
      const std::size_t place = head % kIsWhole;
      std::byte* const at = values.data() + tile.first_byte + place * tile.word_bytes;
      const std::size_t n_bytes = head >= kIsWhole ? tile.word_bytes : 1;
      for (std::size_t b = 0; b < n_bytes; ++b) {
        at[b] ^= notes_[i++];
      }
    }
  }
}

}  // namespace cfck::codec

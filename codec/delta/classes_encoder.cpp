#include "codec/delta/classes_encoder.hpp"

#include <algorithm>
#include <cstring>

#include "codec/delta/active_spans.hpp"
#include "codec/delta/dense_symbols.hpp"
#include "codec/delta/encode_scratch.hpp"
#include "codec/delta/sparse_writer.hpp"
#include "codec/entropy/rans/writer.hpp"

namespace cfck::codec {
namespace {

// Where more units have changed, changes are counted in every eighth block only. Units are counted
// in about so many blocks.
constexpr std::uint64_t kMaxCountedChanges = 32768;
constexpr std::uint64_t kChangesStep = 8;
constexpr std::uint64_t kMaxCountedBlocks = 64;
// One of so many differences of a class may be an escape.
constexpr std::size_t kEscapeShare = 8192;

template <class Word>
Word load(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

template <class Word>
class ClassesEncoder {
 public:
  ClassesEncoder(const DeltaHeader& header, ByteView base, ByteView values, std::uint64_t n_changed,
                 Scratch& scratch)
      : h_(header),
        words_(header.format),
        base_(base.data()),
        values_(values.data()),
        n_changed_(n_changed),
        scratch_(scratch),
        memory_(scratch.part<DeltaEncodeScratch>()),
        changed_(memory_.changed.reserve(0)),
        kernels_(delta_kernels(sizeof(Word))) {}

  void encode(std::vector<std::byte>& payload) {
    find_active_spans(changed_, h_.n_blocks(), n_changed_, memory_.active);
    count_units();
    count_changes();
    choose();
    count_classes();
    list();
    code_dense();
    code_sparse();
    assemble(payload);
  }

 private:
  static constexpr std::size_t kBlockBytes = kDeltaBlock * sizeof(Word);

  std::uint64_t key_of(Word base) const {
    return (base & h_.format.key_mask()) >> h_.format.key_shift;
  }
  std::size_t units_of(std::uint64_t first_block, std::uint64_t n_blocks) const {
    return static_cast<std::size_t>(
        std::min<std::uint64_t>(n_blocks * kDeltaBlock, h_.n_units - first_block * kDeltaBlock));
  }

  // Calls `action` with the number of every `step`-th active block.
  template <class Action>
  void each_block(std::uint64_t step, Action&& action) {
    for (const ActiveSpan& span : memory_.active) {
      const std::uint64_t end = span.first_block + span.n_blocks;
      for (std::uint64_t b = (span.first_block + step - 1) / step * step; b < end; b += step) {
        action(b);
      }
    }
  }

  void count_units() {
    const std::uint64_t n_keys = h_.format.n_keys();
    memory_.keys.assign(n_keys, {});
    std::uint64_t n_blocks = 0;
    for (const ActiveSpan& span : memory_.active) {
      n_blocks += span.n_blocks;
    }
    const std::uint64_t step =
        std::bit_floor(std::max<std::uint64_t>(1, n_blocks / kMaxCountedBlocks));
    // Several tables, so that equal neighbours do not wait for each other.
    constexpr std::size_t kTables = 4;
    std::vector<std::uint32_t>& counts = memory_.units_of_keys;
    counts.assign(kTables * n_keys, 0);
    each_block(step, [&](std::uint64_t b) {
      const std::size_t n = units_of(b, 1);
      const std::byte* const units = base_ + b * kBlockBytes;
      for (std::size_t i = 0; i < n; ++i) {
        ++counts[kTables * key_of(load<Word>(units + i * sizeof(Word))) + i % kTables];
      }
    });
    for (std::uint64_t key = 0; key < n_keys; ++key) {
      for (std::size_t t = 0; t < kTables; ++t) {
        memory_.keys[key].units += step * counts[kTables * key + t];
      }
    }
  }

  void count_changes() {
    if (n_changed_ > kMaxCountedChanges) {
      each_block(kChangesStep, [&](std::uint64_t b) { count_changes(b, 1, kChangesStep); });
      return;
    }
    for (const ActiveSpan& span : memory_.active) {
      const std::uint64_t end = span.first_block + span.n_blocks;
      for (std::uint64_t b = span.first_block; b < end; b += kDeltaTileBlocks) {
        count_changes(b, std::min<std::uint64_t>(kDeltaTileBlocks, end - b), 1);
      }
    }
  }

  // Those of at most kDeltaTileBlocks blocks.
  void count_changes(std::uint64_t first_block, std::uint64_t n_blocks, std::uint64_t times) {
    std::uint16_t places[kTileUnits + kPlacesSlack];
    const std::size_t n = kernels_.list_places(changed_ + first_block, n_blocks, places);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = first_block * kBlockBytes + places[i] * sizeof(Word);
      const Word base = load<Word>(base_ + at);
      const std::uint64_t magnitude =
          words_.magnitude(words_.difference(base, load<Word>(values_ + at)));
      count_change(memory_.keys[key_of(base)], magnitude, times);
    }
  }

  void count_change(KeyCounts& key, std::uint64_t magnitude, std::uint64_t times) const {
    key.changes += times;
    if (magnitude > 1) {
      const auto length = static_cast<std::uint64_t>(std::bit_width(magnitude - 1));
      key.wide += times;
      key.number_bits += times * sparse_number_bits(magnitude, h_.format.bits);
      key.lengths += times * length;
      key.squares += times * length * length;
      key.raw_bits += times * (length - 1);
    }
  }

  void choose() {
    const ClassChoice choice = choose_classes(memory_.keys);
    h_.n_classes = choice.n_classes;
    h_.thresholds = choice.first_keys;
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      // Widths follow.
      h_.classes[c] = choice.is_dense[c] ? DeltaClass::dense(0) : DeltaClass::sparse(0, false);
    }
    ranges_ = h_.ranges();
  }

  // Calls `action` with the first block of a tile, the number of blocks, and their masks.
  template <class Action>
  void each_tile(Action&& action) {
    ClassMasks masks[kDeltaTileBlocks] = {};
    for (const ActiveSpan& span : memory_.active) {
      const std::uint64_t end = span.first_block + span.n_blocks;
      for (std::uint64_t b = span.first_block; b < end; b += kDeltaTileBlocks) {
        const std::uint64_t n = std::min<std::uint64_t>(kDeltaTileBlocks, end - b);
        kernels_.classes(base_ + b * kBlockBytes, units_of(b, n), ranges_, masks);
        action(b, n, masks);
      }
    }
  }

  // Dense classes lie one after another, so their lengths have to be known.
  void count_classes() {
    if (!h_.has_dense()) {
      return;
    }
    std::array<std::uint64_t, kMaxDeltaClasses> counts{};
    for (const ActiveSpan& span : memory_.active) {
      kernels_.count(base_ + span.first_block * kBlockBytes,
                     units_of(span.first_block, span.n_blocks), ranges_, counts.data());
    }
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      if (!h_.classes[c].is_dense()) {
        continue;
      }
      n_dense_[c] = static_cast<std::size_t>(counts[c]);
      n_symbols_ += n_dense_[c];
      if (n_dense_[c] == 0) {
        h_.classes[c] = {};
      }
    }
  }

  void list() {
    changes_ = memory_.changes.reserve(n_changed_);
    walk_.next = changes_;
    walk_.n_classes = h_.n_classes;
    DenseCursors<std::byte> dense;
    std::byte* next =
        memory_.differences.reserve(n_symbols_ * sizeof(Word) + h_.n_classes * kDenseSlack);
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      if (h_.classes[c].is_dense()) {
        differences_[c] = next;
        dense.numbers[dense.n_classes] = static_cast<std::uint8_t>(c);
        dense.next[dense.n_classes++] = next;
        next += n_dense_[c] * sizeof(Word) + kDenseSlack;
      } else {
        walk_.sparse |= 1u << c;
      }
    }
    each_tile([&](std::uint64_t b, std::uint64_t n, const ClassMasks* masks) {
      if (walk_.sparse != 0) {
        kernels_.list_changes(masks, changed_ + b, n, static_cast<std::uint32_t>(b * kDeltaBlock),
                              walk_);
      }
      if (dense.n_classes != 0) {
        kernels_.list_differences(masks, units_of(b, n), h_.format, base_ + b * kBlockBytes,
                                  values_ + b * kBlockBytes, dense);
      }
    });
  }

  // The width of low bits at which hardly any difference is an escape.
  unsigned low_width_of(const std::byte* differences, std::size_t n) const {
    if (h_.format.bits <= kMaxDenseLength + 1) {
      return 0;
    }
    for (unsigned length = kernels_.longest(differences, n, h_.format); length > kMaxDenseLength;
         length -= kCountedLengths) {
      std::uint32_t counts[kCountedLengths];
      kernels_.count_long(differences, n, h_.format, length, counts);
      for (unsigned i = 0; i < kCountedLengths && length - i > kMaxDenseLength; ++i) {
        if (counts[i] > n / kEscapeShare) {
          return length - i - kMaxDenseLength;
        }
      }
    }
    return 0;
  }

  void code_dense() {
    memory_.coded.clear();
    if (n_symbols_ == 0) {
      return;
    }
    const std::size_t n_groups = (n_symbols_ + kGroupSize - 1) / kGroupSize;
    std::uint8_t* const symbols = memory_.symbols.reserve(n_groups * (kGroupSize + 1));
    // Raw bits of a symbol are no more than the sign and those of its unit.
    const std::size_t n_room = n_symbols_ * (sizeof(Word) + 1) + 2 * sizeof(std::uint64_t);
    std::byte* const raw = memory_.raw.reserve(n_room);
    std::byte* const escapes = memory_.escapes.reserve(n_symbols_ * sizeof(Word));
    DenseOutput out{symbols, escapes, {raw, 0, 0}};
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      const std::size_t n = n_dense_[c];
      if (n != 0) {
        const unsigned low_width = low_width_of(differences_[c], n);
        h_.classes[c] = DeltaClass::dense(low_width);
        kernels_.code_differences(differences_[c], n, h_.format, low_width, out);
      }
    }
    // The last byte is filled up with zeros.
    *out.raw.next = static_cast<std::byte>(out.raw.bits);
    raw_ = {raw, out.raw.next + (out.raw.n_bits != 0 ? 1 : 0)};
    escapes_ = {escapes, out.escapes};
    append_symbols(symbols, symbols + n_groups * kGroupSize);
  }

  void append_symbols(std::uint8_t* symbols, std::uint8_t* places) {
    place_groups(n_dense_, places);
    RansSymbols runs;
    runs.tables = kDeltaValueTables;
    runs.values = {symbols, n_symbols_, places, 0};
    runs.n_sets = lane_sets_for(n_symbols_);
    runs.counts_all = true;
    const std::size_t n_tail = tail_bytes(runs.n_sets, raw_.size());
    runs.tail = raw_.last(n_tail);
    append_rans_section(runs, scratch_, memory_.coded);
    h_.n_escapes = static_cast<std::uint32_t>(escapes_.size() / sizeof(Word));
    h_.coded_bytes = static_cast<std::uint32_t>(memory_.coded.size());
    h_.raw_bytes = static_cast<std::uint32_t>(raw_.size() - n_tail);
  }

  // What the sparse classes need, by class.
  struct SparseCounts {
    std::array<std::uint64_t, kMaxDeltaClasses> units{};  // up to the last change
    std::array<std::uint64_t, kMaxDeltaClasses> changes{};
    std::array<std::uint64_t, kMaxDeltaClasses> wide{};
  };

  SparseCounts take_differences() {
    SparseCounts counts;
    for (DeltaChange* change = changes_; change != walk_.next; ++change) {
      const std::size_t at = std::size_t{change->unit} * sizeof(Word);
      const Word difference = words_.difference(load<Word>(base_ + at), load<Word>(values_ + at));
      const unsigned c = change->class_number;
      change->is_negative = words_.is_negative(difference);
      change->magnitude = words_.magnitude(difference);
      counts.units[c] += std::uint64_t{change->gap} + 1;
      ++counts.changes[c];
      counts.wide[c] += change->magnitude > 1 ? 1 : 0;
    }
    return counts;
  }

  // Puts the gap behind a change in place of that before it, and chooses widths. The first gaps of
  // all classes are returned.
  std::array<std::uint32_t, kMaxDeltaClasses> turn_gaps(const SparseCounts& counts) {
    std::array<GapWidths, kMaxDeltaClasses> widths;
    std::array<std::uint32_t, kMaxDeltaClasses> shifts{};
    std::array<std::uint32_t, kMaxDeltaClasses> following{};
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      following[c] = walk_.since(c);
      widths[c] = GapWidths(counts.units[c] + following[c], counts.changes[c]);
      widths[c].add(0, counts.wide[c]);
      shifts[c] = counts.wide[c] != 0 ? 1 : 0;
    }
    for (DeltaChange* change = walk_.next; change-- != changes_;) {
      const unsigned c = change->class_number;
      std::swap(change->gap, following[c]);
      widths[c].add(std::uint64_t{change->gap} + shifts[c]);
    }
    for (unsigned left = walk_.sparse; left != 0; left &= left - 1) {
      const auto c = static_cast<unsigned>(std::countr_zero(left));
      widths[c].add(following[c]);
      h_.classes[c] = counts.changes[c] == 0
                          ? DeltaClass{}
                          : DeltaClass::sparse(widths[c].best(), counts.wide[c] != 0);
    }
    return following;
  }

  void code_sparse() {
    memory_.sparse.clear();
    if (walk_.sparse == 0) {
      return;
    }
    const std::array<std::uint32_t, kMaxDeltaClasses> first_gaps = turn_gaps(take_differences());
    SparseWriter out(memory_.sparse);
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      if (h_.classes[c].is_sparse()) {
        out.put_gap(first_gaps[c], h_.classes[c].width());
      }
    }
    for (const DeltaChange* change = changes_; change != walk_.next; ++change) {
      const DeltaClass of = h_.classes[change->class_number];
      const std::uint64_t gap = std::uint64_t{change->gap} + (of.is_wide() ? 1 : 0);
      if (change->magnitude == 1) {
        out.put_gap(gap, of.width(), change->is_negative ? 1 : 0, 1);
      } else {
        out.put_gap(0, of.width(), change->is_negative ? 1 : 0, 1);
        out.put_number(change->magnitude, h_.format.bits);
        out.put_gap(gap, of.width());
      }
    }
    out.finish();
    h_.sparse_bytes = static_cast<std::uint32_t>(memory_.sparse.size());
  }

  void assemble(std::vector<std::byte>& payload) const {
    payload.clear();
    append_delta_header(h_, memory_.active, payload);
    for (const ByteView section :
         {ByteView(memory_.sparse), ByteView(memory_.coded), escapes_, raw_.first(h_.raw_bytes)}) {
      payload.insert(payload.end(), section.begin(), section.end());
    }
  }

  DeltaHeader h_;
  const UnitWords<Word> words_;
  const std::byte* const base_;
  const std::byte* const values_;
  const std::uint64_t n_changed_;
  Scratch& scratch_;
  DeltaEncodeScratch& memory_;
  const std::uint64_t* const changed_;
  const DeltaKernels& kernels_;
  ClassRanges ranges_;
  ChangeWalk walk_;
  DeltaChange* changes_ = nullptr;
  std::array<std::size_t, kMaxDeltaClasses> n_dense_{};
  std::size_t n_symbols_ = 0;
  std::array<const std::byte*, kMaxDeltaClasses> differences_{};
  ByteView raw_;  // with the tail
  ByteView escapes_;
};

}  // namespace

void encode_delta_classes(DeltaHeader header, ByteView base, ByteView values,
                          std::uint64_t n_changed, Scratch& scratch,
                          std::vector<std::byte>& payload) {
  const auto encode = [&](auto word) {
    ClassesEncoder<decltype(word)>(header, base, values, n_changed, scratch).encode(payload);
  };
  switch (header.word_bytes()) {
    case 1:
      return encode(std::uint8_t{});
    case 2:
      return encode(std::uint16_t{});
    case 4:
      return encode(std::uint32_t{});
    default:
      return encode(std::uint64_t{});
  }
}

}  // namespace cfck::codec

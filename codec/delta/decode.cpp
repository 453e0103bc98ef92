#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "codec/change_log.hpp"
#include "codec/delta/delta.hpp"
#include "codec/delta/dense_decoder.hpp"
#include "codec/delta/kernels/sparse_bits.hpp"
#include "codec/delta/nibbles.hpp"
#include "codec/delta/scratch.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {
namespace {

// Decodes a chunk of mode 2.
class ClassesDecoder {
 public:
  // `base` and `out` have the units, in words. Where they are the same, what is changed is noted in
  // `changes`, unless that is nullptr.
  ClassesDecoder(const DeltaHeader& header, ByteView payload, ByteView base, MutableBytes out,
                 ChangeLog* changes, Scratch& scratch)
      : h_(header),
        payload_(payload),
        base_(base),
        out_(out),
        changes_(changes),
        scratch_(scratch),
        memory_(scratch.part<DeltaScratch>()),
        kernels_(delta_kernels(header.word_bytes())),
        ranges_(header.ranges()) {}

  Result<void> decode() {
    if (h_.has_dense()) {
      CFCK_TRY(open_dense());
    }
    if (h_.has_sparse()) {
      CFCK_TRY(open_sparse());
    }
    std::uint64_t end = 0;
    for (const ActiveSpan& span : memory_.active) {
      copy_blocks(end, span.first_block);
      end = span.first_block + span.n_blocks;
      for (std::uint64_t b = span.first_block; b < end; b += kDeltaTileBlocks) {
        CFCK_TRY(decode_tile(b, std::min<std::uint64_t>(kDeltaTileBlocks, end - b)));
      }
    }
    copy_blocks(end, h_.n_blocks());
    return h_.has_sparse() ? finish_sparse() : Result<void>();
  }

 private:
  std::size_t block_bytes() const { return std::size_t{kDeltaBlock} * h_.word_bytes(); }
  // Units of blocks from `first` on.
  std::size_t units_of(std::uint64_t first, std::uint64_t n_blocks) const {
    return static_cast<std::size_t>(
        std::min<std::uint64_t>(n_blocks * kDeltaBlock, h_.n_units - first * kDeltaBlock));
  }

  void copy_blocks(std::uint64_t first, std::uint64_t end) {
    if (first < end && base_.data() != out_.data()) {
      const std::size_t at = first * block_bytes();
      std::memcpy(out_.data() + at, base_.data() + at,
                  units_of(first, end - first) * h_.word_bytes());
    }
  }

  void make_masks(std::uint64_t first, std::uint64_t n_blocks) {
    kernels_.classes(base_.data() + first * block_bytes(), units_of(first, n_blocks), ranges_,
                     masks_);
  }

  Result<void> decode_tile(std::uint64_t first, std::uint64_t n_blocks) {
    make_masks(first, n_blocks);
    copy_blocks(first, first + n_blocks);
    // What was changed is noted before an error is made, which takes memory.
    const bool is_valid = changes_ == nullptr ? change_tile(first, n_blocks)
                                              : change_and_note(first, n_blocks, *changes_);
    if (!is_valid) {
      return corrupt("the changes of the chunk end too early, or one is larger than its units",
                     sparse_at());
    }
    return {};
  }

  bool change_and_note(std::uint64_t first, std::uint64_t n_blocks, ChangeLog& changes) {
    const std::size_t n_units = units_of(first, n_blocks);
    changes.reserve(n_units, h_.word_bytes());
    const bool is_valid = dense_.n_classes == 0 ? change_sparse(first, n_blocks)
                                                : change_all(first, n_blocks, n_units);
    changes.note(first * block_bytes(), h_.word_bytes(), memory_.changed);
    return is_valid;
  }

  // Change a tile, also if its changes are invalid, and list what is changed.
  bool change_sparse(std::uint64_t first, std::uint64_t n_blocks) {
    memory_.changed.n = 0;
    sparse_.changed = &memory_.changed;
    return change_tile(first, n_blocks);
  }
  bool change_all(std::uint64_t first, std::uint64_t n_blocks, std::size_t n_units) {
    const std::byte* const values = out_.data() + first * block_bytes();
    std::memcpy(memory_.before, values, n_units * h_.word_bytes());
    const bool is_valid = change_tile(first, n_blocks);
    kernels_.list_changed(memory_.before, values, n_units, memory_.changed);
    return is_valid;
  }

  bool change_tile(std::uint64_t first, std::uint64_t n_blocks) {
    std::byte* const values = out_.data() + first * block_bytes();
    if (dense_.n_classes != 0) {
      kernels_.apply_dense(masks_, units_of(first, n_blocks), h_.format, dense_, values);
    }
    return !h_.has_sparse() || kernels_.apply_sparse(masks_, n_blocks, sparse_, values);
  }

  std::size_t sparse_at() const { return h_.header_bytes; }

  Result<void> open_sparse() {
    // In memory of its own, since words are read from it.
    std::byte* const bits = memory_.sparse.reserve(h_.sparse_bytes + kSparseSlack);
    std::copy_n(payload_.data() + sparse_at(), h_.sparse_bytes, bits);
    std::memset(bits + h_.sparse_bytes, 0, kSparseSlack);
    sparse_.format = h_.format;
    sparse_.n_classes = h_.n_classes;
    sparse_.left.fill(kNoChange);
    sparse_.bits = bits;
    sparse_.end = std::uint64_t{8} * h_.sparse_bytes;
    SparseReader in(bits, 0, sparse_.end);
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      const DeltaClass one = h_.classes[c];
      if (one.is_sparse()) {
        const std::uint64_t gap = in.take_gap(one.width());
        if (in.is_past_end()) {
          return truncated("the chunk ends inside its changes", sparse_at() + h_.sparse_bytes);
        }
        sparse_.sparse |= 1u << c;
        sparse_.left[c] = gap;
        sparse_.widths[c] = static_cast<std::uint8_t>(one.width());
        sparse_.are_wide[c] = one.is_wide();
      }
    }
    sparse_.position = in.position();
    return {};
  }

  // Every gap must end behind the last unit of its class, and the string with its last byte.
  Result<void> finish_sparse() const {
    bool ends_well = sparse_.end - sparse_.position < 8;
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      ends_well = ends_well && (!h_.classes[c].is_sparse() || sparse_.left[c] == 0);
    }
    if (ends_well && sparse_.position % 8 != 0) {
      const auto last = static_cast<unsigned>(sparse_.bits[sparse_.position / 8]);
      ends_well = last >> sparse_.position % 8 == 0;
    }
    if (!ends_well) {
      return corrupt("the changes of the chunk do not end where its values end", sparse_at());
    }
    return {};
  }

  // Returns the number of units of each dense class.
  std::array<std::uint64_t, kMaxDeltaClasses> count_dense() const {
    // Neighbours that are not dense are counted as one class.
    ClassRanges merged = ranges_;
    std::array<unsigned, kMaxDeltaClasses> numbers{};
    merged.n_classes = 0;
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      if (c == 0 || h_.classes[c].is_dense() || h_.classes[c - 1].is_dense()) {
        merged.thresholds[merged.n_classes++] = ranges_.thresholds[c];
      }
      numbers[c] = merged.n_classes - 1;
    }
    std::array<std::uint64_t, kMaxDeltaClasses> of_merged{};
    for (const ActiveSpan& span : memory_.active) {
      kernels_.count(base_.data() + span.first_block * block_bytes(),
                     units_of(span.first_block, span.n_blocks), merged, of_merged.data());
    }
    std::array<std::uint64_t, kMaxDeltaClasses> counts{};
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      counts[c] = h_.classes[c].is_dense() ? of_merged[numbers[c]] : 0;
    }
    return counts;
  }

  Result<void> open_dense() {
    const std::array<std::uint64_t, kMaxDeltaClasses> counts = count_dense();
    DenseSections sections;
    sections.coded_at = sparse_at() + h_.sparse_bytes;
    sections.coded = payload_.subspan(sections.coded_at, h_.coded_bytes);
    const std::size_t escapes_at = sections.coded_at + h_.coded_bytes;
    const std::size_t escape_bytes = std::size_t{h_.n_escapes} * h_.word_bytes();
    sections.escapes = payload_.subspan(escapes_at, escape_bytes);
    sections.raw = payload_.subspan(escapes_at + escape_bytes);
    sections.readable_end = payload_.data() + payload_.size();
    CFCK_TRY(decode_dense(h_, sections, counts.data(), scratch_));
    const std::byte* next = memory_.differences.reserve(0);
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      if (h_.classes[c].is_dense()) {
        dense_.numbers[dense_.n_classes] = static_cast<std::uint8_t>(c);
        dense_.next[dense_.n_classes++] = next;
        next += counts[c] * h_.word_bytes();
      }
    }
    return {};
  }

  const DeltaHeader& h_;
  const ByteView payload_;
  const ByteView base_;
  const MutableBytes out_;
  ChangeLog* const changes_;
  Scratch& scratch_;
  DeltaScratch& memory_;
  const DeltaKernels& kernels_;
  const ClassRanges ranges_;
  SparseWalk sparse_;
  DenseCursors<const std::byte> dense_;
  ClassMasks masks_[kDeltaTileBlocks] = {};
};

// Gives `out` these bytes, which are not in it, tile after tile: what is not noted is not changed.
void replace_noting(ByteView bytes, ChangeLog& changes, ChangedUnits& memory, MutableBytes out) {
  const auto replace_tile = [&](std::size_t at, std::size_t n_units, unsigned word_bytes) {
    const std::byte* const from = bytes.data() + at;
    changes.reserve(n_units, word_bytes);
    delta_kernels(word_bytes).list_changed(out.data() + at, from, n_units, memory);
    changes.note(at, word_bytes, memory);
    std::copy_n(from, n_units * word_bytes, out.data() + at);
  };
  constexpr unsigned kWord = 2;
  const std::size_t n_words = bytes.size() / kWord;
  for (std::size_t done = 0; done < n_words; done += kTileUnits) {
    replace_tile(done * kWord, std::min(kTileUnits, n_words - done), kWord);
  }
  if (bytes.size() % kWord != 0) {
    replace_tile(bytes.size() - 1, 1, 1);
  }
}

void replace(ByteView bytes, ChangeLog* changes, Scratch& scratch, MutableBytes out) {
  if (changes != nullptr) {
    replace_noting(bytes, *changes, scratch.part<DeltaScratch>().changed, out);
  } else {
    std::copy(bytes.begin(), bytes.end(), out.begin());
  }
}

Result<void> decode_nibbles(const DeltaHeader& header, ByteView payload, const ChunkInfo& info,
                            Scratch& scratch, MutableBytes out) {
  auto& memory = scratch.part<DeltaScratch>();
  const std::size_t n = 2 * out.size();
  std::byte* const units = memory.nibbles_base.reserve(n);
  unpack_nibbles(info.base, units);
  CFCK_TRY(ClassesDecoder(header, payload, {units, n}, {units, n}, nullptr, scratch).decode());
  if (info.changes == nullptr) {
    pack_nibbles(units, out);
    return {};
  }
  const MutableBytes packed(memory.packed.reserve(out.size()), out.size());
  pack_nibbles(units, packed);
  replace(packed, info.changes, scratch, out);
  return {};
}

Result<void> decode_chunk(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                          MutableBytes out) {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  CFCK_TRY(check_base(info, shape.n_bytes()));
  if (out.size() != shape.n_bytes()) {
    return invalid_argument("the output does not have the chunk's size");
  }
  std::vector<ActiveSpan>& active = scratch.part<DeltaScratch>().active;
  active.clear();
  CFCK_TRY_ASSIGN(const DeltaHeader header, parse_delta_header(info, shape, payload, &active));
  if (header.body_bytes > payload.size()) {
    return truncated("the chunk is shorter than its header says", payload.size());
  }
  if (header.body_bytes < payload.size()) {
    return corrupt("bytes after the end of the chunk", header.body_bytes);
  }
  switch (header.mode) {
    case DeltaMode::kStored:
      replace(payload.subspan(header.header_bytes, out.size()), info.changes, scratch, out);
      return {};
    case DeltaMode::kUnchanged:
      if (info.base.data() != out.data()) {
        std::copy_n(info.base.data(), out.size(), out.data());
      }
      return {};
    case DeltaMode::kClasses:
      break;
  }
  if (header.nibbles) {
    return decode_nibbles(header, payload, info, scratch, out);
  }
  return ClassesDecoder(header, payload, info.base, out, info.changes, scratch).decode();
}

}  // namespace

Result<void> check_base(const ChunkInfo& info, std::uint64_t n_bytes) {
  if (info.base.empty()) {
    return unsupported(
        "the values are stored against those of a base, which were not given: open the file "
        "together with its base");
  }
  if (info.base.size() != n_bytes) {
    return invalid_argument("the base has another number of bytes than the chunk");
  }
  return {};
}

Result<std::uint32_t> DeltaDecoder::body_bytes(const ChunkInfo& info, ByteView payload) const {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  CFCK_TRY_ASSIGN(const DeltaHeader header, parse_delta_header(info, shape, payload, nullptr));
  return header.body_bytes;
}

Result<void> DeltaDecoder::decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                                  MutableBytes out) const {
  try {
    return decode_chunk(info, payload, scratch, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while decoding a chunk", {}, {}};
  }
}

const Decoder& delta_decoder() noexcept {
  static const DeltaDecoder decoder;
  return decoder;
}

}  // namespace cfck::codec

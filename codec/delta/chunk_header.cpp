#include "codec/delta/chunk_header.hpp"

#include <algorithm>
#include <span>

#include "codec/common/varint.hpp"
#include "codec/delta/kernels/sparse_bits.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {
namespace {

Result<void> read_head(VarintReader& in, const ChunkInfo& info, const ChunkShape& shape,
                       DeltaHeader& h, bool& has_pauses) {
  CFCK_TRY_ASSIGN(const std::uint8_t head, in.byte());
  const unsigned mode = head & 3;
  if (mode > static_cast<unsigned>(DeltaMode::kClasses)) {
    return corrupt("unknown mode of a chunk of differences", 0);
  }
  h.mode = static_cast<DeltaMode>(mode);
  if (h.mode != DeltaMode::kClasses && head != mode) {
    return corrupt("flags of classes in a chunk that has none", 0);
  }
  h.nibbles = (head & kDeltaNibbles) != 0;
  has_pauses = (head & kDeltaPauses) != 0;
  h.n_classes = (head >> kDeltaClassesShift) + 1u;
  if (h.nibbles && !may_have_nibbles(info.dtype)) {
    return corrupt("flags that the values of the chunk do not have", 0);
  }
  set_units(info, shape, h.nibbles, h);
  return {};
}

// Reads spans that alternate, and keeps the active ones.
Result<void> read_pauses(VarintReader& in, const DeltaHeader& h, std::vector<ActiveSpan>* active) {
  std::uint64_t first = 0;
  std::uint64_t n_spans = 0;
  for (; first < h.n_blocks(); ++n_spans) {
    CFCK_TRY_ASSIGN(const std::uint32_t length, in.varint());
    if ((length == 0 && n_spans != 0) || length > h.n_blocks() - first) {
      return corrupt("a span of the chunk has a length that does not fit", in.position());
    }
    const bool is_active = n_spans % 2 == 0;
    if (is_active && length != 0 && active != nullptr) {
      active->push_back({first, length});
    }
    first += length;
  }
  if (n_spans < 2) {
    return corrupt("a chunk with pauses has none", in.position());
  }
  return {};
}

Result<void> read_classes(VarintReader& in, DeltaHeader& h) {
  std::uint64_t threshold = 0;
  for (unsigned c = 1; c < h.n_classes; ++c) {
    CFCK_TRY_ASSIGN(const std::uint32_t more, in.varint());
    threshold += more;
    if (more == 0 || threshold >= h.format.n_keys()) {
      return corrupt("a threshold of classes is out of range", in.position());
    }
    h.thresholds[c] = static_cast<std::uint32_t>(threshold);
  }
  for (unsigned c = 0; c < h.n_classes; ++c) {
    CFCK_TRY_ASSIGN(h.classes[c].code, in.byte());
    const DeltaClass one = h.classes[c];
    const bool is_valid = one.is_dense()    ? one.low_width() < std::min(64u, h.format.bits)
                          : one.is_sparse() ? one.code <= 64 && one.width() <= kMaxGapWidth
                                            : true;
    if (!is_valid) {
      return corrupt("a class is coded in an unknown way", in.position() - 1);
    }
  }
  return {};
}

Result<void> read_lengths(VarintReader& in, const ChunkShape& shape, DeltaHeader& h) {
  if (h.has_sparse()) {
    CFCK_TRY_ASSIGN(h.sparse_bytes, in.varint());
  }
  if (h.has_dense()) {
    CFCK_TRY_ASSIGN(h.n_escapes, in.varint());
    CFCK_TRY_ASSIGN(h.coded_bytes, in.varint());
    CFCK_TRY_ASSIGN(h.raw_bytes, in.varint());
  }
  // No encoder writes a chunk that is longer than its values.
  const std::uint64_t limit = shape.n_bytes();
  if (h.sparse_bytes > limit || h.n_escapes > h.n_units ||
      std::uint64_t{h.n_escapes} * h.word_bytes() > limit || h.coded_bytes > limit ||
      h.raw_bytes > limit) {
    return corrupt("a count in the header of the chunk is out of range", 1);
  }
  return {};
}

void append_spans(const DeltaHeader& h, const std::vector<ActiveSpan>& active,
                  std::vector<std::byte>& out) {
  std::uint64_t end = 0;
  for (const ActiveSpan& span : active) {
    if (span.first_block != 0) {
      if (end == 0) {
        append_varint(0, out);
      }
      append_varint(static_cast<std::uint32_t>(span.first_block - end), out);
    }
    append_varint(static_cast<std::uint32_t>(span.n_blocks), out);
    end = span.first_block + span.n_blocks;
  }
  if (end < h.n_blocks()) {
    append_varint(static_cast<std::uint32_t>(h.n_blocks() - end), out);
  }
}

}  // namespace

bool DeltaHeader::has_sparse() const {
  return std::ranges::any_of(std::span(classes).first(n_classes),
                             [](DeltaClass one) { return one.is_sparse(); });
}

bool DeltaHeader::has_dense() const {
  return std::ranges::any_of(std::span(classes).first(n_classes),
                             [](DeltaClass one) { return one.is_dense(); });
}

ClassRanges DeltaHeader::ranges() const {
  ClassRanges ranges;
  ranges.key_mask = format.key_mask();
  ranges.key_shift = format.key_shift;
  ranges.may_have_high_bit = !format.is_float && format.bits == 8 * word_bytes();
  ranges.n_classes = n_classes;
  ranges.thresholds = thresholds;
  return ranges;
}

void set_units(const ChunkInfo& info, const ChunkShape& shape, bool nibbles, DeltaHeader& header) {
  header.nibbles = nibbles;
  header.format = unit_format(info.dtype, shape.value_bytes, nibbles);
  header.n_units = nibbles ? 2 * shape.n_bytes() : shape.n_values;
}

Result<DeltaHeader> parse_delta_header(const ChunkInfo& info, const ChunkShape& shape,
                                       ByteView payload, std::vector<ActiveSpan>* active) {
  VarintReader in(payload);
  DeltaHeader h;
  bool has_pauses = false;
  CFCK_TRY(read_head(in, info, shape, h, has_pauses));
  std::uint64_t section_bytes = 0;
  if (h.mode == DeltaMode::kStored) {
    section_bytes = shape.n_bytes();
  } else if (h.mode == DeltaMode::kClasses) {
    if (has_pauses) {
      CFCK_TRY(read_pauses(in, h, active));
    } else if (active != nullptr) {
      active->push_back({0, h.n_blocks()});
    }
    CFCK_TRY(read_classes(in, h));
    CFCK_TRY(read_lengths(in, shape, h));
    section_bytes = std::uint64_t{h.sparse_bytes} + h.coded_bytes +
                    std::uint64_t{h.n_escapes} * h.word_bytes() + h.raw_bytes;
  }
  h.header_bytes = static_cast<std::uint32_t>(in.position());
  h.body_bytes = static_cast<std::uint32_t>(h.header_bytes + section_bytes);
  return h;
}

void append_delta_header(const DeltaHeader& h, const std::vector<ActiveSpan>& active,
                         std::vector<std::byte>& out) {
  const bool has_pauses = active.size() != 1 || active[0].n_blocks != h.n_blocks();
  const unsigned head =
      static_cast<unsigned>(DeltaMode::kClasses) | (h.nibbles ? unsigned{kDeltaNibbles} : 0u) |
      (has_pauses ? unsigned{kDeltaPauses} : 0u) | (h.n_classes - 1) << kDeltaClassesShift;
  out.push_back(static_cast<std::byte>(head));
  if (has_pauses) {
    append_spans(h, active, out);
  }
  for (unsigned c = 1; c < h.n_classes; ++c) {
    append_varint(h.thresholds[c] - h.thresholds[c - 1], out);
  }
  for (unsigned c = 0; c < h.n_classes; ++c) {
    out.push_back(std::byte{h.classes[c].code});
  }
  if (h.has_sparse()) {
    append_varint(h.sparse_bytes, out);
  }
  if (h.has_dense()) {
    append_varint(h.n_escapes, out);
    append_varint(h.coded_bytes, out);
    append_varint(h.raw_bytes, out);
  }
}

}  // namespace cfck::codec

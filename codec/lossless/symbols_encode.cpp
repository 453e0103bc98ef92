#include "codec/lossless/symbols_encode.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "codec/common/chunk_buffers.hpp"
#include "codec/common/segments.hpp"
#include "codec/common/zero_mask.hpp"
#include "codec/entropy/rans/writer.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/entropy/zstd/frame.hpp"
#include "codec/lossless/scratch.hpp"
#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/float_format.hpp"

namespace cfck::codec {
namespace {

// Specification, section 3.4: fewer values do not pay for four stream lengths.
inline constexpr std::size_t kMinValuesOfFourTables = 4096;
inline constexpr std::size_t kMaxCleanAboveBase = 31;
// The maximum of bytes that a header takes.
inline constexpr std::size_t kMaxHeaderBytes = 64 + kMaxSegments * 25;

// Empties `payload` and reserves memory, for the chunks to come too: they differ a little.
void make_room(std::size_t n_bytes, std::vector<std::byte>& payload) {
  payload.clear();
  if (payload.capacity() < n_bytes) {
    payload = {};  // nothing to copy
    payload.reserve(n_bytes + n_bytes / 8);
  }
}

template <class Format>
class SymbolsEncoder {
  using Word = typename Format::Word;
  static constexpr bool kIsRans = Format::kSymbolMantissaBits == 1;
  static constexpr EntropyId kEntropy = kIsRans ? EntropyId::kRans : EntropyId::kZstd;

 public:
  SymbolsEncoder(const ChunkShape& shape, ByteView values, Scratch& scratch)
      : n_values_(shape.n_values),
        values_(values.data()),
        n_left_(shape.n_values),
        scratch_(scratch),
        buffers_(scratch.part<ChunkBuffers>()),
        memory_(scratch.part<LosslessScratch>()) {}

  Result<void> encode(EncodedChunk& out) {
    const ZeroCounts zeros = kIsRans ? analyse_and_split() : analyse();
    CFCK_TRY(hide_zeros(zeros));
    if (header_.flags & kHasMask) {
      analyse();
    }
    header_.flags |= layout_.has_signs ? 0 : kHasNoSigns;
    const bool has_own_trailing_zero_bits = choose_trailing_zero_bits();
    is_split_ = is_split_ && layout_.has_signs && has_own_trailing_zero_bits;
    write_streams();
    assemble(out.payload);
    out.body_bytes = static_cast<std::uint32_t>(out.payload.size());
    if constexpr (!kIsRans) {
      write_literals_frame(streams_, scratch_, out.payload);
    }
    return {};
  }

 private:
  ZeroCounts analyse() {
    n_groups_ = (n_left_ + kGroupSize - 1) / kGroupSize;
    groups_ = buffers_.groups.reserve(n_groups_);
    const ChunkAnalysis found = chunk_kernels<Format>().analyse(values_, n_left_, groups_);
    layout_.has_signs = found.has_signs;
    is_split_ = false;
    return found.zeros;
  }

  // Analyses and splits at once; usually the values need not be read again.
  ZeroCounts analyse_and_split() {
    n_groups_ = (n_left_ + kGroupSize - 1) / kGroupSize;
    groups_ = buffers_.groups.reserve(n_groups_);
    split_to_ = {};
    split_to_.streams[0] = side_room() + n_side();
    split_to_.raw = buffers_.raw.reserve(n_groups_ * raw_group_bytes<Format>(true, 0, kGroupSize));
    split_to_.escapes = buffers_.escapes.reserve(n_left_ * sizeof(Word));
    const ChunkAnalysis found =
        chunk_kernels<Format>().analyse_and_split(values_, n_left_, groups_, split_to_);
    layout_.has_signs = found.has_signs;
    is_split_ = found.is_split;
    return found.zeros;
  }

  // Symbols of bins and trailing zero bits; after them there is space for those of values, and
  // in each table for what a kernel writes past a partial group.
  std::size_t n_side() const { return 2 * n_groups_; }
  std::uint8_t* side_room() {
    return buffers_.symbols.reserve(n_side() + kPhases * (n_groups_ + 1) * kGroupSize);
  }

  // Masks zeros where that pays (specification, section 3.1).
  Result<void> hide_zeros(const ZeroCounts& zeros) {
    const bool with_signs = zeros.negative * Format::kRawBits > zeros.negative + zeros.positive;
    const std::size_t n_masked = zeros.positive + (with_signs ? zeros.negative : 0);
    if (n_masked * 32 < n_values_ || n_masked == n_values_) {
      return {};
    }
    const std::size_t mask_bytes = (n_values_ + 7) / 8;
    const std::size_t sign_bytes = with_signs ? (n_masked + 7) / 8 : 0;
    std::byte* const mask = buffers_.mask.reserve(mask_bytes + sign_bytes);
    std::memset(mask, 0, mask_bytes + sign_bytes);
    std::byte* const remaining = memory_.values.reserve((n_values_ - n_masked + 1) * sizeof(Word));
    gather_values<Word>(values_, n_values_, with_signs, mask, mask + mask_bytes, remaining);
    std::vector<std::byte>& frame = memory_.mask_frame;
    CFCK_TRY(compress_bytes({mask, mask_bytes}, scratch_, frame));
    if (frame.size() >= mask_bytes) {
      frame.assign(mask, mask + mask_bytes);
    }
    const std::size_t in_zero_groups = count_zero_groups() * kGroupSize;
    const std::size_t saved_bits =
        (n_masked - std::min(n_masked, in_zero_groups)) * (Format::kRawBits + 1);
    if (8 * (frame.size() + sign_bytes) >= saved_bits) {
      return {};
    }
    mask_signs_ = {mask + mask_bytes, sign_bytes};
    header_.flags |= kHasMask;
    header_.flags |= with_signs ? kHasMaskSigns : 0;
    header_.mask_bytes = static_cast<std::uint32_t>(frame.size());
    header_.n_masked = static_cast<std::uint32_t>(n_masked);
    values_ = remaining;
    n_left_ = n_values_ - n_masked;
    return {};
  }

  // Counts whole groups of zeros, which cost nothing without a mask either.
  std::size_t count_zero_groups() const {
    constexpr std::size_t kGroupBytes = kGroupSize * sizeof(Word);
    std::size_t n = 0;
    for (std::size_t g = 0; (g + 1) * kGroupSize <= n_values_; ++g) {
      const std::byte* group = values_ + g * kGroupBytes;
      n += group[0] == std::byte{0} && std::memcmp(group, group + 1, kGroupBytes - 1) == 0;
    }
    return n;
  }

  std::size_t group_values(std::size_t g) const {
    return std::min<std::size_t>(kGroupSize, n_left_ - g * kGroupSize);
  }

  // Specification, section 3.4: leaves in the groups what will be coded. Returns whether these are
  // all trailing zero bits that they have.
  bool choose_trailing_zero_bits() {
    unsigned base = Format::kRawBits;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        base = std::min<unsigned>(base, groups_[g].trailing_zero_bits);
      }
    }
    std::size_t saved_bits = 0;
    bool all_coded = true;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        const std::size_t above = groups_[g].trailing_zero_bits - base;
        all_coded = all_coded && above <= kMaxCleanAboveBase;
        groups_[g].trailing_zero_bits =
            static_cast<std::uint8_t>(std::min<std::size_t>(above, kMaxCleanAboveBase));
        saved_bits += groups_[g].trailing_zero_bits * group_values(g);
      } else {
        groups_[g].trailing_zero_bits = 0;
      }
    }
    const bool as_stream = saved_bits > n_groups_ + 64;
    header_.flags |=
        (base != 0 ? kHasTrailingZeroBase : 0) | (as_stream ? kHasTrailingZeroStream : 0);
    header_.trailing_zero_base = static_cast<std::uint8_t>(base);
    for (std::size_t g = 0; g < n_groups_; ++g) {
      groups_[g].trailing_zero_bits =
          static_cast<std::uint8_t>(base + (as_stream ? groups_[g].trailing_zero_bits : 0));
    }
    return all_coded && (as_stream || saved_bits == 0);
  }

  // Specification, section 3.4.
  void choose_segments() {
    const bool may_have_some = kIsRans && (header_.flags & kHasMask) == 0;
    header_.n_segments = may_have_some ? n_segments_for(n_groups_, kSegmentGroups) : 1;
    header_.flags |= header_.n_segments > 1 ? kHasSegments : 0;
  }

  void write_streams() {
    // With `rans` symbols are in one stream, since its tables change from group to group.
    layout_.n_tables = !kIsRans && n_left_ >= kMinValuesOfFourTables ? kPhases : 1;
    bin_escapes_ = memory_.bin_escapes.reserve(2 * n_groups_);
    std::uint8_t* const side = side_room();
    choose_segments();
    const SegmentedGroups in_segments(n_left_, header_.n_segments);
    std::size_t n_bin_escapes = 0;
    for (unsigned i = 0; i < header_.n_segments; ++i) {
      const std::size_t first = in_segments.first_group(i);
      const BinStream bins = write_bin_stream(groups_ + first, in_segments.end_group(i) - first,
                                              side + first, bin_escapes_ + 2 * n_bin_escapes);
      header_.segments[i].first_bin = bins.first_bin;
      header_.segments[i].n_bin_escapes = static_cast<std::uint32_t>(bins.n_escapes);
      n_bin_escapes += bins.n_escapes;
    }
    streams_[0] = {side, n_groups_};
    if (header_.flags & kHasTrailingZeroStream) {
      for (std::size_t g = 0; g < n_groups_; ++g) {
        side[n_groups_ + g] =
            static_cast<std::uint8_t>(groups_[g].trailing_zero_bits - header_.trailing_zero_base);
      }
      streams_[1] = {side + n_groups_, n_groups_};
    }
    split(side + n_side());
  }

  void split(std::uint8_t* tables) {
    std::array<std::size_t, kPhases> symbols{};
    std::size_t raw_bytes = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        symbols[table_of(g)] += group_values(g);
        raw_bytes += raw_group_bytes<Format>(layout_.has_signs, groups_[g].trailing_zero_bits,
                                             group_values(g));
      }
    }
    SplitCursors to;
    std::uint8_t* next = tables;
    for (unsigned t = 0; t < layout_.n_tables; ++t) {
      to.streams[t] = next;
      streams_[2 + t] = {next, symbols[t]};
      next += symbols[t] + kGroupSize;
    }
    raw_ = {buffers_.raw.reserve(raw_bytes), raw_bytes};
    std::byte* const escapes = buffers_.escapes.reserve(n_left_ * sizeof(Word));
    to.raw = buffers_.raw.reserve(raw_bytes);
    to.escapes = escapes;
    if (is_split_) {
      to = split_to_;
    } else {
      chunk_kernels<Format>().split(values_, n_left_, groups_, layout_, to);
    }
    escapes_ = {escapes, static_cast<std::size_t>(to.escapes - escapes)};

    const std::size_t n_symbols = symbols[0] + symbols[1] + symbols[2] + symbols[3];
    header_.n_symbols = static_cast<std::uint32_t>(n_symbols);
    header_.flags |= !kIsRans && n_symbols != n_left_ ? kHasZeroGroups : 0;
    if (layout_.n_tables == kPhases) {
      header_.flags |= kHasFourTables;
      for (unsigned t = 0; t < 3; ++t) {
        header_.table_symbols[t] = static_cast<std::uint32_t>(symbols[t]);
      }
    }
    header_.segments[0].n_escapes = static_cast<std::uint32_t>(escapes_.size() / sizeof(Word));
    header_.segments[0].raw_bytes = static_cast<std::uint32_t>(raw_bytes);
    const std::span<const SegmentHeader> segments(header_.segments.data(), header_.n_segments);
    const bool has_escapes =
        !escapes_.empty() || std::ranges::any_of(segments, [](const SegmentHeader& segment) {
          return segment.n_bin_escapes != 0;
        });
    header_.flags |= has_escapes ? kHasEscapes : 0;
  }

  unsigned table_of(std::size_t g) const {
    return layout_.n_tables == 1 ? 0 : groups_[g].scale_bin % kPhases;
  }

  // Sections of a segment.
  struct Segment {
    ByteView bin_escapes;
    ByteView escapes;
    ByteView coded;
    ByteView raw;
  };

  // What the segments to come have of the chunk's symbols, raw bits and escapes.
  struct Rest {
    const std::uint8_t* symbols;
    std::uint8_t* places;  // of tables
    ByteView raw;
    ByteView escapes;
    ByteView bin_escapes;
  };

  // Codes the symbols of the segments, and takes the tail of each from its raw bits.
  void code_symbols() {
    const SegmentedGroups in_segments(n_left_, header_.n_segments);
    std::size_t n_bin_escapes = 0;
    for (const SegmentHeader& segment : header_.segments) {
      n_bin_escapes += segment.n_bin_escapes;
    }
    Rest rest = {streams_[2].data(),
                 buffers_.places.reserve(n_groups_),
                 raw_,
                 escapes_,
                 {bin_escapes_, 2 * n_bin_escapes}};
    std::array<RansSymbols, kMaxSegments> runs;
    for (unsigned i = 0; i < header_.n_segments; ++i) {
      runs[i] = take_segment(i, in_segments.first_group(i), in_segments.end_group(i), rest);
      runs[i].n_sets = lane_sets_for(in_segments.n_values(0));
      const std::size_t in_tail = tail_bytes(runs[i].n_sets, segments_[i].raw.size());
      runs[i].tail = segments_[i].raw.last(in_tail);
      segments_[i].raw = segments_[i].raw.first(segments_[i].raw.size() - in_tail);
      header_.segments[i].raw_bytes = static_cast<std::uint32_t>(segments_[i].raw.size());
    }
    append_section(std::span(runs).first(header_.n_segments));
  }

  // Takes segment i, which has groups [first, end); its raw bits are still with the tail.
  RansSymbols take_segment(unsigned i, std::size_t first, std::size_t end, Rest& rest) {
    RansSymbols runs;
    runs.tables = kLosslessValueTables;
    runs.bins = run(streams_[0].data() + first, end - first, nullptr, kBinPlace);
    if (!streams_[1].empty()) {
      runs.trailing_zero_bits = run(streams_[1].data() + first, end - first, nullptr, kCleanPlace);
    }
    std::uint8_t* const places = rest.places;
    std::size_t n_symbols = 0;
    std::size_t n_raw = 0;
    for (std::size_t g = first; g < end; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        *rest.places++ =
            static_cast<std::uint8_t>(kFirstValuePlace + groups_[g].scale_bin % kPhases);
        n_symbols += group_values(g);
        n_raw += raw_group_bytes<Format>(layout_.has_signs, groups_[g].trailing_zero_bits,
                                         group_values(g));
      }
    }
    runs.values = run(rest.symbols, n_symbols, places, 0);
    rest.symbols += n_symbols;
    const std::size_t n_escapes =
        header_.n_segments == 1
            ? rest.escapes.size() / sizeof(Word)
            : count_rare(runs.values.symbols, rest.escapes.empty() ? 0 : n_symbols,
                         Format::kSymbolEscape);
    SegmentHeader& header = header_.segments[i];
    header.n_escapes = static_cast<std::uint32_t>(n_escapes);
    segments_[i].bin_escapes = take_front(rest.bin_escapes, 2 * std::size_t{header.n_bin_escapes});
    segments_[i].escapes = take_front(rest.escapes, sizeof(Word) * std::size_t{header.n_escapes});
    segments_[i].raw = take_front(rest.raw, n_raw);
    return runs;
  }

  static SymbolRun run(const std::uint8_t* symbols, std::size_t n, const std::uint8_t* of_groups,
                       unsigned place) {
    return {const_cast<std::uint8_t*>(symbols), n, of_groups, static_cast<std::uint8_t>(place)};
  }

  void append_section(std::span<const RansSymbols> runs) {
    std::vector<std::byte>& coded = buffers_.coded;
    coded.clear();
    const RansSegmentBytes bytes = append_rans_segments(runs, scratch_, coded);
    ByteView left = coded;
    tables_ = take_front(left, bytes.tables);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      segments_[i].coded = take_front(left, bytes.coded[i]);
      header_.segments[i].coded_bytes = static_cast<std::uint32_t>(segments_[i].coded.size());
    }
    header_.table_bytes = static_cast<std::uint32_t>(tables_.size());
  }

  void assemble(std::vector<std::byte>& payload) {
    if constexpr (kIsRans) {
      code_symbols();
    } else {
      const std::size_t n_bin_escapes = header_.segments[0].n_bin_escapes;
      segments_[0] = {{bin_escapes_, 2 * n_bin_escapes}, escapes_, {}, raw_};
    }
    const std::span<const Segment> segments(segments_.data(), header_.n_segments);
    const ByteView mask = header_.flags & kHasMask ? ByteView(memory_.mask_frame) : ByteView();
    std::size_t n_bytes = kMaxHeaderBytes + mask.size() + mask_signs_.size() + tables_.size();
    for (const Segment& segment : segments) {
      n_bytes += segment.bin_escapes.size() + segment.escapes.size() + segment.coded.size() +
                 segment.raw.size();
    }
    make_room(n_bytes, payload);
    append_symbols_header(header_, kEntropy, payload);
    const auto append = [&](ByteView section) {
      payload.insert(payload.end(), section.begin(), section.end());
    };
    append(mask);
    append(mask_signs_);
    append(tables_);
    for (const Segment& segment : segments) {
      append(segment.bin_escapes);
      append(segment.escapes);
      append(segment.coded);
      append(segment.raw);
    }
  }

  const std::size_t n_values_;
  const std::byte* values_;  // all, or what a mask leaves
  std::size_t n_left_;
  Scratch& scratch_;
  ChunkBuffers& buffers_;
  LosslessScratch& memory_;
  std::size_t n_groups_ = 0;
  SymbolLayout layout_;
  bool is_split_ = false;  // by analyse_and_split()
  SplitCursors split_to_;  // if so, the ends of what it wrote
  GroupCode* groups_ = nullptr;
  SymbolsHeader header_;
  std::array<SymbolStream, 2 + kPhases> streams_{};
  ByteView mask_signs_;
  std::byte* bin_escapes_ = nullptr;
  ByteView escapes_;
  ByteView raw_;
  ByteView tables_;  // of several segments
  std::array<Segment, kMaxSegments> segments_{};
};

}  // namespace

Result<void> encode_symbols(DType dtype, const ChunkShape& shape, EntropyId entropy,
                            ByteView values, Scratch& scratch, EncodedChunk& out) {
  return visit_format(
      dtype,
      [&](auto tag) {
        using Format = typename decltype(tag)::type;
        return entropy == EntropyId::kRans
                   ? SymbolsEncoder<With32Symbols<Format>>(shape, values, scratch).encode(out)
                   : SymbolsEncoder<Format>(shape, values, scratch).encode(out);
      },
      [] { return Result<void>(internal_error("not a float type")); });
}

}  // namespace cfck::codec

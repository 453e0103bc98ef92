// Decodes what the entropy stage has written of a segment, or of a chunk that has no others
// (codec/lossless/spec.md, section 3).
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/common/chunk_buffers.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans/scratch.hpp"
#include "codec/errors.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/float_format.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

// Takes sections one after another; their lengths were checked with the header.
class SectionReader {
 public:
  SectionReader(ByteView body, std::size_t position) : body_(body), position_(position) {}

  ByteView take(std::size_t n) {
    position_ += n;
    return body_.subspan(position_ - n, n);
  }
  std::size_t position() const { return position_; }

 private:
  ByteView body_;
  std::size_t position_;
};

struct SegmentSections {
  ByteView bin_escapes;
  ByteView escapes;
  ByteView coded;  // with `rans`
  ByteView raw;
  std::size_t coded_at = 0;
  std::size_t raw_at = 0;
};

inline SegmentSections take_sections(const SegmentHeader& h, unsigned value_bytes,
                                     SectionReader& sections) {
  SegmentSections s;
  s.bin_escapes = sections.take(2 * std::size_t{h.n_bin_escapes});
  s.escapes = sections.take(std::size_t{value_bytes} * h.n_escapes);
  s.coded_at = sections.position();
  s.coded = sections.take(h.coded_bytes);
  s.raw_at = sections.position();
  s.raw = sections.take(h.raw_bytes);
  return s;
}

// Numbers of symbols and raw bytes that the groups of a chunk must have.
struct GroupTotals {
  std::array<std::size_t, kPhases> symbols{};
  std::size_t raw_bytes = 0;
};

template <class Format>
GroupTotals total_of_groups(const GroupCode* groups, std::size_t n_values,
                            const SymbolLayout& layout) {
  std::array<std::uint32_t, Format::kRawBits> raw_bytes_of;  // a group's, by trailing zero bits
  for (unsigned trailing_zero_bits = 0; trailing_zero_bits < Format::kRawBits;
       ++trailing_zero_bits) {
    raw_bytes_of[trailing_zero_bits] = static_cast<std::uint32_t>(
        raw_group_bytes<Format>(layout.has_signs, trailing_zero_bits, kGroupSize));
  }
  GroupTotals totals;
  const auto add = [&](const GroupCode& group, std::size_t n, std::size_t raw_bytes) {
    const bool has_symbols = group.kind != GroupKind::kAllZero;
    if constexpr (Format::kSymbolMantissaBits != 1) {  // `rans` has no tables of its own length
      totals.symbols[layout.n_tables == 1 ? 0 : group.scale_bin % kPhases] += has_symbols ? n : 0;
    }
    totals.raw_bytes += has_symbols ? raw_bytes : 0;
  };
  const std::size_t n_whole = n_values / kGroupSize;
  for (std::size_t g = 0; g < n_whole; ++g) {
    add(groups[g], kGroupSize, raw_bytes_of[groups[g].trailing_zero_bits]);
  }
  if (const std::size_t n = n_values % kGroupSize; n != 0) {
    const GroupCode& last = groups[n_whole];
    add(last, n, raw_group_bytes<Format>(layout.has_signs, last.trailing_zero_bits, n));
  }
  return totals;
}

// Decodes a segment, or a chunk that has no others, to values that are not masked.
template <class Format>
class SegmentDecoder {
  using Word = typename Format::Word;
  static constexpr bool kIsRans = Format::kSymbolMantissaBits == 1;

 public:
  // `coded` is what the entropy stage has written, `coded_at` its place in the payload.
  SegmentDecoder(EntropyId entropy, const SymbolsHeader& header, const SegmentHeader& segment,
                 std::size_t n_values, const SegmentSections& sections, ByteView coded,
                 std::size_t coded_at, Scratch& scratch)
      : entropy_(entropy),
        h_(header),
        segment_(segment),
        n_left_(n_values),
        n_groups_((n_values + kGroupSize - 1) / kGroupSize),
        layout_{!kIsRans && (h_.flags & kHasFourTables) != 0 ? kPhases : 1,
                (h_.flags & kHasNoSigns) == 0},
        sections_(sections),
        coded_(coded),
        coded_at_(coded_at),
        scratch_(scratch),
        buffers_(scratch.part<ChunkBuffers>()),
        rans_(scratch.part<RansScratch>()) {}

  // With `rans` the lanes are open.
  Result<void> decode(std::byte* values) {
    CFCK_TRY(decode_side());
    CFCK_TRY(read_groups());
    return merge(values);
  }

 private:
  bool has_clean_stream() const { return (h_.flags & kHasTrailingZeroStream) != 0; }

  // Decodes bins and trailing zero bits; with `zstd` the symbols too.
  Result<void> decode_side() {
    if constexpr (kIsRans) {
      return decode_runs();
    } else {
      return decode_streams();
    }
  }

  Result<void> decode_runs() {
    // Kernels write whole groups, so there is space for them.
    symbols_ = buffers_.symbols.reserve(2 * (n_groups_ + kGroupSize));
    RansReader& reader = rans_.reader;
    bins_ = {symbols_, n_groups_};
    trailing_zeros_ = has_clean_stream() ? symbols_ + n_groups_ + kGroupSize : nullptr;
    if (!reader.decode({symbols_, n_groups_, nullptr, kBinPlace}) ||
        (trailing_zeros_ != nullptr &&
         !reader.decode({trailing_zeros_, n_groups_, nullptr, kCleanPlace}))) {
      return corrupt("the lane sets end before the scale bins", coded_at_);
    }
    return {};
  }

  // Decodes the bin stream, the stream of trailing zero bits, and the tables.
  Result<void> decode_streams() {
    lengths_ = {n_groups_, has_clean_stream() ? n_groups_ : 0, h_.n_symbols, 0, 0, 0};
    if (layout_.n_tables == kPhases) {
      for (unsigned t = 0; t < 3; ++t) {
        lengths_[2 + t] = h_.table_symbols[t];
        lengths_[5] += h_.table_symbols[t];
      }
      lengths_[5] = h_.n_symbols - lengths_[5];
    }
    std::size_t total = 0;
    for (const std::size_t length : lengths_) {
      total += length;
    }
    // The kernels read whole groups, so there is space for them.
    symbols_ = buffers_.symbols.reserve(total + kGroupSize);
    const EntropyDecoder* const stage = find_entropy_decoder(entropy_);
    if (stage == nullptr) {
      return codec_error(ErrorCode::kUnsupported, "unknown entropy stage", coded_at_);
    }
    auto done = stage->decode(coded_, lengths_, scratch_, {symbols_, total});
    if (!done) {
      return shifted(std::move(done).error(), coded_at_);
    }
    std::memset(symbols_ + total, 0, kGroupSize);
    bins_ = {symbols_, n_groups_};
    trailing_zeros_ = has_clean_stream() ? symbols_ + n_groups_ : nullptr;
    return {};
  }

  Result<void> read_groups() {
    groups_ = buffers_.groups.reserve(n_groups_);
    if (!read_bin_stream(bins_, segment_.first_bin, max_bin<Format>(), sections_.bin_escapes,
                         groups_, h_.trailing_zero_base)) {
      return corrupt("the scale bins of the chunk are inconsistent", coded_at_);
    }
    for (std::size_t g = 0; trailing_zeros_ != nullptr && g < n_groups_; ++g) {
      const unsigned bits = unsigned{h_.trailing_zero_base} + trailing_zeros_[g];
      if (bits >= Format::kRawBits) {
        return corrupt("more trailing zero bits than raw bits", coded_at_);
      }
      if (groups_[g].kind == GroupKind::kAllZero && bits != h_.trailing_zero_base) {
        return corrupt("trailing zero bits of a group of zeros", coded_at_);
      }
      groups_[g].trailing_zero_bits = static_cast<std::uint8_t>(bits);
    }
    const GroupTotals totals = total_of_groups<Format>(groups_, n_left_, layout_);
    if constexpr (kIsRans) {
      in_tail_ = tail_bytes(rans_.reader.n_sets(), totals.raw_bytes);
    } else {
      for (unsigned t = 0; t < kPhases; ++t) {
        if (totals.symbols[t] != lengths_[2 + t]) {
          return corrupt("the lengths of the tables differ from what the scale bins need",
                         coded_at_);
        }
      }
    }
    if (totals.raw_bytes != segment_.raw_bytes + in_tail_) {
      return corrupt("the length of the raw bits differs from what the scale bins need",
                     sections_.raw_at);
    }
    return {};
  }

  Result<void> merge(std::byte* values) {
    MergeCursors from;
    from.raw = sections_.raw.data();
    from.escapes = sections_.escapes.data();
    from.n_escapes = segment_.n_escapes;
    if constexpr (kIsRans) {
      CFCK_TRY(merge_lanes(values, from));
    } else {
      const std::uint8_t* stream = symbols_ + lengths_[0] + lengths_[1];
      for (unsigned t = 0; t < kPhases; ++t) {
        from.streams[t] = stream;
        stream += lengths_[2 + t];
      }
      CFCK_TRY(merge_groups(values, 0, n_groups_, from));
    }
    if (from.n_escapes != 0) {
      return wrong_escapes();
    }
    return {};
  }

  Error wrong_escapes() const {
    return corrupt("the number of escapes differs from what the symbols need", sections_.raw_at);
  }

  // Merges groups first … last-1, whose symbols are at from.streams.
  Result<void> merge_groups(std::byte* values, std::size_t first, std::size_t last,
                            MergeCursors& from) {
    if (first == last) {
      return {};
    }
    const std::size_t n = std::min(n_left_, last * kGroupSize) - first * kGroupSize;
    if (!chunk_kernels<Format>().merge(values + first * kGroupSize * sizeof(Word), n,
                                       groups_ + first, layout_, from)) {
      return wrong_escapes();
    }
    return {};
  }

  // All groups but those whose raw bits the lanes carry are merged as they are decoded. For those
  // the lanes must have come to their end.
  Result<void> merge_lanes(std::byte* values, MergeCursors& from) {
    std::size_t first_of_tail = n_groups_;
    std::size_t raw_of_tail = 0;
    std::size_t symbols_of_tail = 0;
    while (raw_of_tail < in_tail_) {
      --first_of_tail;
      if (groups_[first_of_tail].kind != GroupKind::kAllZero) {
        const std::size_t n =
            std::min<std::size_t>(kGroupSize, n_left_ - first_of_tail * kGroupSize);
        symbols_of_tail += n;
        raw_of_tail += raw_group_bytes<Format>(layout_.has_signs,
                                               groups_[first_of_tail].trailing_zero_bits, n);
      }
    }
    RansReader& reader = rans_.reader;
    const std::size_t n_before = std::min(n_left_, first_of_tail * kGroupSize);
    if (!chunk_kernels<Format>().merge_coded(values, n_before, groups_, layout_, reader.lanes(),
                                             reader.tables() + kFirstValuePlace, from)) {
      return corrupt("the symbols do not fit the lane sets or the escapes", coded_at_);
    }
    return merge_tail(values, first_of_tail, symbols_of_tail, raw_of_tail, from);
  }

  Result<void> merge_tail(std::byte* values, std::size_t first_group, std::size_t n_symbols,
                          std::size_t n_raw, MergeCursors& from) {
    RansReader& reader = rans_.reader;
    const std::size_t n_groups = n_groups_ - first_group;
    std::uint8_t* const symbols = buffers_.symbols.reserve(n_symbols + 2 * kGroupSize);
    std::uint8_t* const places = buffers_.places.reserve(n_groups);
    std::size_t n_places = 0;
    for (std::size_t g = first_group; g < n_groups_; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        places[n_places++] =
            static_cast<std::uint8_t>(kFirstValuePlace + groups_[g].scale_bin % kPhases);
      }
    }
    if (!reader.decode({symbols, n_symbols, places, 0})) {
      return corrupt("the lane sets end before the symbols", coded_at_);
    }
    std::memset(symbols + n_symbols, 0, kGroupSize);
    // The part of the tail's groups that is in the section comes before the part in the lanes.
    const std::size_t in_section = n_raw - in_tail_;
    std::byte* const raw = buffers_.raw.reserve(in_section + payload_bytes(kMaxLaneSets));
    if (auto finished = reader.finish(in_tail_, raw + in_section); !finished) {
      return shifted(std::move(finished).error(), coded_at_);
    }
    const ByteView before = sections_.raw.last(in_section);
    std::copy(before.begin(), before.end(), raw);
    from.raw = raw;
    from.streams[0] = symbols;
    return merge_groups(values, first_group, n_groups_, from);
  }

  const EntropyId entropy_;
  const SymbolsHeader& h_;
  const SegmentHeader& segment_;
  const std::size_t n_left_;  // values
  const std::size_t n_groups_;
  const SymbolLayout layout_;
  const SegmentSections& sections_;
  const ByteView coded_;
  const std::size_t coded_at_;
  Scratch& scratch_;
  ChunkBuffers& buffers_;
  RansScratch& rans_;
  std::array<std::size_t, 2 + kPhases> lengths_{};
  std::uint8_t* symbols_ = nullptr;
  std::span<const std::uint8_t> bins_;
  std::uint8_t* trailing_zeros_ = nullptr;  // of each group, if any have some
  std::size_t in_tail_ = 0;                 // raw bytes that the lanes carry
  GroupCode* groups_ = nullptr;
};

}  // namespace cfck::codec

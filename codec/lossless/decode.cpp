#include <algorithm>
#include <cstring>
#include <new>

#include "base/forks/forks.hpp"
#include "codec/common/chunk_buffers.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/common/zero_mask.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans/scratch.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/errors.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "codec/lossless/integer_planes.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/lossless/scratch.hpp"
#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/float_format.hpp"

namespace cfck::codec {
namespace {

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

struct SymbolsSections {
  ByteView mask;
  ByteView mask_signs;
  ByteView bin_escapes;
  ByteView escapes;
  ByteView coded;  // with `rans`
  ByteView raw;
  std::size_t mask_at = 0;
  std::size_t coded_at = 0;
  std::size_t raw_at = 0;
};

SymbolsSections take_sections(const SymbolsHeader& h, unsigned value_bytes,
                              SectionReader sections) {
  SymbolsSections s;
  s.mask_at = sections.position();
  s.mask = sections.take(h.mask_bytes);
  s.mask_signs = sections.take(h.flags & kHasMaskSigns ? (std::size_t{h.n_masked} + 7) / 8 : 0);
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

template <class Format>
class SymbolsDecoder {
  using Word = typename Format::Word;
  static constexpr bool kIsRans = Format::kSymbolMantissaBits == 1;

 public:
  SymbolsDecoder(const ChunkInfo& info, const ChunkShape& shape, const ChunkHeader& header,
                 ByteView payload, Scratch& scratch)
      : info_(info),
        h_(header.symbols),
        n_values_(shape.n_values),
        n_left_(shape.n_values - header.symbols.n_masked),
        n_groups_((n_left_ + kGroupSize - 1) / kGroupSize),
        layout_{h_.flags & kHasFourTables ? kPhases : 1, (h_.flags & kHasNoSigns) == 0},
        sections_(
            take_sections(h_, sizeof(Word),
                          SectionReader(payload.first(header.body_bytes), header.header_bytes))),
        coded_(kIsRans ? sections_.coded : payload.subspan(header.body_bytes)),
        coded_at_(kIsRans ? sections_.coded_at : header.body_bytes),
        payload_end_(payload.data() + payload.size()),
        scratch_(scratch),
        buffers_(scratch.part<ChunkBuffers>()),
        rans_(scratch.part<RansScratch>()) {}

  Result<void> decode(MutableBytes out) {
    CFCK_TRY(decode_side());
    CFCK_TRY(read_groups());
    if (!(h_.flags & kHasMask)) {
      return merge(out.data());
    }
    std::byte* const values =
        scratch_.part<LosslessScratch>().values.reserve((n_left_ + 1) * sizeof(Word));
    CFCK_TRY(merge(values));
    return spread(values, out);
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
    auto opened = reader.open(coded_, payload_end_, kLosslessValueTables);
    if (!opened) {
      return shifted(std::move(opened).error(), coded_at_);
    }
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
    const EntropyDecoder* const stage = find_entropy_decoder(info_.entropy);
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
    if (!read_bin_stream(bins_, h_.first_bin, max_bin<Format>(), sections_.bin_escapes, groups_,
                         h_.trailing_zero_base)) {
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
    if (totals.raw_bytes != h_.raw_bytes + in_tail_) {
      return corrupt("the length of the raw bits differs from what the scale bins need",
                     sections_.raw_at);
    }
    return {};
  }

  Result<void> merge(std::byte* values) {
    MergeCursors from;
    from.raw = sections_.raw.data();
    from.escapes = sections_.escapes.data();
    from.n_escapes = h_.n_escapes;
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

  Result<void> spread(const std::byte* values, MutableBytes out) {
    const std::size_t mask_bytes = (n_values_ + 7) / 8;
    const std::byte* mask = sections_.mask.data();
    if (sections_.mask.size() != mask_bytes) {
      std::byte* const room = buffers_.mask.reserve(mask_bytes);
      auto done = decompress_frame(sections_.mask, scratch_, {room, mask_bytes});
      if (!done) {
        return shifted(std::move(done).error(), sections_.mask_at);
      }
      mask = room;
    }
    if (!is_mask_of({mask, mask_bytes}, n_values_, h_.n_masked)) {
      return corrupt("the number of masked values differs from the header", sections_.mask_at);
    }
    spread_values<Word>({mask, mask_bytes}, n_values_, values, sections_.mask_signs, out.data());
    return {};
  }

  const ChunkInfo& info_;
  const SymbolsHeader& h_;
  const std::size_t n_values_;
  const std::size_t n_left_;  // not masked
  const std::size_t n_groups_;
  const SymbolLayout layout_;
  const SymbolsSections sections_;
  const ByteView coded_;
  const std::size_t coded_at_;
  const std::byte* const payload_end_;
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

void fill_constant(ByteView value, MutableBytes out) {
  if (value.size() == 1) {
    std::fill(out.begin(), out.end(), value[0]);
    return;
  }
  for (std::size_t i = 0; i < out.size(); i += value.size()) {
    std::memcpy(out.data() + i, value.data(), value.size());
  }
}

Result<void> decode_planes(const PlanesHeader& header, const ChunkShape& shape,
                           SectionReader sections, Scratch& scratch, MutableBytes out) {
  const std::size_t n = shape.n_values;
  std::byte* const planes = scratch.part<LosslessScratch>().planes.reserve(shape.n_bytes());
  for (unsigned p = 0; p < shape.value_bytes; ++p) {
    const PlaneHeader& plane = header.planes[p];
    const std::size_t at = sections.position();
    const ByteView stored = sections.take(plane.stored_bytes);
    const MutableBytes to(planes + p * n, n);
    if (plane.coding == PlaneCoding::kConstant) {
      std::fill(to.begin(), to.end(), plane.value);
    } else if (plane.coding == PlaneCoding::kRaw) {
      std::copy(stored.begin(), stored.end(), to.begin());
    } else if (auto done = decompress_frame(stored, scratch, to); !done) {
      return shifted(std::move(done).error(), at);
    }
  }
  join_planes(planes, n, shape.value_bytes, header.transform == PlaneTransform::kDelta, out.data());
  return {};
}

Result<void> decode_chunk(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                          MutableBytes out) {
  CFCK_TRY(check_lossless_chunk(info));
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  CFCK_TRY_ASSIGN(const ChunkHeader header, parse_chunk_header(info, payload));
  if (out.size() != shape.n_bytes()) {
    return invalid_argument("the output does not have the chunk's size");
  }
  if (header.body_bytes > payload.size()) {
    return truncated("the chunk is shorter than its header says", payload.size());
  }
  const bool has_frame = header.mode == ChunkMode::kSymbols && info.entropy != EntropyId::kRans;
  if (!has_frame && header.body_bytes != payload.size()) {
    return corrupt("bytes after the end of the chunk", header.body_bytes);
  }
  SectionReader sections(payload.first(header.body_bytes), header.header_bytes);
  switch (header.mode) {
    case ChunkMode::kStored: {
      const ByteView stored = sections.take(out.size());
      std::copy(stored.begin(), stored.end(), out.begin());
      return {};
    }
    case ChunkMode::kConstant:
      fill_constant(sections.take(shape.value_bytes), out);
      return {};
    case ChunkMode::kPlanes:
      return decode_planes(header.planes, shape, sections, scratch, out);
    case ChunkMode::kSymbols:
      break;
  }
  return visit_format(
      info.dtype,
      [&](auto tag) {
        using Format = typename decltype(tag)::type;
        return info.entropy == EntropyId::kRans
                   ? SymbolsDecoder<With32Symbols<Format>>(info, shape, header, payload, scratch)
                         .decode(out)
                   : SymbolsDecoder<Format>(info, shape, header, payload, scratch).decode(out);
      },
      [] { return Result<void>(corrupt("chunk mode 2 is for float types only", 0)); });
}

}  // namespace

Result<void> check_lossless_chunk(const ChunkInfo& info) {
  if (info.scan != ScanId::kStorageOrder) {
    return unsupported("unknown scan order of a lossless record");
  }
  if (!info.preamble.empty()) {
    return unsupported("lossless records have no preamble");
  }
  return {};
}

Result<std::uint32_t> lossless_body_bytes(const ChunkInfo& info, ByteView payload) {
  CFCK_TRY_ASSIGN(const ChunkHeader header, parse_chunk_header(info, payload));
  return header.body_bytes;
}

Result<void> decode_lossless(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                             MutableBytes out) {
  try {
    return decode_chunk(info, payload, scratch, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while decoding a chunk", {}, {}};
  }
}

Result<std::uint32_t> LosslessDecoder::body_bytes(const ChunkInfo& info, ByteView payload) const {
  return lossless_body_bytes(info, payload);
}

Result<void> LosslessDecoder::decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                                     MutableBytes out) const {
  return decode_lossless(info, payload, scratch, out);
}

const Decoder& lossless_decoder() noexcept {
  static constinit MadeOnce<const LosslessDecoder> decoder;
  return decoder.get([] { return LosslessDecoder(); });
}

}  // namespace cfck::codec

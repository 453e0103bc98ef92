#include <algorithm>
#include <cstring>
#include <new>

#include "base/forks/forks.hpp"
#include "codec/common/chunk_buffers.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/common/zero_mask.hpp"
#include "codec/entropy/rans/scratch.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/errors.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "codec/lossless/integer_planes.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/lossless/scratch.hpp"
#include "codec/lossless/segment_decoder.hpp"
#include "codec/symboliser/float_format.hpp"

namespace cfck::codec {
namespace {

// Decodes a chunk of mode 2: its segments one after another, and its mask.
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
        payload_(payload),
        body_bytes_(header.body_bytes),
        sections_(payload.first(header.body_bytes), header.header_bytes),
        scratch_(scratch),
        reader_(scratch.part<RansScratch>().reader) {}

  Result<void> decode(MutableBytes out) {
    const std::size_t mask_at = sections_.position();
    const ByteView mask = sections_.take(h_.mask_bytes);
    const ByteView mask_signs = sections_.take(h_.sign_bytes());
    if ((h_.flags & kHasMask) == 0) {
      return decode_segments(out.data());
    }
    const std::size_t n_left = n_values_ - h_.n_masked;
    std::byte* const values =
        scratch_.part<LosslessScratch>().values.reserve((n_left + 1) * sizeof(Word));
    CFCK_TRY(decode_segments(values));
    return spread(values, mask, mask_at, mask_signs, out);
  }

 private:
  Result<void> decode_segments(std::byte* values) {
    const SegmentedGroups groups(n_values_ - h_.n_masked, h_.n_segments);
    CFCK_TRY(open_tables());
    for (unsigned i = 0; i < h_.n_segments; ++i) {
      CFCK_TRY(decode_segment(h_.segments[i], groups.n_values(i),
                              values + groups.first_value(i) * sizeof(Word)));
    }
    return {};
  }

  // Reads the tables that the segments share.
  Result<void> open_tables() {
    if (h_.n_segments == 1) {
      return {};
    }
    const std::size_t at = sections_.position();
    auto opened = reader_.open_shared_tables(sections_.take(h_.table_bytes), kLosslessValueTables);
    return opened ? opened : shifted(std::move(opened).error(), at);
  }

  Result<void> decode_segment(const SegmentHeader& segment, std::size_t n, std::byte* values) {
    const SegmentSections sections = take_sections(segment, sizeof(Word), sections_);
    ByteView coded = sections.coded;
    std::size_t coded_at = sections.coded_at;
    if constexpr (kIsRans) {
      const std::byte* const end = payload_.data() + payload_.size();
      auto opened = h_.n_segments == 1 ? reader_.open(coded, end, kLosslessValueTables)
                                       : reader_.open_lanes(coded, end);
      if (!opened) {
        return shifted(std::move(opened).error(), coded_at);
      }
    } else {
      coded = payload_.subspan(body_bytes_);
      coded_at = body_bytes_;
    }
    return SegmentDecoder<Format>(info_.entropy, h_, segment, n, sections, coded, coded_at,
                                  scratch_)
        .decode(values);
  }

  Result<void> spread(const std::byte* values, ByteView stored, std::size_t mask_at,
                      ByteView mask_signs, MutableBytes out) {
    const std::size_t mask_bytes = (n_values_ + 7) / 8;
    const std::byte* mask = stored.data();
    if (stored.size() != mask_bytes) {
      std::byte* const room = scratch_.part<ChunkBuffers>().mask.reserve(mask_bytes);
      auto done = decompress_frame(stored, scratch_, {room, mask_bytes});
      if (!done) {
        return shifted(std::move(done).error(), mask_at);
      }
      mask = room;
    }
    if (!is_mask_of({mask, mask_bytes}, n_values_, h_.n_masked)) {
      return corrupt("the number of masked values differs from the header", mask_at);
    }
    spread_values<Word>({mask, mask_bytes}, n_values_, values, mask_signs, out.data());
    return {};
  }

  const ChunkInfo& info_;
  const SymbolsHeader& h_;
  const std::size_t n_values_;
  const ByteView payload_;
  const std::size_t body_bytes_;
  SectionReader sections_;
  Scratch& scratch_;
  RansReader& reader_;
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

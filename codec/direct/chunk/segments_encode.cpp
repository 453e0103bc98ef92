#include "codec/direct/chunk/segments_encode.hpp"

#include "codec/common/varint.hpp"

namespace cfck::codec {
namespace {

void append_escapes(std::span<const std::int32_t> escapes, DirectSegment& segment,
                    std::vector<std::byte>& out) {
  const std::size_t flags_at = out.size();
  out.resize(flags_at + (escapes.size() + 7) / 8);
  const std::size_t indices_at = out.size();
  for (std::size_t i = 0; i < escapes.size(); ++i) {
    if (escapes[i] == kExact) {
      out[flags_at + i / 8] |= static_cast<std::byte>(1u << (i % 8));
    } else {
      append_varint(zigzag(escapes[i]), out);
    }
  }
  segment.n_escapes = static_cast<std::uint32_t>(escapes.size());
  segment.code_bytes = static_cast<std::uint32_t>(out.size() - indices_at);
}

}  // namespace

void describe_segments(std::span<const DirectSegmentSections> segments, unsigned value_bytes,
                       DirectHeader& header, std::vector<std::byte>& escapes) {
  unsigned flags = header.flags & kDirectMask;
  flags |= segments.size() > 1 ? kDirectSegments : 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const DirectSegmentSections& sections = segments[i];
    DirectSegment& segment = header.segments[i];
    append_escapes(sections.escapes, segment, escapes);
    segment.n_exact = static_cast<std::uint32_t>(sections.exact.size() / value_bytes);
    segment.n_bin_escapes = static_cast<std::uint32_t>(sections.bin_escapes.size() / 2);
    segment.coded_bytes = static_cast<std::uint32_t>(sections.coded.size());
    segment.raw_bytes = static_cast<std::uint32_t>(sections.raw.size());
    flags |= sections.escapes.empty() ? 0 : kDirectEscapes;
    flags |= sections.bin_escapes.empty() ? 0 : kDirectBinEscapes;
    flags |= sections.raw.empty() ? 0 : kDirectRaw;
  }
  header.flags = static_cast<std::uint8_t>(flags);
}

void append_segments(std::span<const DirectSegmentSections> segments, const DirectHeader& header,
                     ByteView escapes, std::vector<std::byte>& out) {
  const auto append = [&](ByteView section) {
    out.insert(out.end(), section.begin(), section.end());
  };
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const DirectSegment& segment = header.segments[i];
    const std::size_t n_escapes = (std::size_t{segment.n_escapes} + 7) / 8 + segment.code_bytes;
    append(segments[i].bin_escapes);
    append(escapes.first(n_escapes));
    append(segments[i].exact);
    append(segments[i].coded);
    append(segments[i].raw);
    escapes = escapes.subspan(n_escapes);
  }
}

}  // namespace cfck::codec

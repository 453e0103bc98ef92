#include "format/write/trial_layout.hpp"

#include <algorithm>
#include <vector>

#include "format/container/index_errors.hpp"

namespace cfck::format {

Result<void> lay_out(RecordLayout& layout, std::uint32_t record, const ChunkGeometry& geometry,
                     const encode::RecordSize& size) {
  Record& entry = layout.index().records[record].record;
  entry.codec = size.codec;
  const CodecRules rules = rules_of(size.codec);
  if (rules.error == Presence::kAlways) {
    entry.error.emplace();
    if (rules.quality == Presence::kAlways) {
      entry.error->quality.emplace();
    }
  }
  const bool is_raw = size.codec == CodecId::kRaw;
  std::vector<std::byte> zeros;
  const auto blank = [&](std::uint64_t n_bytes) {
    zeros.resize(std::max<std::size_t>(zeros.size(), n_bytes));
    return ByteView(zeros).first(n_bytes);
  };
  const std::uint64_t first_bytes = is_raw ? geometry.n_bytes : size.payload_bytes.front();
  if (is_packed(geometry, first_bytes)) {
    return layout.add_packed(record, blank(first_bytes));
  }
  CFCK_TRY(layout.begin_chunked(record, blank(size.preamble_bytes)));
  for (std::uint64_t chunk = 0; chunk < geometry.n_chunks; ++chunk) {
    if (!is_raw) {
      CFCK_TRY(layout.add_chunk(blank(kFrameHeaderBytes + size.payload_bytes[chunk]), 0));
    } else if (starts_raw_frame(geometry, chunk)) {
      FrameBytes values(geometry.bytes_of(chunk));
      CFCK_TRY(layout.add_first_raw_chunk(geometry, chunk, values));
    } else {
      CFCK_TRY(layout.add_chunk(blank(geometry.bytes_of(chunk)), 0));
    }
  }
  return {};
}

}  // namespace cfck::format

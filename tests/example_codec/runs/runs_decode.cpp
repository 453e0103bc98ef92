#include <algorithm>

#include "codec/common/chunk_shape.hpp"
#include "codec/common/varint.hpp"
#include "codec/errors.hpp"
#include "tests/example_codec/runs/runs_codec.hpp"

namespace cfck::codec {
namespace {

struct RunsHeader {
  RunsMode mode = RunsMode::kStored;
  std::uint32_t header_bytes = 0;
  std::uint32_t body_bytes = 0;
};

// Everything that a file claims is checked before it is used: nothing is allocated here, and a
// length that does not fit 32 bits is an error.
Result<RunsHeader> parse_header(const ChunkShape& shape, ByteView payload) {
  VarintReader in(payload);
  CFCK_TRY_ASSIGN(const std::uint8_t mode, in.byte());
  if (mode > static_cast<std::uint8_t>(RunsMode::kRuns)) {
    return corrupt("unknown mode of a chunk of runs", 0);
  }
  std::uint64_t section_bytes = shape.n_bytes();
  if (static_cast<RunsMode>(mode) == RunsMode::kRuns) {
    CFCK_TRY_ASSIGN(section_bytes, in.varint());
  }
  if (section_bytes > shape.n_bytes()) {
    return corrupt("the runs are longer than the chunk", 1);
  }
  const auto header_bytes = static_cast<std::uint32_t>(in.position());
  return RunsHeader{static_cast<RunsMode>(mode), header_bytes,
                    header_bytes + static_cast<std::uint32_t>(section_bytes)};
}

Result<void> decode_runs(ByteView runs, std::size_t origin, MutableBytes out) {
  VarintReader in(runs, origin);
  std::size_t n_done = 0;
  while (!in.at_end()) {
    CFCK_TRY_ASSIGN(const std::uint32_t length, in.varint());
    CFCK_TRY_ASSIGN(const std::uint8_t value, in.byte());
    if (length == 0 || length > out.size() - n_done) {
      return corrupt("a run does not fit the chunk", origin + in.position());
    }
    const MutableBytes run = out.subspan(n_done, length);
    std::fill(run.begin(), run.end(), std::byte{value});
    n_done += length;
  }
  if (n_done != out.size()) {
    return corrupt("the runs end before the chunk", origin + in.position());
  }
  return {};
}

}  // namespace

Result<std::uint32_t> RunsDecoder::body_bytes(const ChunkInfo& info, ByteView payload) const {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  CFCK_TRY_ASSIGN(const RunsHeader header, parse_header(shape, payload));
  return header.body_bytes;
}

Result<void> RunsDecoder::decode(const ChunkInfo& info, ByteView payload, Scratch& /*scratch*/,
                                 MutableBytes out) const {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  CFCK_TRY_ASSIGN(const RunsHeader header, parse_header(shape, payload));
  if (out.size() != shape.n_bytes()) {
    return Error{ErrorCode::kInvalidArgument, "the output does not have the chunk's size", {}, {}};
  }
  if (header.body_bytes > payload.size()) {
    return truncated("the chunk is shorter than its header says", payload.size());
  }
  if (header.body_bytes < payload.size()) {
    return corrupt("bytes after the end of the chunk", header.body_bytes);
  }
  const ByteView section = payload.subspan(header.header_bytes);
  if (header.mode == RunsMode::kRuns) {
    return decode_runs(section, header.header_bytes, out);
  }
  std::copy(section.begin(), section.end(), out.begin());
  return {};
}

const Decoder& runs_decoder() noexcept {
  static const RunsDecoder decoder;
  return decoder;
}

}  // namespace cfck::codec

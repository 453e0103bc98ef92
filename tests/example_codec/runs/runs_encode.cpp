#include <new>

#include "codec/common/varint.hpp"
#include "tests/example_codec/runs/runs_codec.hpp"

namespace cfck::codec {
namespace {

// The working memory of the codec, which a Scratch keeps between chunks.
struct RunsScratch {
  std::vector<std::byte> runs;
};

void append_runs(ByteView values, std::vector<std::byte>& runs) {
  for (std::size_t first = 0; first < values.size();) {
    std::size_t end = first + 1;
    while (end < values.size() && values[end] == values[first]) {
      ++end;
    }
    append_varint(static_cast<std::uint32_t>(end - first), runs);
    runs.push_back(values[first]);
    first = end;
  }
}

void encode_chunk(ByteView values, std::vector<std::byte>& runs, std::vector<std::byte>& payload) {
  runs.clear();
  append_runs(values, runs);
  payload.clear();
  if (runs.size() < values.size()) {
    payload.push_back(std::byte{static_cast<std::uint8_t>(RunsMode::kRuns)});
    append_varint(static_cast<std::uint32_t>(runs.size()), payload);
    payload.insert(payload.end(), runs.begin(), runs.end());
  }
  if (payload.empty() || payload.size() > 1 + values.size()) {
    payload.assign(1, std::byte{static_cast<std::uint8_t>(RunsMode::kStored)});
    payload.insert(payload.end(), values.begin(), values.end());
  }
}

}  // namespace

EntropyId RunsEncoder::entropy_for(DType /*dtype*/, EntropyId /*wanted*/) const {
  return EntropyId::kZstd;
}

std::uint32_t RunsEncoder::max_overhead_bytes() const { return 1; }

Result<void> RunsEncoder::encode(const ChunkInfo& /*info*/, ByteView values, Scratch& scratch,
                                 EncodedChunk& out) const {
  try {
    encode_chunk(values, scratch.part<RunsScratch>().runs, out.payload);
    out.body_bytes = static_cast<std::uint32_t>(out.payload.size());
    return {};
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "no memory to encode a chunk", {}, {}};
  }
}

CodecEncoders runs_encoders() noexcept {
  static const RunsEncoder encoder;
  return {.exact = &encoder};
}

}  // namespace cfck::codec

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/bytes.hpp"
#include "codec/common/chunk_shape.hpp"
#include "codec/common/varint.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/errors.hpp"
#include "tests/example_codec/rounded/rounded_codec.hpp"
#include "tests/example_codec/rounded/rounded_device_header.hpp"

namespace cfck::codec {
namespace {

struct RoundedHeader {
  RoundedMode mode = RoundedMode::kStored;
  double step = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t body_bytes = 0;
};

// Everything that a file claims is checked before it is used: nothing is allocated here, and a
// length that does not fit 32 bits is an error.
Result<RoundedHeader> parse_header(const ChunkShape& shape, ByteView payload) {
  VarintReader in(payload);
  RoundedHeader header;
  CFCK_TRY_ASSIGN(const std::uint8_t mode, in.byte());
  if (mode > static_cast<std::uint8_t>(RoundedMode::kPlain)) {
    return corrupt("unknown mode of a chunk of rounded values", 0);
  }
  header.mode = static_cast<RoundedMode>(mode);
  std::uint64_t section_bytes = shape.n_bytes();
  if (header.mode != RoundedMode::kStored) {
    CFCK_TRY_ASSIGN(const ByteView step, in.take(sizeof(double)));
    header.step = std::bit_cast<double>(load<std::uint64_t>(step.data()));
    if (!(header.step > 0) || !std::isfinite(header.step)) {
      return corrupt("the step is not a positive number", 1);
    }
  }
  if (header.mode == RoundedMode::kFrame) {
    CFCK_TRY_ASSIGN(section_bytes, in.varint());
  } else if (header.mode == RoundedMode::kPlain) {
    section_bytes = 2 * shape.n_values;
  }
  if (section_bytes > shape.n_bytes()) {
    return corrupt("the indices are longer than the chunk", 1 + sizeof(double));
  }
  header.header_bytes = static_cast<std::uint32_t>(in.position());
  header.body_bytes = header.header_bytes + static_cast<std::uint32_t>(section_bytes);
  return header;
}

}  // namespace

Result<std::uint32_t> RoundedDecoder::body_bytes(const ChunkInfo& info, ByteView payload) const {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  CFCK_TRY_ASSIGN(const RoundedHeader header, parse_header(shape, payload));
  return header.body_bytes;
}

Result<void> RoundedDecoder::decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                                    MutableBytes out) const {
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  CFCK_TRY_ASSIGN(const RoundedHeader header, parse_header(shape, payload));
  if (info.dtype != DType::kF32 || out.size() != shape.n_bytes()) {
    return invalid_argument("the output does not have the chunk's size, or is not of F32");
  }
  if (header.body_bytes > payload.size()) {
    return truncated("the chunk is shorter than its header says", payload.size());
  }
  if (header.body_bytes < payload.size()) {
    return corrupt("bytes after the end of the chunk", header.body_bytes);
  }
  const ByteView section = payload.subspan(header.header_bytes);
  if (header.mode == RoundedMode::kStored) {
    std::copy(section.begin(), section.end(), out.begin());
    return {};
  }
  const std::uint64_t n = shape.n_values;
  ByteView planes = section;
  if (header.mode == RoundedMode::kFrame) {
    std::vector<std::byte>& memory = scratch.part<RoundedScratch>().planes;
    memory.resize(2 * n);
    CFCK_TRY(decompress_frame(section, scratch, memory));
    planes = memory;
  }
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto index = static_cast<std::int16_t>(std::to_integer<unsigned>(planes[i]) |
                                                 std::to_integer<unsigned>(planes[n + i]) << 8);
    const auto value = static_cast<float>(index * header.step);
    store(out.data() + i * sizeof(float), std::bit_cast<std::uint32_t>(value));
  }
  return {};
}

DevicePlan RoundedDecoder::plan_for_device(
    const ChunkInfo& info, ByteView payload, std::uint32_t payload_bytes,
    const std::shared_ptr<const ParametersForDevice>& /*parameters*/) const {
  DevicePlan plan;
  const auto shape = chunk_shape(info);
  const auto header = shape ? parse_header(*shape, payload) : Result<RoundedHeader>(shape.error());
  if (!header || info.dtype != DType::kF32 || header->body_bytes != payload_bytes) {
    return plan;  // the host's decoder says what is wrong
  }
  if (header->mode == RoundedMode::kStored) {
    plan.method = DecodeMethod::kCopy;
    plan.values_at = header->header_bytes;
  } else if (header->mode == RoundedMode::kPlain) {
    plan.method = DecodeMethod::kKernel;
    plan.kernel = device::Kernel::kDecodeRoundedF32;
    plan.value_bytes = sizeof(float);
    SegmentPlan& all = plan.segments.emplace_back();
    all.n_values = static_cast<std::uint32_t>(shape->n_values);
    all.header.store(RoundedDeviceHeader{
        header->step, {header->header_bytes, header->body_bytes - header->header_bytes}});
  }
  return plan;
}

const Decoder& rounded_decoder() noexcept {
  static const RoundedDecoder decoder;
  return decoder;
}

}  // namespace cfck::codec

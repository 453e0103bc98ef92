#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/forks/forks.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/lossless/planes_encode.hpp"
#include "codec/lossless/scratch.hpp"
#include "codec/lossless/symbols_encode.hpp"
#include "codec/symboliser/float_format.hpp"

namespace cfck::codec {
namespace {

enum class ValueKind { kFloat, kByteFloat, kInteger, kBytes };

// How the values of a dtype are treated: bytes are neither ordered numbers nor worth the
// symboliser.
ValueKind value_kind(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kF4:
    case DType::kF6E2M3:
    case DType::kF6E3M2:
    case DType::kF8E8M0:
      return ValueKind::kBytes;
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
      return ValueKind::kInteger;
    case DType::kF8E5M2:
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2Fnuz:
      return ValueKind::kByteFloat;
    default:
      return ValueKind::kFloat;
  }
}

bool is_constant(ByteView values, std::size_t value_bytes) {
  return std::memcmp(values.data(), values.data() + value_bytes, values.size() - value_bytes) == 0;
}

// Specification, section 2: whether a sample of the values that are not zero shows each of them
// four times. Signs, flags and quantised weights look like that.
bool repeats_values(const ChunkShape& shape, ByteView values) {
  constexpr std::uint64_t kMaxDistinctSample = 256;
  const std::uint64_t n = std::min(kMaxDistinctSample, shape.n_values);
  std::array<std::uint64_t, kMaxDistinctSample / 4> distinct;
  std::size_t n_distinct = 0;
  std::size_t n_sampled = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, values.data() + i * shape.n_values / n * shape.value_bytes,
                shape.value_bytes);
    if (value == 0) {
      continue;
    }
    ++n_sampled;
    const auto end = distinct.begin() + static_cast<std::ptrdiff_t>(n_distinct);
    if (std::find(distinct.begin(), end, value) == end) {
      if (4 * (n_distinct + 1) > n) {
        return false;  // whatever the rest of the sample is
      }
      distinct[n_distinct++] = value;
    }
  }
  return n_sampled != 0 && 4 * n_distinct <= n_sampled;
}

void set_body(ChunkMode mode, ByteView section, EncodedChunk& out) {
  out.payload.clear();
  out.payload.push_back(static_cast<std::byte>(mode));
  out.payload.insert(out.payload.end(), section.begin(), section.end());
  out.body_bytes = static_cast<std::uint32_t>(out.payload.size());
}

// Tries byte planes, and keeps them if they are shorter than what `out` holds already.
Result<void> try_planes(const ChunkShape& shape, ByteView values, bool try_delta, Scratch& scratch,
                        EncodedChunk& out) {
  std::vector<std::byte>& body = scratch.part<LosslessScratch>().planes_body;
  CFCK_TRY(encode_planes(shape, values, try_delta, scratch, body));
  if (out.payload.empty() || body.size() < out.payload.size()) {
    out.payload.assign(body.begin(), body.end());
    out.body_bytes = static_cast<std::uint32_t>(out.payload.size());
  }
  return {};
}

Result<void> encode_chunk(const ChunkInfo& info, ByteView values, Scratch& scratch,
                          EncodedChunk& out) {
  CFCK_TRY(check_lossless_chunk(info));
  CFCK_TRY_ASSIGN(const ChunkShape shape, chunk_shape(info));
  const bool has_stage = has_entropy_stage(info.entropy);
  if (values.size() != shape.n_bytes() || !has_stage) {
    return invalid_argument(has_stage ? "the number of bytes differs from the size of the chunk"
                                      : "unknown entropy stage");
  }
  out.payload.clear();
  if (is_constant(values, shape.value_bytes)) {
    set_body(ChunkMode::kConstant, values.first(shape.value_bytes), out);
    return {};
  }
  const ValueKind kind = value_kind(info.dtype);
  const std::size_t stored_bytes = 1 + values.size();
  if (kind == ValueKind::kFloat || kind == ValueKind::kByteFloat) {
    CFCK_TRY(encode_symbols(info.dtype, shape, info.entropy, values, scratch, out));
  }
  if (kind != ValueKind::kFloat || out.payload.size() >= stored_bytes ||
      repeats_values(shape, values)) {
    CFCK_TRY(try_planes(shape, values, kind == ValueKind::kInteger, scratch, out));
  }
  if (out.payload.size() >= stored_bytes) {
    set_body(ChunkMode::kStored, values, out);
  }
  return {};
}

}  // namespace

EntropyId LosslessEncoder::entropy_for(DType dtype, EntropyId wanted) const {
  return visit_format(
      dtype, [&](auto) { return wanted; }, [] { return EntropyId::kZstd; });
}

std::uint32_t LosslessEncoder::max_overhead_bytes() const { return 1; }

Result<void> encode_lossless(const ChunkInfo& info, ByteView values, Scratch& scratch,
                             EncodedChunk& out) {
  try {
    return encode_chunk(info, values, scratch, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while encoding a chunk", {}, {}};
  }
}

Result<void> LosslessEncoder::encode(const ChunkInfo& info, ByteView values, Scratch& scratch,
                                     EncodedChunk& out) const {
  return encode_lossless(info, values, scratch, out);
}

CodecEncoders lossless_encoders() noexcept {
  static constinit MadeOnce<const LosslessEncoder> encoder;
  return {.exact = &encoder.get([] { return LosslessEncoder(); })};
}

}  // namespace cfck::codec

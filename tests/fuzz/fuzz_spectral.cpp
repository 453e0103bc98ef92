// Decodes arbitrary bytes as a chunk of the spectral codec. The payload follows one byte for the
// dtype (from 128 on with the entropy stage rans), one for the number of dimensions, one for each
// dimension, two for the first value, two for the number of values, one that says whether there is
// a preamble, and then two for its length, and the preamble. Decoded values must also encode with
// the parameters of the preamble, within a bound, and decode again to the values that the encoder
// reported; all CPU levels do the same.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "spectral/chunk/spectral.hpp"
#include "tests/codec/direct/direct_cases.hpp"
#include "tests/fuzz/every_level.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;
using cfck::test::at_every_level;
using cfck::test::FuzzInput;
using cfck::test::Guard;
using cfck::test::GuardedBytes;
using cfck::test::require;

constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
constexpr std::uint64_t kMaxValues = 3000;

// Checks that finite values are within the bound, the others equal bit for bit.
void check_values(DType dtype, ByteView values, ByteView decoded, double bound) {
  const std::size_t value_bytes = bits_per_element(dtype) / 8;
  for (std::size_t at = 0; at < values.size(); at += value_bytes) {
    const double before = double_of(dtype, values.data() + at);
    const double after = double_of(dtype, decoded.data() + at);
    require(std::memcmp(values.data() + at, decoded.data() + at, value_bytes) == 0 ||
            (std::isfinite(before) && std::isfinite(after) && within(before, after, bound)));
  }
}

void check_encoding(SpectralChunkInfo info, const SpectralParameters& parameters,
                    const std::vector<std::byte>& bytes, Scratch& scratch) {
  const GuardedBytes values(bytes);
  SpectralChoice choice;
  choice.is_inline = info.n_elems % 2 == 0;
  choice.lambda = info.first_elem % 2 == 0 ? 0.0f : 0.1f;
  choice.max_abs_error = parameters.step;
  EncodedChunk chunk;
  ErrorTotals errors;
  std::vector<std::byte> decoded(bytes.size());
  std::vector<std::byte> payload;
  const auto encoded = at_every_level(payload, [&](std::vector<std::byte>& out) -> Result<void> {
    CFCK_TRY(
        encode_spectral(info, parameters, choice, values.bytes(), scratch, decoded, chunk, errors));
    out = chunk.payload;
    return {};
  });
  const auto geometry = SpectralGeometry::create(info.shape, parameters.sides);
  const bool fits =
      !parameters.transforms || geometry->region_of(info.first_elem, info.n_elems).has_value();
  require(encoded.has_value() == fits);
  if (!encoded) {
    return;
  }
  if (!choice.is_inline) {
    info.parameters = &parameters;
  }
  const auto body_bytes = spectral_body_bytes(info, payload);
  require(body_bytes && *body_bytes == chunk.body_bytes);
  std::vector<std::byte> again(bytes.size());
  require(at_every_level(again, [&](std::vector<std::byte>& out) {
            return decode_spectral(info, payload, scratch, out);
          }).has_value());
  require(again == decoded);
  require(errors.max_error <= parameters.step);
  check_values(info.dtype, bytes, decoded, parameters.step);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input({reinterpret_cast<const std::byte*>(data), size});
  SpectralChunkInfo info;
  const unsigned kind = input.byte();
  info.dtype = kDTypes[kind % 4];
  info.entropy = kind < 128 ? EntropyId::kZstd : EntropyId::kRans;
  std::vector<std::uint64_t> shape(input.byte() % 6);
  for (std::uint64_t& dimension : shape) {
    dimension = 1 + input.byte() % 64;
  }
  info.shape = shape;
  const std::uint64_t n_values = SpectralGeometry::create(shape, {})->n_values();
  info.first_elem = input.two() % n_values;
  info.n_elems = 1 + input.two() % std::min(kMaxValues, n_values - info.first_elem);
  std::optional<SpectralParameters> parameters;
  if (input.byte() % 2 != 0) {
    const std::size_t preamble_bytes = input.two();
    const GuardedBytes preamble(input.take(preamble_bytes));
    if (auto parsed = parse_spectral_parameters(shape, preamble.bytes())) {
      parameters = std::move(parsed).value();
      info.parameters = &*parameters;
    }
  }
  const GuardedBytes payload(input.rest(), kind / 4 % 2 == 0 ? Guard::kBehind : Guard::kBefore);
  static Scratch scratch;
  const auto body_bytes = spectral_body_bytes(info, payload.bytes());
  std::vector<std::byte> values(info.n_elems * bits_per_element(info.dtype) / 8);
  const auto decode = [&](std::vector<std::byte>& out) {
    return decode_spectral(info, payload.bytes(), scratch, out);
  };
  if (at_every_level(values, decode)) {
    require(body_bytes && *body_bytes <= payload.size());
    if (parameters) {
      check_encoding(info, *parameters, values, scratch);
    }
  }
  return 0;
}

// Decodes arbitrary bytes as a chunk of the direct codec. The payload follows one byte for the
// dtype (from 128 on with the entropy stage rans), one for the number of dimensions, one for each
// dimension, two for the first value, two for the number of values, one that says whether there is
// a preamble, and then two for its length, and the preamble. Decoded values must also encode
// within a bound and decode again to the values that the encoder reported; all CPU levels do the
// same.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/codec/direct/direct_cases.hpp"
#include "tests/fuzz/every_level.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;
using cfck::test::at_every_level;
using cfck::test::FuzzInput;
using cfck::test::require;

constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
constexpr std::uint64_t kMaxValues = 3000;

void check_encoding(DirectChunkInfo info, const DirectParameters& parameters,
                    const std::vector<std::byte>& values, Scratch& scratch) {
  std::vector<double> row_bounds;
  for (const std::uint16_t step : parameters.row_steps) {
    row_bounds.push_back(row_step_value(step) / 2);
  }
  const DirectBounds bounds{parameters.step / 2, row_bounds};
  DirectChunk chunk;
  std::vector<std::byte> decoded(values.size());
  std::vector<std::byte> again(values.size());
  if (row_bounds.empty() && bounds.bound == 0) {
    return;  // half of the smallest subnormal
  }
  std::vector<std::byte> payload;
  require(at_every_level(payload, [&](std::vector<std::byte>& out) -> Result<void> {
            CFCK_TRY(encode_direct(info, parameters, ParameterPlace::kPreamble, bounds, values,
                                   scratch, decoded, chunk));
            out = chunk.encoded.payload;
            return {};
          }).has_value());
  info.parameters = &parameters;
  require(decode_direct(info, chunk.encoded.payload, scratch, again) && again == decoded);
  const std::uint64_t row_values = direct_geometry(info.shape)->row_values();
  const std::size_t value_bytes = bits_per_element(info.dtype) / 8;
  for (std::uint64_t i = 0; i < info.n_elems; ++i) {
    const std::byte* const before = values.data() + i * value_bytes;
    const std::byte* const after = again.data() + i * value_bytes;
    const double bound =
        row_bounds.empty() ? bounds.bound : row_bounds[(info.first_elem + i) / row_values];
    require(std::memcmp(before, after, value_bytes) == 0 ||
            within(double_of(info.dtype, before), double_of(info.dtype, after), bound));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input({reinterpret_cast<const std::byte*>(data), size});
  DirectChunkInfo info;
  const unsigned kind = input.byte();
  info.dtype = kDTypes[kind % 4];
  info.entropy = kind < 128 ? EntropyId::kZstd : EntropyId::kRans;
  std::vector<std::uint64_t> shape(input.byte() % 5);
  for (std::uint64_t& dimension : shape) {
    dimension = 1 + input.byte() % 64;
  }
  info.shape = shape;
  const DirectGeometry geometry = *direct_geometry(shape);
  info.first_elem = input.two() % geometry.n_values();
  info.n_elems = 1 + input.two() % std::min(kMaxValues, geometry.n_values() - info.first_elem);
  std::optional<DirectParameters> parameters;
  if (input.byte() % 2 != 0) {
    const std::size_t preamble_bytes = input.two();
    if (auto parsed = parse_parameters(geometry, input.take(preamble_bytes))) {
      parameters = std::move(parsed).value();
      info.parameters = &*parameters;
    }
  }
  const ByteView rest = input.rest();
  const std::vector<std::byte> payload(rest.begin(), rest.end());  // nothing stands before it
  static Scratch scratch;
  const auto body_bytes = direct_body_bytes(info, payload);
  std::vector<std::byte> values(info.n_elems * bits_per_element(info.dtype) / 8);
  const auto decode = [&](std::vector<std::byte>& out) {
    return decode_direct(info, payload, scratch, out);
  };
  if (at_every_level(values, decode)) {
    require(body_bytes && *body_bytes <= payload.size());
    if (parameters) {
      check_encoding(info, *parameters, values, scratch);
    }
  }
  return 0;
}

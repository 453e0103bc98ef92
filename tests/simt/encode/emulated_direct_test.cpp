// Chunks of the direct codec encoded by the warps of a block, on the emulator, against the encoder
// of the CPU: payloads, decoded values and errors, for every float format, bound, step of rows and
// number of values around groups, lane sets and segments.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "codec/direct/device/parameters.hpp"
#include "codec/entropy/rans/device_choice_tables.hpp"
#include "codec/entropy/rans/tables/cost.hpp"
#include "cuda/kernels/encodings.cuh"
#include "tests/codec/direct/direct_cases.hpp"
#include "tests/simt/emulator.hpp"

namespace cfck::codec {
namespace {

constexpr DType kEncodedDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// A chunk of a tensor of the shape rows x columns.
struct Case {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t first = 0;
  double bound = 0;
  bool by_row = false;
  bool is_inline = false;
  std::vector<std::byte> values;
  bool has_prediction = false;
  bool has_field = false;

  std::uint64_t n() const { return values.size() * 8 / bits_per_element(dtype); }
  DirectParameters parameters() const {
    DirectParameters result;
    if (!by_row) {
      result.step = *step_of(bound);
    }
    for (const double row : row_bounds()) {
      result.row_steps.push_back(*row_step_of(row));
    }
    const DirectGeometry geometry = *direct_geometry(shape);
    if (has_prediction) {
      result.coefficients = numbers(n_coefficients(geometry.kernel_size), -50, 101);
    }
    if (has_field) {
      result.field = {numbers(geometry.kernel_size, 20, 9), numbers(geometry.rows, 10, 9),
                      numbers(geometry.columns, 10, 9)};
    }
    return result;
  }
  static std::vector<std::int16_t> numbers(std::uint64_t n, int base, unsigned range) {
    Random random(3);
    std::vector<std::int16_t> result;
    for (std::uint64_t i = 0; i < n; ++i) {
      result.push_back(static_cast<std::int16_t>(base + static_cast<int>(random.next() % range)));
    }
    return result;
  }
  std::vector<double> row_bounds() const {
    std::vector<double> bounds;
    for (std::uint64_t row = 0; by_row && row < shape[0]; ++row) {
      bounds.push_back(row % 41 == 40 ? 0 : bound * (1 + 0.25 * static_cast<double>(row % 5)));
    }
    return bounds;
  }
};

struct Encoded {
  std::vector<std::byte> payload;  // nothing: left to the host
  std::vector<std::byte> decoded;
  ErrorTotals errors;
};

Encoded on_cpu(const Case& chunk) {
  const DirectParameters parameters = chunk.parameters();
  const std::vector<double> row_bounds = chunk.row_bounds();
  const DirectChunkInfo info{chunk.dtype, EntropyId::kRans, chunk.shape,
                             chunk.first, chunk.n(),        &parameters};
  Encoded encoded;
  encoded.decoded.resize(chunk.values.size());
  Scratch scratch;
  DirectChunk made;
  const auto place = chunk.is_inline ? ParameterPlace::kInline : ParameterPlace::kPreamble;
  const auto done = encode_direct(info, parameters, place, {chunk.bound, row_bounds}, chunk.values,
                                  scratch, encoded.decoded, made);
  EXPECT_TRUE(done) << done.error().message;
  encoded.payload = made.encoded.payload;
  encoded.errors = made.errors;
  return encoded;
}

// Describes a chunk to the kernel; the description refers to parameters and bounds.
DeviceLossyChunk told_of(const Case& tested, const DirectParameters& parameters,
                         const std::vector<double>& row_bounds) {
  const DirectGeometry geometry = *direct_geometry(tested.shape);
  DeviceLossyChunk lossy;
  DeviceVectors vectors;
  vectors.row_steps = tested.by_row ? parameters.row_steps.data() : nullptr;
  vectors.coefficients = tested.has_prediction ? parameters.coefficients.data() : nullptr;
  if (tested.has_field) {
    vectors.bands = parameters.field.bands.data();
    vectors.rows = parameters.field.rows.data();
    vectors.columns = parameters.field.columns.data();
  }
  lossy.parameters = device_parameters(parameters, geometry, vectors, tested.first);
  lossy.bound = tested.bound;
  lossy.row_bounds =
      tested.by_row ? row_bounds.data() + tested.first / geometry.row_values() : nullptr;
  return lossy;
}

template <class Value, class Format, unsigned n_warps>
Encoded emulated(const Case& tested, simt::LaneOrder order, bool compares) {
  using Word = typename Value::Word;
  using Chunk = DirectEncoding<Value, LosslessInstead<Format, n_warps>, n_warps>;
  const auto n = static_cast<std::uint32_t>(tested.n());
  const DirectParameters parameters = tested.parameters();
  const std::vector<double> row_bounds = tested.row_bounds();
  std::vector<std::byte> inline_bytes;
  if (tested.is_inline) {
    append_parameters(parameters, inline_bytes);
  }
  std::vector<Word> values(n);
  std::memcpy(values.data(), tested.values.data(), tested.values.size());
  std::vector<Word> decoded(n);
  Encoded encoded;
  DeviceLossyChunk lossy = told_of(tested, parameters, row_bounds);
  lossy.inline_bytes = {reinterpret_cast<const std::uint8_t*>(inline_bytes.data()),
                        static_cast<std::uint32_t>(inline_bytes.size())};
  lossy.decoded = decoded.data();
  lossy.errors = &encoded.errors;
  lossy.compares = compares ? 1 : 0;
  const DeviceEncodeChunk chunk{.values = values.data(), .lossy = &lossy, .n_values = n};
  const DirectEncodeForm form{!parameters.coefficients.empty(), !parameters.field.empty()};
  // Its contents are arbitrary at first.
  std::size_t memory_bytes = direct_encode_layout(sizeof(Word), n, form).n_bytes;
  if (compares) {
    memory_bytes +=
        kDirectResultRoom + lossless_encode_layout(sizeof(Word), Format::kRawBits, n).n_bytes;
  }
  std::vector<std::uint64_t> memory(memory_bytes / 8, 0xe7e7e7e7e7e7e7e7u);
  encoded.payload.resize(5 * tested.values.size() + 1024 + inline_bytes.size());
  std::uint32_t n_bytes = 0;
  simt::Launch launch;
  launch.warps_per_block = n_warps;
  launch.order = order;
  const DeviceChoiceTables tables{symbol_costs().data(), static_table_frequencies().data()};
  simt::emulate<typename Chunk::Shared>(launch, [&](typename Chunk::Shared& shared) {
    Chunk encoding(chunk, tables, reinterpret_cast<std::uint8_t*>(memory.data()), shared);
    const DeviceEncoded found = encoding.encode();
    if (!found.needs_host) {
      encoding.write(reinterpret_cast<std::uint8_t*>(encoded.payload.data()));
    }
    if (simt::warp_of_block() == n_warps - 1 && simt::lane() == 7) {
      n_bytes = found.needs_host ? 0 : found.n_bytes;
    }
  });
  encoded.payload.resize(n_bytes);
  encoded.decoded.resize(tested.values.size());
  std::memcpy(encoded.decoded.data(), decoded.data(), tested.values.size());
  return encoded;
}

template <unsigned n_warps>
Encoded emulated(const Case& tested, simt::LaneOrder order, bool compares) {
  switch (tested.dtype) {
    case DType::kF64:
      return emulated<ValueF64, With32Symbols<FormatF64>, n_warps>(tested, order, compares);
    case DType::kF32:
      return emulated<ValueF32, With32Symbols<FormatF32>, n_warps>(tested, order, compares);
    case DType::kBF16:
      return emulated<ValueBf16, With32Symbols<FormatBf16>, n_warps>(tested, order, compares);
    default:
      return emulated<ValueF16, With32Symbols<FormatF16>, n_warps>(tested, order, compares);
  }
}

std::uint64_t bits(double number) { return std::bit_cast<std::uint64_t>(number); }

bool has_mask(const std::vector<std::byte>& payload) {
  return payload[0] == std::byte{kDirectPreamble} &&
         (payload[1] & std::byte{kDirectMask}) != std::byte{0};
}

class EmulatedEncodeDirect : public ::testing::TestWithParam<DType> {
 protected:
  // Returns whether the device has encoded the chunk.
  bool expect_same(const Case& tested, bool compares = true) {
    constexpr simt::LaneOrder kOrders[] = {
        simt::LaneOrder::kAscending, simt::LaneOrder::kDescending, simt::LaneOrder::kShuffled};
    const simt::LaneOrder order = kOrders[n_tested_ % 3];
    const Encoded expected = on_cpu(tested);
    const Encoded found = n_tested_ % 4 == 0   ? emulated<1>(tested, order, compares)
                          : n_tested_ % 4 == 1 ? emulated<3>(tested, order, compares)
                                               : emulated<8>(tested, order, compares);
    ++n_tested_;
    if (found.payload.empty()) {
      return false;
    }
    EXPECT_FALSE(has_mask(expected.payload));
    EXPECT_EQ(found.payload.size(), expected.payload.size());
    EXPECT_TRUE(found.payload == expected.payload);
    EXPECT_TRUE(found.decoded == expected.decoded);
    EXPECT_EQ(bits(found.errors.max_error), bits(expected.errors.max_error));
    EXPECT_EQ(bits(found.errors.sum_of_squares), bits(expected.errors.sum_of_squares));
    EXPECT_EQ(bits(found.errors.sum_of_value_squares), bits(expected.errors.sum_of_value_squares));
    EXPECT_EQ(found.errors.n_finite, expected.errors.n_finite);
    EXPECT_EQ(found.errors.n_exact, expected.errors.n_exact);
    return true;
  }

  // A bound that leaves values of 16 bits shorter than lossless.
  double fine_bound() const {
    return GetParam() == DType::kF64 ? 1e-7 : GetParam() == DType::kF32 ? 1e-5 : 0.01;
  }

  unsigned n_tested_ = 0;
};

TEST_P(EmulatedEncodeDirect, IsThatOfTheCpu) {
  for (const Spread spread : {Spread::kGaussian, Spread::kLaplace, Spread::kHeavy}) {
    for (const double bound : {fine_bound(), 0.03, 0.4}) {
      unsigned n_encoded = 0;
      for (const std::uint64_t n : {1, 2, 31, 127, 128, 129, 1000, 8191, 8192, 20000}) {
        SCOPED_TRACE(testing::Message() << "bound " << bound << ", " << n << " values");
        Case tested{GetParam(), {n}, 0, bound, false, n % 2 == 0, {}};
        tested.values = make_spread(GetParam(), spread, n, 1, n);
        n_encoded += expect_same(tested) ? 1 : 0;
      }
      // Short chunks are compared with lossless ones, of which libzstd may have a say.
      EXPECT_GE(n_encoded, spread == Spread::kGaussian ? 3U : 1U) << bound;
    }
  }
}

TEST_P(EmulatedEncodeDirect, OfAllLaneSetsAndSegments) {
  for (const std::uint64_t n : {32768, 65537, 140000}) {
    for (const double bound : {fine_bound(), 0.02}) {
      Case tested{GetParam(), {n}, 0, bound, false, false, {}};
      tested.values = make_spread(GetParam(), Spread::kGaussian, n, 1, n);
      EXPECT_TRUE(expect_same(tested)) << n << " values, bound " << bound;
      tested.values = make_spread(GetParam(), Spread::kHeavy, n, 1, n);
      expect_same(tested);
    }
  }
}

// Values whose scale is another one in each run of rows, so that there are many tables.
TEST_P(EmulatedEncodeDirect, OfManyScales) {
  const std::uint64_t n = 40000;
  Case tested{GetParam(), {n}, 0, fine_bound(), false, false, {}};
  tested.values = make_spread(GetParam(), Spread::kGaussian, n, 1, 3);
  const std::size_t value_bytes = bits_per_element(GetParam()) / 8;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::byte* const at = tested.values.data() + i * value_bytes;
    const auto scale = static_cast<int>(i / 700 % 5);
    put_double(GetParam(), i % 9000 < 400 ? 1e-5 : double_of(GetParam(), at) * (1 << scale), at);
  }
  EXPECT_TRUE(expect_same(tested));
  tested.bound = 0.05;
  expect_same(tested);
}

TEST_P(EmulatedEncodeDirect, WithStepsOfRows) {
  unsigned n_encoded = 0;
  for (const std::uint64_t columns : {1, 37, 128, 3001}) {
    for (const std::uint64_t first : {std::uint64_t{0}, columns * 3, columns * 2 + columns / 2}) {
      Case tested{GetParam(), {40000 / columns, columns}, first, 0.03, true, first == 0, {}};
      const std::uint64_t n = std::min<std::uint64_t>(9000, 40000 / columns * columns - first);
      tested.values = make_spread(GetParam(), Spread::kGaussian, n, 1, n);
      SCOPED_TRACE(testing::Message() << columns << " columns from " << first);
      n_encoded += expect_same(tested) ? 1 : 0;
    }
  }
  EXPECT_GE(n_encoded, 6U);
}

TEST_P(EmulatedEncodeDirect, OfSpecialValues) {
  unsigned n_encoded = 0;
  for (const Pattern pattern : kAllPatterns) {
    for (const std::uint64_t n : {1, 127, 5000, 9000}) {
      for (const double bound : {1e-30, 1e-3, 1e30}) {
        SCOPED_TRACE(testing::Message()
                     << pattern_name(pattern) << ", " << n << " values, " << bound);
        Case tested{GetParam(), {n}, 0, bound, false, n % 2 == 1, {}};
        tested.values = make_values(GetParam(), pattern, n, n);
        n_encoded += expect_same(tested) ? 1 : 0;
        expect_same(tested, false);
      }
    }
  }
  EXPECT_GT(n_encoded, 40U);
}

TEST_P(EmulatedEncodeDirect, WithPredictionAndField) {
  constexpr std::uint64_t kAll = std::uint64_t{64} * 30 * 9;
  const std::size_t value_bytes = bits_per_element(GetParam()) / 8;
  unsigned n_encoded = 0;
  for (unsigned form = 1; form < 8; ++form) {
    for (const std::uint64_t asked :
         {std::uint64_t{1}, std::uint64_t{500}, std::uint64_t{9000}, kAll}) {
      for (const std::uint64_t first : {0, 5}) {
        const std::uint64_t n = std::min(asked, kAll - first);
        Case tested{GetParam(), {64, 30, 3, 3}, first, 0.02, (form & 4) != 0, n == kAll, {}};
        tested.has_prediction = (form & 1) != 0;
        tested.has_field = (form & 2) != 0;
        tested.values = make_spread(GetParam(), Spread::kGaussian, n, 1, n);
        for (std::size_t i = 300; i < n; i += 977) {
          put_double(GetParam(), i % 2 == 0 ? 1e30 : std::numeric_limits<double>::quiet_NaN(),
                     tested.values.data() + i * value_bytes);
        }
        SCOPED_TRACE(testing::Message() << "form " << form << ", " << n << " from " << first);
        n_encoded += expect_same(tested) ? 1 : 0;
      }
    }
  }
  EXPECT_GE(n_encoded, 14U);
}

std::string name_of(const ::testing::TestParamInfo<DType>& tested) {
  return std::string(dtype_name(tested.param));
}
INSTANTIATE_TEST_SUITE_P(OfFloats, EmulatedEncodeDirect, ::testing::ValuesIn(kEncodedDTypes),
                         name_of);

}  // namespace
}  // namespace cfck::codec

// Parameters of the spectral codec, the vectors in them, and the positions of coefficients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "spectral/layout/parameters.hpp"
#include "spectral/layout/rice_vector.hpp"
#include "spectral/transforms/morton.hpp"

namespace cfck::spectral {
namespace {

using Vector = std::vector<std::int16_t>;

std::vector<std::byte> coded(const Vector& numbers) {
  std::vector<std::byte> bytes;
  append_rice_vector(numbers, bytes);
  return bytes;
}

Result<Vector> decoded(ByteView bytes, std::uint64_t n) {
  VarintReader in(bytes);
  return read_rice_vector(n, in);
}

void expect_round_trip(const Vector& numbers) {
  const std::vector<std::byte> bytes = coded(numbers);
  VarintReader in(bytes);
  const auto back = read_rice_vector(numbers.size(), in);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, numbers);
  EXPECT_TRUE(in.at_end());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decoded(ByteView(bytes).first(n), numbers.size())) << n;
  }
}

TEST(RiceVector, RoundTrips) {
  for (const Vector& numbers :
       {Vector{0}, Vector{-1}, Vector{INT16_MAX}, Vector{INT16_MIN}, Vector{INT16_MIN, INT16_MAX},
        Vector{INT16_MAX, INT16_MIN, INT16_MIN}, Vector{0, INT16_MIN, 0, INT16_MAX, 0},
        Vector(1000, 7), Vector(1, 300)}) {
    expect_round_trip(numbers);
  }
  std::mt19937 random(1);
  for (const int spread : {1, 2, 5, 40, 1000, 32767}) {
    Vector numbers(257);
    for (std::int16_t& number : numbers) {
      number = static_cast<std::int16_t>(static_cast<int>(random() % (2 * spread + 1)) - spread);
    }
    expect_round_trip(numbers);
  }
}

TEST(RiceVector, TakesABitEachForAlikeNumbers) {
  EXPECT_EQ(coded(Vector(800, -29)).size(), 3 + 100u);  // middle, low bits, length
}

std::vector<std::byte> bytes_of(std::initializer_list<unsigned> values) {
  std::vector<std::byte> bytes;
  for (const unsigned value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

void expect_refused(const std::vector<std::byte>& bytes, std::uint64_t n, ErrorCode code) {
  const auto result = decoded(bytes, n);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code);
  EXPECT_LE(result.error().byte_offset.value_or(SIZE_MAX), bytes.size());
}

// The bytes are middle, low bits, number of bytes, bits.
TEST(RiceVector, RefusesHostileBytes) {
  EXPECT_TRUE(decoded(bytes_of({0, 0, 1, 0}), 8));
  expect_refused(bytes_of({0, 0, 1, 0}), 9, ErrorCode::kCorrupt);  // fewer bits than numbers
  expect_refused(bytes_of({0, 0, 1, 0}), std::uint64_t{1} << 61, ErrorCode::kCorrupt);
  expect_refused(bytes_of({0, 0, 1, 0}), UINT64_MAX, ErrorCode::kCorrupt);
  expect_refused(bytes_of({0, 0, 0}), 1, ErrorCode::kCorrupt);
  expect_refused(bytes_of({0, 16, 3, 0, 0, 0}), 1, ErrorCode::kCorrupt);  // low bits
  expect_refused(bytes_of({0, 255, 3, 0, 0, 0}), 1, ErrorCode::kCorrupt);
  expect_refused(bytes_of({0, 0, 2, 0, 0}), 8, ErrorCode::kCorrupt);  // a byte left over
  expect_refused(bytes_of({0, 0, 1, 0x80}), 7, ErrorCode::kCorrupt);  // a bit left over
  expect_refused(bytes_of({0, 0, 1, 0xff}), 1, ErrorCode::kCorrupt);  // no end
  expect_refused(bytes_of({0, 0, 5, 0}), 1, ErrorCode::kTruncated);
  expect_refused(bytes_of({0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0}), 1, ErrorCode::kTruncated);
  expect_refused(bytes_of({0xff, 0xff, 0xff, 0xff, 0x0f, 0, 1, 0}), 1, ErrorCode::kCorrupt);
  expect_refused(bytes_of({0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 0}), 1, ErrorCode::kCorrupt);
  expect_refused(bytes_of({0x80, 0x80, 4, 0, 1, 0}), 1, ErrorCode::kCorrupt);  // 32768
  EXPECT_EQ(decoded(bytes_of({0xfe, 0xff, 3, 0, 1, 0}), 1).value(), Vector{INT16_MAX});
  expect_refused(bytes_of({0xfe, 0xff, 3, 0, 1, 3}), 1, ErrorCode::kCorrupt);  // one above
  EXPECT_EQ(decoded(bytes_of({0xff, 0xff, 3, 0, 1, 0}), 1).value(), Vector{INT16_MIN});
  expect_refused(bytes_of({0xff, 0xff, 3, 0, 1, 1}), 1, ErrorCode::kCorrupt);  // one below
  // Ones for 2^24 bits, times 2^15: beyond 32 bits.
  std::vector<std::byte> ones = bytes_of({0, 15, 0x80, 0x80, 0x80, 1});
  ones.resize(6 + (std::size_t{1} << 21), std::byte{0xff});
  ones.back() = std::byte{0};
  expect_refused(ones, 1, ErrorCode::kCorrupt);
}

SpectralParameters some_parameters() {
  SpectralParameters parameters;
  parameters.n_states = 4;
  parameters.transforms = true;
  parameters.order = CoefficientOrder::kBins;
  parameters.step = 0x1.8p-7;
  parameters.sides = {2, 3};
  parameters.scales = {{1, 2, 3, 4, 5, 6}, {-7, 8}, {9, 10, 11}};
  parameters.steps = {{}, {}, {12, -13, 14}};
  return parameters;
}

constexpr std::uint64_t kShape[] = {4, 9};

TEST(SpectralParameters, States) {
  SpectralParameters parameters = some_parameters();
  for (const unsigned n_states : {1u, 4u, 8u, 64u}) {
    parameters.n_states = n_states;
    std::vector<std::byte> bytes;
    append_spectral_parameters(parameters, bytes);
    const auto back = parse_spectral_parameters(kShape, bytes);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->n_states, n_states);
  }
}

TEST(SpectralParameters, RoundTrip) {
  const SpectralParameters parameters = some_parameters();
  std::vector<std::byte> bytes;
  append_spectral_parameters(parameters, bytes);
  EXPECT_EQ(order_of_preamble(bytes), CoefficientOrder::kBins);
  const auto back = parse_spectral_parameters(kShape, bytes);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->n_states, 4u);
  EXPECT_TRUE(back->transforms);
  EXPECT_EQ(back->order, CoefficientOrder::kBins);
  EXPECT_EQ(back->step, parameters.step);
  EXPECT_EQ(back->sides, parameters.sides);
  EXPECT_EQ(back->scales.bands, parameters.scales.bands);
  EXPECT_EQ(back->scales.rows, parameters.scales.rows);
  EXPECT_EQ(back->scales.columns, parameters.scales.columns);
  EXPECT_TRUE(back->steps.bands.empty() && back->steps.rows.empty());
  EXPECT_EQ(back->steps.columns, parameters.steps.columns);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto cut = parse_spectral_parameters(kShape, ByteView(bytes).first(n));
    EXPECT_FALSE(cut) << n;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(parse_spectral_parameters(kShape, bytes));
}

TEST(SpectralParameters, ScaledSteps) {
  EXPECT_EQ(scaled_step(3, 0), 3);
  EXPECT_EQ(scaled_step(3, 8), 12);
  EXPECT_EQ(scaled_step(3, -4), 1.5);
  EXPECT_EQ(scaled_step(1, 2), 0x1.6a09e667f3bcdp+0);
  EXPECT_EQ(scaled_step(1, -1), 0x1.ae89f995ad3adp-1);
  EXPECT_NEAR(scaled_step(1, 1), std::pow(2, 0.25), 1e-15);
  EXPECT_EQ(scaled_step(1, 3 * 32767), 0x1.306fe0a31b715p+1023);  // octaves are clamped
  EXPECT_EQ(scaled_step(1, -3 * 32768), 0x1p-1022);
  EXPECT_EQ(scaled_step(2, 4 * 1023), std::numeric_limits<double>::infinity());
  EXPECT_EQ(scaled_step(0x1p-1000, -4 * 1022), 0);
}

// Compares with indices computed by hand.
void expect_geometry(const Shape& shape, const BlockSides& last_sides) {
  const auto geometry = SpectralGeometry::create(shape, last_sides);
  ASSERT_TRUE(geometry) << geometry.error().to_string();
  std::vector<std::uint32_t> sides(shape.size() - last_sides.size(), 1);
  sides.insert(sides.end(), last_sides.begin(), last_sides.end());
  const std::vector<std::uint32_t> bands = band_numbers(sides);
  const std::uint64_t n = geometry->n_values();
  struct Place {
    std::uint32_t band;
    std::uint64_t row, column;
    bool operator==(const Place&) const = default;
  };
  std::vector<Place> expected;
  std::vector<std::uint64_t> index(shape.size());
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t rest = i;
    for (std::size_t a = shape.size(); a-- > 0; rest /= shape[a]) {
      index[a] = rest % shape[a];
    }
    std::size_t place = 0;
    for (std::size_t a = 0; a < shape.size(); ++a) {
      place = place * sides[a] + index[a] % sides[a];
    }
    const auto block = [&](std::size_t a) { return index[a] / sides[a]; };
    const std::uint64_t row = shape.size() >= 2 ? block(0) : 0;
    const std::uint64_t column = shape.empty() ? 0 : shape.size() == 1 ? block(0) : block(1);
    expected.push_back({bands[place], row, column});
    EXPECT_LT(row, geometry->n_rows());
    EXPECT_LT(column, geometry->n_columns());
  }
  EXPECT_EQ(expected.back().row + 1, geometry->n_rows());
  for (const std::uint64_t first : {std::uint64_t{0}, n / 3, n - 1}) {
    std::vector<Place> places;
    geometry->each(first, n - first,
                   [&](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
                     EXPECT_EQ(i, places.size());
                     places.push_back({band, row, column});
                   });
    EXPECT_EQ(places, std::vector<Place>(expected.begin() + static_cast<std::ptrdiff_t>(first),
                                         expected.end()));
  }
  if (geometry->is_simple()) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t in_row = i % geometry->row_values();
      EXPECT_EQ(geometry->band_of_position()[in_row % geometry->kernel_size()], expected[i].band);
      EXPECT_EQ(i / geometry->row_values(), expected[i].row);
      EXPECT_EQ(in_row / geometry->kernel_size(), expected[i].column);
    }
  }
}

TEST(SpectralGeometry, PlacesOfEveryCoefficient) {
  expect_geometry({}, {});
  expect_geometry({1}, {});
  expect_geometry({1}, {64});
  expect_geometry({77}, {});
  expect_geometry({77}, {8});
  expect_geometry({5, 7}, {});
  expect_geometry({5, 7}, {3});
  expect_geometry({5, 7}, {2, 3});
  expect_geometry({5, 7}, {64, 64});
  expect_geometry({4, 3, 3, 3}, {3, 3});
  expect_geometry({4, 3, 3, 3}, {2, 3});
  expect_geometry({4, 3, 5}, {5});
  expect_geometry({4, 1, 1, 7}, {1, 1, 7});
  expect_geometry({3, 2, 4, 3, 2}, {2, 1, 3, 2, 2});
  EXPECT_TRUE(SpectralGeometry::create(Shape{4, 3, 3, 3}, {3, 3})->is_simple());
  EXPECT_FALSE(SpectralGeometry::create(Shape{4, 3, 3, 3}, {2, 3})->is_simple());
}

TEST(SpectralGeometry, RefusesImpossibleBlocks) {
  const auto code = [](const Shape& shape, const BlockSides& sides) {
    const auto geometry = SpectralGeometry::create(shape, sides);
    return geometry ? std::optional<ErrorCode>() : geometry.error().code;
  };
  EXPECT_EQ(code({4, 4}, {0}), ErrorCode::kCorrupt);
  EXPECT_EQ(code({4, 4}, {65}), ErrorCode::kCorrupt);
  EXPECT_EQ(code({4, 4}, {255, 1}), ErrorCode::kCorrupt);
  EXPECT_EQ(code({4, 4}, {1, 1, 1}), ErrorCode::kCorrupt);
  EXPECT_EQ(code({}, {1}), ErrorCode::kCorrupt);
  EXPECT_EQ(code({100, 100}, {64, 64}), std::nullopt);
  EXPECT_EQ(code({100, 100, 2}, {64, 64, 2}), ErrorCode::kCorrupt);  // 8192 bands
  EXPECT_EQ(code(Shape(40, 64), BlockSides(40, 64)), ErrorCode::kCorrupt);
  EXPECT_EQ(code(Shape(64, 1), BlockSides(64, 1)), std::nullopt);
  EXPECT_EQ(code({std::uint64_t{1} << 62}, {}), ErrorCode::kUnsupported);
  EXPECT_EQ(code({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, {}), ErrorCode::kUnsupported);
}

TEST(SpectralGeometry, RegionsOfChunks) {
  const auto region = [](const Shape& shape, const BlockSides& sides, std::uint64_t first,
                         std::uint64_t n) {
    const auto geometry = SpectralGeometry::create(shape, sides);
    const auto found = geometry->region_of(first, n);
    EXPECT_TRUE(found || found.error().code == ErrorCode::kCorrupt);
    return found ? std::optional(found->shape) : std::nullopt;
  };
  EXPECT_EQ(region({}, {}, 0, 1), Shape{});
  EXPECT_EQ(region({9}, {4}, 0, 9), Shape{9});
  EXPECT_EQ(region({9}, {4}, 0, 8), std::nullopt);
  EXPECT_EQ(region({9, 5}, {4, 4}, 0, 20), (Shape{4, 5}));
  EXPECT_EQ(region({9, 5}, {4, 4}, 20, 25), (Shape{5, 5}));
  EXPECT_EQ(region({9, 5}, {4, 4}, 40, 5), (Shape{1, 5}));
  EXPECT_EQ(region({9, 5}, {4, 4}, 0, 25), std::nullopt);
  EXPECT_EQ(region({9, 5}, {4, 4}, 5, 20), std::nullopt);
  EXPECT_EQ(region({9, 5}, {4, 4}, 0, 19), std::nullopt);
  EXPECT_EQ(region({9, 5}, {4, 4}, 1, 20), std::nullopt);
  EXPECT_EQ(region({9, 5}, {1, 4}, 5, 5), (Shape{1, 5}));
}

}  // namespace
}  // namespace cfck::spectral

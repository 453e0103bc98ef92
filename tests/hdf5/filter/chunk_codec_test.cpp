// Chunks as the filter stores them, without HDF5.
#include "hdf5/filter/chunk_codec.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "hdf5/filter/fill_values.hpp"

namespace cfck::hdf5 {
namespace {

constexpr float kFill = -999.0f;

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> weights(std::size_t n) {
  std::mt19937 random(1);
  std::vector<float> values(n);
  for (float& value : values) {
    value = static_cast<float>(random() % 20001) * 1e-5f - 0.1f;
  }
  return values;
}

FilterRequest request_of(Mode mode, double value) {
  FilterRequest request;
  request.mode = mode;
  request.value = value;
  return request;
}

std::vector<std::byte> stored(const FilterRequest& request, const ChunkValues& values,
                              ByteView bytes) {
  ChunkMemory memory;
  const auto chunk = store_chunk(request, values, bytes, memory);
  EXPECT_TRUE(chunk) << chunk.error().message;
  std::vector<std::byte> all = chunk->header;
  all.insert(all.end(), chunk->payload.begin(), chunk->payload.end());
  return all;
}

TEST(Hdf5ChunkCodec, FillValuesComeBackAndTheOthersKeepTheBound) {
  std::vector<float> given = weights(4096);
  for (std::size_t i = 0; i < given.size(); i += 3) {
    given[i] = kFill;
  }
  const ChunkValues values{DType::kF32, false, std::bit_cast<std::uint32_t>(kFill), {64, 64}};
  const auto bytes = bytes_of(given);
  const double bound = share_of_range(DType::kF32, bytes, values.fill_bits, 1e-3);
  EXPECT_LE(bound, 1e-3 * 0.2000001);
  const auto chunk = stored(request_of(Mode::kMaxRelError, 1e-3), values, bytes);
  EXPECT_LT(chunk.size(), bytes.size() / 2);
  ASSERT_TRUE(check_stored(values, chunk));
  std::vector<float> got(given.size());
  ChunkMemory memory;
  ASSERT_TRUE(load_chunk(values, chunk, memory, std::as_writable_bytes(std::span(got))));
  for (std::size_t i = 0; i < given.size(); ++i) {
    ASSERT_LE(std::abs(double{given[i]} - double{got[i]}), given[i] == kFill ? 0 : bound) << i;
  }
}

TEST(Hdf5ChunkCodec, EveryPrefixAndEveryFlippedByteIsRefused) {
  const ChunkValues values{DType::kF32, false, std::bit_cast<std::uint32_t>(kFill), {32, 32}};
  std::vector<float> given = weights(1024);
  given[5] = kFill;
  for (const Mode mode : {Mode::kLossless, Mode::kMaxAbsError, Mode::kNmse}) {
    const double value = mode == Mode::kLossless ? 0 : 1e-3;
    const auto chunk = stored(request_of(mode, value), values, bytes_of(given));
    for (std::size_t n = 0; n < chunk.size(); ++n) {
      ASSERT_FALSE(check_stored(values, ByteView(chunk).first(n))) << n;
      auto damaged = chunk;
      damaged[n] ^= std::byte{0x41};
      ASSERT_FALSE(check_stored(values, damaged)) << n;
    }
  }
}

TEST(Hdf5ChunkCodec, AChunkOfAnotherDatasetIsRefused) {
  const ChunkValues values{DType::kF32, false, 0, {32, 32}};
  const auto chunk = stored(request_of(Mode::kMaxAbsError, 1e-3), values, bytes_of(weights(1024)));
  EXPECT_TRUE(check_stored(values, chunk));
  for (const ChunkValues& other :
       {ChunkValues{DType::kF32, false, 0, {32, 31}}, ChunkValues{DType::kI32, false, 0, {32, 32}},
        ChunkValues{DType::kF32, true, 0, {32, 32}}}) {
    const auto checked = check_stored(other, chunk);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
  }
}

// libhdf5 would read beyond a chunk that is shorter than those of the dataset.
TEST(Hdf5ChunkCodec, BytesOfAnotherNumberAreRefusedWhereNoFilterComesBefore) {
  const ChunkValues behind_another{DType::kU8, false, 0, {64}};
  const auto few = stored({}, behind_another, std::vector<std::byte>(16));
  EXPECT_TRUE(check_stored(behind_another, few));
  const ChunkValues first{DType::kU8, false, 0, {64}, true};
  const ChunkValues floats_of_an_older_plug_in{DType::kF32, false, 0, {16}};
  ChunkMemory memory;
  for (const ChunkValues& values : {first, floats_of_an_older_plug_in}) {
    const auto checked = check_stored(values, few);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
    EXPECT_FALSE(store_chunk({}, values, std::vector<std::byte>(16), memory));
    EXPECT_TRUE(check_stored(values, stored({}, values, std::vector<std::byte>(64))));
  }
}

TEST(Hdf5ChunkCodec, SharesOfARangeAreNotRoundedUp) {
  const std::vector<double> values = {-0x1p-60, 1, NAN, INFINITY, 0};
  const auto bytes = std::as_bytes(std::span(values));
  // The range of all but the fill value 0 is 1 + 2^-60, which no double is.
  EXPECT_EQ(share_of_range(DType::kF64, bytes, 0, 1), 1.0);
  EXPECT_EQ(share_of_range(DType::kF64, bytes, std::bit_cast<std::uint64_t>(1.0), 1), 0x1p-60);
  const std::vector<double> wide = {-0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023};
  EXPECT_TRUE(std::isfinite(share_of_range(DType::kF64, std::as_bytes(std::span(wide)), 0, 1)));
}

TEST(Hdf5FilterValues, WordsThatAreNotThoseOfADatasetAreRefused) {
  const ChunkValues values{DType::kF32, false, 7, {3, 5}};
  const auto words = complete_words({}, values);
  ASSERT_TRUE(parse_request(words));
  const auto parsed = parse_chunk_values(words);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->shape, values.shape);
  EXPECT_EQ(parsed->fill_bits, 7u);
  for (std::size_t n = 0; n < words.size(); ++n) {
    EXPECT_FALSE(parse_chunk_values(std::span(words).first(n))) << n;
  }
  auto huge = words;
  huge[13] = huge[14] = 0xffffffffu;
  const auto accepted = parse_chunk_values(huge);  // 2^64 bytes do not fit 64 bits
  EXPECT_FALSE(accepted);
  EXPECT_FALSE(parsed->is_first_filter);
  auto first_filter = values;
  first_filter.is_first_filter = true;
  EXPECT_TRUE(parse_chunk_values(complete_words({}, first_filter))->is_first_filter);
  auto unknown = words;
  unknown[9] = 0xff;
  EXPECT_FALSE(parse_chunk_values(unknown));
}

}  // namespace
}  // namespace cfck::hdf5

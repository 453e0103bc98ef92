// Lossless chunks encoded by the warps of a block, on the emulator, against the encoder of the CPU:
// every float format of 16 bits and more, pattern and number of values around groups, lane sets and
// segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "codec/entropy/rans/device_choice_tables.hpp"
#include "codec/entropy/rans/tables/cost.hpp"
#include "codec/lossless/device/encode_chunks_device.cuh"
#include "tests/codec/test_values.hpp"
#include "tests/simt/emulator.hpp"

namespace cfck::codec {
namespace {

constexpr DType kEncodedDTypes[] = {DType::kF64, DType::kF32, DType::kC64, DType::kBF16,
                                    DType::kF16};

DeviceChoiceTables choice_tables() {
  return {symbol_costs().data(), static_table_frequencies().data()};
}

// The payload, or nothing where the host has to encode the chunk.
template <class Format, unsigned n_warps>
std::vector<std::byte> emulated(const std::vector<std::byte>& values, simt::LaneOrder order) {
  using Word = typename Format::Word;
  using Shared = DeviceLosslessShared<n_warps>;
  const std::size_t n = values.size() / sizeof(Word);
  std::vector<Word> words(n);
  std::memcpy(words.data(), values.data(), values.size());
  // Its contents are arbitrary at first.
  std::vector<std::uint64_t> memory(
      lossless_encode_layout(sizeof(Word), Format::kRawBits, n).n_bytes / 8, 0xe7e7e7e7e7e7e7e7u);
  std::vector<std::byte> payload(values.size() + 1);
  std::uint32_t n_bytes = 0;
  simt::Launch launch;
  launch.warps_per_block = n_warps;
  launch.order = order;
  const DeviceChoiceTables tables = choice_tables();
  simt::emulate<Shared>(launch, [&](Shared& shared) {
    LosslessEncoding<Format, n_warps> chunk(
        {.values = words.data(), .n_values = static_cast<std::uint32_t>(n)}, tables,
        reinterpret_cast<std::uint8_t*>(memory.data()), shared);
    const DeviceEncoded encoded = chunk.encode();
    if (!encoded.needs_host) {
      chunk.write(reinterpret_cast<std::uint8_t*>(payload.data()));
    }
    if (simt::warp_of_block() == n_warps - 1 && simt::lane() == 7) {
      n_bytes = encoded.needs_host ? 0 : encoded.n_bytes;
    }
  });
  payload.resize(n_bytes);
  return payload;
}

template <class Format>
std::vector<std::byte> emulated(const std::vector<std::byte>& values, unsigned n_warps,
                                simt::LaneOrder order) {
  return n_warps == 1   ? emulated<Format, 1>(values, order)
         : n_warps == 3 ? emulated<Format, 3>(values, order)
                        : emulated<Format, 16>(values, order);
}

// Whether the encoder of the CPU took no part in what a device leaves to it.
bool is_of_device(const std::vector<std::byte>& payload) {
  const auto mode = static_cast<ChunkMode>(payload[0]);
  return mode == ChunkMode::kConstant ||
         (mode == ChunkMode::kSymbols && (std::to_integer<unsigned>(payload[1]) & kHasMask) == 0);
}

// Returns whether the device has encoded the chunk.
bool expect_same(DType dtype, Pattern pattern, std::size_t n, unsigned n_warps,
                 simt::LaneOrder order) {
  SCOPED_TRACE(testing::Message() << pattern_name(pattern) << ", " << n << " values");
  const std::vector<std::byte> values = make_values(dtype, pattern, n, n);
  const std::vector<std::byte> expected =
      encode_lossless(dtype, n, values, EntropyId::kRans).payload;
  const std::vector<std::byte> found = visit_format(
      dtype,
      [&](auto tag) {
        return emulated<With32Symbols<typename decltype(tag)::type>>(values, n_warps, order);
      },
      [] { return std::vector<std::byte>(); });
  if (found.empty()) {
    return false;
  }
  EXPECT_TRUE(is_of_device(expected));
  EXPECT_EQ(found.size(), expected.size());
  EXPECT_TRUE(found == expected);
  return true;
}

class EmulatedEncodeLossless : public ::testing::TestWithParam<DType> {};

TEST_P(EmulatedEncodeLossless, IsThatOfTheCpu) {
  constexpr simt::LaneOrder kOrders[] = {simt::LaneOrder::kAscending, simt::LaneOrder::kDescending,
                                         simt::LaneOrder::kShuffled};
  unsigned i = 0;
  for (const Pattern pattern : kAllPatterns) {
    unsigned n_encoded = 0;
    for (const std::size_t n : {1, 2, 31, 127, 128, 129, 1000, 8191, 8192}) {
      const unsigned n_warps = i % 2 == 0 ? 1 : 3;
      n_encoded += expect_same(GetParam(), pattern, n, n_warps, kOrders[i % 3]) ? 1 : 0;
      ++i;
    }
    const bool is_plain = pattern == Pattern::kGaussian || pattern == Pattern::kPositive ||
                          pattern == Pattern::kCleanBits || pattern == Pattern::kConstant;
    EXPECT_GE(n_encoded, is_plain ? 5U : 0U) << pattern_name(pattern);
  }
}

TEST_P(EmulatedEncodeLossless, OfAllLaneSetsAndSegments) {
  for (const std::size_t n : {32768, 65537, 140000}) {
    EXPECT_TRUE(expect_same(GetParam(), Pattern::kGaussian, n, 16, simt::LaneOrder::kAscending));
    EXPECT_TRUE(expect_same(GetParam(), Pattern::kCleanBits, n, 3, simt::LaneOrder::kShuffled));
    expect_same(GetParam(), Pattern::kWideRange, n, 1, simt::LaneOrder::kDescending);
    expect_same(GetParam(), Pattern::kZeroGroups, n, 16, simt::LaneOrder::kShuffled);
  }
}

std::string name_of(const ::testing::TestParamInfo<DType>& tested) {
  return std::string(dtype_name(tested.param));
}
INSTANTIATE_TEST_SUITE_P(OfFloats, EmulatedEncodeLossless, ::testing::ValuesIn(kEncodedDTypes),
                         name_of);

}  // namespace
}  // namespace cfck::codec

// Every kernel gives equal results with one thread and with 32 lanes, and the hand-tuned ones agree
// with the plain ones.
#include <gtest/gtest.h>

#include <cstring>

#include "codec/symboliser/byte_planes.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

template <class Format>
void compare_lanes(DType dtype, Pattern pattern) {
  using Word = typename Format::Word;
  constexpr std::uint64_t kGroups = 12;
  const std::vector<std::byte> bytes = make_values(dtype, pattern, kGroups * kGroupSize);
  for (std::uint64_t g = 0; g < kGroups; ++g) {
    SCOPED_TRACE(describe(dtype, pattern, g));
    Word values[kGroupSize];
    std::memcpy(values, bytes.data() + g * sizeof(values), sizeof(values));
    const GroupAnalysis serial = analyse_group<Format, SerialLanes>(values);
    const GroupAnalysis lanes = analyse_group<Format, EmulatedLanes>(values);
    EXPECT_EQ(serial.all_zero, lanes.all_zero);
    EXPECT_EQ(serial.has_bin, lanes.has_bin);
    EXPECT_EQ(serial.n_finite, lanes.n_finite);
    EXPECT_EQ(serial.has_signs, lanes.has_signs);
    EXPECT_EQ(serial.scale_bin, lanes.scale_bin);
    EXPECT_EQ(serial.trailing_zero_bits, lanes.trailing_zero_bits);
    EXPECT_LE(serial.scale_bin, max_bin<Format>());

    std::uint8_t symbols[2][kGroupSize];
    Word raw[2][kGroupSize];
    const bool escapes =
        split_group<Format, SerialLanes>(values, serial.scale_bin, symbols[0], raw[0]);
    EXPECT_EQ(escapes,
              (split_group<Format, EmulatedLanes>(values, serial.scale_bin, symbols[1], raw[1])));
    EXPECT_EQ(std::memcmp(symbols[0], symbols[1], sizeof(symbols[0])), 0);
    EXPECT_EQ(std::memcmp(raw[0], raw[1], sizeof(raw[0])), 0);

    std::uint8_t planes[2][kPlaneBytes];
    Word unpacked[2][kGroupSize] = {};
    for (unsigned bit = 0; bit < Format::kRawBits; ++bit) {
      pack_plane<Word, SerialLanes>(raw[0], bit, planes[0]);
      pack_plane<Word, EmulatedLanes>(raw[0], bit, planes[1]);
      EXPECT_EQ(std::memcmp(planes[0], planes[1], sizeof(planes[0])), 0);
      unpack_plane<Word, SerialLanes>(planes[0], bit, unpacked[0]);
      unpack_plane<Word, EmulatedLanes>(planes[0], bit, unpacked[1]);
    }
    EXPECT_EQ(std::memcmp(unpacked[0], raw[0], sizeof(raw[0])), 0);
    EXPECT_EQ(std::memcmp(unpacked[1], raw[0], sizeof(raw[0])), 0);

    Word merged[2][kGroupSize];
    merge_group<Format, SerialLanes>(symbols[0], serial.scale_bin, raw[0], merged[0]);
    merge_group<Format, EmulatedLanes>(symbols[0], serial.scale_bin, raw[0], merged[1]);
    EXPECT_EQ(std::memcmp(merged[0], merged[1], sizeof(merged[0])), 0);
    for (unsigned i = 0; i < kGroupSize; ++i) {
      if (symbols[0][i] != Format::kSymbolEscape) {
        EXPECT_EQ(merged[0][i], values[i]);
      }
    }
  }
}

TEST(Lanes, SerialAndEmulatedAgree) {
  for (const Pattern pattern : kAllPatterns) {
    compare_lanes<FormatF64>(DType::kF64, pattern);
    compare_lanes<FormatF32>(DType::kF32, pattern);
    compare_lanes<FormatBf16>(DType::kBF16, pattern);
    compare_lanes<FormatF16>(DType::kF16, pattern);
    compare_lanes<FormatE5m2>(DType::kF8E5M2, pattern);
    compare_lanes<FormatE5m2Fnuz>(DType::kF8E5M2Fnuz, pattern);
    compare_lanes<FormatE4m3>(DType::kF8E4M3, pattern);
  }
}

TEST(Lanes, BytePlanesAgreeWithPlainPlanes) {
  Random random(11);
  for (unsigned n_planes = 1; n_planes <= 8; ++n_planes) {
    std::uint8_t bytes[kGroupSize];
    for (auto& byte : bytes) {
      byte = static_cast<std::uint8_t>((random.next() >> 56) & ((1u << n_planes) - 1));
    }
    std::uint8_t planes[8 * kPlaneBytes];
    pack_byte_planes(bytes, n_planes, planes);
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      std::uint8_t expected[kPlaneBytes];
      pack_plane<std::uint8_t, SerialLanes>(bytes, n_planes - 1 - plane, expected);
      EXPECT_EQ(std::memcmp(planes + plane * kPlaneBytes, expected, kPlaneBytes), 0);
    }
    std::uint8_t back[kGroupSize];
    unpack_byte_planes(planes, n_planes, back);
    EXPECT_EQ(std::memcmp(back, bytes, sizeof(bytes)), 0);
  }
}

}  // namespace
}  // namespace cfck::codec

// Every kernel gives equal results with one thread and with 32 lanes, and the hand-tuned ones agree
// with the plain ones.
#include <gtest/gtest.h>

#include <cstring>

#include "codec/entropy/rans/kernels/symbol_order.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/raw_bits.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

// Raw bits of any number of values come back, and take the bytes that they should.
template <class Format>
void check_raw_bits(const typename Format::Word* raw, bool has_signs, unsigned trailing_zero_bits) {
  using Word = typename Format::Word;
  const Word kept = static_cast<Word>(
      has_signs ? ~Word{0} : static_cast<Word>((Word{1} << Format::kRawMantissaBits) - 1));
  for (const unsigned n : {kGroupSize, kGroupSize - 1, 65u, 1u}) {
    Word some[kGroupSize] = {};
    for (unsigned i = 0; i < n; ++i) {
      some[i] = static_cast<Word>(raw[i] & kept);
    }
    const std::size_t size = raw_group_bytes<Format>(has_signs, trailing_zero_bits, n);
    std::vector<std::byte> bytes(size);
    std::byte* const end =
        write_raw_bits<Format>(some, has_signs, trailing_zero_bits, n, bytes.data());
    EXPECT_EQ(static_cast<std::size_t>(end - bytes.data()), size);
    Word back[kGroupSize];
    EXPECT_EQ(read_raw_bits<Format>(bytes.data(), has_signs, trailing_zero_bits, n, back), end);
    EXPECT_EQ(std::memcmp(back, some, sizeof(back)), 0) << n;
  }
}

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

    for (const bool has_signs : {false, true}) {
      check_raw_bits<Format>(raw[0], has_signs, serial.trailing_zero_bits);
    }

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

TEST(Lanes, PackedBitsAreThoseOfALoopOverBits) {
  Random random(11);
  for (unsigned width = 1; width <= 8; ++width) {
    std::uint8_t bytes[kGroupSize];
    for (auto& byte : bytes) {
      byte = static_cast<std::uint8_t>(random.next() >> 56);
    }
    // The ends of both are ends of memory, where a sanitizer looks.
    std::vector<std::uint8_t> packed(16 * width);
    pack_bits(bytes, width, packed.data());
    std::vector<std::uint8_t> expected(packed.size());
    for (unsigned bit = 0; bit < kGroupSize * width; ++bit) {
      expected[bit / 8] |=
          static_cast<std::uint8_t>((bytes[bit / width] >> (bit % width) & 1) << (bit % 8));
    }
    EXPECT_EQ(packed, expected);
    std::vector<std::uint8_t> back(kGroupSize);
    unpack_bits(packed.data(), width, back.data());
    for (unsigned i = 0; i < kGroupSize; ++i) {
      EXPECT_EQ(back[i], bytes[i] & ((1u << width) - 1));
    }
  }
}

TEST(Lanes, SymbolsOfALaneAreNeighbours) {
  std::uint8_t values[kGroupSize];
  for (unsigned i = 0; i < kGroupSize; ++i) {
    values[i] = static_cast<std::uint8_t>(i);
  }
  std::uint8_t symbols[kGroupSize];
  to_symbol_order(values, symbols);
  for (unsigned i = 0; i < kGroupSize; ++i) {
    EXPECT_EQ(symbols[i], 4 * (i % 32) + i / 32);
  }
  to_value_order(symbols, symbols);
  EXPECT_EQ(std::memcmp(symbols, values, sizeof(values)), 0);
}

}  // namespace
}  // namespace cfck::codec

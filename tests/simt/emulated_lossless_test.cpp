// The kernels of the lossless codec, on the emulator, against the decoder of the CPU: every dtype
// and pattern, chunks of all lane sets, damaged payloads.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <string>

#include "codec/common/groups.hpp"
#include "codec/lossless/chunk_header.hpp"
#include "tests/codec/test_values.hpp"
#include "tests/simt/decode_chunks.hpp"

namespace cfck::codec {
namespace {

struct Case {
  DType dtype;
  Pattern pattern;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string name =
      std::string(dtype_name(info.param.dtype)) + "_" + pattern_name(info.param.pattern);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kDeviceDTypes) {
    for (const Pattern pattern : kAllPatterns) {
      cases.push_back({dtype, pattern});
    }
  }
  return cases;
}

class EmulatedLossless : public ::testing::TestWithParam<Case> {};

// Encodes values, and compares what both decoders make of the payload. Returns whether it has a
// kernel.
bool expect_same(DType dtype, std::uint64_t n_elems, const std::vector<std::byte>& values,
                 const simt::Launch& launch, bool is_odd) {
  const EncodedChunk encoded = encode_lossless(dtype, n_elems, values, EntropyId::kRans);
  const ChunkInfo info = chunk_info(dtype, n_elems, EntropyId::kRans);
  if (!has_device_kernel(CodecId::kLossless, info, encoded.payload)) {
    return false;
  }
  const auto decoded = decode_emulated(CodecId::kLossless, info, encoded.payload, launch, is_odd);
  EXPECT_EQ(decoded, values) << n_elems;
  const auto by_team =
      decode_by_team(CodecId::kLossless, info, encoded.payload, launch.order, is_odd);
  EXPECT_EQ(by_team, values) << n_elems;
  return true;
}

// Compares both decoders on damaged payloads of a chunk. Returns how many have a kernel.
unsigned expect_same_refusals(const Case& what, std::uint64_t n_elems, unsigned n_trials) {
  const DType dtype = what.dtype;
  const EncodedChunk encoded =
      encode_lossless(dtype, n_elems, make_values(dtype, what.pattern, n_elems), EntropyId::kRans);
  const ChunkInfo info = chunk_info(dtype, n_elems, EntropyId::kRans);
  const Decoder& decoder = *find_decoder(CodecId::kLossless);
  Scratch scratch;
  Random random(7);
  unsigned n_compared = 0;
  for (unsigned i = 0; i < n_trials; ++i) {
    std::vector<std::byte> payload = encoded.payload;
    const std::size_t span =
        i % 2 == 0 ? std::min<std::size_t>(payload.size(), 40) : payload.size();
    if (i % 10 == 9) {
      payload.resize(random.next() % payload.size());
    } else {
      payload[random.next() % span] ^= static_cast<std::byte>(1u << random.next() % 8);
    }
    if (!has_device_kernel(CodecId::kLossless, info, payload)) {
      continue;
    }
    std::vector<std::byte> expected(n_elems * bits_per_element(dtype) / 8);
    const bool is_valid = bool(decoder.decode(info, payload, scratch, expected));
    const auto decoded = decode_emulated(CodecId::kLossless, info, payload);
    const auto by_team =
        decode_by_team(CodecId::kLossless, info, payload, static_cast<simt::LaneOrder>(i % 3));
    n_compared += 1;
    EXPECT_EQ(decoded.has_value(), is_valid) << "damage " << i;
    EXPECT_EQ(by_team.has_value(), is_valid) << "damage " << i;
    if (is_valid) {
      EXPECT_EQ(decoded, expected) << "damage " << i;
      EXPECT_EQ(by_team, expected) << "damage " << i;
    }
  }
  return n_compared;
}

constexpr const char* kNoKernel = "the encoder makes nothing of these values that has a kernel";

TEST_P(EmulatedLossless, ValuesAreThoseOfTheCpu) {
  constexpr std::uint64_t kLengths[] = {1, 31, 127, 128, 129, 1000, 4097, 9001, 40000};
  unsigned turn = 0;
  unsigned n_compared = 0;
  for (const std::uint64_t n_elems : kLengths) {
    simt::Launch launch;
    launch.order = static_cast<simt::LaneOrder>(turn++ % 3);
    n_compared += expect_same(GetParam().dtype, n_elems,
                              make_values(GetParam().dtype, GetParam().pattern, n_elems, n_elems),
                              launch, turn % 2 == 0)
                      ? 1
                      : 0;
  }
  if (n_compared == 0) GTEST_SKIP() << kNoKernel;
}

TEST_P(EmulatedLossless, RefusesWhatTheCpuRefuses) {
  if (expect_same_refusals(GetParam(), 700, 30) == 0) GTEST_SKIP() << kNoKernel;
}

// The chunks have four lane sets.
TEST_P(EmulatedLossless, RefusesWhatTheCpuRefusesOfManyValues) {
  if (expect_same_refusals(GetParam(), 33000, 4) == 0) GTEST_SKIP() << kNoKernel;
}

// One dtype for each kernel.
constexpr DType kCopiedDTypes[] = {DType::kF64, DType::kF32,    DType::kBF16,
                                   DType::kF16, DType::kF8E5M2, DType::kF8E4M3};

// Values that use all bits of their mantissas, so that groups are plain, and of 8 bits other ones
// in each group, so that they do not repeat.
std::vector<std::byte> plain_values(DType dtype, std::uint64_t n_elems, std::uint64_t seed) {
  auto values = make_values(dtype, Pattern::kGaussian, n_elems, seed);
  Random random(seed);
  for (std::size_t i = 0; dtype == DType::kF64 && i < values.size(); i += 8) {
    const std::uint64_t low = random.next();  // those of the pattern have fewer bits
    std::memcpy(&values[i], &low, 4);
  }
  const unsigned mantissa_bits = dtype == DType::kF8E4M3 ? 3 : 2;
  for (std::size_t i = 0; bits_per_element(dtype) == 8 && i < values.size(); ++i) {
    const std::uint64_t bits = random.next() >> 32;
    const auto below = static_cast<unsigned>(std::countr_zero(bits >> 4 | 8));
    const auto exponent = static_cast<unsigned>(13 - i / kGroupSize % 10) - below;
    const std::uint64_t mantissa = bits >> 1 & ((1U << mantissa_bits) - 1);
    values[i] = static_cast<std::byte>((bits & 1) << 7 | exponent << mantissa_bits | mantissa);
  }
  return values;
}

// Chunks of one, two and four lane sets whose raw section begins anywhere: long runs of plain
// groups take the way through bulk copies.
TEST(EmulatedLossless, LongRunsAreCopiedInBulk) {
  for (const DType dtype : kCopiedDTypes) {
    unsigned n_compared = 0;
    std::uint64_t n_elems = 5000;
    for (unsigned i = 0; i < 32; ++i, n_elems += 1237) {
      simt::Launch launch;
      launch.order = static_cast<simt::LaneOrder>(i % 3);
      const std::uint64_t copies_before = simt::copies();
      if (expect_same(dtype, n_elems, plain_values(dtype, n_elems, n_elems), launch, i % 2 == 0)) {
        EXPECT_GT(simt::copies(), copies_before) << dtype_name(dtype) << " " << n_elems;
        ++n_compared;
      }
    }
    EXPECT_GT(n_compared, 20U) << dtype_name(dtype);
  }
}

// Four lane sets and tails of every kind: each warp of a team copies all runs but those of the
// tail.
TEST(EmulatedLossless, TeamsCopyInBulk) {
  for (const DType dtype : kCopiedDTypes) {
    unsigned turn = 0;
    for (const std::uint64_t more : {0u, 1u, 31u, 32u, 33u, 127u, 128u, 129u, 4000u}) {
      const std::uint64_t n_elems = 32768 + more;
      SCOPED_TRACE(describe(dtype, Pattern::kGaussian, n_elems));
      const auto values = plain_values(dtype, n_elems, n_elems);
      const auto payload = encode_lossless(dtype, n_elems, values, EntropyId::kRans).payload;
      const ChunkInfo info = chunk_info(dtype, n_elems, EntropyId::kRans);
      ASSERT_TRUE(has_device_kernel(CodecId::kLossless, info, payload));
      const auto order = static_cast<simt::LaneOrder>(turn++ % 3);
      const std::uint64_t copies_before = simt::copies();
      EXPECT_EQ(decode_by_team(CodecId::kLossless, info, payload, order, turn % 2 == 0), values);
      // At most 16 groups come with one copy, and at most 60 groups are in the tail.
      EXPECT_GE(simt::copies() - copies_before, 4 * (256 - 60) / 16);
    }
  }
}

// Groups that are not plain end a run, and another one begins after them.
TEST(EmulatedLossless, OtherGroupsBetweenPlainOnes) {
  constexpr std::uint64_t kGroups = 400;
  unsigned turn = 0;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    const std::size_t value_bytes = bits_per_element(dtype) / 8;
    for (unsigned trial = 0; trial < 8; ++trial) {
      std::vector<std::byte> values = plain_values(dtype, kGroups * kGroupSize, trial);
      Random random(trial);
      for (std::uint64_t g = 40 + trial; g < kGroups; g += 1 + random.next() % 90) {
        std::byte* const group = values.data() + g * kGroupSize * value_bytes;
        if (random.next() % 2 == 0) {
          std::memset(group, 0, kGroupSize * value_bytes);
        } else {
          for (unsigned i = 0; i < kGroupSize; ++i) {  // trailing zero bits
            std::memset(group + value_bytes * i, 0, value_bytes / 2);
            group[value_bytes * i] &= std::byte{0xf0};
          }
        }
      }
      simt::Launch launch;
      launch.order = static_cast<simt::LaneOrder>(turn++ % 3);
      const std::uint64_t copies_before = simt::copies();
      EXPECT_TRUE(expect_same(dtype, kGroups * kGroupSize, values, launch, trial % 2 == 0));
      EXPECT_GT(simt::copies(), copies_before + 4);
    }
  }
}

// What is damaged is decoded as far as it goes: copies stay within the payload, and all warps of a
// team come to an end.
TEST(EmulatedLossless, TeamsRefuseWhatTheCpuRefuses) {
  constexpr std::uint64_t kValues = 33000;
  for (const DType dtype : kCopiedDTypes) {
    const auto values = plain_values(dtype, kValues, 3);
    const auto good = encode_lossless(dtype, kValues, values, EntropyId::kRans).payload;
    const ChunkInfo info = chunk_info(dtype, kValues, EntropyId::kRans);
    Scratch scratch;
    Random random(13);
    for (unsigned i = 0; i < 24; ++i) {
      SCOPED_TRACE(describe(dtype, Pattern::kGaussian, i));
      // The header, tables and states; the words; raw bits.
      const std::size_t first = good.size() * (i % 4) / 4;
      const std::size_t span =
          i % 4 == 0 ? std::min<std::size_t>(good.size(), 300) : good.size() - first;
      std::vector<std::byte> payload = good;
      payload[first + random.next() % span] ^= static_cast<std::byte>(1u << random.next() % 8);
      if (!has_device_kernel(CodecId::kLossless, info, payload)) {
        EXPECT_EQ(i % 4, 0U);  // its mode says that it is of another kind
        continue;
      }
      std::vector<std::byte> expected(values.size());
      const bool is_valid =
          bool(find_decoder(CodecId::kLossless)->decode(info, payload, scratch, expected));
      const auto by_team = decode_by_team(CodecId::kLossless, info, payload,
                                          static_cast<simt::LaneOrder>(i % 3), i % 2 == 0);
      ASSERT_EQ(by_team.has_value(), is_valid);
      if (is_valid) {
        EXPECT_EQ(by_team, expected);
      }
    }
  }
}

// Each segment is decoded by itself; the last one is shorter.
TEST(EmulatedLossless, SegmentsAreThoseOfTheCpu) {
  unsigned turn = 0;
  for (const DType dtype : kDeviceDTypes) {
    for (const Pattern pattern : {Pattern::kGaussian, Pattern::kCleanBits, Pattern::kPositive}) {
      constexpr std::uint64_t kValues = 65 * 1024 + 77;
      SCOPED_TRACE(describe(dtype, pattern, kValues));
      const std::uint64_t n_elems = dtype == DType::kC64 ? kValues / 2 : kValues;
      const std::vector<std::byte> values = make_values(dtype, pattern, n_elems);
      const auto payload = encode_lossless(dtype, n_elems, values, EntropyId::kRans).payload;
      const auto header = parse_chunk_header(chunk_info(dtype, n_elems, EntropyId::kRans), payload);
      ASSERT_TRUE(header);
      if (header->mode != ChunkMode::kSymbols) {
        EXPECT_EQ(bits_per_element(dtype), 8U);  // such values repeat
        continue;
      }
      ASSERT_EQ(header->symbols.n_segments, 2U);
      simt::Launch launch;
      launch.order = static_cast<simt::LaneOrder>(turn++ % 3);
      EXPECT_TRUE(expect_same(dtype, n_elems, values, launch, turn % 2 == 0));
    }
  }
}

TEST(EmulatedLossless, RefusesWhatTheCpuRefusesOfSegments) {
  EXPECT_GT(expect_same_refusals({DType::kBF16, Pattern::kGaussian}, 66000, 30), 20U);
  EXPECT_GT(expect_same_refusals({DType::kF32, Pattern::kCleanBits}, 66000, 30), 20U);
}

// A payload in which two values are escapes and one of them is not stored, as the header says. Both
// are of one lane set.
TEST(EmulatedLossless, RefusesMoreEscapesThanThereAre) {
  constexpr std::uint64_t kValues = 33000;
  Random random(9);
  std::vector<float> floats(kValues);
  for (float& value : floats) {
    value = 1 + static_cast<float>(random.next() % 1000000) * 1e-6f;
  }
  floats[5] = floats[128 * 40 + 6] = 1e-30f;
  std::vector<std::byte> values(4 * kValues);
  std::memcpy(values.data(), floats.data(), values.size());
  std::vector<std::byte> payload =
      encode_lossless(DType::kF32, kValues, values, EntropyId::kRans).payload;
  // Mode, flags, first bin of two bytes, numbers of escaped bins and of escaped values.
  constexpr std::size_t kNumberAt = 5;
  const ChunkInfo info = chunk_info(DType::kF32, kValues, EntropyId::kRans);
  const auto header = parse_chunk_header(info, payload);
  ASSERT_TRUE(header);
  ASSERT_EQ(header->symbols.flags & ~unsigned{kHasNoSigns}, unsigned{kHasEscapes});
  ASSERT_EQ(header->symbols.segments[0].n_escapes, 2u);
  ASSERT_EQ(payload[kNumberAt], std::byte{2});
  payload[kNumberAt] = std::byte{1};
  payload.erase(payload.begin() + header->header_bytes, payload.begin() + header->header_bytes + 4);
  Scratch scratch;
  std::vector<std::byte> decoded(4 * kValues);
  EXPECT_FALSE(find_decoder(CodecId::kLossless)->decode(info, payload, scratch, decoded));
  EXPECT_FALSE(decode_emulated(CodecId::kLossless, info, payload));
  EXPECT_FALSE(decode_by_team(CodecId::kLossless, info, payload, {}));
}

INSTANTIATE_TEST_SUITE_P(Emulated, EmulatedLossless, ::testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace cfck::codec

// What codec delta promises beside what tests/registry checks of every codec: the base is needed,
// every bit is kept, what does not change costs nothing, and sizes are those of the entropy.
#include <gtest/gtest.h>

#include <algorithm>

#include "codec/delta/chunk_header.hpp"
#include "codec/delta/class_choice.hpp"
#include "tests/codec/delta/delta_cases.hpp"
#include "tests/support/cpu_forms.hpp"

namespace cfck::codec {
namespace {

void expect_round_trip(const DeltaCase& one, ByteView payload) {
  std::vector<std::byte> out(one.values.size(), std::byte{0xee});
  const auto done = decode_both_ways(one, payload, out);
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_TRUE(out == one.values);
  // In the memory of the base.
  DeltaCase in_place = one;
  ASSERT_TRUE(decode_delta(in_place, payload, in_place.base));
  EXPECT_TRUE(in_place.base == one.values);
}

DeltaHeader header_of(const DeltaCase& one, ByteView payload) {
  return parse_delta_header(one.info(), chunk_shape(one.info()).value(), payload, nullptr).value();
}

// A copy with single values of the base changed: by `difference` in their order.
template <class Word>
DeltaCase with_changes(DType dtype, std::size_t n, std::initializer_list<std::size_t> places,
                       Word difference) {
  DeltaCase one = step_of<Word>(dtype, n, 0);
  one.values = one.base;
  for (const std::size_t at : places) {
    Word word;
    std::memcpy(&word, one.values.data() + at * sizeof(Word), sizeof(word));
    word = static_cast<Word>(word + difference);
    std::memcpy(one.values.data() + at * sizeof(Word), &word, sizeof(word));
  }
  return one;
}

TEST(Delta, StepsOfAllSizesComeBack) {
  for (const std::size_t n : {1u, 2u, 63u, 64u, 65u, 127u, 129u, 2047u, 2049u, 70001u}) {
    for (const double rate : {0.1, 1.0, 10.0, 300.0}) {
      SCOPED_TRACE(testing::Message() << n << " values, rate " << rate);
      const DeltaCase half = step_of<std::uint16_t>(DType::kBF16, n, rate);
      expect_round_trip(half, encode_delta(half));
      const DeltaCase single = step_of<std::uint32_t>(DType::kF32, n, rate);
      expect_round_trip(single, encode_delta(single));
    }
  }
}

TEST(Delta, UnchangedChunksAreOneByte) {
  for (const DType dtype : kAllDTypes) {
    DeltaCase one{dtype, 4096, make_values(dtype, Pattern::kRandomBits, 4096), {}};
    one.values = one.base;
    const std::vector<std::byte> payload = encode_delta(one);
    EXPECT_EQ(payload.size(), 1U);
    expect_round_trip(one, payload);
  }
}

// NaN with payloads, both zeros and infinities, and each of them turned to another.
TEST(Delta, EveryBitIsKept) {
  for (const DType dtype : kAllDTypes) {
    for (const std::size_t shift : {1u, 5u, 130u}) {
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << shift);
      DeltaCase one{dtype, 1024, make_values(dtype, Pattern::kSpecials, 1024), {}};
      one.values = one.base;
      std::rotate(one.values.begin(),
                  one.values.begin() + static_cast<std::ptrdiff_t>(
                                           shift * std::max(1u, bits_per_element(dtype) / 8)),
                  one.values.end());
      expect_round_trip(one, encode_delta(one));
    }
  }
}

TEST(Delta, SingleChangesOfAnySizeComeBack) {
  for (unsigned bit = 0; bit < 16; ++bit) {
    const auto one = with_changes<std::uint16_t>(DType::kBF16, 5000, {0, 63, 64, 2048, 4999},
                                                 static_cast<std::uint16_t>(1u << bit));
    const std::vector<std::byte> payload = encode_delta(one);
    EXPECT_LT(payload.size(), 60U);
    expect_round_trip(one, payload);
  }
  for (unsigned bit = 0; bit < 64; ++bit) {
    const auto one = with_changes<std::uint64_t>(DType::kF64, 5000, {0, 63, 64, 2048, 4999},
                                                 std::uint64_t{1} << bit);
    const std::vector<std::byte> payload = encode_delta(one);
    EXPECT_LT(payload.size(), 120U);
    expect_round_trip(one, payload);
  }
}

TEST(Delta, SpansWithoutAChangeArePauses) {
  DeltaCase one = step_of<std::uint16_t>(DType::kBF16, 1 << 17, 10);
  const auto middle = static_cast<std::ptrdiff_t>(one.base.size() / 16);
  std::copy(one.base.begin() + middle, one.base.end() - middle, one.values.begin() + middle);
  const std::vector<std::byte> payload = encode_delta(one);
  EXPECT_NE(static_cast<unsigned>(payload[0]) & kDeltaPauses, 0U);
  expect_round_trip(one, payload);
  const DeltaCase short_one = step_of<std::uint16_t>(DType::kBF16, 1 << 14, 10);
  EXPECT_LT(payload.size(), encode_delta(short_one).size() * 11 / 10);
}

TEST(Delta, NibblesAreUnitsWherePaysOff) {
  DeltaCase one{DType::kU8, 40001, make_values(DType::kU8, Pattern::kRandomBits, 40001), {}};
  one.values = one.base;
  for (std::size_t i = 0; i < one.values.size(); i += 9) {
    one.values[i] = one.values[i] ^ std::byte{0x10};
  }
  const std::vector<std::byte> payload = encode_delta(one);
  EXPECT_NE(static_cast<unsigned>(payload[0]) & kDeltaNibbles, 0U);
  expect_round_trip(one, payload);
}

// Below the order-0 entropy of positions and steps, since the base says more.
TEST(Delta, TheBaseMakesChangesCheap) {
  const DeltaCase one = step_of<std::uint16_t>(DType::kBF16, 1 << 18, 1);
  std::size_t n_changed = 0;
  for (std::size_t at = 0; at < one.base.size(); at += 2) {
    n_changed += std::memcmp(&one.base[at], &one.values[at], 2) != 0;
  }
  const double n = 1 << 18;
  const double p = static_cast<double>(n_changed) / n;
  ASSERT_GT(p, 0.003);
  ASSERT_LT(p, 0.1);
  const double entropy = n * (-p * std::log2(p) - (1 - p) * std::log2(1 - p)) + p * n;
  EXPECT_LT(8.0 * static_cast<double>(encode_delta(one).size()), 0.9 * entropy);
}

TEST(Delta, ValuesThatHaveNothingToDoWithTheBaseAreStored) {
  DeltaCase one{DType::kU16, 3000, make_values(DType::kU16, Pattern::kRandomBits, 3000, 1),
                make_values(DType::kU16, Pattern::kRandomBits, 3000, 2)};
  const std::vector<std::byte> payload = encode_delta(one);
  EXPECT_LE(payload.size(), one.values.size() + 1);
  expect_round_trip(one, payload);
}

TEST(Delta, WithoutABaseThereIsAnError) {
  const DeltaCase one = step_of<std::uint16_t>(DType::kBF16, 100, 10);
  const std::vector<std::byte> payload = encode_delta(one);
  Scratch scratch;
  std::vector<std::byte> out(one.values.size());
  ChunkInfo info = one.info();
  info.base = {};
  const auto decoded = delta_decoder().decode(info, payload, scratch, out);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(decoded.error().message.find("base"), std::string::npos);
  EncodedChunk coded;
  const auto encoded = delta_encoder().encode(info, one.values, scratch, coded);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(delta_encoder().needs_base());
  info.base = ByteView(one.base).first(198);
  EXPECT_EQ(delta_decoder().decode(info, payload, scratch, out).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(delta_encoder().encode(info, one.values, scratch, coded).error().code,
            ErrorCode::kInvalidArgument);
}

// Sparse and dense classes in one chunk, and an odd number of units.
TEST(Delta, AllLevelsOfTheCpuWriteAndReadTheSame) {
  for (const double rate : {0.5, 20.0}) {
    const DeltaCase half = step_of<std::uint16_t>(DType::kBF16, 100003, rate);
    DeltaCase byte = half;
    byte.dtype = DType::kF8E4M3;
    byte.n_elems = 2 * half.n_elems;
    const DeltaCase single = step_of<std::uint32_t>(DType::kF32, 50021, rate);
    DeltaCase integer = single;
    integer.dtype = DType::kI32;
    DeltaCase twice{DType::kF64, single.n_elems / 2, single.base, single.values};
    twice.base.resize(8 * twice.n_elems);
    twice.values.resize(8 * twice.n_elems);
    for (const DeltaCase* one :
         std::initializer_list<const DeltaCase*>{&half, &byte, &single, &integer, &twice}) {
      std::vector<std::byte> expected;
      for (const test::CpuForm& form : test::cpu_forms()) {
        SCOPED_TRACE(testing::Message() << dtype_name(one->dtype) << " " << form);
        const test::UseCpuForm use(form);
        const std::vector<std::byte> payload = encode_delta(*one);
        expected = expected.empty() ? payload : expected;
        EXPECT_TRUE(payload == expected);
        expect_round_trip(*one, payload);
      }
    }
  }
}

// Keys that take turns between many changes and none would need more classes than there are.
TEST(Delta, NoMoreClassesThanThereMayBeAreChosen) {
  std::vector<KeyCounts> keys(24);
  for (std::size_t key = 0; key < keys.size(); ++key) {
    keys[key].units = 1 << 20;
    keys[key].changes = key % 2 == 0 ? 1 << 18 : 0;
  }
  EXPECT_EQ(choose_classes(keys).n_classes, kMaxDeltaClasses);
  keys.resize(11);
  const ClassChoice choice = choose_classes(keys);
  ASSERT_EQ(choice.n_classes, 11U);
  for (unsigned c = 0; c < choice.n_classes; ++c) {
    EXPECT_EQ(choice.first_keys[c], c);
    EXPECT_EQ(choice.is_dense[c], c % 2 == 0);
  }
}

TEST(Delta, HeadersSayHowClassesAreCoded) {
  const DeltaCase one = step_of<std::uint16_t>(DType::kBF16, 1 << 16, 10);
  const DeltaHeader header = header_of(one, encode_delta(one));
  EXPECT_EQ(header.mode, DeltaMode::kClasses);
  EXPECT_TRUE(header.has_sparse());
  EXPECT_TRUE(header.has_dense());
  EXPECT_GT(header.n_classes, 2U);
}

}  // namespace
}  // namespace cfck::codec

// Payloads of codec delta that no encoder writes: each is refused, for the reason given.
#include <gtest/gtest.h>

#include "codec/common/bit_strings.hpp"
#include "tests/codec/delta/delta_cases.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::codec {
namespace {

using Bytes = std::vector<unsigned>;

// A chunk of 130 BF16 values, all 1.
DeltaCase ones(DType dtype = DType::kBF16) {
  DeltaCase one{dtype, 130, {}, {}};
  for (std::size_t i = 0; i < 130; ++i) {
    one.base.insert(one.base.end(), {std::byte{0x80}, std::byte{0x3f}});
  }
  one.base.resize(130 * bits_per_element(dtype) / 8);
  return one;
}

// Decodes a payload behind whose end memory cannot be read.
Result<void> decode_bytes(const Bytes& payload, const DeltaCase& one = ones()) {
  std::vector<std::byte> bytes;
  for (const unsigned byte : payload) {
    bytes.push_back(static_cast<std::byte>(byte));
  }
  const test::GuardedBytes guarded(bytes);
  std::vector<std::byte> out(one.base.size());
  return decode_both_ways(one, guarded.bytes(), out);
}

void expect_refused(const Bytes& payload, const char* why, const DeltaCase& one = ones()) {
  SCOPED_TRACE(why);
  const auto decoded = decode_bytes(payload, one);
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.error().message.find(why), std::string::npos) << decoded.error().to_string();
}

// A chunk of one sparse class with gaps of width 7, with these bits.
Bytes sparse_chunk(std::initializer_list<std::pair<unsigned, unsigned>> fields, unsigned code = 8) {
  std::vector<std::byte> bits;
  BitWriter writer(bits);
  for (const auto& [value, n] : fields) {
    writer.put(value, n);
  }
  writer.finish();
  Bytes payload{2, code, static_cast<unsigned>(bits.size())};
  for (const std::byte byte : bits) {
    payload.push_back(static_cast<unsigned>(byte));
  }
  return payload;
}

TEST(DeltaHostile, Heads) {
  expect_refused({}, "ends inside its header");
  expect_refused({3}, "unknown mode");
  expect_refused({0x11}, "flags of classes");
  expect_refused({2 | 4, 0}, "flags that the values");
  expect_refused({0, 1, 2}, "shorter than its header");
  expect_refused({1, 0}, "bytes after the end");
}

TEST(DeltaHostile, Pauses) {
  EXPECT_TRUE(decode_bytes({2 | 8, 1, 2, 0}));
  EXPECT_TRUE(decode_bytes({2 | 8, 0, 3, 0}));
  expect_refused({2 | 8, 3, 0}, "has none");
  expect_refused({2 | 8, 1, 0, 2, 0}, "does not fit");
  expect_refused({2 | 8, 1, 3, 0}, "does not fit");
  expect_refused({2 | 8, 0xff, 0xff, 0xff, 0xff, 0x0f, 0}, "does not fit");
}

TEST(DeltaHostile, Classes) {
  EXPECT_TRUE(decode_bytes({2 | 0x10, 127, 0, 0}));
  expect_refused({2 | 0x10, 0, 0, 0}, "out of range");
  expect_refused({2 | 0x10, 0x80, 2, 0, 0}, "out of range");
  expect_refused({2 | 0x20, 100, 0, 0, 0, 0}, "out of range");
  expect_refused({2, 29}, "unknown way");
  expect_refused({2, 65}, "unknown way");
  expect_refused({2, 128 + 16}, "unknown way");
  expect_refused({2, 128, 0, 0x85, 2, 0}, "out of range");
  expect_refused({2, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}, "out of range");
  expect_refused({2, 128, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}, "out of range");
}

TEST(DeltaHostile, Changes) {
  // One gap over all units; the last unit changed; and too little, too much, and too far.
  EXPECT_TRUE(decode_bytes(sparse_chunk({{1, 2}, {2, 7}})));
  EXPECT_TRUE(decode_bytes(sparse_chunk({{1, 2}, {1, 7}, {0, 1}, {0, 1}, {0, 7}})));
  expect_refused(sparse_chunk({{1, 2}, {3, 7}}), "do not end where");
  expect_refused(sparse_chunk({{1, 2}, {2, 7}, {0, 7}, {0, 7}}), "do not end where");
  expect_refused(sparse_chunk({{1, 2}, {2, 7}, {1, 1}}), "do not end where");
  expect_refused(sparse_chunk({{1, 2}, {1, 7}}), "end too early");
  expect_refused(sparse_chunk({{0xffff, 16}}), "ends inside its changes");
  expect_refused(sparse_chunk({{0xffff, 16}, {0xfffffff, 28}}), "do not end where");
  expect_refused({2, 8, 0}, "ends inside its changes");
}

TEST(DeltaHostile, LargeDifferences) {
  // A wide class: sign, gap 0, then the number, and a gap.
  const auto number = [](unsigned n) {
    return sparse_chunk(
        {{0, 1}, {0, 7}, {0, 1}, {0, 8}, {(1u << n) - 1, n + 1}, {0, n}, {1, 2}, {2, 7}}, 8 + 32);
  };
  EXPECT_TRUE(decode_bytes(number(14)));
  expect_refused(number(15), "larger than its units");
  expect_refused(number(16), "larger than its units");
  // A gap of 0 twice.
  expect_refused(sparse_chunk({{0, 1}, {0, 7}, {0, 1}, {0, 8}, {0, 1}, {0, 8}, {0, 30}}, 8 + 32),
                 "larger than its units");
}

TEST(DeltaHostile, Symbols) {
  expect_refused({2, 128, 0, 0, 0}, "ends before its symbols");
  expect_refused({2, 128, 0, 1, 0, 7}, "ends before its symbols");
  expect_refused({2, 128, 0, 2, 0, 0, 0}, "ends inside");
}

}  // namespace
}  // namespace cfck::codec

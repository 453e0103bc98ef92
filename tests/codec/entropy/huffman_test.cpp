#include "codec/entropy/zstd/huffman.hpp"

#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <bit>

#include "codec/entropy/zstd/frame.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {
namespace {

Histogram fibonacci_counts(unsigned n_symbols) {
  Histogram counts{};
  std::uint32_t a = 1;
  std::uint32_t b = 1;
  for (unsigned s = 0; s < n_symbols; ++s) {
    counts[s] = a;
    const std::uint32_t next = a + b;
    a = b;
    b = next;
  }
  return counts;
}

// In units of 2^-kMaxCodeLength; a complete code has exactly 2^kMaxCodeLength.
unsigned kraft_sum(const HuffmanCode& code) {
  unsigned sum = 0;
  for (const std::uint8_t length : code.lengths) {
    sum += length == 0 ? 0 : 1u << (kMaxCodeLength - length);
  }
  return sum;
}

// Finds the minimum bits of a code of at most `max_length` bits, by trying all sorted lengths.
std::uint64_t best_bits(const std::vector<std::uint32_t>& descending, std::size_t i,
                        unsigned length, unsigned max_length, std::uint64_t left) {
  if (i == descending.size()) {
    return 0;
  }
  std::uint64_t best = ~std::uint64_t{0} / 2;
  for (; length <= max_length; ++length) {
    const std::uint64_t share = std::uint64_t{1} << (max_length - length);
    if (share <= left) {
      best = std::min(best, descending[i] * std::uint64_t{length} +
                                best_bits(descending, i + 1, length, max_length, left - share));
    }
  }
  return best;
}

std::vector<std::byte> frame_of(std::vector<std::vector<std::uint8_t>> streams) {
  std::vector<SymbolStream> views(streams.begin(), streams.end());
  std::vector<std::byte> frame;
  write_literals_frame(views, frame);
  return frame;
}

void expect_frame_of(const std::vector<std::vector<std::uint8_t>>& streams) {
  std::vector<std::uint8_t> all;
  for (const auto& stream : streams) {
    all.insert(all.end(), stream.begin(), stream.end());
  }
  const std::vector<std::byte> frame = frame_of(streams);
  EXPECT_LE(frame.size(), all.size() + 12 + 3 * (1 + all.size() / 131072 + streams.size()));
  std::vector<std::uint8_t> decoded(all.size() + 1);
  const std::size_t n = ZSTD_decompress(decoded.data(), decoded.size(), frame.data(), frame.size());
  ASSERT_FALSE(ZSTD_isError(n)) << ZSTD_getErrorName(n);
  decoded.resize(n);
  EXPECT_TRUE(decoded == all);
}

std::vector<std::uint8_t> symbols_of(const Histogram& counts, std::uint64_t seed) {
  std::vector<std::uint8_t> symbols;
  for (unsigned s = 0; s < counts.size(); ++s) {
    symbols.insert(symbols.end(), counts[s], static_cast<std::uint8_t>(s));
  }
  Random random(seed);
  for (std::size_t i = symbols.size(); i > 1; --i) {
    std::swap(symbols[i - 1], symbols[random.next() % i]);
  }
  return symbols;
}

TEST(Huffman, CodesAreCompleteAndLimited) {
  Random random(3);
  for (const unsigned n_symbols : {2u, 3u, 5u, 20u, 32u, 62u, 129u, 256u}) {
    for (unsigned round = 0; round < 20; ++round) {
      Histogram counts{};
      for (unsigned s = 0; s < n_symbols; ++s) {
        counts[255 - s] = 1 + static_cast<std::uint32_t>(random.next() >> 40 >> random.next() % 24);
      }
      const HuffmanCode code = build_huffman_code(counts);
      EXPECT_EQ(kraft_sum(code), 1u << kMaxCodeLength);
      EXPECT_LE(code.max_length, kMaxCodeLength);
    }
  }
  const HuffmanCode fibonacci = build_huffman_code(fibonacci_counts(30));
  EXPECT_EQ(kraft_sum(fibonacci), 1u << kMaxCodeLength);
  EXPECT_EQ(fibonacci.max_length, kMaxCodeLength);
}

TEST(Huffman, CodesAreOptimal) {
  Random random(4);
  for (unsigned round = 0; round < 30; ++round) {
    Histogram counts{};
    std::vector<std::uint32_t> descending;
    for (unsigned s = 0; s < 9; ++s) {
      counts[s] = 1 + static_cast<std::uint32_t>((random.next() >> 50) >> random.next() % 14);
      descending.push_back(counts[s]);
    }
    std::sort(descending.rbegin(), descending.rend());
    EXPECT_EQ(coded_bits(build_huffman_code(counts), counts),
              best_bits(descending, 0, 1, kMaxCodeLength, 1u << kMaxCodeLength));
  }
}

TEST(Huffman, LevelsCountTheSame) {
  Random random(11);
  for (const std::size_t n : {0u, 1u, 511u, 512u, 577u, 8191u, 8192u, 8193u, 16384u, 40001u}) {
    for (const std::size_t large_at : {n, n / 2, std::size_t{9000}}) {
      std::vector<std::uint8_t> symbols(n);
      Histogram expected{};
      expected[3] = 5;  // what was there before
      Histogram before = expected;
      for (std::size_t i = 0; i < n; ++i) {
        symbols[i] = static_cast<std::uint8_t>(i == large_at ? 64 : (random.next() >> 58));
        ++expected[symbols[i]];
      }
      for (const CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4}) {
        if (level <= cpu_level()) {
          Histogram counts = before;
          count_symbols(symbols, counts, level);
          EXPECT_EQ(counts, expected) << n << " symbols, a large one at " << large_at;
        }
      }
    }
  }
}

TEST(Huffman, LeastBitsAreBelowEveryCode) {
  Random random(9);
  for (unsigned round = 0; round < 200; ++round) {
    Histogram counts{};
    for (unsigned s = 0; s < 2 + round; ++s) {
      counts[s] = 1 + static_cast<std::uint32_t>(random.next() >> 44 >> random.next() % 20);
    }
    const HuffmanCode code = build_huffman_code(counts);
    const std::uint64_t bits = coded_bits(code, counts);
    EXPECT_LE(min_coded_bits(counts), bits);
    if (code.max_length < kMaxCodeLength) {
      EXPECT_EQ(min_coded_bits(counts), bits);
    }
  }
}

// Pairs of streams at every CPU level, against each stream alone. Long words come
// both scattered and next to each other.
TEST(Huffman, LevelsWriteTheSameStreams) {
  std::vector<std::uint8_t> symbols = symbols_of(fibonacci_counts(21), 10);
  for (unsigned i = 0; i < 200; ++i) {
    symbols.insert(symbols.begin() + 3000, static_cast<std::uint8_t>(i % 21));
  }
  Histogram counts{};
  count_symbols(symbols, counts);
  const HuffmanCode code = build_huffman_code(counts);
  for (const CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4}) {
    if (level > cpu_level()) {
      continue;
    }
    CodeWords words;
    assign_code_words(code, symbols.size(), words, level);
    for (std::size_t n : {3u, 31u, 32u, 33u, 64u, 127u, 2999u, 3300u, 8192u}) {
      for (std::size_t shorter = 0; shorter < 4; ++shorter) {
        const auto first = std::span(symbols).first(n);
        const auto second = std::span(symbols).subspan(n, n - shorter);
        std::vector<std::byte> apart(2 * max_huffman_stream_bytes(n));
        const auto first_end = write_huffman_stream(first, words, apart.data());
        const auto second_end = write_huffman_stream(second, words, first_end);
        std::vector<std::byte> together(2 * max_huffman_stream_bytes(n));
        const TwoStreamEnds ends = write_two_huffman_streams(first, second, words, together.data());
        EXPECT_EQ(ends.first - together.data(), first_end - apart.data());
        ASSERT_EQ(ends.second - together.data(), second_end - apart.data());
        EXPECT_TRUE(std::equal(apart.data(), second_end, together.data())) << n;
      }
    }
  }
}

TEST(ZstdFrame, FibonacciCountsReachTheLimit) {
  expect_frame_of({symbols_of(fibonacci_counts(20), 5)});
}

TEST(ZstdFrame, AlphabetsOfEverySize) {
  Random random(6);
  for (const unsigned n_symbols :
       {1u, 2u, 3u, 4u, 16u, 32u, 62u, 127u, 128u, 129u, 130u, 200u, 256u}) {
    for (const std::size_t n :
         {1u, 2u, 3u, 4u, 5u, 31u, 32u, 300u, 1023u, 1024u, 4096u, 16383u, 16384u, 140000u}) {
      std::vector<std::uint8_t> flat(n);
      std::vector<std::uint8_t> steep(n);
      for (std::size_t i = 0; i < n; ++i) {
        flat[i] = static_cast<std::uint8_t>((random.next() >> 33) % n_symbols);
        const auto top = static_cast<unsigned>(std::countl_zero(random.next() | 1));
        steep[i] = static_cast<std::uint8_t>((255 - top * 3 - (random.next() >> 62)) % n_symbols);
      }
      SCOPED_TRACE(std::to_string(n_symbols) + " symbols, " + std::to_string(n) + " in all");
      expect_frame_of({flat});
      expect_frame_of({steep});
    }
  }
}

TEST(ZstdFrame, StreamsOfEveryKind) {
  const std::vector<std::uint8_t> zeros(200000, 0);
  const std::vector<std::uint8_t> sevens(50, 7);
  const std::vector<std::uint8_t> mixed = symbols_of(fibonacci_counts(16), 7);
  std::vector<std::uint8_t> noise(200000);
  Random random(8);
  for (auto& symbol : noise) {
    symbol = static_cast<std::uint8_t>(random.next() >> 56);
  }
  expect_frame_of({zeros});
  expect_frame_of({sevens, zeros});
  expect_frame_of({{}, zeros, {}, mixed, noise, {}});
  expect_frame_of({noise, mixed, sevens});
  expect_frame_of({mixed, noise, mixed, zeros, mixed});
  std::vector<std::uint8_t> half = noise;  // one block does not shrink, the others do
  std::fill(half.begin() + 131072, half.end(), std::uint8_t{1});
  expect_frame_of({half});
}

// Merging is for streams that are alike, or too short for a tree of their own.
TEST(ZstdFrame, AlikeStreamsShareATree) {
  const std::vector<std::uint8_t> a = symbols_of(fibonacci_counts(12), 1);
  const std::vector<std::uint8_t> b = symbols_of(fibonacci_counts(12), 2);
  std::vector<std::uint8_t> joint = a;
  joint.insert(joint.end(), b.begin(), b.end());
  EXPECT_TRUE(frame_of({a, b}) == frame_of({joint}));

  std::vector<std::uint8_t> far = symbols_of(fibonacci_counts(18), 3);
  for (auto& symbol : far) {
    symbol = static_cast<std::uint8_t>(61 - symbol);
  }
  std::vector<std::uint8_t> near = symbols_of(fibonacci_counts(18), 4);
  joint = far;
  joint.insert(joint.end(), near.begin(), near.end());
  EXPECT_LT(frame_of({far, near}).size(), frame_of({joint}).size());
}

TEST(ZstdFrame, FirstBlockIsNotRle) {
  const std::vector<std::byte> frame = frame_of({std::vector<std::uint8_t>(1000, 9)});
  // Magic number, descriptor, two bytes of content size; then the block header.
  EXPECT_EQ(static_cast<unsigned>(frame[7]) >> 1 & 3, 2u);
}

}  // namespace
}  // namespace cfck::codec

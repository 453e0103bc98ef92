#include "codec/entropy/huffman.hpp"

#include <algorithm>
#include <cstring>

#include "codec/entropy/tree_description.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::size_t kMinSymbolsOfPairs = 16384;
inline constexpr std::uint64_t kAboveSmall = 0xc0c0c0c0c0c0c0c0;
inline constexpr std::uint64_t kLengthBits = 63;

std::uint64_t load_eight(const std::uint8_t* symbols) {
  std::uint64_t eight;
  std::memcpy(&eight, symbols, sizeof(eight));
  return eight;
}

// The indices of four pairs, 16 bits each. Requires: all symbols are below 64.
std::uint64_t pair_indices(std::uint64_t eight) {
  return (eight & 0x003f003f003f003f) | (eight >> 2 & 0x0fc00fc00fc00fc0);
}

struct Leaf {
  std::uint64_t count;
  unsigned symbol;
};

// Package-merge keeps, for each level, the counts of its list in ascending order
// and which of them are leaves; leaves come in the same order in every list.
struct Level {
  std::array<std::uint64_t, 512> counts;
  std::array<bool, 512> is_leaf;
  std::size_t size = 0;
};

// Leaves and pairs of the level below, merged; a leaf goes before a pair of
// equal count.
void merge_level(std::span<const Leaf> leaves, const Level& below, Level& level) {
  std::size_t leaf = 0;
  std::size_t pair = 0;
  level.size = 0;
  while (leaf < leaves.size() || 2 * pair + 1 < below.size) {
    const bool has_pair = 2 * pair + 1 < below.size;
    const std::uint64_t pair_count =
        has_pair ? below.counts[2 * pair] + below.counts[2 * pair + 1] : 0;
    const bool take_leaf = leaf < leaves.size() && (!has_pair || leaves[leaf].count <= pair_count);
    level.counts[level.size] = take_leaf ? leaves[leaf].count : pair_count;
    level.is_leaf[level.size] = take_leaf;
    ++level.size;
    ++(take_leaf ? leaf : pair);
  }
}

}  // namespace

namespace {

// Symbols in pairs, where all are below 64: half as many counters to raise, and
// equal neighbours do not wait for each other. Adds as many of the symbols as
// allow it to `counts` and returns how many those were.
std::size_t count_pairs(std::span<const std::uint8_t> symbols, Histogram& counts) {
  PairTable<std::uint32_t> pairs{};
  std::size_t n = 0;
  for (; n + 8 <= symbols.size(); n += 8) {
    const std::uint64_t eight = load_eight(symbols.data() + n);
    if ((eight & kAboveSmall) != 0) {
      break;
    }
    const std::uint64_t indices = pair_indices(eight);
    for (unsigned k = 0; k < 4; ++k) {
      ++pairs[indices >> (16 * k) & 0xffff];
    }
  }
  for (unsigned high = 0; high < kSmallSymbols; ++high) {
    std::uint32_t n_high = 0;
    for (unsigned low = 0; low < kSmallSymbols; ++low) {
      const std::uint32_t count = pairs[high * kSmallSymbols + low];
      counts[low] += count;
      n_high += count;
    }
    counts[high] += n_high;
  }
  return n;
}

}  // namespace

void count_symbols(std::span<const std::uint8_t> symbols, Histogram& counts) {
  if (symbols.size() >= kMinSymbolsOfPairs) {
    symbols = symbols.subspan(count_pairs(symbols, counts));
  }
  // Four tables, so that equal neighbours do not wait for each other.
  std::array<Histogram, 4> partial{};
  std::size_t i = 0;
  for (; i + 8 <= symbols.size(); i += 8) {
    const std::uint64_t eight = load_eight(symbols.data() + i);
    for (unsigned k = 0; k < 8; ++k) {
      ++partial[k % 4][(eight >> (8 * k)) & 0xff];
    }
  }
  for (; i < symbols.size(); ++i) {
    ++partial[0][symbols[i]];
  }
  for (std::size_t s = 0; s < counts.size(); ++s) {
    counts[s] += partial[0][s] + partial[1][s] + partial[2][s] + partial[3][s];
  }
}

HuffmanCode build_huffman_code(const Histogram& counts) {
  std::array<Leaf, 256> all;
  std::size_t n_leaves = 0;
  for (unsigned symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] != 0) {
      all[n_leaves++] = {counts[symbol], symbol};
    }
  }
  const std::span<Leaf> leaves(all.data(), n_leaves);
  HuffmanCode code;
  code.max_symbol = leaves.back().symbol;
  std::sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) {
    return a.count != b.count ? a.count < b.count : a.symbol < b.symbol;
  });

  std::array<Level, kMaxCodeLength> levels;
  for (std::size_t i = 0; i < n_leaves; ++i) {
    levels[0].counts[i] = leaves[i].count;
    levels[0].is_leaf[i] = true;
  }
  levels[0].size = n_leaves;
  for (unsigned i = 1; i < kMaxCodeLength; ++i) {
    merge_level(leaves, levels[i - 1], levels[i]);
  }
  // A symbol is as long as the number of lists in which its leaf is taken.
  std::size_t n_taken = 2 * n_leaves - 2;
  for (unsigned i = kMaxCodeLength; i-- > 0;) {
    std::size_t leaves_taken = 0;
    for (std::size_t k = 0; k < n_taken; ++k) {
      leaves_taken += levels[i].is_leaf[k] ? 1 : 0;
    }
    for (std::size_t k = 0; k < leaves_taken; ++k) {
      ++code.lengths[leaves[k].symbol];
    }
    n_taken = 2 * (n_taken - leaves_taken);
  }
  code.max_length = *std::max_element(code.lengths.begin(), code.lengths.end());
  return code;
}

std::uint64_t coded_bits(const HuffmanCode& code, const Histogram& counts) {
  std::uint64_t bits = 0;
  for (unsigned symbol = 0; symbol <= code.max_symbol; ++symbol) {
    bits += std::uint64_t{counts[symbol]} * code.lengths[symbol];
  }
  return bits;
}

void assign_code_words(const HuffmanCode& code, std::size_t n_symbols, CodeWords& words) {
  // Longest codes first, equal ones by symbol, counting up from zero.
  std::array<std::uint8_t, 256> used;
  std::size_t n_used = 0;
  std::uint32_t next = 0;
  for (unsigned length = code.max_length; length > 0; --length) {
    for (unsigned symbol = 0; symbol <= code.max_symbol; ++symbol) {
      if (code.lengths[symbol] == length) {
        words.of_symbol[symbol] = std::uint64_t{next} << (64 - length) | length;
        used[n_used++] = static_cast<std::uint8_t>(symbol);
        ++next;
      }
    }
    next >>= 1;
  }
  words.has_pairs = n_symbols >= kMinSymbolsOfPairs && code.max_symbol < kSmallSymbols;
  if (!words.has_pairs) {
    return;
  }
  // The higher symbol comes first.
  for (std::size_t h = 0; h < n_used; ++h) {
    const std::uint64_t high = words.of_symbol[used[h]];
    for (std::size_t l = 0; l < n_used; ++l) {
      const std::uint64_t low = words.of_symbol[used[l]];
      words.of_pair[used[h] * kSmallSymbols + used[l]] =
          (high & ~kLengthBits) >> (low & kLengthBits) | ((high & kLengthBits) + low);
    }
  }
}

std::vector<std::byte> describe_tree(const HuffmanCode& code) {
  std::vector<std::uint8_t> weights(code.max_symbol);
  for (unsigned symbol = 0; symbol < code.max_symbol; ++symbol) {
    const unsigned length = code.lengths[symbol];
    weights[symbol] = static_cast<std::uint8_t>(length == 0 ? 0 : code.max_length + 1 - length);
  }
  return describe_weights(weights);
}

namespace {

// Bits wait at the high end of a word, the first of them lowest. Lengths are
// added up with the words' high bits, which mean nothing, and cut off in time.
class BitStream {
 public:
  explicit BitStream(std::byte* to) : to_(to) {}

  // At most four symbols of at most 11 bits between two flushes.
  void put(std::uint64_t word) {
    bits_ = bits_ >> (word & kLengthBits) | word;
    n_bits_ += word;
  }

  void flush() {
    n_bits_ &= 63;
    const std::uint64_t low = bits_ >> ((64 - n_bits_) & 63);
    std::memcpy(to_, &low, sizeof(low));
    to_ += n_bits_ / 8;
    n_bits_ &= 7;
  }

  // A bit 1 marks the end.
  std::byte* finish() {
    put(std::uint64_t{1} << 63 | 1);
    n_bits_ &= 63;
    const std::uint64_t low = bits_ >> (64 - n_bits_);
    std::memcpy(to_, &low, sizeof(low));
    return to_ + (n_bits_ + 7) / 8;
  }

 private:
  std::byte* to_;
  std::uint64_t bits_ = 0;
  std::uint64_t n_bits_ = 0;
};

// The first n symbols of two streams. Requires: n is a multiple of eight.
void put_pairs(const std::uint8_t* first, const std::uint8_t* second, std::size_t n,
               const PairTable<std::uint64_t>& words, BitStream& a, BitStream& b) {
  for (; n != 0; n -= 8) {
    const std::uint64_t in_a = pair_indices(load_eight(first + n - 8));
    const std::uint64_t in_b = pair_indices(load_eight(second + n - 8));
    a.put(words[in_a >> 48]);
    b.put(words[in_b >> 48]);
    a.put(words[in_a >> 32 & 0xffff]);
    b.put(words[in_b >> 32 & 0xffff]);
    a.flush();
    b.flush();
    a.put(words[in_a >> 16 & 0xffff]);
    b.put(words[in_b >> 16 & 0xffff]);
    a.put(words[in_a & 0xffff]);
    b.put(words[in_b & 0xffff]);
    a.flush();
    b.flush();
  }
}

// Symbols from `begin + n - 1` down to where a multiple of four is left.
std::size_t put_odd_symbols(const std::uint8_t* begin, std::size_t n, const CodeWords& words,
                            BitStream& stream) {
  for (; n % 4 != 0; --n) {
    stream.put(words.of_symbol[begin[n - 1]]);
  }
  stream.flush();
  return n;
}

void put_four(const std::uint8_t* symbols, const CodeWords& words, BitStream& stream) {
  for (unsigned k = 4; k-- > 0;) {
    stream.put(words.of_symbol[symbols[k]]);
  }
  stream.flush();
}

}  // namespace

std::byte* write_huffman_stream(std::span<const std::uint8_t> symbols, const CodeWords& words,
                                std::byte* to) {
  BitStream stream(to);
  std::size_t left = put_odd_symbols(symbols.data(), symbols.size(), words, stream);
  for (; left != 0; left -= 4) {
    put_four(symbols.data() + left - 4, words, stream);
  }
  return stream.finish();
}

TwoStreamEnds write_two_huffman_streams(std::span<const std::uint8_t> first,
                                        std::span<const std::uint8_t> second,
                                        const CodeWords& words, std::byte* to) {
  std::byte* const apart = to + max_huffman_stream_bytes(first.size());
  BitStream a(to);
  BitStream b(apart);
  std::size_t left_a = put_odd_symbols(first.data(), first.size(), words, a);
  const std::size_t left_b = put_odd_symbols(second.data(), second.size(), words, b);
  for (; left_a != left_b; left_a -= 4) {
    put_four(first.data() + left_a - 4, words, a);
  }
  const std::size_t n_paired = words.has_pairs ? left_a / 8 * 8 : 0;
  for (std::size_t left = left_a; left != n_paired; left -= 4) {
    put_four(first.data() + left - 4, words, a);
    put_four(second.data() + left - 4, words, b);
  }
  put_pairs(first.data(), second.data(), n_paired, words.of_pair, a, b);
  std::byte* const end = a.finish();
  const auto second_bytes = static_cast<std::size_t>(b.finish() - apart);
  std::memmove(end, apart, second_bytes);
  return {end, end + second_bytes};
}

}  // namespace cfck::codec

#include "codec/entropy/huffman.hpp"

#include <algorithm>
#include <cstring>

#include "codec/entropy/tree_description.hpp"

namespace cfck::codec {
namespace {

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

void count_symbols(std::span<const std::uint8_t> symbols, Histogram& counts) {
  // Four tables, so that equal neighbours do not wait for each other.
  std::array<Histogram, 4> partial{};
  std::size_t i = 0;
  for (; i + 8 <= symbols.size(); i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, symbols.data() + i, sizeof(eight));
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

CodeWords assign_code_words(const HuffmanCode& code) {
  // Longest codes first, equal ones by symbol, counting up from zero.
  CodeWords words{};
  std::uint32_t next = 0;
  for (unsigned length = code.max_length; length > 0; --length) {
    for (unsigned symbol = 0; symbol <= code.max_symbol; ++symbol) {
      if (code.lengths[symbol] == length) {
        words[symbol] = std::uint64_t{next} << (64 - length) | length;
        ++next;
      }
    }
    next >>= 1;
  }
  return words;
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

  // At most four words of at most 11 bits between two flushes.
  void put(std::uint64_t word) {
    bits_ = bits_ >> (word & 63) | word;
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

// Symbols from `begin + n - 1` down to where a multiple of four is left.
std::size_t put_odd_symbols(const std::uint8_t* begin, std::size_t n, const CodeWords& words,
                            BitStream& stream) {
  for (; n % 4 != 0; --n) {
    stream.put(words[begin[n - 1]]);
  }
  stream.flush();
  return n;
}

}  // namespace

std::byte* write_huffman_stream(std::span<const std::uint8_t> symbols, const CodeWords& words,
                                std::byte* to) {
  BitStream stream(to);
  std::size_t left = put_odd_symbols(symbols.data(), symbols.size(), words, stream);
  for (; left != 0; left -= 4) {
    for (unsigned k = 1; k <= 4; ++k) {
      stream.put(words[symbols[left - k]]);
    }
    stream.flush();
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
    for (unsigned k = 1; k <= 4; ++k) {
      a.put(words[first[left_a - k]]);
    }
    a.flush();
  }
  const std::uint8_t* from_a = first.data() + left_a;
  const std::uint8_t* from_b = second.data() + left_b;
  for (; from_a != first.data(); from_a -= 4, from_b -= 4) {
    a.put(words[from_a[-1]]);
    b.put(words[from_b[-1]]);
    a.put(words[from_a[-2]]);
    b.put(words[from_b[-2]]);
    a.put(words[from_a[-3]]);
    b.put(words[from_b[-3]]);
    a.put(words[from_a[-4]]);
    b.put(words[from_b[-4]]);
    a.flush();
    b.flush();
  }
  std::byte* const end = a.finish();
  const auto second_bytes = static_cast<std::size_t>(b.finish() - apart);
  std::memmove(end, apart, second_bytes);
  return {end, end + second_bytes};
}

}  // namespace cfck::codec

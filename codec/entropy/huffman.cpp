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
        words[symbol] = next | (length << 16);
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

std::byte* write_huffman_stream(std::span<const std::uint8_t> symbols, const CodeWords& words,
                                std::byte* to) {
  std::uint64_t bits = 0;
  unsigned n_bits = 0;
  const auto put = [&](std::uint8_t symbol) {
    const std::uint32_t word = words[symbol];
    bits |= std::uint64_t{word & 0xffff} << n_bits;
    n_bits += word >> 16;
  };
  const auto flush = [&] {
    std::memcpy(to, &bits, sizeof(bits));
    to += n_bits / 8;
    bits >>= n_bits & ~7u;
    n_bits &= 7;
  };
  std::size_t left = symbols.size();
  for (; left % 4 != 0; --left) {
    put(symbols[left - 1]);
  }
  flush();
  // Seven bits may wait: four words of at most 11 bits always fit.
  for (; left != 0; left -= 4) {
    put(symbols[left - 1]);
    put(symbols[left - 2]);
    put(symbols[left - 3]);
    put(symbols[left - 4]);
    flush();
  }
  bits |= std::uint64_t{1} << n_bits;
  ++n_bits;
  std::memcpy(to, &bits, sizeof(bits));
  return to + (n_bits + 7) / 8;
}

}  // namespace cfck::codec

#include "codec/entropy/zstd/huffman.hpp"

#include <algorithm>
#include <cstring>

#include "codec/entropy/zstd/huffman_vectors.hpp"
#include "codec/entropy/zstd/tree_description.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::size_t kMinSymbolsOfPairs = 16384;
inline constexpr std::size_t kMinSymbolsOfVectors = 512;
inline constexpr std::uint64_t kAboveSmall = 0xc0c0c0c0c0c0c0c0;
inline constexpr std::uint64_t kLengthBits = 63;

std::uint64_t load_eight(const std::uint8_t* symbols) {
  std::uint64_t eight;
  std::memcpy(&eight, symbols, sizeof(eight));
  return eight;
}

// Returns the indices of four pairs, 16 bits each. Requires: all symbols are below 64.
std::uint64_t pair_indices(std::uint64_t eight) {
  return (eight & 0x003f003f003f003f) | (eight >> 2 & 0x0fc00fc00fc00fc0);
}

// The symbols that occur, in ascending order of (count, symbol).
class Leaves {
 public:
  explicit Leaves(const Histogram& counts) {
    for (unsigned symbol = 0; symbol < counts.size(); ++symbol) {
      keys_[size_] = std::uint64_t{counts[symbol]} << 8 | symbol;
      size_ += counts[symbol] != 0 ? 1 : 0;
    }
    std::sort(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(size_));
  }
  std::size_t size() const { return size_; }
  std::uint64_t count(std::size_t i) const { return keys_[i] >> 8; }
  unsigned symbol(std::size_t i) const { return keys_[i] & 0xff; }

 private:
  std::array<std::uint64_t, 257> keys_;
  std::size_t size_ = 0;
};

// Counts in ascending order, between a count below and one above all others.
struct Counts {
  std::array<std::uint64_t, 258> values;
  std::size_t size = 0;

  void enclose() {
    values[0] = 0;
    values[size + 1] = ~std::uint64_t{0};
  }
};

Counts counts_of(const Leaves& leaves) {
  Counts counts;
  counts.size = leaves.size();
  for (std::size_t i = 0; i < counts.size; ++i) {
    counts.values[1 + i] = leaves.count(i);
  }
  counts.enclose();
  return counts;
}

// A list of package-merge: counts in ascending order, and how many leaves there
// are before each element.
struct Level {
  std::array<std::uint64_t, 512> counts;
  std::array<std::uint16_t, 513> leaves_before;
  std::size_t size = 0;

  void pairs(Counts& to) const {
    to.size = size / 2;
    for (std::size_t i = 0; i < to.size; ++i) {
      to.values[1 + i] = counts[2 * i] + counts[2 * i + 1];
    }
    to.enclose();
  }
};

// Returns `first` if `take_first` is 1, `second` if it is 0. Compilers make branches of the
// conditional operator, which nothing could predict here.
std::uint64_t pick(std::uint64_t take_first, std::uint64_t first, std::uint64_t second) {
  return second ^ ((first ^ second) & (0 - take_first));
}

// Merges two lists; a leaf goes before a pair of equal count. It merges from both ends at once,
// since each comparison waits for the one before.
void merge_level(const Counts& leaves, const Counts& pairs, Level& level) {
  level.size = leaves.size + pairs.size;
  std::size_t leaf = 1;
  std::size_t last_leaf = leaves.size;
  for (std::size_t k = 0; k < (level.size + 1) / 2; ++k) {
    const std::uint64_t early_leaf = leaves.values[leaf];
    const std::uint64_t early_pair = pairs.values[k + 2 - leaf];
    const std::uint64_t takes_leaf = early_leaf <= early_pair ? 1 : 0;
    level.counts[k] = pick(takes_leaf, early_leaf, early_pair);
    level.leaves_before[k] = static_cast<std::uint16_t>(leaf - 1);
    leaf += takes_leaf;
    const std::uint64_t late_leaf = leaves.values[last_leaf];
    const std::uint64_t late_pair = pairs.values[level.size - k - last_leaf];
    const std::uint64_t takes_late_leaf = late_leaf > late_pair ? 1 : 0;
    last_leaf -= takes_late_leaf;
    level.counts[level.size - 1 - k] = pick(takes_late_leaf, late_leaf, late_pair);
    level.leaves_before[level.size - 1 - k] = static_cast<std::uint16_t>(last_leaf);
  }
  level.leaves_before[level.size] = static_cast<std::uint16_t>(leaves.size);
}

}  // namespace

namespace {

bool has_vectors(CpuLevel level) {
#ifdef CFCK_HAS_X86_LEVELS
  return level >= CpuLevel::kV4;
#else
  (void)level;
  return false;
#endif
}

// Counts symbols in pairs, where all are below 64: half as many counters to increment, and equal
// neighbours do not wait for each other. Adds as many of the symbols as allow it to `counts` and
// returns how many there were.
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

void count_symbols(std::span<const std::uint8_t> symbols, Histogram& counts, CpuLevel level) {
#ifdef CFCK_HAS_X86_LEVELS
  if (symbols.size() >= kMinSymbolsOfVectors && has_vectors(level) && can_count_vectors()) {
    symbols = symbols.subspan(count_vectors(symbols.data(), symbols.size(), counts.data()));
  }
#else
  (void)level;
#endif
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

HuffmanCode build_huffman_code(const Histogram& histogram) {
  const Leaves leaves(histogram);
  const Counts counts = counts_of(leaves);
  std::array<Level, kMaxCodeLength> levels;
  Counts pairs;
  pairs.enclose();
  for (unsigned i = 0; i < kMaxCodeLength; ++i) {
    merge_level(counts, pairs, levels[i]);
    levels[i].pairs(pairs);
  }
  // The code length of a symbol is the number of lists in which its leaf is taken.
  std::array<std::uint8_t, 256> lengths{};
  std::size_t n_taken = 2 * leaves.size() - 2;
  for (unsigned i = kMaxCodeLength; i-- > 0;) {
    const std::size_t leaves_taken = levels[i].leaves_before[n_taken];
    for (std::size_t k = 0; k < leaves_taken; ++k) {
      ++lengths[k];
    }
    n_taken = 2 * (n_taken - leaves_taken);
  }
  HuffmanCode code;
  code.max_length = lengths[0];
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    code.lengths[leaves.symbol(k)] = lengths[k];
    code.max_symbol = std::max(code.max_symbol, leaves.symbol(k));
  }
  return code;
}

std::uint64_t min_coded_bits(const Histogram& histogram) {
  const Leaves leaves(histogram);
  const Counts counts = counts_of(leaves);
  // Nodes are created in ascending order.
  std::array<std::uint64_t, 512> nodes;
  nodes.fill(~std::uint64_t{0});
  std::size_t leaf = 1;
  std::size_t node = 0;
  const auto take = [&] {
    const std::uint64_t takes_leaf = counts.values[leaf] <= nodes[node] ? 1 : 0;
    const std::uint64_t count = pick(takes_leaf, counts.values[leaf], nodes[node]);
    leaf += takes_leaf;
    node += 1 - takes_leaf;
    return count;
  };
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i + 1 < leaves.size(); ++i) {
    const std::uint64_t first = take();
    nodes[i] = first + take();
    bits += nodes[i];
  }
  return bits;
}

std::uint64_t coded_bits(const HuffmanCode& code, const Histogram& counts) {
  std::uint64_t bits = 0;
  for (unsigned symbol = 0; symbol <= code.max_symbol; ++symbol) {
    bits += std::uint64_t{counts[symbol]} * code.lengths[symbol];
  }
  return bits;
}

namespace {

// The higher symbol comes first.
void fill_pairs(std::span<const std::uint8_t> used, CodeWords& words) {
  for (const std::uint8_t high_symbol : used) {
    const std::uint64_t high = words.of_symbol[high_symbol];
    for (const std::uint8_t low_symbol : used) {
      const std::uint64_t low = words.of_symbol[low_symbol];
      words.of_pair[high_symbol * kSmallSymbols + low_symbol] =
          (high & ~kLengthBits) >> (low & kLengthBits) | ((high & kLengthBits) + low);
    }
  }
}

}  // namespace

void assign_code_words(const HuffmanCode& code, std::size_t n_symbols, CodeWords& words,
                       CpuLevel level) {
  // Longest codes come first, equal ones by symbol, counting up from zero.
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
  words.small_table = CodeWords::SmallTable::kNone;
  if (code.max_symbol >= kSmallSymbols) {
    return;
  }
  if (has_vectors(level)) {
    words.small_table = CodeWords::SmallTable::kVectors;
    for (const std::uint8_t symbol : std::span(used).first(n_used)) {
      const std::uint64_t word = words.of_symbol[symbol];
      const std::uint64_t length = word & kLengthBits;
      words.in_vectors[symbol] = static_cast<std::uint16_t>((word >> (64 - length)) << 4 | length);
    }
  } else if (n_symbols >= kMinSymbolsOfPairs) {
    words.small_table = CodeWords::SmallTable::kPairs;
    fill_pairs(std::span(used).first(n_used), words);
  }
}

TreeBytes describe_tree(const HuffmanCode& code) {
  std::array<std::uint8_t, 256> weights;
  for (unsigned symbol = 0; symbol < code.max_symbol; ++symbol) {
    const unsigned length = code.lengths[symbol];
    weights[symbol] = static_cast<std::uint8_t>(length == 0 ? 0 : code.max_length + 1 - length);
  }
  return describe_weights({weights.data(), code.max_symbol});
}

namespace {

// Pending bits are at the high end of a word, the first of them lowest. Lengths are added up with
// the words' high bits, which are meaningless, and cut off in time.
class BitStream {
 public:
  explicit BitStream(std::byte* to) : to_(to) {}
  explicit BitStream(const OpenStream& open)
      : to_(open.to),
        bits_(open.n_bits == 0 ? 0 : open.bits << (64 - open.n_bits)),
        n_bits_(open.n_bits) {}

  // Requires: flush() was called last.
  OpenStream open() const { return {to_, n_bits_ == 0 ? 0 : bits_ >> (64 - n_bits_), n_bits_}; }

  // At most four symbols of at most 11 bits may come between two flushes.
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

  // A final bit 1 marks the end.
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

// Writes the first n symbols of two streams. Requires: n is a multiple of eight.
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

// Writes symbols from `begin + n - 1` down to where a multiple of four is left.
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

// Returns how many symbols of a stream put_small() takes at once; none without a table.
std::size_t step_of(CodeWords::SmallTable table) {
  switch (table) {
    case CodeWords::SmallTable::kVectors:
      return kVectorSymbols;
    case CodeWords::SmallTable::kPairs:
      return 8;
    default:
      return ~std::size_t{0};
  }
}

void put_small(const std::uint8_t* first, const std::uint8_t* second, std::size_t n,
               const CodeWords& words, BitStream& a, BitStream& b) {
#ifdef CFCK_HAS_X86_LEVELS
  if (words.small_table == CodeWords::SmallTable::kVectors) {
    OpenStream open_a = a.open();
    OpenStream open_b = b.open();
    append_vectors(first, second, n, words.in_vectors.data(), open_a, open_b);
    a = BitStream(open_a);
    b = BitStream(open_b);
    return;
  }
#endif
  put_pairs(first, second, n, words.of_pair, a, b);
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
  const std::size_t n_small = left_a - left_a % step_of(words.small_table);
  for (std::size_t left = left_a; left != n_small; left -= 4) {
    put_four(first.data() + left - 4, words, a);
    put_four(second.data() + left - 4, words, b);
  }
  put_small(first.data(), second.data(), n_small, words, a, b);
  std::byte* const end = a.finish();
  const auto second_bytes = static_cast<std::size_t>(b.finish() - apart);
  std::memmove(end, apart, second_bytes);
  return {end, end + second_bytes};
}

}  // namespace cfck::codec

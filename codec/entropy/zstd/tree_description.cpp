#include "codec/entropy/zstd/tree_description.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace cfck::codec {
namespace {

inline constexpr std::size_t kMaxDirectWeights = 128;
inline constexpr unsigned kMaxWeight = 11;
inline constexpr std::size_t kMaxCodedBytes = 127;
inline constexpr unsigned kMinTableLog = 5;
inline constexpr unsigned kMaxTableLog = 6;

using WeightCounts = std::array<unsigned, kMaxWeight + 1>;

// Writes four bits for each weight, the first weight of a byte in its high half.
TreeBytes direct_form(std::span<const std::uint8_t> weights) {
  TreeBytes bytes;
  bytes.push_back(static_cast<std::byte>(127 + weights.size()));
  for (std::size_t i = 0; i < weights.size(); i += 2) {
    const unsigned second = i + 1 < weights.size() ? weights[i + 1] : 0;
    bytes.push_back(static_cast<std::byte>(weights[i] << 4 | second));
  }
  return bytes;
}

// Maximum size: 255 weights of six bits, and less than 32 bytes of shares.
inline constexpr std::size_t kMaxFormBytes = 256;

// Writes bits; the first bit is the lowest of the first byte.
class TreeBitWriter {
 public:
  // Requires: value < 2^n_bits, n_bits <= 16.
  void put(unsigned value, unsigned n_bits) {
    bits_ |= std::uint64_t{value} << n_bits_;
    for (n_bits_ += n_bits; n_bits_ >= 8; n_bits_ -= 8) {
      bytes_[n_bytes_++] = static_cast<std::byte>(bits_);
      bits_ >>= 8;
    }
  }
  void fill_byte() { put(0, (8 - n_bits_) % 8); }
  std::span<const std::byte> bytes() const { return {bytes_.data(), n_bytes_}; }

 private:
  std::array<std::byte, kMaxFormBytes> bytes_;
  std::size_t n_bytes_ = 0;
  std::uint64_t bits_ = 0;
  unsigned n_bits_ = 0;
};

// Specification, section 6: normalises to shares of 2^table_log, none of them 0.
WeightCounts normalise(const WeightCounts& counts, unsigned n_weights, unsigned table_log) {
  WeightCounts shares{};
  int missing = 1 << table_log;
  for (unsigned w = 0; w < counts.size(); ++w) {
    if (counts[w] != 0) {
      shares[w] = std::max(1u, (counts[w] << table_log) / n_weights);
      missing -= static_cast<int>(shares[w]);
    }
  }
  if (missing > 0) {
    *std::max_element(shares.begin(), shares.end()) += static_cast<unsigned>(missing);
  }
  for (; missing < 0; ++missing) {
    --*std::max_element(shares.begin(), shares.end());
  }
  return shares;
}

// Writes the shares as RFC 8878, section 4.1.1, says.
void write_shares(const WeightCounts& shares, unsigned table_log, TreeBitWriter& out) {
  out.put(table_log - kMinTableLog, 4);
  unsigned left = (1u << table_log) + 1;
  for (unsigned w = 0; left > 1; ++w) {
    const unsigned value = shares[w] + 1;
    // Values up to `left` are possible; the smaller ones take a bit less.
    const unsigned n_bits = static_cast<unsigned>(std::bit_width(left));
    const unsigned n_short = (1u << n_bits) - 1 - left;
    const unsigned half = 1u << (n_bits - 1);
    if (value < n_short) {
      out.put(value, n_bits - 1);
    } else {
      out.put(value < half ? value : value + n_short, n_bits);
    }
    left -= shares[w];
    if (shares[w] == 0) {
      unsigned n_more = 0;
      while (shares[w + 1 + n_more] == 0) {
        ++n_more;
      }
      w += n_more;
      for (; n_more >= 3; n_more -= 3) {
        out.put(3, 2);
      }
      out.put(n_more, 2);
    }
  }
}

// RFC 8878, section 4.1.1, "From normalized distribution to decoding tables", in reverse. The
// states of a weight of share f have the numbers f to 2f - 1 among themselves, in ascending order;
// number x follows, after some bits, on every state whose number from 2^table_log on begins with
// the bits of x.
class States {
 public:
  States(const WeightCounts& shares, unsigned table_log)
      : shares_(shares), table_log_(table_log), size_(1u << table_log) {
    std::array<std::uint8_t, 1u << kMaxTableLog> weight_of;
    unsigned position = 0;
    unsigned n_before = 0;
    for (unsigned w = 0; w < shares.size(); ++w) {
      for (unsigned i = 0; i < shares[w]; ++i) {
        weight_of[position] = static_cast<std::uint8_t>(w);
        position = (position + (size_ >> 1) + (size_ >> 3) + 3) % size_;
      }
      first_[w] = n_before;
      n_before += shares[w];
    }
    std::array<unsigned, kMaxWeight + 1> next = first_;
    for (unsigned state = 0; state < size_; ++state) {
      states_[next[weight_of[state]]++] = static_cast<std::uint8_t>(state);
    }
  }

  unsigned first(std::uint8_t weight) const { return states_[first_[weight]]; }

  // Returns the state of `weight` from which `next` is reached by the bits it puts.
  unsigned before(std::uint8_t weight, unsigned next, TreeBitWriter& bits) const {
    const unsigned share = shares_[weight];
    unsigned n_bits = table_log_ + 1 - static_cast<unsigned>(std::bit_width(share));
    n_bits -= ((size_ + next) >> n_bits) < share ? 1 : 0;
    bits.put((size_ + next) & ((1u << n_bits) - 1), n_bits);
    return states_[first_[weight] + ((size_ + next) >> n_bits) - share];
  }

 private:
  const WeightCounts& shares_;
  unsigned table_log_;
  unsigned size_;
  std::array<unsigned, kMaxWeight + 1> first_;
  std::array<std::uint8_t, 1u << kMaxTableLog> states_;
};

// Specification, section 6. Two states take turns; bits are written from the last weight to the
// first, since they are read backwards. The leading byte is added later.
TreeBitWriter fse_form(std::span<const std::uint8_t> weights, const WeightCounts& counts,
                       unsigned table_log) {
  const WeightCounts shares = normalise(counts, static_cast<unsigned>(weights.size()), table_log);
  TreeBitWriter bits;
  write_shares(shares, table_log, bits);
  bits.fill_byte();
  const States states(shares, table_log);
  std::size_t i = weights.size() - 2;
  unsigned current[2];
  current[i % 2] = states.first(weights[i]);
  current[(i + 1) % 2] = states.first(weights[i + 1]);
  while (i-- > 0) {
    current[i % 2] = states.before(weights[i], current[i % 2], bits);
  }
  bits.put(current[1], table_log);
  bits.put(current[0], table_log);
  bits.put(1, 1);
  bits.fill_byte();
  return bits;
}

}  // namespace

TreeBytes describe_weights(std::span<const std::uint8_t> weights) {
  TreeBytes best;
  if (weights.size() <= kMaxDirectWeights) {
    best = direct_form(weights);
  }
  WeightCounts counts{};
  for (const std::uint8_t weight : weights) {
    ++counts[weight];
  }
  const auto n_used =
      std::count_if(counts.begin(), counts.end(), [](unsigned n) { return n != 0; });
  if (weights.size() < 3 || n_used < 2) {
    return best;
  }
  for (unsigned table_log = kMinTableLog; table_log <= kMaxTableLog; ++table_log) {
    const TreeBitWriter form = fse_form(weights, counts, table_log);
    const std::span<const std::byte> bytes = form.bytes();
    if (bytes.size() <= kMaxCodedBytes && (best.empty() || 1 + bytes.size() < best.size())) {
      best = {static_cast<std::byte>(bytes.size())};
      for (const std::byte byte : bytes) {
        best.push_back(byte);
      }
    }
  }
  return best;
}

}  // namespace cfck::codec

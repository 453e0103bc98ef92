#include "codec/entropy/tree_description.hpp"

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

using Frequencies = std::array<unsigned, kMaxWeight + 1>;

// Four bits each, the first weight of a byte in its high half.
std::vector<std::byte> direct_form(std::span<const std::uint8_t> weights) {
  std::vector<std::byte> bytes;
  bytes.push_back(static_cast<std::byte>(127 + weights.size()));
  for (std::size_t i = 0; i < weights.size(); i += 2) {
    const unsigned second = i + 1 < weights.size() ? weights[i + 1] : 0;
    bytes.push_back(static_cast<std::byte>(weights[i] << 4 | second));
  }
  return bytes;
}

class BitWriter {
 public:
  void put(unsigned value, unsigned n_bits) {
    for (unsigned i = 0; i < n_bits; ++i) {
      if (n_bits_ % 8 == 0) {
        bytes_.push_back(std::byte{0});
      }
      bytes_.back() |= static_cast<std::byte>((value >> i & 1) << (n_bits_ % 8));
      ++n_bits_;
    }
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t n_bits_ = 0;
};

// Spec, section 6: shares of 2^table_log, none of them 0.
Frequencies normalise(const Frequencies& counts, unsigned n_weights, unsigned table_log) {
  Frequencies shares{};
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

// RFC 8878, section 4.1.1.
void write_shares(const Frequencies& shares, unsigned table_log, BitWriter& out) {
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

struct State {
  std::uint8_t weight = 0;
  unsigned n_bits = 0;
  unsigned baseline = 0;
};

// RFC 8878, section 4.1.1, "From normalized distribution to decoding tables".
std::vector<State> build_states(const Frequencies& shares, unsigned table_log) {
  const unsigned size = 1u << table_log;
  std::vector<State> states(size);
  unsigned position = 0;
  for (unsigned w = 0; w < shares.size(); ++w) {
    for (unsigned i = 0; i < shares[w]; ++i) {
      states[position].weight = static_cast<std::uint8_t>(w);
      position = (position + (size >> 1) + (size >> 3) + 3) % size;
    }
  }
  Frequencies next = shares;
  for (State& state : states) {
    const unsigned x = next[state.weight]++;
    state.n_bits = table_log + 1 - static_cast<unsigned>(std::bit_width(x));
    state.baseline = (x << state.n_bits) - size;
  }
  return states;
}

// The first state of a weight, or the one from which `next` can be reached.
unsigned first_state(const std::vector<State>& states, std::uint8_t weight) {
  unsigned s = 0;
  while (states[s].weight != weight) {
    ++s;
  }
  return s;
}

unsigned state_before(const std::vector<State>& states, std::uint8_t weight, unsigned next) {
  unsigned s = 0;
  while (states[s].weight != weight || next < states[s].baseline ||
         next >= states[s].baseline + (1u << states[s].n_bits)) {
    ++s;
  }
  return s;
}

// Spec, section 6. Two states take turns; bits are written from the last weight to
// the first, since they are read backwards.
std::vector<std::byte> fse_form(std::span<const std::uint8_t> weights, const Frequencies& counts,
                                unsigned table_log) {
  const Frequencies shares = normalise(counts, static_cast<unsigned>(weights.size()), table_log);
  BitWriter header;
  write_shares(shares, table_log, header);
  const std::vector<State> states = build_states(shares, table_log);
  BitWriter bits;
  std::size_t i = weights.size() - 2;
  unsigned current[2];
  current[i % 2] = first_state(states, weights[i]);
  current[(i + 1) % 2] = first_state(states, weights[i + 1]);
  while (i-- > 0) {
    unsigned& state = current[i % 2];
    const unsigned before = state_before(states, weights[i], state);
    bits.put(state - states[before].baseline, states[before].n_bits);
    state = before;
  }
  bits.put(current[1], table_log);
  bits.put(current[0], table_log);
  bits.put(1, 1);

  std::vector<std::byte> form(1);
  form.insert(form.end(), header.bytes().begin(), header.bytes().end());
  form.insert(form.end(), bits.bytes().begin(), bits.bytes().end());
  form[0] = static_cast<std::byte>(std::min<std::size_t>(form.size() - 1, 255));
  return form;
}

}  // namespace

std::vector<std::byte> describe_weights(std::span<const std::uint8_t> weights) {
  std::vector<std::byte> best;
  if (weights.size() <= kMaxDirectWeights) {
    best = direct_form(weights);
  }
  Frequencies counts{};
  for (const std::uint8_t weight : weights) {
    ++counts[weight];
  }
  const auto n_used =
      std::count_if(counts.begin(), counts.end(), [](unsigned n) { return n != 0; });
  if (weights.size() < 3 || n_used < 2) {
    return best;
  }
  for (unsigned table_log = kMinTableLog; table_log <= kMaxTableLog; ++table_log) {
    std::vector<std::byte> form = fse_form(weights, counts, table_log);
    if (form.size() <= 1 + kMaxCodedBytes && (best.empty() || form.size() < best.size())) {
      best = std::move(form);
    }
  }
  return best;
}

}  // namespace cfck::codec

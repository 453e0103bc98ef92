#include "codec/entropy/rans/section.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/common/bit_strings.hpp"
#include "codec/common/varint.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {

Result<Frequencies> read_frequencies(ByteView bytes, std::size_t& at) {
  BitReader in(bytes.subspan(at));
  Frequencies frequencies{};
  std::array<std::uint8_t, kRansSymbols - 1> lengths;
  for (std::uint8_t& length : lengths) {
    length = static_cast<std::uint8_t>(in.take(kRansLengthBits));
  }
  std::uint32_t left = kRansTotal;
  for (unsigned s = 0; s + 1 < kRansSymbols; ++s) {
    const unsigned n = lengths[s];
    const std::uint32_t frequency = n == 0 ? 0 : (1u << (n - 1)) + in.take(n - 1);
    if (frequency > left) {
      return corrupt("the frequencies of a table sum to more than 4096", at);
    }
    frequencies[s] = static_cast<std::uint16_t>(frequency);
    left -= frequency;
  }
  frequencies.back() = static_cast<std::uint16_t>(left);
  if (in.is_past_end()) {
    return truncated("the chunk ends inside a frequency table", bytes.size());
  }
  if (!in.rest_is_zero()) {
    return corrupt("bits after the end of a frequency table", at);
  }
  at += in.position();
  return frequencies;
}

// Reads the choice byte and the explicit tables.
Result<void> RansReader::read_tables(ByteView coded, std::size_t& at, const ValueTables& values) {
  const auto layout = static_cast<std::uint8_t>(coded[0]);
  const auto choice = static_cast<unsigned>(coded[1]);
  const TableChoice chosen{choice & 7, choice >> 3 & 7, choice >> 6};
  const unsigned n_places = kFirstValuePlace + values.n_tables;
  for (unsigned place = 0; place < n_places; ++place) {
    tables_[place] = &static_decode_table(chosen.table_of(place, values));
  }
  explicit_.clear();
  if ((layout & kLayoutExplicit) == 0) {
    return {};
  }
  if (at == coded.size()) {
    return truncated("the chunk ends before its frequency tables", at);
  }
  const auto n_explicit = static_cast<unsigned>(coded[at++]);
  if (n_explicit == 0 || n_explicit > n_places) {
    return corrupt("bad number of frequency tables", at - 1);
  }
  explicit_.resize(n_explicit);
  unsigned min_place = 0;
  for (RansDecodeTable& table : explicit_) {
    if (at == coded.size()) {
      return truncated("the chunk ends before its frequency tables", at);
    }
    const auto place = static_cast<unsigned>(coded[at++]);
    if (place < min_place || place >= n_places) {
      return corrupt("a frequency table has an invalid index", at - 1);
    }
    min_place = place + 1;
    CFCK_TRY_ASSIGN(const Frequencies frequencies, read_frequencies(coded, at));
    build_decode_table(frequencies, table);
    tables_[place] = &table;
  }
  return {};
}

Result<void> RansReader::open(ByteView coded, const std::byte* readable_end,
                              const ValueTables& values) {
  CFCK_TRY_ASSIGN(const std::size_t at, open_tables(coded, values));
  auto opened = open_lanes(coded.subspan(at), readable_end);
  return opened ? opened : shifted(std::move(opened).error(), at);
}

Result<void> RansReader::open_shared_tables(ByteView tables, const ValueTables& values) {
  CFCK_TRY_ASSIGN(const std::size_t n_bytes, open_tables(tables, values));
  if (n_bytes != tables.size()) {
    return corrupt("bytes after the frequency tables", n_bytes);
  }
  return {};
}

Result<std::size_t> RansReader::open_tables(ByteView coded, const ValueTables& values) {
  if (coded.size() < 2) {
    return truncated("the chunk ends before its symbols", coded.size());
  }
  const auto layout = static_cast<unsigned>(coded[0]);
  if ((layout & kLayoutSets) > 2 || (layout & ~unsigned{kLayoutSets | kLayoutExplicit}) != 0) {
    return corrupt("unknown layout of the symbols", 0);
  }
  lanes_.n_sets = 1u << (layout & kLayoutSets);
  std::size_t at = 2;
  CFCK_TRY(read_tables(coded, at, values));
  return at;
}

// Returns n bits of a bit string, at most 32, from bit `first` on; those past the end are zeros.
static std::uint32_t bits_at(ByteView bytes, std::size_t first, std::size_t n) {
  const std::size_t at = std::min(first / 8, bytes.size());
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
  return static_cast<std::uint32_t>(word >> first % 8 & ((std::uint64_t{1} << n) - 1));
}

Result<void> RansReader::open_lanes(ByteView lanes, const std::byte* readable_end) {
  VarintReader numbers(lanes);
  std::array<std::uint64_t, kMaxLaneSets> word_bytes{};
  std::uint64_t all_bytes = 0;
  for (unsigned set = 0; set < lanes_.n_sets; ++set) {
    CFCK_TRY_ASSIGN(const std::uint32_t n_words, numbers.varint());
    word_bytes[set] = 2 * std::uint64_t{n_words};
    all_bytes += word_bytes[set];
  }
  std::size_t at = numbers.position();
  const ByteView states = lanes.subspan(at);
  const unsigned n_lanes = lanes_.n_sets * kRansLanes;
  std::size_t bit = std::size_t{n_lanes} * kRansLengthBits;
  if (states.size() < bit / 8) {
    return truncated("the chunk ends inside its symbols", lanes.size());
  }
  for (unsigned lane = 0; lane < n_lanes; ++lane) {
    const auto two = static_cast<unsigned>(states[lane / 2]);
    const unsigned length = kRansStateBits + (two >> lane % 2 * kRansLengthBits & 15);
    lanes_.states[lane] = (1u << length) | bits_at(states, bit, length);
    bit += length;
  }
  const std::size_t state_bytes = (bit + 7) / 8;
  if (states.size() < state_bytes || states.size() - state_bytes < all_bytes) {
    return truncated("the chunk ends inside its symbols", lanes.size());
  }
  at += state_bytes;
  const bool rest_is_zero = bit % 8 == 0 || bits_at(states, bit, 8 - bit % 8) == 0;
  if (!rest_is_zero || lanes.size() - at != all_bytes) {
    return corrupt("the lane sets do not have the length of their section", at);
  }
  const std::byte* next = lanes.data() + at;
  for (unsigned set = 0; set < lanes_.n_sets; ++set) {
    lanes_.words[set] = next;
    next += word_bytes[set];
    lanes_.ends[set] = next;
  }
  lanes_.readable_end = readable_end;
  return {};
}

Result<void> RansReader::finish(std::size_t n_tail, std::byte* raw) const {
  constexpr const char* kBadEnd = "the lane sets do not end in a valid state";
  for (unsigned set = 0; set < lanes_.n_sets; ++set) {
    if (lanes_.words[set] != lanes_.ends[set]) {
      return corrupt(kBadEnd, 0);
    }
  }
  std::byte* next = raw;
  std::uint64_t bits = 0;
  unsigned n_bits = 0;
  for (unsigned lane = 0; lane < lanes_.n_sets * kRansLanes; ++lane) {
    const std::uint32_t state = lanes_.states[lane];
    if (state >= 2 * kRansLowest) {
      return corrupt(kBadEnd, 0);
    }
    bits |= std::uint64_t{state - kRansLowest} << n_bits;
    for (n_bits += kRansStateBits; n_bits >= 8; n_bits -= 8) {
      *next++ = static_cast<std::byte>(bits);
      bits >>= 8;
    }
  }
  if (std::any_of(raw + n_tail, next, [](std::byte b) { return b != std::byte{0}; })) {
    return corrupt("the lanes carry more than the raw bits need", 0);
  }
  return {};
}

}  // namespace cfck::codec

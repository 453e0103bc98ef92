#include "codec/delta/dense_decoder.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/delta/dense_symbols.hpp"
#include "codec/entropy/rans/scratch.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {
namespace {

// Zero bytes behind the raw bits, so that words can be read at their end.
constexpr std::size_t kRawSlack = 16;

// What a symbol of a class adds to a difference.
struct SymbolBits {
  std::uint64_t first = 0;
  std::uint64_t low_mask = 0;
  unsigned n_bits = 0;  // with the sign
};
using ClassSymbols = std::array<SymbolBits, 32>;

ClassSymbols symbols_of(DeltaClass one) {
  ClassSymbols symbols{};
  for (unsigned s = 1; s < kDenseEscape; ++s) {
    const DenseBucket bucket = dense_bucket(s, one.low_width());
    if (bucket.n_bits >= 64 || (bucket.n_top_bits + bucket.n_bits) > 64) {
      symbols[s] = {~std::uint64_t{0}, 0, 1};  // larger than all units
      continue;
    }
    symbols[s] = {bucket.top << bucket.n_bits,
                  bucket.n_bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - bucket.n_bits),
                  bucket.n_bits + 1};
  }
  return symbols;
}

class DenseDecoder {
 public:
  DenseDecoder(const DeltaHeader& header, const DenseSections& sections,
               const std::uint64_t* counts, Scratch& scratch)
      : h_(header),
        sections_(sections),
        memory_(scratch.part<DeltaScratch>()),
        reader_(scratch.part<RansScratch>().reader) {
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      if (h_.classes[c].is_dense()) {
        counts_[c] = static_cast<std::size_t>(counts[c]);
        n_symbols_ += counts_[c];
      }
    }
  }

  Result<void> decode() {
    CFCK_TRY(decode_symbols());
    CFCK_TRY(join_raw());
    std::byte* const differences =
        memory_.differences.reserve(n_symbols_ * h_.word_bytes() + sizeof(std::uint64_t));
    switch (h_.word_bytes()) {
      case 1:
        return join<std::uint8_t>(differences);
      case 2:
        return join<std::uint16_t>(differences);
      case 4:
        return join<std::uint32_t>(differences);
      default:
        return join<std::uint64_t>(differences);
    }
  }

 private:
  Result<void> decode_symbols() {
    const std::size_t n_groups = (n_symbols_ + kGroupSize - 1) / kGroupSize;
    symbols_ = memory_.symbols.reserve(n_groups * (kGroupSize + 1) + kGroupSize);
    std::uint8_t* const places = symbols_ + n_groups * kGroupSize;
    place_groups(counts_, places);
    auto opened = reader_.open(sections_.coded, sections_.readable_end, kDeltaValueTables);
    if (!opened) {
      return shifted(std::move(opened).error(), sections_.coded_at);
    }
    if (!reader_.decode({symbols_, n_symbols_, places, 0})) {
      return truncated("the chunk ends inside its symbols",
                       sections_.coded_at + sections_.coded.size());
    }
    return {};
  }

  // Raw bits in one string: those of the section, and those that the lanes carry.
  Result<void> join_raw() {
    std::uint64_t n_bits = 0;
    std::uint64_t n_escapes = 0;
    const std::uint8_t* next = symbols_;
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      if (h_.classes[c].is_dense()) {
        class_symbols_[c] = symbols_of(h_.classes[c]);
        for (std::size_t i = 0; i < counts_[c]; ++i, ++next) {
          n_bits += class_symbols_[c][*next].n_bits;
          n_escapes += *next == kDenseEscape;
        }
      }
    }
    const auto n_bytes = static_cast<std::size_t>((n_bits + 7) / 8);
    const std::size_t n_tail = tail_bytes(reader_.n_sets(), n_bytes);
    if (n_escapes != h_.n_escapes || n_bytes - n_tail != sections_.raw.size()) {
      return corrupt("the symbols of the chunk need other raw bits or escapes than it has", 1);
    }
    const std::size_t room = payload_bytes(reader_.n_sets());
    raw_ = memory_.raw.reserve(sections_.raw.size() + room + kRawSlack);
    std::copy(sections_.raw.begin(), sections_.raw.end(), raw_);
    std::memset(raw_ + sections_.raw.size() + room, 0, kRawSlack);
    auto finished = reader_.finish(n_tail, raw_ + sections_.raw.size());
    if (!finished) {
      return shifted(std::move(finished).error(), sections_.coded_at);
    }
    if (n_bits % 8 != 0 && static_cast<unsigned>(raw_[n_bytes - 1]) >> (n_bits % 8) != 0) {
      return corrupt("unused raw bits of the chunk are set", 1);
    }
    return {};
  }

  template <class Word>
  Result<void> join(std::byte* differences) {
    const UnitWords<Word> words(h_.format);
    const std::uint8_t* symbol = symbols_;
    const std::byte* escape = sections_.escapes.data();
    std::uint64_t at = 0;
    bool fits = true;
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      const ClassSymbols& symbols = class_symbols_[c];
      for (const std::uint8_t* const end = symbol + counts_[c]; symbol < end;
           ++symbol, differences += sizeof(Word)) {
        Word difference;
        if (*symbol == kDenseEscape) [[unlikely]] {
          std::memcpy(&difference, escape, sizeof(difference));
          escape += sizeof(difference);
          fits = fits && difference <= words.mask;
        } else {
          const SymbolBits& bits = symbols[*symbol];
          const bool is_negative = (word_at(at) & 1) != 0;
          const std::uint64_t less = bits.first + (low_bits(at + 1, bits.n_bits) & bits.low_mask);
          fits = fits && less < words.sign;
          const auto magnitude = static_cast<Word>(*symbol == 0 ? 0 : less + 1);
          difference = words.with_sign(magnitude, is_negative && *symbol != 0);
          at += bits.n_bits;
        }
        std::memcpy(differences, &difference, sizeof(difference));
      }
    }
    if (!fits) {
      return corrupt("a difference of the chunk is larger than its units", 1);
    }
    return {};
  }

  std::uint64_t word_at(std::uint64_t bit) const {
    std::uint64_t word;
    std::memcpy(&word, raw_ + (bit >> 3), sizeof(word));
    return word >> (bit & 7);
  }
  // At least n bits, at most 64, from `bit` on.
  std::uint64_t low_bits(std::uint64_t bit, unsigned n) const {
    const std::uint64_t low = word_at(bit);
    return n <= 57 ? low : low | word_at(bit + 32) << 32;
  }

  const DeltaHeader& h_;
  const DenseSections& sections_;
  DeltaScratch& memory_;
  RansReader& reader_;
  std::array<std::size_t, kMaxDeltaClasses> counts_{};
  std::size_t n_symbols_ = 0;
  std::uint8_t* symbols_ = nullptr;
  std::byte* raw_ = nullptr;
  std::array<ClassSymbols, kMaxDeltaClasses> class_symbols_{};
};

}  // namespace

Result<void> decode_dense(const DeltaHeader& header, const DenseSections& sections,
                          const std::uint64_t* counts, Scratch& scratch) {
  return DenseDecoder(header, sections, counts, scratch).decode();
}

}  // namespace cfck::codec

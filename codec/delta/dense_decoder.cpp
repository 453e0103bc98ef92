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

class DenseDecoder {
 public:
  DenseDecoder(const DeltaHeader& header, const DenseSections& sections,
               const std::uint64_t* counts, Scratch& scratch)
      : h_(header),
        sections_(sections),
        memory_(scratch.part<DeltaScratch>()),
        kernels_(delta_kernels(header.word_bytes())),
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
    return join(memory_.differences.reserve(n_symbols_ * h_.word_bytes() + kDenseSlack));
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
        kernels_.count_raw(next, counts_[c], h_.classes[c].low_width(), n_bits, n_escapes);
        next += counts_[c];
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

  Result<void> join(std::byte* differences) {
    DenseInput in;
    in.raw = raw_;
    in.escapes = sections_.escapes.data();
    const std::uint8_t* next = symbols_;
    bool fits = true;
    for (unsigned c = 0; c < h_.n_classes; ++c) {
      if (h_.classes[c].is_dense()) {
        fits = kernels_.decode_differences(next, counts_[c], h_.format, h_.classes[c].low_width(),
                                           in, differences) &&
               fits;
        next += counts_[c];
        differences += counts_[c] * h_.word_bytes();
      }
    }
    if (!fits) {
      return corrupt("a difference of the chunk is larger than its units", 1);
    }
    return {};
  }

  const DeltaHeader& h_;
  const DenseSections& sections_;
  DeltaScratch& memory_;
  const DeltaKernels& kernels_;
  RansReader& reader_;
  std::array<std::size_t, kMaxDeltaClasses> counts_{};
  std::size_t n_symbols_ = 0;
  std::uint8_t* symbols_ = nullptr;
  std::byte* raw_ = nullptr;
};

}  // namespace

Result<void> decode_dense(const DeltaHeader& header, const DenseSections& sections,
                          const std::uint64_t* counts, Scratch& scratch) {
  return DenseDecoder(header, sections, counts, scratch).decode();
}

}  // namespace cfck::codec

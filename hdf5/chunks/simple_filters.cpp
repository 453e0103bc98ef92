// The filters that rearrange or check bytes.
#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "hdf5/chunks/filters.hpp"

namespace cfck::hdf5 {
namespace {

// The checksum of libhdf5 (H5checksum.c): sums of big-endian words.
std::uint32_t fletcher32(ByteView bytes) {
  constexpr std::size_t kWordsBeforeOverflow = 360;
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  const auto fold = [](std::uint32_t& sum) { sum = (sum & 0xffff) + (sum >> 16); };
  std::size_t n_words = bytes.size() / 2;
  std::size_t at = 0;
  while (n_words > 0) {
    const std::size_t n = std::min(n_words, kWordsBeforeOverflow);
    for (std::size_t i = 0; i < n; ++i, at += 2) {
      sum1 +=
          static_cast<std::uint32_t>(bytes[at]) << 8 | static_cast<std::uint32_t>(bytes[at + 1]);
      sum2 += sum1;
    }
    n_words -= n;
    fold(sum1);
    fold(sum2);
  }
  if (bytes.size() % 2 != 0) {
    sum1 += static_cast<std::uint32_t>(bytes[at]) << 8;
    sum2 += sum1;
    fold(sum1);
    fold(sum2);
  }
  fold(sum1);
  fold(sum2);
  return sum2 << 16 | sum1;
}

}  // namespace

Error bad_filter_values(const char* filter) {
  return corrupt(std::string("the filter ") + filter +
                 " of the dataset has parameters that do not fit; the file is damaged");
}

Error damaged_chunk(const char* filter) {
  return corrupt(std::string("a chunk of the dataset is damaged: the filter ") + filter +
                 " cannot read it; download the file again");
}

Error chunk_too_large() {
  return limit_exceeded(
      "a chunk of the dataset has more than 256 MiB; write it again with smaller chunks, for "
      "example with h5repack");
}

Result<Buffer> undo_shuffle(const Filter& filter, Buffer in, std::uint64_t) {
  if (filter.values.size() != 1 || filter.values[0] == 0) return bad_filter_values("shuffle");
  const std::size_t elem_bytes = filter.values[0];
  const std::size_t n_elems = in.size() / elem_bytes;
  if (elem_bytes == 1 || n_elems <= 1) return in;
  CFCK_TRY_ASSIGN(Buffer out, Buffer::zeroed(in.size()));
  const std::byte* from = in.data();
  for (std::size_t byte = 0; byte < elem_bytes; ++byte) {
    std::byte* to = out.data() + byte;
    for (std::size_t i = 0; i < n_elems; ++i, to += elem_bytes) *to = *from++;
  }
  std::copy(from, std::as_const(in).data() + in.size(), out.data() + n_elems * elem_bytes);
  return out;
}

Result<Buffer> undo_fletcher32(const Filter&, Buffer in, std::uint64_t) {
  constexpr std::size_t kSumBytes = 4;
  if (in.size() < kSumBytes) return damaged_chunk("fletcher32");
  const std::size_t n_bytes = in.size() - kSumBytes;
  const auto stored = load<std::uint32_t>(in.data() + n_bytes);
  const std::uint32_t sum = fletcher32(in.bytes().first(n_bytes));
  // libhdf5 before 1.6.3 wrote the bytes of each half the other way round.
  const std::uint32_t turned = (sum & 0x00ff00ff) << 8 | (sum & 0xff00ff00) >> 8;
  if (stored != sum && stored != turned) {
    return corrupt(
        "a chunk of the dataset is damaged: its checksum differs; download the file again");
  }
  in.shorten(n_bytes);
  return in;
}

// All tensors have elements of whole bytes, for which the filter does nothing.
Result<Buffer> undo_n_bit(const Filter& filter, Buffer in, std::uint64_t) {
  if (filter.values.size() < 2) return bad_filter_values("nbit");
  if (filter.values[1] != 1) return bad_filter_values("nbit");
  return in;
}

}  // namespace cfck::hdf5

#include "codec/rows/numbers.hpp"

#include "codec/common/bit_strings.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {

Result<std::span<const std::uint32_t>> decode_numbers(const ChunkInfo& info,
                                                      const RowsHeader& header, ByteView payload,
                                                      std::uint64_t n_rows, Scratch& scratch) {
  NumbersScratch& memory = scratch.part<NumbersScratch>();
  const OwnTensor of_buckets = OwnTensor::of_bytes(info, n_rows);
  std::uint8_t* const buckets = memory.buckets.reserve(n_rows);
  auto decoded =
      decode_lossless(of_buckets.chunk(), payload.subspan(header.buckets_at(), header.bucket_bytes),
                      scratch, {reinterpret_cast<std::byte*>(buckets), n_rows});
  if (!decoded) {
    return shifted(std::move(decoded).error(), header.buckets_at());
  }
  BitReader offsets(payload.subspan(header.offsets_at(), header.offset_bytes));
  std::uint32_t* const numbers = memory.numbers.reserve(n_rows);
  std::uint32_t next = header.n_repeated;
  for (std::uint64_t row = 0; row < n_rows; ++row) {
    const unsigned coded = buckets[row];
    if (coded > kBuckets) {
      return corrupt("a bucket of a dictionary of rows is out of range", header.buckets_at());
    }
    if (coded == 0) {
      if (next == header.n_different) {
        return corrupt("a chunk has more single rows than its dictionary", header.buckets_at());
      }
      numbers[row] = next++;
      continue;
    }
    numbers[row] = kBucketStarts[coded - 1] + offsets.take(kOffsetBits[coded - 1]);
    if (numbers[row] >= header.n_repeated) {
      return corrupt("a row has a number that its dictionary does not have", header.offsets_at());
    }
  }
  if (next != header.n_different) {
    return corrupt("a chunk has fewer single rows than its dictionary", header.buckets_at());
  }
  if (offsets.position() != header.offset_bytes || !offsets.rest_is_zero()) {
    return corrupt("the offsets of a dictionary of rows have another length than they must have",
                   header.offsets_at());
  }
  return std::span<const std::uint32_t>(numbers, n_rows);
}

}  // namespace cfck::codec

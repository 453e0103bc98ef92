#include "codec/rows/numbers.hpp"

#include <utility>

#include "codec/errors.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {
namespace {

struct NumbersScratch {
  GrowingBuffer<std::uint8_t> buckets;
};

}  // namespace

Result<NumberReader> NumberReader::open(const ChunkInfo& info, const RowsHeader& header,
                                        ByteView payload, std::uint64_t n_rows, Scratch& scratch) {
  std::uint8_t* const buckets = scratch.part<NumbersScratch>().buckets.reserve(n_rows);
  const OwnTensor of_buckets = OwnTensor::of_bytes(info, n_rows);
  auto decoded =
      decode_lossless(of_buckets.chunk(), payload.subspan(header.buckets_at(), header.bucket_bytes),
                      scratch, {reinterpret_cast<std::byte*>(buckets), n_rows});
  if (!decoded) {
    return shifted(std::move(decoded).error(), header.buckets_at());
  }
  return NumberReader(header, buckets, payload.subspan(header.offsets_at(), header.offset_bytes));
}

Result<std::uint32_t> NumberReader::next() {
  const unsigned coded = *buckets_++;
  if (coded > kBuckets) {
    return corrupt("a bucket of a dictionary of rows is out of range", header_.buckets_at());
  }
  if (coded == 0) {
    if (next_single_ == header_.n_different) {
      return corrupt("a chunk has more single rows than its dictionary", header_.buckets_at());
    }
    return next_single_++;
  }
  const std::uint32_t number = kBucketStarts[coded - 1] + offsets_.take(kOffsetBits[coded - 1]);
  if (number >= header_.n_repeated) {
    return corrupt("a row has a number that its dictionary does not have", header_.offsets_at());
  }
  return number;
}

Result<void> NumberReader::finish() const {
  if (next_single_ != header_.n_different) {
    return corrupt("a chunk has fewer single rows than its dictionary", header_.buckets_at());
  }
  if (offsets_.position() != header_.offset_bytes || !offsets_.rest_is_zero()) {
    return corrupt("the offsets of a dictionary of rows have another length than they must have",
                   header_.offsets_at());
  }
  return {};
}

}  // namespace cfck::codec

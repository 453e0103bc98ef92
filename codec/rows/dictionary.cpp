#include "codec/rows/dictionary.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/hashing/hashing.hpp"
#include "codec/common/bit_strings.hpp"
#include "codec/common/id_buckets.hpp"
#include "codec/rows/numbers.hpp"

namespace cfck::codec {
namespace {

constexpr std::uint64_t kSampledRows = 256;
constexpr std::uint64_t kRepeatedInSample = 16;
constexpr std::uint64_t kLeastRowBytes = 16;

// Fills memory.buckets and memory.offsets.
void split_numbers(const Numbering& rows, std::uint32_t n_repeated, DictionaryScratch& memory) {
  memory.buckets.resize(rows.number.size());
  memory.offsets.clear();
  BitWriter offsets(memory.offsets);
  for (std::size_t row = 0; row < rows.number.size(); ++row) {
    const std::uint32_t number = rows.number[row];
    if (number >= n_repeated) {
      memory.buckets[row] = std::byte{0};
      continue;
    }
    const auto end = std::upper_bound(kBucketStarts.begin(), kBucketStarts.end(), number);
    const auto bucket = static_cast<unsigned>(end - kBucketStarts.begin()) - 1;
    memory.buckets[row] = static_cast<std::byte>(bucket + 1);
    offsets.put(number - kBucketStarts[bucket], kOffsetBits[bucket]);
  }
  offsets.finish();
}

void append(ByteView bytes, std::vector<std::byte>& out) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

std::uint32_t arrange(Numbering& rows, DictionaryScratch& memory) {
  std::vector<std::uint32_t>& counts = memory.counts;
  counts.assign(rows.n_unique(), 0);
  for (const std::uint32_t number : rows.number) {
    ++counts[number];
  }
  std::vector<std::uint32_t>& order = memory.order;
  order.resize(rows.n_unique());
  std::iota(order.begin(), order.end(), 0U);
  // Numbers ascend by first appearance, and those of single rows keep this order.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return counts[a] > counts[b]; });
  const auto single = std::partition_point(
      order.begin(), order.end(), [&](std::uint32_t number) { return counts[number] > 1; });
  const auto n_repeated = static_cast<std::uint32_t>(single - order.begin());
  std::vector<std::uint32_t> first(order.size());
  for (std::uint32_t number = 0; number < order.size(); ++number) {
    first[number] = rows.first[order[number]];
    counts[order[number]] = number;  // no count is needed any more
  }
  for (std::uint32_t& number : rows.number) {
    number = counts[number];
  }
  rows.first = std::move(first);
  return n_repeated;
}

ByteView gather_rows(ByteView values, const Numbering& rows, std::uint64_t row_bytes,
                     DictionaryScratch& memory) {
  memory.different.resize(rows.n_unique() * row_bytes);
  std::byte* to = memory.different.data();
  for (const std::uint32_t row : rows.first) {
    std::memcpy(to, values.data() + row * row_bytes, row_bytes);
    to += row_bytes;
  }
  return memory.different;
}

Result<void> encode_dictionary(const ChunkInfo& info, const Numbering& rows,
                               std::uint32_t n_repeated, const OtherChunk& other,
                               DictionaryScratch& memory, Scratch& scratch, EncodedChunk& out) {
  split_numbers(rows, n_repeated, memory);
  const OwnTensor of_buckets = OwnTensor::of_bytes(info, memory.buckets.size());
  CFCK_TRY(encode_lossless(of_buckets.chunk(), memory.buckets, scratch, memory.bucket_chunk));
  RowsHeader header;
  header.mode = RowsMode::kDictionary;
  header.codec = other.codec;
  header.n_different = rows.n_unique();
  header.n_repeated = n_repeated;
  header.bucket_bytes = static_cast<std::uint32_t>(memory.bucket_chunk.payload.size());
  header.offset_bytes = static_cast<std::uint32_t>(memory.offsets.size());
  header.row_bytes = static_cast<std::uint32_t>(other.encoded.payload.size());
  out.payload.clear();
  append_header(header, out.payload);
  append(memory.bucket_chunk.payload, out.payload);
  append(memory.offsets, out.payload);
  append(other.encoded.payload, out.payload);
  out.body_bytes = static_cast<std::uint32_t>(out.payload.size());
  return {};
}

void encode_other(const OtherChunk& other, EncodedChunk& out) {
  RowsHeader header;
  header.mode = RowsMode::kOther;
  header.codec = other.codec;
  header.row_bytes = static_cast<std::uint32_t>(other.encoded.payload.size());
  out.payload.clear();
  append_header(header, out.payload);
  append(other.encoded.payload, out.payload);
  out.body_bytes = static_cast<std::uint32_t>(out.payload.size());
}

RowSample rows_to_sample(const ChunkInfo& info) {
  const std::optional<RowGeometry> rows = row_geometry(info);
  if (!rows || rows->row_bytes < kLeastRowBytes || rows->n_rows <= kRepeatedInSample) {
    return {};
  }
  return {rows->row_bytes, rows->n_rows, std::min(kSampledRows, rows->n_rows)};
}

bool rows_repeat(std::span<const Digest> hashes) {
  if (hashes.empty() || hashes.size() > kSampledRows) {
    return false;
  }
  // Halves of hashes are as good as whole ones for a guess, and integers are sorted faster than
  // bytes.
  std::array<std::uint64_t, kSampledRows> halves;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    std::memcpy(&halves[i], hashes[i].data(), sizeof halves[i]);
  }
  const auto end = halves.begin() + static_cast<std::ptrdiff_t>(hashes.size());
  std::sort(halves.begin(), end);
  const auto n_different =
      static_cast<std::uint64_t>(std::unique(halves.begin(), end) - halves.begin());
  return hashes.size() >= n_different + kRepeatedInSample;
}

}  // namespace cfck::codec

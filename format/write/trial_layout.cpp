#include "format/write/trial_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "format/container/index/compressed_index.hpp"
#include "format/container/index/errors.hpp"

namespace cfck::format {
namespace {

// Hashes and errors, which will be known when the values are encoded, are as good as random. How
// long a Zstd frame of other random numbers is differs by less than this.
constexpr std::uint64_t kSpareDivisor = 32;
constexpr std::uint64_t kSpareBytes = 64;
constexpr unsigned kFractionBits = 52;  // of a double

// Stands for numbers that are not known yet; every call of a trial gives the same ones.
class UnknownNumbers {
 public:
  std::uint64_t hash() { return random_(); }
  Digest digest() {
    const std::uint64_t halves[2] = {random_(), random_()};
    Digest digest;
    std::memcpy(digest.data(), halves, digest.size());
    return digest;
  }
  // With so many bits of fraction, and one of some exponents, as errors are.
  double number(unsigned n_bits) {
    const std::uint64_t bits = random_();
    const double fraction =
        std::ldexp(static_cast<double>(bits >> (64 - n_bits)), -static_cast<int>(n_bits));
    return std::ldexp(1.0 + fraction, -static_cast<int>(bits % 8));
  }

 private:
  std::mt19937_64 random_;
};

// Bits of fraction of values, which the smallest and largest of a tensor have too.
unsigned fraction_bits(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 23;
    case DType::kF16:
      return 10;
    case DType::kBF16:
      return 7;
    default:
      return kFractionBits;
  }
}

void fill_in(RecordError& error, DType dtype, UnknownNumbers& unknown) {
  const unsigned n_bits = fraction_bits(dtype);
  error.rmse = unknown.number(kFractionBits);
  // The difference of two values has few bits more than they have.
  error.max_abs_error = unknown.number(std::min(n_bits + 9, kFractionBits));
  if (!error.quality) return;
  error.quality->rms = unknown.number(kFractionBits);
  error.quality->min = unknown.number(n_bits);
  error.quality->max = unknown.number(n_bits);
}

void fill_in(Index& index) {
  UnknownNumbers unknown;
  for (StoredRecord& stored : index.records) {
    stored.record.digest = unknown.digest();
    if (stored.record.error) fill_in(*stored.record.error, stored.record.dtype, unknown);
  }
  for (PackEntry& pack : index.packs) pack.hash = unknown.hash();
  for (ChunkEntry& chunk : index.chunks) chunk.hash = unknown.hash();
}

}  // namespace

Result<std::uint64_t> file_bytes_of(RecordLayout& layout, const MetadataFrame& metadata) {
  fill_in(layout.index());
  CFCK_TRY_ASSIGN(const std::vector<std::byte> metadata_frame, encode_metadata(metadata));
  CFCK_TRY_ASSIGN(std::vector<std::byte> tables, encode_index(layout.index()));
  const std::uint64_t plain_bytes = tables.size();
  CFCK_TRY_ASSIGN(const IndexFrame index, compress_index(std::move(tables)));
  std::uint64_t index_bytes = index.bytes.size();
  if (index.required_features != 0) {
    // Writers compress an index only where it gets shorter.
    index_bytes = std::min(index_bytes + index_bytes / kSpareDivisor + kSpareBytes, plain_bytes);
  }
  return layout.offset_bytes() + metadata_frame.size() + index_bytes + kTailBytes;
}

Result<void> lay_out(RecordLayout& layout, std::uint32_t record, const encode::EncodePlan& plan,
                     const encode::RecordSize& size) {
  const ChunkGeometry& geometry = plan.geometry;
  Record& entry = layout.index().records[record].record;
  entry.codec = size.codec;
  if (size.has_errors) {
    entry.error.emplace();
    if (plan.has_step || plan.choice.needs_step()) {
      entry.error->quality.emplace();
    }
  }
  if (size.has_base) {
    entry.base_digest.emplace();
  }
  const bool is_raw = size.codec == CodecId::kRaw;
  std::vector<std::byte> zeros;
  const auto blank = [&](std::uint64_t n_bytes) {
    zeros.resize(std::max<std::size_t>(zeros.size(), n_bytes));
    return ByteView(zeros).first(n_bytes);
  };
  const std::uint64_t first_bytes = is_raw ? geometry.n_bytes : size.payload_bytes.front();
  if (is_packed(geometry, first_bytes)) {
    return layout.add_packed(record, blank(first_bytes));
  }
  CFCK_TRY(layout.begin_chunked(record, blank(size.preamble_bytes)));
  for (std::uint64_t chunk = 0; chunk < geometry.n_chunks; ++chunk) {
    if (!is_raw) {
      CFCK_TRY(layout.add_chunk(blank(kFrameHeaderBytes + size.payload_bytes[chunk]), 0));
    } else if (starts_raw_frame(geometry, chunk)) {
      FrameBytes values(geometry.bytes_of(chunk));
      CFCK_TRY(layout.add_first_raw_chunk(geometry, chunk, values));
    } else {
      CFCK_TRY(layout.add_chunk(blank(geometry.bytes_of(chunk)), 0));
    }
  }
  return {};
}

}  // namespace cfck::format

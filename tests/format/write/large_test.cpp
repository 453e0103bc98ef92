// Records above 4 GiB, without the memory or the disk for them: values come from a short period,
// and written bytes are kept once for each different write.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/hashing/hashing.hpp"
#include "format/container/container.hpp"
#include "format/read/reader_access.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class PeriodicSource final : public ByteSource {
 public:
  PeriodicSource(Bytes period, std::uint64_t n_bytes)
      : period_(std::move(period)), n_bytes_(n_bytes) {}
  std::uint64_t size() const override { return n_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    if (offset_bytes > n_bytes_ || out.size() > n_bytes_ - offset_bytes) {
      return Error{ErrorCode::kTruncated, "read beyond the end", {}, offset_bytes};
    }
    while (!out.empty()) {
      const std::size_t place = offset_bytes % period_.size();
      const std::size_t n = std::min(out.size(), period_.size() - place);
      std::memcpy(out.data(), period_.data() + place, n);
      out = out.subspan(n);
      offset_bytes += n;
    }
    return {};
  }

 private:
  const Bytes period_;
  const std::uint64_t n_bytes_;
};

// A file of many equal pieces, each in memory once.
class FoldedFile final : public ByteSink, public ByteSource {
 public:
  Result<void> write(ByteView bytes) override {
    std::shared_ptr<const Bytes>& piece = pieces_[hash128(bytes)];
    if (!piece) {
      piece = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
      kept_bytes_ += bytes.size();
    }
    starts_.push_back(n_bytes_);
    order_.push_back(piece.get());
    n_bytes_ += bytes.size();
    return {};
  }
  std::uint64_t size() const override { return n_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    if (offset_bytes > n_bytes_ || out.size() > n_bytes_ - offset_bytes) {
      return Error{ErrorCode::kTruncated, "read beyond the end", {}, offset_bytes};
    }
    auto number = static_cast<std::size_t>(
        std::upper_bound(starts_.begin(), starts_.end(), offset_bytes) - starts_.begin() - 1);
    for (; !out.empty(); ++number) {
      const std::uint64_t place = offset_bytes - starts_[number];
      const std::size_t n = std::min<std::size_t>(out.size(), order_[number]->size() - place);
      std::memcpy(out.data(), order_[number]->data() + place, n);
      out = out.subspan(n);
      offset_bytes += n;
    }
    return {};
  }
  std::uint64_t kept_bytes() const { return kept_bytes_; }

 private:
  std::map<Digest, std::shared_ptr<const Bytes>> pieces_;
  std::vector<std::uint64_t> starts_;
  std::vector<const Bytes*> order_;
  std::uint64_t n_bytes_ = 0;
  std::uint64_t kept_bytes_ = 0;
};

void write_one(FoldedFile& file, DType dtype, std::uint64_t n, const ByteSource& values,
               CodecChoice codec) {
  EncodeOptions options;
  options.codec = codec;
  options.chunk_elems = 1 << 18;
  Writer writer = take(Writer::create(file, options));
  expect_ok(writer.add("before", TensorSource{DType::kU8, {100}, &values, 3}));
  expect_ok(writer.add("large", TensorSource{dtype, {n}, &values, 0}));
  expect_ok(writer.add("after", TensorSource{DType::kU8, {100}, &values, 5}));
  const WriteSummary summary = take(writer.finish());
  EXPECT_EQ(summary.file_bytes, file.size());
}

// Elements around every place where 32 bits could have been used.
void expect_elements(const Reader& reader, const ByteSource& values) {
  const Record& record = *reader.find("large");
  const std::uint64_t elem_bytes = record.decoded_bytes / record.n_elems;
  for (const std::uint64_t place :
       {std::uint64_t{1000}, 2 * kGiB, 4 * kGiB - (std::uint64_t{1} << 18), 4 * kGiB,
        record.decoded_bytes - 1000 * elem_bytes}) {
    const std::uint64_t first = place / elem_bytes - 100;
    Bytes expected(300 * elem_bytes);
    Bytes found(expected.size());
    expect_ok(values.read_at(first * elem_bytes, expected));
    expect_ok(reader.read_elements(record, first, 300, found));
    EXPECT_EQ(found, expected) << "byte " << place;
  }
}

TEST(Large, ARawRecordTakesSeveralFrames) {
  // Seven chunks of 2^18: no multiple of it is near 2^32.
  const PeriodicSource values(noise(1, 7 << 18), 5 * kGiB + 12345);
  FoldedFile file;
  write_one(file, DType::kU8, values.size(), values, CodecChoice::kRaw);
  EXPECT_LT(file.kept_bytes(), 16U << 20);
  const Reader reader = take(Reader::open(file));
  const Record& record = *reader.find("large");
  EXPECT_EQ(record.decoded_bytes, values.size());
  EXPECT_LT(record.stored_bytes, values.size() + 2 * (12 + 63));
  const format::Index& index = ReaderAccess::index(reader);
  const format::StoredRecord& stored = index.records[1];
  // Each frame but the last holds the most chunks that fit below 2^32 bytes.
  const std::uint64_t second = 16383;
  EXPECT_EQ(format::raw_chunks_per_frame(std::uint64_t{1} << 18), second);
  std::uint64_t offset = stored.offset_bytes;
  for (std::uint64_t i = 0; i < second; ++i) {
    offset += index.chunks[stored.first_chunk + i].n_bytes;
  }
  std::byte start[12];
  expect_ok(file.read_at(offset, start));
  EXPECT_EQ(std::memcmp(start + 8, "RAWD", 4), 0);
  EXPECT_GT(index.chunks[stored.first_chunk + second].n_bytes, 1U << 18);
  expect_elements(reader, values);
  Bytes small(100);
  Bytes expected(100);
  expect_ok(reader.read(*reader.find("after"), small));
  expect_ok(values.read_at(5, expected));
  EXPECT_EQ(small, expected);
}

TEST(LargeLong, ALosslessRecordComesBackWhole) {
  const PeriodicSource values(weights(2, 5 << 18), 6 * kGiB);
  FoldedFile file;
  write_one(file, DType::kF32, values.size() / 4, values, CodecChoice::kAuto);
  EXPECT_LT(file.kept_bytes(), 16U << 20);
  const Reader reader = take(Reader::open(file));
  EXPECT_EQ(reader.find("large")->codec, CodecId::kLossless);
  EXPECT_LT(reader.file_bytes(), values.size());
  expect_elements(reader, values);
  expect_sound(reader);
}

TEST(LargeLong, TenGigabytesOfZerosAreLegitimate) {
  const PeriodicSource values(constant(0, 1 << 20), 10 * kGiB);
  FoldedFile file;
  write_one(file, DType::kBF16, values.size() / 2, values, CodecChoice::kAuto);
  const Reader reader = take(Reader::open(file));
  EXPECT_LT(reader.file_bytes(), 20U << 20);
  expect_elements(reader, values);
  expect_sound(reader);
}

TEST(LargeLong, AutoWritesWhatDoesNotShrinkRaw) {
  const PeriodicSource values(noise(3, 3 << 20), 4 * kGiB + 4096);
  FoldedFile file;
  write_one(file, DType::kF32, values.size() / 4, values, CodecChoice::kAuto);
  const Reader reader = take(Reader::open(file));
  EXPECT_EQ(reader.find("large")->codec, CodecId::kRaw);
  expect_elements(reader, values);
  expect_sound(reader);
}

}  // namespace
}  // namespace cfck::test

// Tensors of an archive that decodes small chunks, written one after another.
#include "interop/stream/tensor_stream.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "model/listed_archive.hpp"

namespace cfck::test {
namespace {

using interop::StreamedTensor;

constexpr std::uint64_t kMaxBytes = 64'000'000;

// Tensors of F32 zeros that are nowhere, in chunks of 8 elements; counts how often they are read.
class ClaimedArchive final : public model::ListedArchive {
 public:
  explicit ClaimedArchive(const std::vector<std::uint64_t>& lengths) {
    files_.push_back({"claims", "claims", 1000, kMaxBytes, nullptr, nullptr});
    for (const std::uint64_t length : lengths) {
      ArchiveTensor tensor;
      tensor.name = std::to_string(tensors_.size());
      tensor.dtype = DType::kF32;
      tensor.shape = {length};
      tensor.n_bytes = 4 * length;
      tensor.chunk_elems = 8;
      tensors_.push_back(std::move(tensor));
    }
    EXPECT_TRUE(finish_list());
  }

  Result<void> read_many(std::span<const ArchiveRead> reads,
                         const ReadProgress& progress) const override {
    for (const ArchiveRead& read : reads) {
      ++n_reads;
      if (progress && !progress(read.out.size(), read.tensor->name)) return cancelled();
    }
    return {};
  }
  Result<void> read_elements(const ArchiveTensor&, std::uint64_t first_elem, std::uint64_t n_elems,
                             MutableBytes out) const override {
    ++n_reads;
    EXPECT_EQ(first_elem % 8, 0U);
    EXPECT_EQ(out.size(), 4 * n_elems);
    return {};
  }
  Result<void> read_slice(const ArchiveTensor&, std::span<const std::uint64_t>,
                          std::span<const std::uint64_t>, MutableBytes) const override {
    return internal_error("not called");
  }

  mutable std::atomic<unsigned> n_reads = 0;
};

class CountingSink final : public ByteSink {
 public:
  Result<void> write(ByteView bytes) override {
    n_bytes += bytes.size();
    return {};
  }
  std::uint64_t n_bytes = 0;
};

Result<void> write_all(const ClaimedArchive& archive, CountingSink& sink,
                       const ReadProgress& progress = {}, unsigned threads = 2) {
  std::vector<StreamedTensor> tensors;
  for (const ArchiveTensor& tensor : archive.tensors()) tensors.push_back({&tensor, {}});
  return interop::write_tensors(archive, tensors, {}, sink, progress, threads);
}

TEST(TensorStream, SmallChunksAreReadTogether) {
  const ClaimedArchive archive({4'000'004});
  CountingSink sink;
  ASSERT_TRUE(write_all(archive, sink));
  EXPECT_EQ(sink.n_bytes, 16'000'016U);
  EXPECT_LE(archive.n_reads, 16U);
}

TEST(TensorStream, TheLimitHoldsForEachTensorAndForAllOfAFile) {
  for (const auto& lengths :
       std::vector<std::vector<std::uint64_t>>{{16'000'001}, {8'000'000, 8'000'001}}) {
    const ClaimedArchive archive(lengths);
    CountingSink sink;
    const auto written = write_all(archive, sink);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::kLimitExceeded);
    EXPECT_NE(written.error().message.find("max_decoded_bytes"), std::string::npos);
    EXPECT_EQ(sink.n_bytes, 0U);
    EXPECT_EQ(archive.n_reads, 0U);
  }
}

// Many small tensors are one job, in which nothing is written. With two threads the other one may
// do it, which asks nobody.
TEST(TensorStream, AJobEndsWhenItIsCancelled) {
  const ClaimedArchive archive(std::vector<std::uint64_t>(20'000, 8));
  CountingSink sink;
  unsigned n_calls = 0;
  const auto stop = [&](std::uint64_t, std::string_view) { return ++n_calls < 10; };
  const auto written = write_all(archive, sink, stop, 1);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(n_calls, 10U);
  EXPECT_EQ(archive.n_reads, 10U);
}

}  // namespace
}  // namespace cfck::test

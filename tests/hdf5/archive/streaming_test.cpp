// Large files are written piece by piece.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "tests/support/sanitizer.hpp"

namespace cfck::test {
namespace {

constexpr std::uint64_t kTensorBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kTensors = 10;

// Bytes that follow from their place, so that none of them are in memory.
void fill(std::uint64_t offset_bytes, MutableBytes out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>((offset_bytes + i) * 0x9E3779B97F4A7C15ULL >> 56);
  }
}

class Generated final : public ByteSource {
 public:
  std::uint64_t size() const override { return kTensorBytes; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    fill(offset_bytes, out);
    return {};
  }
};

// Keeps what comes between tensors, and counts the rest.
class Discarding final : public ByteSink {
 public:
  Result<void> write(ByteView bytes) override {
    n_bytes += bytes.size();
    largest = std::max<std::uint64_t>(largest, bytes.size());
    return {};
  }
  std::uint64_t n_bytes = 0;
  std::uint64_t largest = 0;
};

std::uint64_t peak_kib() {
  struct rusage used {};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_maxrss);
}

TEST(Hdf5Streaming, MemoryDoesNotGrowWithTheFile) {
  const Generated source;
  Discarding sink;
  EncodeOptions options;
  options.threads = 2;
  auto writer = hdf5::create(sink, options);
  ASSERT_TRUE(writer.has_value());
  for (std::uint64_t i = 0; i < kTensors; ++i) {
    ASSERT_TRUE((*writer)->add("layers/" + std::to_string(i),
                               TensorSource{DType::kF32, {kTensorBytes / 4}, &source, 0}));
  }
  const std::uint64_t before = peak_kib();
  const auto summary = (*writer)->finish();
  ASSERT_TRUE(summary.has_value()) << summary.error().to_string();
  EXPECT_EQ(summary->file_bytes, sink.n_bytes);
  EXPECT_GT(sink.n_bytes, kTensors * kTensorBytes);
  EXPECT_LT(sink.n_bytes, kTensors * kTensorBytes + 20000);
  EXPECT_LT(sink.largest, std::uint64_t{4} << 20);
#if !defined(CFCK_ADDRESS_SANITIZER) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(peak_kib() - before, 64U << 10);
#endif
}

}  // namespace
}  // namespace cfck::test

// Maximum errors of values and in circumstances that are unusual.
#include <atomic>
#include <cfenv>
#include <cmath>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "tests/support/bounded_tensors.hpp"

namespace cfck::test {
namespace {

TEST(BoundsExtremes, ValuesWithoutARange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const BoundKind kind : {BoundKind::kRel, BoundKind::kSigma}) {
    for (const bool per_row : {false, true}) {
      EncodeOptions options;
      const TensorOptions rule = kind == BoundKind::kRel
                                     ? TensorOptions{.max_rel_error = 1e-3, .per_row = per_row}
                                     : TensorOptions{.max_sigma_error = 1e-3, .per_row = per_row};
      options.rules = {{"*", rule, /*force=*/true}};
      const std::vector<Named> tensors = {
          {"constant", {64, 64}, bytes_from(std::vector<float>(4096, 0.3F))},
          {"zeros", {4096}, bytes_from(std::vector<float>(4096, 0))},
          {"nan", {64, 64}, bytes_from(std::vector<float>(4096, nan))},
          {"infinite", {64, 64}, bytes_from(std::vector<float>(4096, infinity))},
          {"scalar", {}, bytes_from({2.5F})},
          {"none", {3, 0}, {}},
      };
      const Written written = write_all(tensors, options);
      const OpenFile file(written.file);
      for (const Named& tensor : tensors) {
        EXPECT_EQ(file.tensor(tensor.name), tensor.bytes) << tensor.name;
        EXPECT_FALSE(file.record(tensor.name).error) << tensor.name;
      }
      EXPECT_EQ(reasons(written.summary).at("constant"), "constant");
      EXPECT_EQ(reasons(written.summary).at("nan"), "constant");
      EXPECT_EQ(reasons(written.summary).at("scalar"), "constant");
      EXPECT_FALSE(reasons(written.summary).contains("none"));
    }
  }
}

TEST(BoundsExtremes, RangesThatOverflowOrVanish) {
  std::vector<double> huge(4096), minute(4096);
  Random random(50);
  for (std::size_t i = 0; i < huge.size(); ++i) {
    const double unit = static_cast<double>(random.next() >> 11) * 0x1p-52 - 1;
    huge[i] = unit * std::numeric_limits<double>::max();
    minute[i] = unit * 0x1p-1060;
  }
  const auto bytes_from_doubles = [](const std::vector<double>& values) {
    const auto* first = reinterpret_cast<const std::byte*>(values.data());
    return Bytes(first, first + values.size() * sizeof(double));
  };
  for (const BoundKind kind : {BoundKind::kRel, BoundKind::kSigma}) {
    EncodeOptions options;
    (kind == BoundKind::kRel ? options.max_rel_error : options.max_sigma_error) = 1e-4;
    const Written written =
        write_all({{"huge", {64, 64}, bytes_from_doubles(huge), DType::kF64},
                   {"minute", {64, 64}, bytes_from_doubles(minute), DType::kF64}},
                  options);
    const OpenFile file(written.file);
    ASSERT_TRUE(file.record("huge").error);
    EXPECT_LE(file.record("huge").error->rmse, file.record("huge").error->max_abs_error);
    const std::vector<double> back = values_of<double>(file.tensor("huge"));
    const double most = 1e-4 * (kind == BoundKind::kRel ? 2 : 1);
    for (std::size_t i = 0; i < huge.size(); ++i) {
      EXPECT_LE(std::fabs(huge[i] / 2 - back[i] / 2),
                most * std::numeric_limits<double>::max() / 2);
    }
    EXPECT_EQ(reasons(written.summary),
              (std::map<std::string, std::string>{{"minute", "constant"}}));
    EXPECT_EQ(file.tensor("minute"), bytes_from_doubles(minute));
  }
}

TEST(BoundsExtremes, BelowTheResolutionOfTheDtypeNothingIsLost) {
  const Bytes bytes = bytes_from(bell(60, 64 * 64, 0.1));
  const Written written = write_all({{"w", {64, 64}, bytes}}, abs_options(1e-15));
  EXPECT_EQ(reasons(written.summary), (std::map<std::string, std::string>{{"w", "not_smaller"}}));
  EXPECT_EQ(OpenFile(written.file).tensor("w"), bytes);
  // The exception is that direct is asked for: then the bound is kept, whatever it takes.
  EncodeOptions options = abs_options(1e-15);
  options.codec = CodecChoice::kDirect;
  const Written forced = write_all({{"w", {64, 64}, bytes}}, options);
  const OpenFile file(forced.file);
  EXPECT_EQ(file.record("w").codec, CodecId::kDirect);
  EXPECT_LE(file.record("w").error->max_abs_error, 1e-15);
  EXPECT_TRUE(forced.summary.kept_lossless.empty());
}

// Rounds up and, where the CPU can, flushes subnormal numbers to zero, as libraries built for speed
// do.
class OddFloatEnvironment {
 public:
  OddFloatEnvironment() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  }
  ~OddFloatEnvironment() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

TEST(BoundsExtremes, TheFloatEnvironmentDoesNotMatter) {
  // All F16 and half of all F32 values are subnormal.
  Random random(70);
  Bytes halves(2 * 65 * 65), floats(4 * 65 * 65);
  for (std::size_t i = 0; i < halves.size(); i += 2) {
    const auto half = static_cast<std::uint16_t>(random.below(0x400) | random.below(2) << 15);
    const auto word = static_cast<std::uint32_t>(random.below(0x1000000));
    std::memcpy(&halves[i], &half, sizeof(half));
    std::memcpy(&floats[2 * i], &word, sizeof(word));
  }
  const std::vector<Named> tensors = {{"halves", {65, 65}, halves, DType::kF16},
                                      {"floats", {65, 65}, floats},
                                      {"weights", {65, 65}, bytes_from(bell(71, 65 * 65, 0.1))}};
  for (const bool per_row : {false, true}) {
    EncodeOptions options;
    options.rules = {{"halves", {.max_abs_error = 1e-6}},
                     {"floats", {.max_abs_error = 0x1p-140}},
                     {"*", {.max_sigma_error = 1e-3, .per_row = per_row}}};
    options.chunk_elems = 650;
    for (const unsigned threads : {1U, 3U}) {
      options.threads = threads;
      const Bytes expected = write_all(tensors, options).file;
      const OpenFile file(expected);
      const std::map<std::string, Bytes> decoded = all_tensors(file.reader());
      const OddFloatEnvironment odd;
      EXPECT_TRUE(write_all(tensors, options).file == expected);
      EXPECT_TRUE(all_tensors(file.reader()) == decoded);
      EXPECT_EQ(std::fegetround(), FE_UPWARD);
    }
  }
}

TEST(BoundsExtremes, ChunksThatAreSmallerThanKernels) {
  EncodeOptions options = abs_options(1e-3);
  options.codec = CodecChoice::kDirect;
  const std::vector<float> values = bell(72, 16 * 8 * 49, 0.1);
  for (const std::uint32_t chunk_elems : {1U, 8U, 48U, 56U}) {
    options.chunk_elems = chunk_elems;
    const OpenFile file(write_all({{"w", {16, 8, 7, 7}, bytes_from(values)}}, options).file);
    EXPECT_EQ(file.record("w").chunk_elems, chunk_elems);
    EXPECT_TRUE(file.record("w").error);
    EXPECT_LE(largest_error(values, values_of<float>(file.tensor("w"))), 1e-3);
    expect_sound(file.reader());
  }
}

TEST(BoundsExtremes, RowsOfOneOrTwoValues) {
  const std::vector<float> values = bell(73, 6000, 0.1);
  for (const BoundKind kind : {BoundKind::kRel, BoundKind::kSigma}) {
    EncodeOptions options;
    (kind == BoundKind::kRel ? options.max_rel_error : options.max_sigma_error) = 0.25;
    options.per_row = true;
    options.chunk_elems = 1001;
    const Written written = write_all(
        {{"one", {6000, 1}, bytes_from(values)}, {"two", {3000, 2}, bytes_from(values)}}, options);
    const OpenFile file(written.file);
    EXPECT_EQ(reasons(written.summary).at("one"), "constant");
    EXPECT_EQ(file.tensor("one"), bytes_from(values));
    ASSERT_TRUE(file.record("two").error);
    const std::vector<float> back = values_of<float>(file.tensor("two"));
    for (std::size_t i = 0; i < values.size(); i += 2) {
      const double range = std::fabs(static_cast<double>(values[i]) - values[i + 1]);
      const double allowed = 0.25 * (kind == BoundKind::kRel ? range : range / 2);
      EXPECT_LE(std::fabs(static_cast<double>(values[i]) - back[i]), allowed);
      EXPECT_LE(std::fabs(static_cast<double>(values[i + 1]) - back[i + 1]), allowed);
    }
  }
}

TEST(BoundsExtremes, ScalarsAndVectorsThatARuleNames) {
  EncodeOptions options;
  options.rules = {{"*", {.codec = CodecChoice::kDirect, .max_abs_error = 0.5}, true}};
  const std::vector<float> values = bell(74, 300000, 8);
  const OpenFile file(
      write_all({{"scalar", {}, bytes_from({0.3F})}, {"vector", {300000}, bytes_from(values)}},
                options)
          .file);
  EXPECT_EQ(file.record("scalar").codec, CodecId::kDirect);
  EXPECT_LE(std::fabs(values_of<float>(file.tensor("scalar"))[0] - 0.3F), 0.5F);
  EXPECT_GT(file.record("vector").n_chunks, 1U);
  EXPECT_LE(largest_error(values, values_of<float>(file.tensor("vector"))), 0.5);
  EXPECT_GT(largest_error(values, values_of<float>(file.tensor("vector"))), 0.4);
}

// Fails at read number `last_read`, counted from 0.
class FailingSource final : public ByteSource {
 public:
  FailingSource(const Bytes& bytes, int last_read) : bytes_(bytes), left_(last_read) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    if (left_.fetch_sub(1) <= 0) {
      return Error{ErrorCode::kIo, "the disk is gone", {}, {}};
    }
    std::memcpy(out.data(), bytes_.data() + offset_bytes, out.size());
    return {};
  }

 private:
  const Bytes& bytes_;
  mutable std::atomic<int> left_;
};

// Reads for bounds and plans, of one chunk and of several, and those of the chunks.
TEST(BoundsExtremes, SourcesThatFailAreNamed) {
  const Bytes bytes = bytes_from(bell(75, 64 * 300, 0.1));
  for (const std::uint32_t chunk_elems : {0U, 3000U}) {
    EncodeOptions options;
    options.max_sigma_error = 1e-2;
    options.chunk_elems = chunk_elems;
    int n_failed = 0;
    while (true) {
      const FailingSource source(bytes, n_failed);
      MemorySink sink;
      Writer writer = take(Writer::create(sink, options));
      Result<void> added = writer.add("w", TensorSource{DType::kF32, {64, 300}, &source, 0});
      const Result<WriteSummary> finished = writer.finish();
      if (finished) {
        break;
      }
      EXPECT_EQ(finished.error().code, ErrorCode::kIo);
      EXPECT_EQ(finished.error().record, "w");
      ++n_failed;
      ASSERT_LT(n_failed, 100);
    }
    EXPECT_GT(n_failed, chunk_elems == 0 ? 2 : 14);
  }
}

TEST(BoundsExtremes, PlanningCanBeCancelled) {
  const Bytes bytes = bytes_from(bell(76, 64 * 300, 0.1));
  EncodeOptions options;
  options.max_rel_error = 1e-2;
  options.chunk_elems = 3000;
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  int n_calls = 0;
  writer.set_progress([&](std::uint64_t done_bytes, std::string_view name) {
    EXPECT_EQ(done_bytes, 0U);
    EXPECT_EQ(name, "w");
    return ++n_calls < 3;
  });
  const Result<void> added = writer.add("w", TensorView{DType::kF32, {64, 300}, bytes});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(added.error().message, "cancelled");
  EXPECT_EQ(n_calls, 3);
  EXPECT_FALSE(writer.finish());
  EXPECT_EQ(sink.take().size(), 16U);  // the head
}

}  // namespace
}  // namespace cfck::test

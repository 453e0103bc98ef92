// Archives that are written in every format, from every format.
#include "cfck/archive_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "cfck/cfck.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck {
namespace {

using test::Bytes;
using test::take;

constexpr std::string_view kFormats[] = {"cfck", "safetensors"};

std::unique_ptr<TensorArchive> open_bytes(const Bytes& bytes) {
  return take(TensorArchive::open(std::make_unique<OwnedMemorySource>(bytes)));
}

Bytes write(std::string_view format, const std::function<void(ArchiveWriter&)>& fill) {
  MemorySink sink;
  const auto writer = take(ArchiveWriter::create(format, sink));
  fill(*writer);
  const ArchiveSummary summary = take(writer->finish());
  EXPECT_EQ(summary.file_bytes, sink.bytes().size());
  return sink.take();
}

Bytes converted(const Bytes& bytes, std::string_view format) {
  const auto archive = open_bytes(bytes);
  return write(format,
               [&](ArchiveWriter& writer) { test::expect_ok(writer.add_archive(*archive)); });
}

// Tensors of several dtypes and sizes, one of them empty, one tied.
class Written : public ::testing::Test {
 protected:
  Bytes write_all(std::string_view format) {
    return write(format, [&](ArchiveWriter& writer) {
      test::expect_ok(writer.set_metadata("key", "value"));
      test::expect_ok(writer.add("w", TensorView{DType::kF32, {30, 100}, weights_}));
      test::expect_ok(writer.add("b", TensorView{DType::kU8, {77}, noise_}));
      test::expect_ok(writer.add("none", TensorView{DType::kF16, {0, 5}, {}}));
      test::expect_ok(writer.add("part", TensorSource{DType::kI16, {4, 5}, &source_, 7}));
      EXPECT_TRUE(take(writer.tie("w.tied", "w")));
    });
  }

  Bytes weights_ = test::weights(3, 3000);
  Bytes noise_ = test::noise(4, 77);
  MemorySource source_{noise_};
};

void expect_same(const TensorArchive& a, const TensorArchive& b) {
  EXPECT_EQ(a.metadata().at("key"), b.metadata().at("key"));
  for (const ArchiveTensor& tensor : a.tensors()) {
    const ArchiveTensor* const other = b.find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(tensor.dtype, other->dtype);
    EXPECT_EQ(tensor.shape, other->shape);
    Bytes left(tensor.n_bytes);
    Bytes right(other->n_bytes);
    test::expect_ok(a.read(tensor, left));
    test::expect_ok(b.read(*other, right));
    EXPECT_EQ(left, right) << tensor.name;
    // Ties stay ties, whichever of the two names is the first.
    if (tensor.sharing == Sharing::kMemory) {
      const ArchiveTensor& base = *b.find(a.tensors()[tensor.base].name);
      EXPECT_TRUE(other->base == base.index || base.base == other->index) << tensor.name;
    }
  }
}

TEST_F(Written, EveryFormatHoldsTheSame) {
  for (const std::string_view format : kFormats) {
    SCOPED_TRACE(format);
    const auto archive = open_bytes(write_all(format));
    EXPECT_EQ(archive->files().front().format, format);
    ASSERT_EQ(archive->tensors().size(), 5U);
    Bytes bytes(40);
    test::expect_ok(archive->read(*archive->find("part"), bytes));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), noise_.begin() + 7));
    EXPECT_EQ(archive->find("w.tied")->sharing, Sharing::kMemory);
  }
}

TEST_F(Written, EveryFormatIsConvertedToEveryOther) {
  for (const std::string_view from : kFormats) {
    for (const std::string_view to : kFormats) {
      SCOPED_TRACE(std::string(from) + " to " + std::string(to));
      const Bytes original = write_all(from);
      const Bytes other = converted(original, to);
      expect_same(*open_bytes(original), *open_bytes(other));
      expect_same(*open_bytes(other), *open_bytes(original));
    }
  }
}

TEST_F(Written, TheWayBackIsByteForByte) {
  const Bytes original = write_all("safetensors");
  EXPECT_EQ(converted(original, "safetensors"), original);
  EXPECT_EQ(converted(converted(original, "cfck"), "safetensors"), original);
  EXPECT_EQ(converted(converted(converted(original, "cfck"), "cfck"), "safetensors"), original);
}

TEST_F(Written, ViewsOfOneTensorStayViews) {
  const Bytes file = test::write_file([&](Writer& writer) {
    test::expect_ok(writer.set_metadata("key", "value"));
    test::expect_ok(writer.add("w", TensorView{DType::kF32, {30, 100}, weights_}));
    const std::uint64_t strides[] = {1, 100};
    test::expect_ok(writer.add_alias("w.t", "w", 0, {100, 30}, strides));
  });
  const auto archive = open_bytes(converted(file, "cfck"));
  EXPECT_EQ(archive->find("w.t")->sharing, Sharing::kMemory);
  EXPECT_EQ(archive->find("w.t")->strides, (std::vector<std::uint64_t>{1, 100}));
  expect_same(*open_bytes(file), *archive);
}

TEST_F(Written, WhatAPartialViewSharesStaysLossless) {
  const Bytes other = test::weights(5, 3000);
  const Bytes file = test::write_file([&](Writer& writer) {
    test::expect_ok(writer.set_metadata("key", "value"));
    test::expect_ok(writer.add("w", TensorView{DType::kF32, {30, 100}, weights_}));
    const std::uint64_t strides[] = {100, 1};
    test::expect_ok(writer.add_alias("w.part", "w", 0, {15, 100}, strides));
    test::expect_ok(writer.add("v", TensorView{DType::kF32, {30, 100}, other}));
    test::expect_ok(writer.add_alias("v.whole", "v", 0, {30, 100}, strides));
  });
  const auto archive = open_bytes(file);
  EncodeOptions options[3];
  options[0].max_abs_error = 0.01;
  options[1].bits_per_weight = 4;
  options[2].rules.push_back({"w", {.max_abs_error = 0.01}});
  options[2].rules.push_back({"v*", {.max_abs_error = 0.01}});
  for (const EncodeOptions& lossy : options) {
    MemorySink sink;
    const auto writer = take(ArchiveWriter::create("cfck", sink, lossy));
    test::expect_ok(writer->add_archive(*archive));
    const ArchiveSummary summary = take(writer->finish());
    std::map<std::string, LosslessReason> kept;
    for (const KeptLossless& tensor : summary.kept_lossless) kept[tensor.name] = tensor.reason;
    EXPECT_EQ(kept.at("w"), LosslessReason::kSharedMemory);
    EXPECT_EQ(summary.lossy.size(), 2U);  // "v" and "v.whole"
    const auto copy = open_bytes(sink.bytes());
    EXPECT_EQ(copy->find("w.part")->base, copy->find("w")->index);
    EXPECT_TRUE(std::ranges::equal(take(copy->read("w")).bytes(), weights_));
  }
}

TEST_F(Written, AViewIsNotDecodedBeyondTheLimitsOfItsArchive) {
  for (const bool is_hidden : {false, true}) {
    const Bytes file = test::write_file([&](Writer& writer) {
      const std::uint64_t still[] = {0};
      if (is_hidden) {
        StridedTensor views[2] = {{"x", DType::kF32, {8000}, {0}, weights_.data()},
                                  {"y", DType::kF32, {2999}, {1}, weights_.data()}};
        test::expect_ok(writer.add_tensors(views));
      } else {
        test::expect_ok(writer.add("w", TensorView{DType::kF32, {30, 100}, weights_}));
        test::expect_ok(writer.add_alias("x", "w", 0, {8000}, still));
      }
    });
    for (const std::uint64_t limit : {31'999, 32'000}) {
      ArchiveOptions options;
      options.decode.limits.max_decoded_bytes = limit;
      const auto archive =
          take(TensorArchive::open(std::make_unique<OwnedMemorySource>(file), options));
      MemorySink sink;
      const auto writer = take(ArchiveWriter::create("cfck", sink));
      const Result<void> added = writer->add_archive(*archive);
      EXPECT_EQ(added.has_value(), limit == 32'000);
      if (added) {
        take(writer->finish());
      } else {
        EXPECT_EQ(added.error().code, ErrorCode::kLimitExceeded);
        EXPECT_EQ(added.error().record, "x");
      }
    }
  }
}

TEST_F(Written, SeveralFilesAreFinishedTogether) {
  std::vector<MemorySink> sinks(3);
  std::vector<std::unique_ptr<ArchiveWriter>> writers;
  std::vector<ArchiveWriter*> all;
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    EncodeOptions options;
    if (i != 1) options.nmse = 1e-3;
    writers.push_back(take(ArchiveWriter::create(kFormats[i % 2], sinks[i], options)));
    test::expect_ok(writers[i]->add("w", TensorView{DType::kF32, {30, 100}, weights_}));
    all.push_back(writers[i].get());
  }
  const auto summaries = take(ArchiveWriter::finish_together(all));
  ASSERT_EQ(summaries.size(), 3U);
  EXPECT_EQ(summaries[0].lossy.size(), 1U);
  EXPECT_EQ(summaries[1].lossy.size(), 0U);
  EXPECT_EQ(summaries[0].step, summaries[2].step);
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(open_bytes(sinks[i].bytes())->files().front().format, kFormats[i % 2]);
  }
}

TEST_F(Written, RefusesWhatItCannotWrite) {
  MemorySink sink;
  const auto unknown = ArchiveWriter::create("hdf5", sink);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  for (const std::string_view format : kFormats) {
    SCOPED_TRACE(format);
    const TensorView tensor{DType::kU8, {77}, noise_};
    const auto writer = take(ArchiveWriter::create(format, sink));
    test::expect_ok(writer->add("a", tensor));
    EXPECT_EQ(writer->add("a", tensor).error().code, ErrorCode::kInvalidArgument);
    const auto second = take(ArchiveWriter::create(format, sink));
    EXPECT_EQ(second->add("a", TensorView{DType::kU8, {78}, noise_}).error().code,
              ErrorCode::kInvalidArgument);
  }
}

TEST_F(Written, IsCancelledByProgress) {
  for (const std::string_view format : kFormats) {
    SCOPED_TRACE(format);
    MemorySink sink;
    const auto writer = take(ArchiveWriter::create(format, sink));
    writer->set_progress([](std::uint64_t, std::string_view) { return false; });
    Result<void> added = writer->add("w", TensorView{DType::kF32, {30, 100}, weights_});
    if (added) {
      const auto finished = writer->finish();
      ASSERT_FALSE(finished.has_value());
      added = finished.error();
    }
    EXPECT_NE(added.error().message.find("cancelled"), std::string::npos);
  }
}

}  // namespace
}  // namespace cfck

// Files that are finished together: one target for all of them.
#include <algorithm>
#include <atomic>
#include <memory>

#include "base/numbers/decibels.hpp"
#include "tests/support/measured_models.hpp"

namespace cfck::test {
namespace {

// Zeros except for one value in 64: lossless takes fewer bytes than any step.
Bytes sparse(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; i += 64) values[i] = 0.5F;
  return bytes_from(values);
}

std::vector<Named> model() {
  return {{"conv0", {32, 16, 3, 3}, bytes_from(bell(1, 32 * 16 * 9, 0.05))},
          {"bias", {32}, bytes_from(bell(2, 32, 0.1))},
          {"linear", {300, 200}, bytes_from(bell(4, 300 * 200, 0.03))},
          {"sparse", {128, 256}, sparse(128 * 256)},
          {"zeros", {64, 64}, constant(0, 4 * 4096)},
          {"conv1", {64, 32, 3, 3}, bytes_from(bell(3, 64 * 32 * 9, 0.2))},
          {"ids", {100, 100}, weights(5, 10000), DType::kI32},
          {"long", {350, 500}, bytes_from(bell(6, 350 * 500, 0.1))}};
}

// Every file but the last has three tensors, and the one before the last none at all.
std::vector<std::vector<Named>> shards_of(const std::vector<Named>& tensors) {
  std::vector<std::vector<Named>> shards(1);
  for (const Named& tensor : tensors) {
    if (shards.back().size() == 3) shards.emplace_back();
    shards.back().push_back(tensor);
  }
  shards.insert(shards.end() - 1, std::vector<Named>());
  return shards;
}

// Writers, and their sinks.
struct Shards {
  Shards(std::vector<std::vector<Named>> of_shards, const EncodeOptions& options)
      : tensors(std::move(of_shards)) {
    for (const std::vector<Named>& of_shard : tensors) {
      sinks.push_back(std::make_unique<MemorySink>());
      writers.push_back(take(Writer::create(*sinks.back(), options)));
      for (const Named& tensor : of_shard) {
        expect_ok(
            writers.back().add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes}));
      }
    }
  }
  Result<std::vector<WriteSummary>> finish() {
    std::vector<Writer*> pointers;
    for (Writer& writer : writers) pointers.push_back(&writer);
    return finish_together(pointers);
  }
  std::vector<Bytes> files() const {
    std::vector<Bytes> bytes;
    for (const auto& sink : sinks) bytes.push_back(sink->bytes());
    return bytes;
  }

  const std::vector<std::vector<Named>> tensors;
  std::vector<std::unique_ptr<MemorySink>> sinks;
  std::vector<Writer> writers;
};

struct Outcome {
  std::vector<Bytes> files;
  std::vector<WriteSummary> summaries;
};

Outcome written(const std::vector<std::vector<Named>>& tensors, const EncodeOptions& options) {
  Shards shards(tensors, options);
  Outcome outcome;
  outcome.summaries = take(shards.finish());
  outcome.files = shards.files();
  return outcome;
}

EncodeOptions with_target(TargetKind kind, double value) {
  EncodeOptions options;
  options.chunk_elems = 1 << 16;
  if (kind == TargetKind::kNmse) options.nmse = value;
  if (kind == TargetKind::kPsnr) options.psnr = value;
  if (kind == TargetKind::kBitsPerWeight) options.bits_per_weight = value;
  if (kind == TargetKind::kSize) options.size = static_cast<std::uint64_t>(value);
  return options;
}

std::map<std::string, Record> records_of(const std::vector<Bytes>& files) {
  std::map<std::string, Record> records;
  for (const Bytes& bytes : files) {
    const OpenFile file(bytes);
    expect_sound(file.reader());
    for (const Record& record : file->records()) records.emplace(record.name, record);
  }
  return records;
}

TEST(Shards, TensorsAreStoredAsInOneFile) {
  const std::vector<Named> tensors = model();
  for (const auto& [kind, value] : {std::pair<TargetKind, double>{TargetKind::kNmse, 0.01},
                                    {TargetKind::kPsnr, 45},
                                    {TargetKind::kBitsPerWeight, 2.5}}) {
    const EncodeOptions options = with_target(kind, value);
    const Written whole = write_all(tensors, options);
    const Outcome shards = written(shards_of(tensors), options);
    ASSERT_EQ(shards.summaries.size(), 4U);
    EXPECT_GT(whole.summary.step, 0);
    for (const WriteSummary& summary : shards.summaries) {
      EXPECT_EQ(summary.step, whole.summary.step);
    }
    const std::map<std::string, Record> expected = records_of({whole.file});
    const std::map<std::string, Record> records = records_of(shards.files);
    ASSERT_EQ(records.size(), tensors.size());
    for (const auto& [name, record] : records) {
      const Record& alone = expected.at(name);
      EXPECT_EQ(record.codec, alone.codec) << name;
      EXPECT_EQ(record.stored_bytes, alone.stored_bytes) << name;
      ASSERT_EQ(record.error.has_value(), alone.error.has_value()) << name;
      if (record.error) {
        EXPECT_EQ(record.error->rmse, alone.error->rmse) << name;
        EXPECT_EQ(record.error->quality->target, (Target{kind, true, value})) << name;
      }
    }
  }
}

TEST(Shards, QualityIsThatOfAllTensorsTogether) {
  const std::vector<Named> tensors = model();
  const Outcome shards = written(shards_of(tensors), with_target(TargetKind::kNmse, 0.01));
  std::map<std::string, Bytes> decoded;
  for (const Bytes& bytes : shards.files) decoded.merge(all_tensors(OpenFile(bytes).reader()));
  double squared_errors = 0;
  double squares = 0;
  for (const Named& tensor : tensors) {
    if (tensor.shape.size() < 2 || tensor.dtype != DType::kF32) continue;
    const std::vector<float> before = values_of<float>(tensor.bytes);
    const std::vector<float> after = values_of<float>(decoded.at(tensor.name));
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double x = before[i];
      squared_errors += (x - after[i]) * (x - after[i]);
      squares += x * x;
    }
  }
  EXPECT_LE(squared_errors / squares, 0.01 * (1 + 1e-12));
  EXPECT_GE(squared_errors / squares, 0.01 * ratio_of_decibels(-0.05));
}

TEST(Shards, SizesAreThoseOfAllFiles) {
  for (const double size : {60'000.0, 150'000.0, 400'000.0}) {
    const Outcome shards = written(shards_of(model()), with_target(TargetKind::kSize, size));
    std::uint64_t n_bytes = 0;
    for (std::size_t i = 0; i < shards.files.size(); ++i) {
      EXPECT_EQ(shards.files[i].size(), shards.summaries[i].file_bytes);
      n_bytes += shards.files[i].size();
    }
    EXPECT_LE(static_cast<double>(n_bytes), size);
    EXPECT_GE(static_cast<double>(n_bytes), 0.995 * size) << size;
  }
}

TEST(Shards, LosslessTensorsThatCountAreNamed) {
  const Outcome shards = written(shards_of(model()), with_target(TargetKind::kNmse, 0.01));
  std::map<std::string, bool> in_target;
  for (const WriteSummary& summary : shards.summaries) {
    for (const KeptLossless& kept : summary.kept_lossless) in_target[kept.name] = kept.in_target;
  }
  EXPECT_EQ(in_target, (std::map<std::string, bool>{
                           {"bias", false}, {"ids", false}, {"sparse", true}, {"zeros", false}}));
}

TEST(Shards, RulesHoldBesideTheTarget) {
  EncodeOptions options = with_target(TargetKind::kSize, 300'000);
  options.rules = {{"long", {.nmse = 1e-3}}, {"conv1", {.codec = CodecChoice::kLossless}}};
  const Outcome shards = written(shards_of(model()), options);
  const std::map<std::string, Record> records = records_of(shards.files);
  EXPECT_EQ(records.at("long").error->quality->target, (Target{TargetKind::kNmse, false, 1e-3}));
  EXPECT_FALSE(records.at("conv1").error);
  EXPECT_EQ(records.at("linear").error->quality->target.kind, TargetKind::kSize);
}

TEST(Shards, CalibrationsAreFollowed) {
  const std::vector<Measured> calibrated = sample_model();
  for (const StepPreset steps : {StepPreset::kCalibrated, StepPreset::kFeedback}) {
    const EncodeOptions options = options_of(calibrated, steps);
    const std::vector<Named> tensors = tensors_of(calibrated);
    const Written whole = write_all(tensors, options);
    const Outcome shards = written({{tensors[0]}, {tensors[1], tensors[2]}}, options);
    EXPECT_EQ(shards.summaries[1].step, whole.summary.step);
    const std::map<std::string, Record> expected = records_of({whole.file});
    for (const auto& [name, record] : records_of(shards.files)) {
      EXPECT_EQ(record.digest, expected.at(name).digest) << name;
    }
  }
}

TEST(Shards, SameBytesForAnyNumberOfThreads) {
  for (const auto& [kind, value] : {std::pair<TargetKind, double>{TargetKind::kSize, 200'000},
                                    {TargetKind::kBitsPerWeight, 3}}) {
    EncodeOptions options = with_target(kind, value);
    options.threads = 1;
    const std::vector<Bytes> one = written(shards_of(model()), options).files;
    for (const unsigned threads : {2U, 5U}) {
      options.threads = threads;
      EXPECT_EQ(written(shards_of(model()), options).files, one);
    }
  }
}

TEST(Shards, OneWriterIsAFile) {
  const EncodeOptions options = with_target(TargetKind::kSize, 200'000);
  EXPECT_EQ(written({model()}, options).files.front(), write_all(model(), options).file);
}

TEST(Shards, WithoutATargetEachIsAFile) {
  const std::vector<std::vector<Named>> tensors = shards_of(model());
  const Outcome shards = written(tensors, {});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(shards.files[i], write_all(tensors[i], {}).file);
  }
  EXPECT_TRUE(take(finish_together({})).empty());
}

TEST(Shards, WhatCannotBeIsRefused) {
  const auto message = [](Shards& shards) {
    const auto finished = shards.finish();
    EXPECT_FALSE(finished);
    if (finished) return std::string();
    EXPECT_EQ(finished.error().code, ErrorCode::kInvalidArgument);
    // None of them can be used afterwards.
    for (Writer& writer : shards.writers) EXPECT_FALSE(writer.finish());
    return finished.error().message;
  };
  Shards small(shards_of(model()), with_target(TargetKind::kSize, 2000));
  EXPECT_NE(message(small).find("size is too small"), std::string::npos);
  Shards few_bits(shards_of(model()), with_target(TargetKind::kBitsPerWeight, 1e-4));
  EXPECT_NE(message(few_bits).find("or more"), std::string::npos);
  Shards finished({model()}, with_target(TargetKind::kNmse, 0.01));
  take(finished.writers.front().finish());
  EXPECT_NE(message(finished).find("is finished"), std::string::npos);
}

TEST(Shards, WritersMustBelongTogether) {
  const std::vector<std::vector<Named>> tensors = {model()};
  Shards one(tensors, with_target(TargetKind::kNmse, 0.01));
  Shards other(tensors, with_target(TargetKind::kNmse, 0.02));
  Shards plain(tensors, {});
  Writer& first = one.writers.front();
  for (Writer* const second : {&first, &other.writers.front(), &plain.writers.front()}) {
    Writer* const pair[] = {&first, second};
    const auto refused = finish_together(pair);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
  // Nothing was begun.
  EXPECT_TRUE(first.finish());
  Writer moved = std::move(other.writers.front());
  EXPECT_FALSE(other.finish());
  EXPECT_TRUE(moved.finish());
}

// Gives twice the values from some read on.
class ChangingSource final : public ByteSource {
 public:
  ChangingSource(const Bytes& bytes, std::uint64_t from) : bytes_(bytes), from_(from) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    CFCK_TRY(MemorySource(bytes_).read_at(offset_bytes, out));
    if (reads_.fetch_add(1) < from_) return {};
    std::vector<float> values(out.size() / sizeof(float));
    std::memcpy(values.data(), out.data(), out.size());
    for (float& value : values) value *= 2;
    std::memcpy(out.data(), values.data(), out.size());
    return {};
  }
  std::uint64_t reads() const { return reads_; }

 private:
  const Bytes bytes_;
  const std::uint64_t from_;
  mutable std::atomic<std::uint64_t> reads_{0};
};

TEST(Shards, TensorsMustStayAsTheyAreUntilTheyAreWritten) {
  const Bytes values = bytes_from(bell(1, 128 * 128, 0.1));
  const auto finished = [&](const ChangingSource& source) {
    EncodeOptions options = with_target(TargetKind::kNmse, 0.01);
    options.threads = 1;
    MemorySink sink;
    Writer writer = take(Writer::create(sink, options));
    expect_ok(writer.add("w", TensorSource{DType::kF32, {128, 128}, &source, 0}));
    return writer.finish();
  };
  const ChangingSource quiet(values, ~std::uint64_t{0});
  ASSERT_TRUE(finished(quiet));
  int n_refused = 0;
  for (std::uint64_t from = 0; from < quiet.reads(); ++from) {
    const ChangingSource changing(values, from);
    const auto result = finished(changing);
    if (result) continue;
    ++n_refused;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().record, "w");
    EXPECT_NE(result.error().message.find("changed after its step was found"), std::string::npos);
  }
  // A refusal happens where the values change after the last trial.
  EXPECT_GT(n_refused, 0);
}

}  // namespace
}  // namespace cfck::test

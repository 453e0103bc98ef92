// Targets: the request to codec spectral, its result, and the statements of the file about it.
#include <algorithm>
#include <set>

#include "base/numbers/decibels.hpp"
#include "tests/support/file_quality.hpp"

namespace cfck::test {
namespace {

// Linear layers, convolutions of different spread, and what plain targets leave alone.
std::vector<Named> model() {
  return {{"conv0", {32, 16, 3, 3}, bytes_from(bell(1, 32 * 16 * 9, 0.05))},
          {"bias", {32}, bytes_from(bell(2, 32, 0.1))},
          {"conv1", {64, 32, 3, 3}, bytes_from(bell(3, 64 * 32 * 9, 0.2))},
          {"linear", {300, 200}, bytes_from(bell(4, 300 * 200, 0.03))},
          {"ids", {100, 100}, weights(5, 10000), DType::kI32},
          {"zeros", {64, 64}, constant(0, 4 * 4096)},
          {"long", {700, 500}, bytes_from(bell(6, 700 * 500, 0.1))}};
}

const std::vector<std::string> kReached = {"conv0", "conv1", "linear", "long"};

TEST(TargetsOfAFile, NmseIsKeptWithin0_05Decibels) {
  for (const double nmse : {0.3, 0.1, 0.01, 1e-4}) {
    EncodeOptions options = small_chunks();
    options.nmse = nmse;
    const OpenFile file(write_all(model(), options).file);
    const double reached = quality_of(file, model(), kReached).nmse();
    EXPECT_LE(reached, nmse * (1 + 1e-12));
    EXPECT_GE(reached, nmse * ratio_of_decibels(-0.05)) << nmse;
    expect_sound(file.reader());
    const Record& record = file.record("long");
    EXPECT_EQ(record.codec, CodecId::kSpectral);
    ASSERT_TRUE(record.error && record.error->quality);
    EXPECT_EQ(record.error->quality->target, (Target{TargetKind::kNmse, true, nmse}));
  }
}

TEST(TargetsOfAFile, PsnrIsKeptWithin0_05Decibels) {
  for (const double psnr : {25.0, 40.0, 70.0}) {
    EncodeOptions options = small_chunks();
    options.psnr = psnr;
    const OpenFile file(write_all(model(), options).file);
    const double reached = quality_of(file, model(), kReached).psnr();
    EXPECT_GE(reached, psnr - 1e-9);
    EXPECT_LE(reached, psnr + 0.05);
  }
}

TEST(TargetsOfAFile, BitsPerWeightAreMetFromBelow) {
  for (const double bits : {0.3, 1.0, 2.5, 6.0, 12.0}) {
    EncodeOptions options = small_chunks();
    options.bits_per_weight = bits;
    const OpenFile file(write_all(model(), options).file);
    const double reached = quality_of(file, model(), kReached).bits_per_weight();
    EXPECT_LE(reached, bits);
    EXPECT_GE(reached, 0.995 * bits) << bits;
  }
}

TEST(TargetsOfAFile, SizesAreMetFromBelow) {
  for (const std::uint64_t size : {80'000u, 150'000u, 500'000u, 1'000'000u}) {
    EncodeOptions options = small_chunks();
    options.size = size;
    MemorySink sink;
    Writer writer = take(Writer::create(sink, options));
    expect_ok(writer.set_metadata("what", std::string(1000, 'x')));
    expect_ok(writer.attach("noise", noise(9, 5000)));
    std::vector<Named> tensors = model();
    // Raw frames are padded to where they stand.
    tensors.insert(tensors.begin() + 3, {"raw", {20011}, noise(10, 20011), DType::kU8});

    for (const Named& tensor : tensors) {
      expect_ok(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes}));
    }
    const WriteSummary summary = take(writer.finish());
    const Bytes bytes = sink.take();
    EXPECT_EQ(bytes.size(), summary.file_bytes);
    EXPECT_LE(bytes.size(), size);
    EXPECT_GE(static_cast<double>(bytes.size()), 0.995 * static_cast<double>(size)) << size;
    expect_sound(OpenFile(bytes).reader());
  }
}

TEST(TargetsOfAFile, OneStepForAllTensors) {
  EncodeOptions options = small_chunks();
  options.bits_per_weight = 3;
  options.steps = StepPreset::kFlat;
  const OpenFile file(write_all(model(), options).file);
  // The mean square of errors is equal wherever there are bits to spend.
  const double all = file.record("long").error->rmse;
  EXPECT_NEAR(file.record("conv1").error->rmse / all, 1, 0.05);
  EXPECT_NEAR(file.record("linear").error->rmse / all, 1, 0.2);
}

TEST(TargetsOfAFile, PlainTargetsLeaveAloneWhatPlainBoundsDo) {
  std::vector<Named> tensors = model();
  tensors.push_back({"optimizer.w", {64, 64}, bytes_from(bell(8, 4096, 1))});
  EncodeOptions options;
  options.nmse = 0.01;
  const Written written = write_all(tensors, options);
  const OpenFile file(written.file);
  EXPECT_EQ(reasons(written.summary),
            (std::map<std::string, std::string>{{"bias", "few_dimensions"},
                                                {"ids", "not_float"},
                                                {"optimizer.w", "optimizer_state"},
                                                {"zeros", "constant"}}));
  for (const char* name : {"bias", "ids", "optimizer.w", "zeros"}) {
    EXPECT_FALSE(file.record(name).error) << name;
  }
  EXPECT_EQ(written.summary.lossy.size(), 4U);
}

TEST(TargetsOfAFile, WhatCannotBeReachedSaysWhatCan) {
  const auto message = [](const EncodeOptions& options) {
    MemorySink sink;
    Writer writer = take(Writer::create(sink, options));
    const std::vector<Named> tensors = model();
    for (const Named& tensor : tensors) {
      expect_ok(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes}));
    }
    const auto summary = writer.finish();
    EXPECT_FALSE(summary);
    EXPECT_EQ(summary.error().code, ErrorCode::kInvalidArgument);
    return summary.error().message;
  };
  EncodeOptions options;
  options.size = 1000;
  EXPECT_NE(message(options).find("with the coarsest steps the file takes"), std::string::npos);
  options.rules = {{"*", {.codec = CodecChoice::kLossless}}};
  EXPECT_NE(message(options).find("size is too small"), std::string::npos);
  EncodeOptions bits;
  bits.bits_per_weight = 1e-4;
  EXPECT_NE(message(bits).find("or more"), std::string::npos);
}

TEST(TargetsOfAFile, FineTargetsEndAtLossless) {
  for (const bool by_size : {true, false}) {
    EncodeOptions options;
    if (by_size) {
      options.size = 100'000'000;
    } else {
      options.nmse = 1e-25;
    }
    const std::vector<Named> tensors = model();
    const Written written = write_all(tensors, options);
    EXPECT_EQ(reasons(written.summary)["long"], "not_smaller");
    const OpenFile file(written.file);
    for (const Named& tensor : tensors) {
      EXPECT_EQ(file.tensor(tensor.name), tensor.bytes);
    }
  }
}

TEST(TargetsOfAFile, SameBytesForAnyNumberOfThreads) {
  for (const bool by_size : {true, false}) {
    EncodeOptions options = small_chunks();
    if (by_size) {
      options.size = 200'000;
    } else {
      options.nmse = 0.02;
    }
    options.threads = 1;
    const Bytes one = write_all(model(), options).file;
    for (const unsigned threads : {2U, 5U}) {
      options.threads = threads;
      EXPECT_EQ(write_all(model(), options).file, one);
    }
  }
}

TEST(TargetsOfTensors, ValuesWithoutSquaresStayAsTheyAre) {
  std::vector<Named> tensors = {{"usual", {64, 64}, bytes_from(bell(1, 4096, 1))}};
  for (const auto& [name, scale] :
       {std::pair<const char*, double>{"huge", 1e200}, {"tiny", 1e-200}, {"subnormal", 1e-310}}) {
    std::vector<double> values;
    for (const float value : bell(2, 4096, 1)) values.push_back(value * scale);
    const auto* first = reinterpret_cast<const std::byte*>(values.data());
    tensors.push_back({name, {64, 64}, Bytes(first, first + 8 * values.size()), DType::kF64});
  }
  std::vector<float> special(4096, std::numeric_limits<float>::quiet_NaN());
  tensors.push_back({"nan", {64, 64}, bytes_from(special)});
  special[5] = 1;
  tensors.push_back({"one number", {64, 64}, bytes_from(special)});
  for (const TargetKind kind :
       {TargetKind::kNmse, TargetKind::kPsnr, TargetKind::kBitsPerWeight, TargetKind::kSize}) {
    EncodeOptions options;
    if (kind == TargetKind::kNmse) options.nmse = 0.01;
    if (kind == TargetKind::kPsnr) options.psnr = 40;
    if (kind == TargetKind::kBitsPerWeight) options.bits_per_weight = 3;
    if (kind == TargetKind::kSize) options.size = 90'000;
    const Written written = write_all(tensors, options);
    EXPECT_EQ(reasons(written.summary)["huge"], "out_of_range");
    EXPECT_EQ(reasons(written.summary)["tiny"], "out_of_range");
    EXPECT_EQ(reasons(written.summary)["nan"], "constant");
    const OpenFile file(written.file);
    EXPECT_EQ(file.record("usual").codec, CodecId::kSpectral);
    for (std::size_t i = 1; i < tensors.size(); ++i) {
      EXPECT_EQ(file.tensor(tensors[i].name), tensors[i].bytes) << tensors[i].name;
    }
  }
}

TEST(TargetsOfAFile, FilesWithoutTensorsThatTheyReach) {
  EncodeOptions options;
  options.nmse = 0.01;
  EXPECT_EQ(write_all({}, options).summary.n_records, 0U);
  EXPECT_TRUE(write_all({{"bias", {8}, weights(1, 8)}}, options).summary.lossy.empty());
  options.nmse.reset();
  options.size = 100;
  EXPECT_EQ(code_of({}, options), ErrorCode::kIo);  // found out when it is finished
}

TEST(TargetsOfAFile, StatesFollowTheLevel) {
  const std::vector<Named> tensors = model();
  for (const bool in_rule : {false, true}) {
    const auto file_of = [&](EncodeLevel level, std::optional<unsigned> states) {
      EncodeOptions options = small_chunks();
      options.level = level;
      const TensorOptions lossy{.nmse = 0.01, .trellis_states = states};
      if (in_rule) {
        options.rules = {{"*", lossy}};
      } else {
        options.set_tensor_options(lossy);
      }
      return write_all(tensors, options).file;
    };
    EXPECT_EQ(file_of(EncodeLevel::kDefault, std::nullopt), file_of(EncodeLevel::kDefault, 8));
    const auto archive = file_of(EncodeLevel::kArchive, std::nullopt);
    EXPECT_EQ(archive, file_of(EncodeLevel::kArchive, 64));
    EXPECT_LT(archive.size(), file_of(EncodeLevel::kArchive, 8).size());
  }
}

TEST(TargetsOfTensors, RulesHoldForEachTensor) {
  EncodeOptions options = small_chunks();
  options.rules = {{"conv*", {.nmse = 0.01}},
                   {"linear", {.codec = CodecChoice::kSpectral, .bits_per_weight = 2}},
                   {"long", {.psnr = 45, .trellis_states = 4}}};
  const std::vector<Named> tensors = model();
  const OpenFile file(write_all(tensors, options).file);
  for (const char* name : {"conv0", "conv1"}) {
    const double nmse = quality_of(file, tensors, {name}).nmse();
    EXPECT_LE(nmse, 0.01);
    EXPECT_GE(nmse, 0.01 * ratio_of_decibels(-0.05)) << name;
    EXPECT_FALSE(file.record(name).error->quality->target.whole_file);
  }
  const double bits = quality_of(file, tensors, {"linear"}).bits_per_weight();
  EXPECT_LE(bits, 2);
  EXPECT_GE(bits, 0.995 * 2);
  const double psnr = quality_of(file, tensors, {"long"}).psnr();
  EXPECT_GE(psnr, 45 - 1e-9);
  EXPECT_LE(psnr, 45.05);
  EXPECT_FALSE(file.record("bias").error);
}

TEST(TargetsOfTensors, RulesBesideATargetOfTheFile) {
  EncodeOptions options = small_chunks();
  options.size = 250'000;
  options.rules = {{"conv0", {.nmse = 1e-3}},
                   {"linear", {.max_abs_error = 1e-3}},
                   {"conv1", {.codec = CodecChoice::kLossless}}};
  const std::vector<Named> tensors = model();
  const Written written = write_all(tensors, options);
  const OpenFile file(written.file);
  EXPECT_LE(written.file.size(), 250'000U);
  EXPECT_GE(written.file.size(), 248'750U);
  EXPECT_LE(quality_of(file, tensors, {"conv0"}).nmse(), 1e-3);
  EXPECT_EQ(file.record("linear").codec, CodecId::kDirect);
  EXPECT_EQ(file.tensor("conv1"), tensors[2].bytes);
  EXPECT_TRUE(file.record("long").error->quality->target.whole_file);
}

TEST(TargetsOfTensors, MaximumErrorsAreKeptToo) {
  for (const bool with_target : {true, false}) {
    EncodeOptions options = small_chunks();
    options.codec = CodecChoice::kSpectral;
    options.max_abs_error = 0.02;
    if (with_target) {
      options.nmse = 0.02;
    }
    const std::vector<Named> tensors = model();
    const OpenFile file(write_all(tensors, options).file);
    for (const std::string& name : {std::string("conv0"), std::string("long")}) {
      const Record& record = file.record(name);
      ASSERT_TRUE(record.error && record.error->quality) << name;
      EXPECT_EQ(record.error->bound, (ErrorBound{BoundKind::kAbs, false, 0.02}));
      EXPECT_EQ(record.error->quality->target.kind,
                with_target ? TargetKind::kNmse : TargetKind::kNone);
      const auto found = std::find_if(tensors.begin(), tensors.end(),
                                      [&](const Named& tensor) { return tensor.name == name; });
      const double largest =
          largest_error(values_of<float>(found->bytes), values_of<float>(file.tensor(name)));
      EXPECT_EQ(largest, record.error->max_abs_error);
      EXPECT_LE(largest, 0.02);
    }
    // Its root mean square is below the bound.
    EXPECT_FALSE(file.record("linear").error);
  }
}

TEST(TargetsOfTensors, TheIndexSaysWhatTheValuesAreLike) {
  EncodeOptions options = small_chunks();
  options.nmse = 0.05;
  std::vector<float> values = bell(7, 400 * 500, 0.3);
  values[17] = std::numeric_limits<float>::quiet_NaN();
  values[100'000] = -std::numeric_limits<float>::infinity();
  values[3] = 2.5F;
  values[4] = -1.75F;
  const OpenFile file(write_all({{"w", {400, 500}, bytes_from(values)}}, options).file);
  const Record& record = file.record("w");
  ASSERT_TRUE(record.error && record.error->quality);
  double squares = 0;
  for (const float value : values) {
    if (std::isfinite(value)) squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(record.error->quality->rms, std::sqrt(squares / (400 * 500 - 2)), 1e-9);
  EXPECT_EQ(record.error->quality->max, 2.5);
  EXPECT_EQ(record.error->quality->min, -1.75);
  EXPECT_EQ(record.error->bound, (ErrorBound{BoundKind::kNone, false, 0}));
  const std::vector<float> back = values_of<float>(file.tensor("w"));
  EXPECT_EQ(std::memcmp(&back[17], &values[17], 4), 0);
  EXPECT_EQ(back[100'000], values[100'000]);
  expect_sound(file.reader());
}

TEST(TargetsOfTensors, OtherDtypes) {
  const std::vector<float> values = bell(11, 64 * 128, 0.2);
  Bytes bf16;
  std::vector<double> doubles;
  for (const float value : values) {
    const auto* byte = reinterpret_cast<const std::byte*>(&value);
    bf16.insert(bf16.end(), byte + 2, byte + 4);
    doubles.push_back(value);
  }
  const auto* first = reinterpret_cast<const std::byte*>(doubles.data());
  EncodeOptions options;
  options.nmse = 0.01;
  const OpenFile file(
      write_all({{"bf16", {64, 128}, bf16, DType::kBF16},
                 {"f64", {64, 128}, Bytes(first, first + 8 * doubles.size()), DType::kF64}},
                options)
          .file);
  for (const char* name : {"bf16", "f64"}) {
    const Record& record = file.record(name);
    EXPECT_EQ(record.codec, CodecId::kSpectral);
    const double ratio = record.error->rmse / record.error->quality->rms;
    EXPECT_NEAR(ratio * ratio, 0.01, 0.001);
  }
  expect_sound(file.reader());
}

TEST(TargetsOfTensors, SharedMemoryIsStoredOnce) {
  const std::vector<float> values = bell(12, 100 * 100, 0.2);
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  const auto tensor = [&](const char* name) {
    return StridedTensor{name, DType::kF32, {100, 100}, {100, 1}, data};
  };
  EncodeOptions options;
  options.bits_per_weight = 3;
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  const std::vector<StridedTensor> tied = {tensor("a"), tensor("b")};
  expect_ok(writer.add_tensors(tied));
  const Bytes copy = bytes_from(bell(13, 100 * 100, 0.2));
  for (const char* name : {"c", "d"}) {
    expect_ok(writer.add(name, TensorView{DType::kF32, {100, 100}, copy}));
  }
  take(writer.finish());
  const OpenFile file(sink.take());
  EXPECT_EQ(file.record("b").kind, RecordKind::kAlias);
  EXPECT_EQ(file.record("d").kind, RecordKind::kDuplicate);
  EXPECT_EQ(file.tensor("a"), file.tensor("b"));
  EXPECT_EQ(file.tensor("c"), file.tensor("d"));
  const double bits = file.record("a").bits_per_weight() + file.record("c").bits_per_weight();
  EXPECT_LE(bits, 2 * 3);
  EXPECT_GE(bits, 2 * 3 * 0.995);
  EXPECT_EQ(file.record("d").error, file.record("c").error);
  expect_sound(file.reader());
}

TEST(TargetsOfTensors, UpdatesTakeTargetsButNoSize) {
  const TemporaryFolder folder;
  const std::string path = folder.path("m.cfck");
  put_bytes(path, write_all(model(), {}).file);
  const std::vector<float> values = bell(13, 100 * 100, 0.2);
  Update changes;
  changes.tensors = {{"long",
                      DType::kF32,
                      {100, 100},
                      {100, 1},
                      reinterpret_cast<const std::byte*>(values.data())}};
  EncodeOptions options;
  options.size = 1'000'000;
  const auto refused = update(path, changes, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  options.size.reset();
  options.bits_per_weight = 2;
  take(update(path, changes, options));
  const OpenFile file(bytes_of(path));
  EXPECT_LE(file.record("long").bits_per_weight(), 2);
  EXPECT_GE(file.record("long").bits_per_weight(), 0.995 * 2);
  EXPECT_EQ(file.record("linear").codec, CodecId::kLossless);
  expect_sound(file.reader());
}

TEST(TargetsOfTensors, TheSearchCanBeCancelled) {
  EncodeOptions options;
  options.nmse = 0.01;
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  int n_calls = 0;
  writer.set_progress([&](std::uint64_t, std::string_view) { return ++n_calls < 30; });
  const std::vector<Named> tensors = model();
  for (const Named& tensor : tensors) {
    expect_ok(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes}));
  }
  const auto summary = writer.finish();
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().message, "cancelled");
}

TEST(TargetsOfTensors, TheSearchTellsHowFarItIs) {
  EncodeOptions options;
  options.bits_per_weight = 3;
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  std::set<std::string> names;
  StepSearch last;
  unsigned n_finished = 0;
  writer.set_search_progress([&](const StepSearch& search) {
    if (search.trial != last.trial) {
      EXPECT_EQ(search.trial, last.trial + 1);
      n_finished += last.done_bytes == last.total_bytes ? 1 : 0;
      last.done_bytes = 0;
    }
    EXPECT_GE(search.done_bytes, last.done_bytes);
    EXPECT_LE(search.done_bytes, search.total_bytes);
    names.emplace(search.name);
    last = search;
    return true;
  });
  std::uint64_t written_bytes = 0;
  writer.set_progress([&](std::uint64_t done_bytes, std::string_view) {
    written_bytes = done_bytes;
    return true;
  });
  const std::vector<Named> tensors = model();
  for (const Named& tensor : tensors) {
    expect_ok(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes}));
  }
  const WriteSummary summary = take(writer.finish());
  EXPECT_GE(last.trial, 1U);
  EXPECT_EQ(n_finished, last.trial);
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  for (const LossyTensor& tensor : summary.lossy) EXPECT_TRUE(names.contains(tensor.name));
  EXPECT_EQ(written_bytes, summary.decoded_bytes);
}

TEST(TargetsOfTensors, WhoeverListensToTheSearchCanEndIt) {
  EncodeOptions options;
  options.bits_per_weight = 3;
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  writer.set_search_progress([&](const StepSearch& search) { return search.trial < 1; });
  const std::vector<Named> tensors = model();
  for (const Named& tensor : tensors) {
    expect_ok(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes}));
  }
  const auto summary = writer.finish();
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().message, "cancelled");
}

}  // namespace
}  // namespace cfck::test

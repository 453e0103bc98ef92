// Maximum errors: the request, the result, and the statements of the file about it.
#include <bit>

#include "base/bytes.hpp"
#include "tests/support/bounded_tensors.hpp"

namespace cfck::test {
namespace {

TEST(Bounds, TheFileSaysWhatWasAskedAndLost) {
  const std::vector<float> values = bell(1, 300 * 1000, 0.05);
  const Written written = write_all({{"w", {300, 1000}, bytes_from(values)}}, abs_options(1e-4));
  const OpenFile file(written.file);
  const Record& record = file.record("w");
  EXPECT_EQ(record.codec, CodecId::kDirect);
  EXPECT_GT(record.n_chunks, 1U);
  EXPECT_LT(record.bits_per_weight(), 12);
  ASSERT_TRUE(record.error);
  EXPECT_EQ(record.error->bound, (ErrorBound{BoundKind::kAbs, false, 1e-4}));
  const std::vector<float> back = values_of<float>(file.tensor("w"));
  EXPECT_EQ(record.error->max_abs_error, largest_error(values, back));
  EXPECT_LE(record.error->max_abs_error, 1e-4);
  EXPECT_GT(record.error->max_abs_error, 0.9e-4);
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = static_cast<double>(values[i]) - back[i];
    squares += error * error;
  }
  EXPECT_NEAR(record.error->rmse, std::sqrt(squares / static_cast<double>(values.size())), 1e-12);
  EXPECT_TRUE(written.summary.kept_lossless.empty());
  expect_sound(file.reader());
}

TEST(Bounds, SameBytesForAnyNumberOfThreads) {
  EncodeOptions options = abs_options(1e-3);
  options.chunk_elems = 4096;
  std::vector<Named> tensors;
  for (int i = 0; i < 5; ++i) {
    tensors.push_back({std::to_string(i), {64, 300}, bytes_from(bell(i, 64 * 300, 0.1))});
  }
  options.threads = 1;
  const Bytes one = write_all(tensors, options).file;
  options.threads = 3;
  EXPECT_EQ(write_all(tensors, options).file, one);
}

TEST(Bounds, PartsOfATensorAreThoseOfTheWhole) {
  EncodeOptions options = abs_options(1e-3);
  options.chunk_elems = 1000;
  const OpenFile file(write_all({{"w", {90, 70}, bytes_from(bell(3, 6300, 0.1))}}, options).file);
  const Bytes whole = file.tensor("w");
  EXPECT_EQ(file.record("w").n_chunks, 7U);
  for (const auto& [first, n] :
       {std::pair<std::uint64_t, std::uint64_t>{0, 1}, {979, 3}, {1234, 4000}, {6299, 1}}) {
    Bytes part(n * 4);
    expect_ok(file->read_elements(file.record("w"), first, n, part));
    EXPECT_EQ(part, Bytes(whole.begin() + static_cast<std::ptrdiff_t>(4 * first),
                          whole.begin() + static_cast<std::ptrdiff_t>(4 * (first + n))));
  }
}

TEST(Bounds, RangeAndDeviationOfTensorAndRows) {
  // Row r has values of size 4^r: one bound for all would lose the first rows.
  std::vector<float> values = bell(5, 8 * 2000, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= static_cast<float>(1 << (2 * (i / 2000)));
  }
  const auto statistic = [&](BoundKind kind, std::size_t first, std::size_t n) {
    double low = kInfinity, high = -kInfinity, sum = 0, squares = 0;
    for (std::size_t i = first; i < first + n; ++i) {
      low = std::min<double>(low, values[i]);
      high = std::max<double>(high, values[i]);
      sum += values[i];
    }
    for (std::size_t i = first; i < first + n; ++i) {
      squares +=
          (values[i] - sum / static_cast<double>(n)) * (values[i] - sum / static_cast<double>(n));
    }
    return kind == BoundKind::kRel ? high - low : std::sqrt(squares / static_cast<double>(n));
  };
  for (const BoundKind kind : {BoundKind::kRel, BoundKind::kSigma}) {
    for (const bool per_row : {false, true}) {
      EncodeOptions options;
      (kind == BoundKind::kRel ? options.max_rel_error : options.max_sigma_error) = 1e-3;
      options.per_row = per_row;
      const OpenFile file(write_all({{"w", {8, 2000}, bytes_from(values)}}, options).file);
      ASSERT_EQ(file.record("w").codec, CodecId::kDirect);
      EXPECT_EQ(file.record("w").error->bound, (ErrorBound{kind, per_row, 1e-3}));
      const std::vector<float> back = values_of<float>(file.tensor("w"));
      const std::size_t part = per_row ? 2000 : values.size();
      for (std::size_t first = 0; first < values.size(); first += part) {
        const std::vector<float> x(values.begin() + static_cast<std::ptrdiff_t>(first),
                                   values.begin() + static_cast<std::ptrdiff_t>(first + part));
        const std::vector<float> y(back.begin() + static_cast<std::ptrdiff_t>(first),
                                   back.begin() + static_cast<std::ptrdiff_t>(first + part));
        const double allowed = 1e-3 * statistic(kind, first, part);
        EXPECT_LE(largest_error(x, y), allowed);
        EXPECT_GT(largest_error(x, y), (per_row ? 0.4 : 0.9) * allowed);
      }
    }
  }
}

TEST(Bounds, SpecialValuesComeBackBitForBit) {
  std::vector<float> values = bell(7, 64 * 64, 0.1);
  const std::uint32_t specials[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
                                    0x7f800001, 0x7f7fffff, 0xff7fffff};
  for (std::size_t i = 0; i < std::size(specials); ++i) {
    values[100 * i + 3] = std::bit_cast<float>(specials[i]);
  }
  values[2000] = -0.0F;
  values[2001] = std::bit_cast<float>(1U);
  for (const BoundKind kind : {BoundKind::kAbs, BoundKind::kSigma}) {
    EncodeOptions options;
    (kind == BoundKind::kAbs ? options.max_abs_error : options.max_sigma_error) = 1e-3;
    const OpenFile file(write_all({{"w", {64, 64}, bytes_from(values)}}, options).file);
    const std::vector<float> back = values_of<float>(file.tensor("w"));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[i]);
      if (!std::isfinite(values[i])) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]), bits) << i;
      }
    }
    EXPECT_TRUE(std::isfinite(file.record("w").error.value_or(RecordError()).max_abs_error));
  }
}

TEST(Bounds, ThePlainOneLeavesSomeTensorsAlone) {
  const Bytes large = bytes_from(bell(9, 64 * 64, 0.1));
  const Bytes small = bytes_from(bell(10, 31 * 33, 0.1));
  const Bytes tiny = bytes_from(bell(11, 64 * 64, 1e-5));
  const Bytes other = bytes_from(bell(12, 64 * 64, 0.1));
  const std::vector<Named> tensors = {
      {"weight", {64, 64}, large},
      {"bias", {4096}, large},
      {"small", {31, 33}, small},
      {"tiny", {64, 64}, tiny},
      {"optimizer.state", {64, 64}, other},
      {"optimizer/vars/10", {64, 64}, other},
      {"a.exp_avg_sq", {64, 64}, other},
      {"sgd.momentum_buffer", {64, 64}, other},
      {"running_mean", {64, 64}, other},
      {"ids", {64, 64}, bytes_from(bell(13, 64 * 64, 1)), DType::kI32},
      {"twin", {64, 64}, large},
      {"nothing", {0, 5}, {}},
  };
  EncodeOptions options = abs_options(1e-3);
  options.exempt = {"running_mean", "not there"};
  Written written = write_all(tensors, options);
  EXPECT_EQ(reasons(written.summary),
            (std::map<std::string, std::string>{{"bias", "few_dimensions"},
                                                {"small", "few_values"},
                                                {"tiny", "near_zero"},
                                                {"optimizer.state", "optimizer_state"},
                                                {"optimizer/vars/10", "optimizer_state"},
                                                {"a.exp_avg_sq", "optimizer_state"},
                                                {"sgd.momentum_buffer", "optimizer_state"},
                                                {"running_mean", "exempt"},
                                                {"ids", "not_float"}}));
  OpenFile file(written.file);
  for (const Named& tensor : tensors) {
    const bool lossy = tensor.name == "weight" || tensor.name == "twin";
    EXPECT_EQ(file.record(tensor.name).error.has_value(), lossy) << tensor.name;
    EXPECT_EQ(file.tensor(tensor.name) == tensor.bytes, !lossy) << tensor.name;
  }
  EXPECT_EQ(file.record("twin").kind, RecordKind::kDuplicate);
  EXPECT_EQ(file.record("twin").error, file.record("weight").error);

  // A rule with wildcards has the same exemptions.
  const auto exempted = reasons(written.summary);
  options.rules = {{"*", {.max_abs_error = 1e-3}}};
  EXPECT_EQ(reasons(write_all(tensors, options).summary), exempted);

  // The name of a tensor lifts them.
  options.rules.insert(options.rules.begin(), {"bias", {.max_abs_error = 1e-3}});
  auto others = exempted;
  others.erase("bias");
  EXPECT_EQ(reasons(write_all(tensors, options).summary), others);

  // With force, all are lifted but that of the dtype.
  options.rules = {{.pattern = "*", .options = {.max_abs_error = 1e-3}, .force = true}};
  written = write_all(tensors, options);
  EXPECT_EQ(reasons(written.summary), (std::map<std::string, std::string>{{"ids", "not_float"}}));
  const OpenFile all(written.file);
  EXPECT_TRUE(all.record("bias").error);
  EXPECT_TRUE(all.record("optimizer.state").error);
}

TEST(Bounds, TheFirstRuleThatMatchesCounts) {
  const std::vector<Named> tensors = {
      {"a.weight", {64, 64}, bytes_from(bell(20, 4096, 0.1))},
      {"b.weight", {64, 64}, bytes_from(bell(21, 4096, 0.1))},
      {"c.weight", {64, 64}, bytes_from(bell(22, 4096, 0.1))},
      {"d[0]", {64, 64}, bytes_from(bell(23, 4096, 0.1))},
  };
  EncodeOptions options = abs_options(1e-2);
  options.rules = {{"a.*", {.codec = CodecChoice::kLossless}},
                   {"[ab].weight", {.max_rel_error = 1e-3}},
                   {"b.weight", {.max_sigma_error = 1e-3}},
                   {"d[0]", {.max_abs_error = 1e-5}},
                   {"z*", {.codec = CodecChoice::kRaw}}};
  const Written written = write_all(tensors, options);
  const OpenFile file(written.file);
  EXPECT_FALSE(file.record("a.weight").error);
  EXPECT_EQ(file.record("b.weight").error->bound, (ErrorBound{BoundKind::kRel, false, 1e-3}));
  EXPECT_EQ(file.record("c.weight").error->bound, (ErrorBound{BoundKind::kAbs, false, 1e-2}));
  EXPECT_EQ(file.record("d[0]").error->bound.value, 1e-5);
  EXPECT_EQ(written.summary.unmatched_rules, (std::vector<std::string>{"b.weight", "z*"}));
  EXPECT_TRUE(written.summary.kept_lossless.empty());
}

TEST(Bounds, EqualTensorsUnderOtherRulesAreStoredTwice) {
  const Bytes bytes = bytes_from(bell(30, 4096, 0.1));
  EncodeOptions options;
  options.rules = {{"lossy*", {.max_abs_error = 1e-3}}, {"coarse", {.max_abs_error = 1e-2}}};
  const OpenFile file(write_all({{"exact", {64, 64}, bytes},
                                 {"lossy", {64, 64}, bytes},
                                 {"lossy again", {64, 64}, bytes},
                                 {"coarse", {64, 64}, bytes}},
                                options)
                          .file);
  EXPECT_EQ(file.tensor("exact"), bytes);
  EXPECT_EQ(file.record("lossy again").kind, RecordKind::kDuplicate);
  EXPECT_EQ(file.record("coarse").kind, RecordKind::kPacked);
  EXPECT_EQ(file.record("coarse").error->bound.value, 1e-2);
  expect_sound(file.reader());
}

TEST(Bounds, RefusedOptions) {
  const Named weight{"w", {64, 64}, bytes_from(bell(40, 4096, 0.1))};
  const auto refused = [&](const TensorOptions& wrong) {
    EncodeOptions options;
    options.set_tensor_options(wrong);
    const bool plain = code_of({weight}, options) == ErrorCode::kInvalidArgument;
    options = EncodeOptions();
    options.rules = {{"*", wrong}};
    return plain && code_of({weight}, options) == ErrorCode::kInvalidArgument;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {0.0, -0.0, -1e-3, nan, kInfinity, -kInfinity}) {
    EXPECT_TRUE(refused({.max_abs_error = value})) << value;
    EXPECT_TRUE(refused({.max_rel_error = value})) << value;
    EXPECT_TRUE(refused({.max_sigma_error = value})) << value;
  }
  EXPECT_TRUE(refused({.max_abs_error = 0x1p-1001}));
  EXPECT_TRUE(refused({.max_abs_error = 0x1p1001}));
  EXPECT_TRUE(refused({.max_abs_error = 1, .max_rel_error = 1}));
  EXPECT_TRUE(refused({.max_rel_error = 1, .max_sigma_error = 1}));
  EXPECT_TRUE(refused({.max_abs_error = 1, .per_row = true}));
  EXPECT_TRUE(refused({.per_row = true}));
  EXPECT_TRUE(refused({.codec = CodecChoice::kDirect}));
  EXPECT_TRUE(refused({.codec = CodecChoice::kLossless, .max_abs_error = 1}));
  EXPECT_TRUE(refused({.codec = CodecChoice::kRaw, .max_sigma_error = 1}));

  EncodeOptions twice;
  twice.rules = {{"w", {.max_abs_error = 1}}, {"w", {.max_abs_error = 2}}};
  EXPECT_EQ(code_of({weight}, twice), ErrorCode::kInvalidArgument);
  twice.rules[1] = twice.rules[0];
  EXPECT_EQ(code_of({weight}, twice), ErrorCode{});
}

TEST(Bounds, AnExactNameOfAnotherDtypeIsAnError) {
  const Named ids{"ids", {64, 64}, bytes_from(bell(41, 4096, 1)), DType::kI32};
  EncodeOptions options;
  options.rules = {{"ids", {.max_abs_error = 1}}};
  EXPECT_EQ(code_of({ids}, options), ErrorCode::kInvalidArgument);
  options.rules = {{"id?", {.max_abs_error = 1}}};
  EXPECT_EQ(code_of({ids}, options), ErrorCode{});
}

StridedTensor strided(const std::string& name, const Bytes& memory, const Shape& shape,
                      std::vector<std::uint64_t> strides, std::size_t first = 0) {
  return {name, DType::kF32, shape, std::move(strides), memory.data() + 4 * first};
}

Written write_shared(const std::vector<StridedTensor>& tensors, const EncodeOptions& options) {
  Written written;
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  expect_ok(writer.add_tensors(tensors));
  written.summary = take(writer.finish());
  written.file = sink.take();
  return written;
}

TEST(Bounds, TiedTensorsAreLossyOnlyTogether) {
  const Bytes memory = bytes_from(bell(70, 64 * 64, 0.1));
  const std::vector<StridedTensor> tied = {strided("embed", memory, {64, 64}, {64, 1}),
                                           strided("head", memory, {64, 64}, {64, 1})};
  EncodeOptions options = abs_options(1e-3);
  Written written = write_shared(tied, options);
  {
    const OpenFile file(written.file);
    EXPECT_EQ(file.record("head").kind, RecordKind::kAlias);
    EXPECT_TRUE(file.record("embed").error);
    EXPECT_EQ(file.record("head").error, file.record("embed").error);
    EXPECT_EQ(file.tensor("head"), file.tensor("embed"));
    expect_sound(file.reader());
    EXPECT_TRUE(written.summary.kept_lossless.empty());
  }
  // Only one of them may lose something.
  options.rules = {{"head", {.codec = CodecChoice::kLossless}}};
  written = write_shared(tied, options);
  EXPECT_EQ(OpenFile(written.file).tensor("embed"), memory);
  EXPECT_EQ(reasons(written.summary),
            (std::map<std::string, std::string>{{"embed", "shared_memory"}}));
  options.rules = {{"embed", {.codec = CodecChoice::kLossless}}};
  written = write_shared(tied, options);
  EXPECT_EQ(OpenFile(written.file).tensor("embed"), memory);
  EXPECT_EQ(reasons(written.summary),
            (std::map<std::string, std::string>{{"head", "shared_memory"}}));
}

TEST(Bounds, ViewsOfAPartKeepTheWholeLossless) {
  const Bytes memory = bytes_from(bell(71, 64 * 64, 0.1));
  EncodeOptions options;
  options.rules = {{"*", {.max_abs_error = 1e-3}, true}};
  for (const StridedTensor& view : {strided("view", memory, {8, 64}, {64, 1}, 64),
                                    strided("view", memory, {64, 64}, {1, 64})}) {
    for (const bool view_first : {false, true}) {
      std::vector<StridedTensor> tensors = {strided("whole", memory, {64, 64}, {64, 1}), view};
      if (view_first) {
        std::swap(tensors[0], tensors[1]);
      }
      const Written written = write_shared(tensors, options);
      const OpenFile file(written.file);
      EXPECT_EQ(file.tensor("whole"), memory);
      EXPECT_EQ(reasons(written.summary),
                (std::map<std::string, std::string>{{"whole", "shared_memory"},
                                                    {"view", "shared_memory"}}));
      expect_sound(file.reader());
    }
  }
}

TEST(Bounds, AliasesOfWhatWasAddedBefore) {
  const Bytes memory = bytes_from(bell(72, 64 * 64, 0.1));
  const MemorySource source(memory);
  const TensorSource tensor{DType::kF32, {64, 64}, &source, 0};
  const std::vector<std::uint64_t> strides = {64, 1};
  const auto alias_error = [&](const Shape& shape, const TensorOptions& base) {
    MemorySink sink;
    EncodeOptions options;
    options.rules = {{"alias", {.max_abs_error = 1e-3}}};
    Writer writer = take(Writer::create(sink, options));
    expect_ok(writer.add("base", tensor, base));
    const auto added = writer.add_alias("alias", "base", 0, shape, strides);
    if (!added) {
      return added.error().code;
    }
    const WriteSummary summary = take(writer.finish());
    const OpenFile opened(sink.take());
    expect_sound(opened.reader());
    EXPECT_EQ(opened.record("alias").error.has_value(), base.max_abs_error.has_value());
    EXPECT_EQ(summary.kept_lossless.size(), base.max_abs_error ? 0U : 1U);
    return ErrorCode{};
  };
  EXPECT_EQ(alias_error({64, 64}, {.max_abs_error = 1e-3}), ErrorCode{});
  EXPECT_EQ(alias_error({64, 64}, {}), ErrorCode{});
  EXPECT_EQ(alias_error({32, 64}, {}), ErrorCode{});
  EXPECT_EQ(alias_error({32, 64}, {.max_abs_error = 1e-3}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(alias_error({64, 64}, {.max_abs_error = 1e-2}), ErrorCode::kInvalidArgument);
}

TEST(Bounds, UpdateAndCompactKeepTheErrors) {
  const TemporaryFolder folder;
  const std::string path = folder.path("m.cfck");
  EncodeOptions options = abs_options(1e-3);
  options.chunk_elems = 1024;
  const Bytes twin = bytes_from(bell(80, 64 * 64, 0.1));
  put_bytes(path, write_all({{"a", {64, 64}, twin},
                             {"b", {64, 64}, twin},
                             {"c", {64, 64}, bytes_from(bell(81, 64 * 64, 0.1))}},
                            options)
                      .file);
  const OpenFile before(bytes_of(path));
  EXPECT_EQ(before.record("b").kind, RecordKind::kDuplicate);
  const Bytes added = bytes_from(bell(82, 64 * 64, 0.1));
  Update changes;
  changes.remove = {"a"};  // b takes over its bytes
  changes.tensors = {strided("d", added, {64, 64}, {64, 1})};
  take(update(path, changes, abs_options(1e-2)));
  take(compact(path));
  const OpenFile after(bytes_of(path));
  EXPECT_EQ(after.record("b").kind, RecordKind::kChunked);
  EXPECT_EQ(after.record("b").error, before.record("b").error);
  EXPECT_EQ(after.record("c").error, before.record("c").error);
  EXPECT_EQ(after.record("d").error->bound.value, 1e-2);
  for (const char* name : {"b", "c"}) {
    EXPECT_EQ(after.tensor(name), before.tensor(name));
  }
  expect_sound(after.reader());
}

}  // namespace
}  // namespace cfck::test

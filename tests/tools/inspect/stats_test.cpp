// cfck stats.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

constexpr double kMax = std::numeric_limits<double>::max();

class Stats : public ::testing::Test {
 protected:
  void make(const std::string& name, const std::string& model) {
    write_file(folder / (name + ".safetensors"), model);
    ASSERT_EQ(run({"convert", "-f", folder / (name + ".safetensors")}).code, 0);
  }
  // Returns the record of the only tensor, which must be equal from both kinds of files.
  nlohmann::json stats_of(const std::string& dtype, const std::string& shape,
                          const std::string& data) {
    make("one", model_of({{"x", dtype, shape, data}}));
    const Outcome outcome = run({"stats", "--json", folder / "one.cfck"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto json = outcome.json();
    EXPECT_EQ(json["schema_version"], 1);
    EXPECT_EQ(run({"stats", "--json", folder / "one.safetensors"}).json()["records"],
              json["records"]);
    return json["records"][0];
  }

  TemporaryFolder folder;
};

// Checks by sorting and adding up in long double.
void expect_moments(const nlohmann::json& record, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<long double>(values.size());
  const long double mean = std::accumulate(values.begin(), values.end(), 0.0L) / count;
  long double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  EXPECT_EQ(record["n_finite"], values.size());
  EXPECT_EQ(record["min"], values.front());
  EXPECT_EQ(record["max"], values.back());
  const double size = std::max(std::fabs(values.front()), std::fabs(values.back()));
  EXPECT_NEAR(record["mean"].get<double>(), static_cast<double>(mean), 1e-14 * size);
  const auto deviation = static_cast<double>(std::sqrt(squares / count));
  EXPECT_NEAR(record["std"].get<double>(), deviation, 1e-12 * deviation);
  for (const unsigned percent : {1U, 5U, 25U, 50U, 75U, 95U, 99U}) {
    const double place =
        static_cast<double>(percent) / 100 * static_cast<double>(values.size() - 1);
    const auto lower = static_cast<std::size_t>(place);
    const double upper = values[std::min(lower + 1, values.size() - 1)];
    const double expected =
        values[lower] + (upper - values[lower]) * (place - static_cast<double>(lower));
    EXPECT_NEAR(record["quantiles"][std::to_string(percent)].get<double>(), expected, 1e-9 * size)
        << percent;
  }
  std::uint64_t counted = 0;
  for (const auto& bin : record["histogram"]["counts"]) counted += bin.get<std::uint64_t>();
  EXPECT_EQ(counted, values.size());
}

TEST_F(Stats, AFewValuesByHand) {
  const auto record = stats_of("F32", "[5]", bytes_of<float>({2, -1, 0, 4, 0}));
  EXPECT_EQ(record["min"], -1);
  EXPECT_EQ(record["max"], 4);
  EXPECT_EQ(record["mean"], 1);
  EXPECT_DOUBLE_EQ(record["std"], std::sqrt(16.0 / 5));
  EXPECT_EQ(record["n_zeros"], 2);
  EXPECT_EQ(record["quantiles"]["25"], 0);
  EXPECT_EQ(record["quantiles"]["50"], 0);
  EXPECT_EQ(record["quantiles"]["75"], 2);
  EXPECT_DOUBLE_EQ(record["quantiles"]["95"], 3.6);
  EXPECT_DOUBLE_EQ(record["quantiles"]["1"], -0.96);
  EXPECT_EQ(record["quantile_method"], "exact");
  EXPECT_EQ(record["histogram"]["counts"].size(), 20U);
  EXPECT_EQ(record["histogram"]["counts"][4], 2);
}

// Up to 65,536 of them are sorted, more are counted.
TEST_F(Stats, ManyValuesOfEveryWidth) {
  for (const std::size_t count : {65'536U, 65'537U, 300'001U}) {
    std::vector<float> floats(count);
    std::vector<double> doubles;
    std::vector<std::int16_t> shorts(count);
    const std::string bits = noise(4 * count, 17);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, bits.data() + 4 * i, 4);
      floats[i] = static_cast<float>(std::cbrt(static_cast<double>(word) - 2e9));
      doubles.push_back(static_cast<double>(word) * static_cast<double>(word) - 1e18);
      shorts[i] = static_cast<std::int16_t>(word >> 16);
    }
    const std::string shape = "[" + std::to_string(count) + "]";
    expect_moments(stats_of("F32", shape, bytes_of(floats)), {floats.begin(), floats.end()});
    expect_moments(stats_of("F64", shape, bytes_of(doubles)), doubles);
    expect_moments(stats_of("I16", shape, bytes_of(shorts)), {shorts.begin(), shorts.end()});
  }
}

// The tensor is larger than what is kept between passes: it is read again, with equal results.
TEST_F(Stats, LargerThanMemoryKept) {
  const std::string model = one_tensor(17'000'000);
  make("large", model);
  std::vector<float> floats(17'000'000);
  std::memcpy(floats.data(), model.data() + model.size() - 4 * floats.size(), 4 * floats.size());
  const auto json = run({"stats", "--json", folder / "large.cfck"}).json();
  expect_moments(json["records"][0], {floats.begin(), floats.end()});
}

TEST_F(Stats, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto record =
      stats_of("F32", "[2,4]", bytes_of<float>({nan, inf, -inf, 1, -0.0F, 3, nan, inf}));
  EXPECT_EQ(record["n_nan"], 2);
  EXPECT_EQ(record["n_positive_inf"], 2);
  EXPECT_EQ(record["n_negative_inf"], 1);
  EXPECT_EQ(record["n_zeros"], 1);
  EXPECT_EQ(record["n_finite"], 3);
  EXPECT_EQ(record["max"], 3);
  EXPECT_DOUBLE_EQ(record["mean"], 4.0 / 3);
  const auto none = stats_of("F32", "[2]", bytes_of<float>({nan, inf}));
  EXPECT_EQ(none["n_finite"], 0);
  EXPECT_FALSE(none.contains("min"));
  EXPECT_EQ(stats_of("BF16", "[0,7]", "")["n_finite"], 0);
  const auto scalar = stats_of("F64", "[]", bytes_of<double>({0.1}));
  EXPECT_EQ(scalar["mean"], 0.1);
  EXPECT_EQ(scalar["std"], 0);
  EXPECT_EQ(scalar["quantiles"]["99"], 0.1);
}

TEST_F(Stats, HugeAndTinyValuesDoNotOverflow) {
  const auto constant = stats_of("F64", "[5000]", bytes_of(std::vector<double>(5000, kMax)));
  EXPECT_EQ(constant["mean"], kMax);
  EXPECT_EQ(constant["std"], 0);
  std::vector<double> values(5000, kMax);
  std::fill(values.begin(), values.begin() + 2500, kMax / 2);
  const auto two = stats_of("F64", "[5000]", bytes_of(values));
  EXPECT_DOUBLE_EQ(two["mean"], kMax / 4 * 3);
  EXPECT_DOUBLE_EQ(two["std"], kMax / 4);
  const auto both = stats_of("F64", "[2]", bytes_of<double>({kMax, -kMax}));
  EXPECT_EQ(both["mean"], 0);
  EXPECT_DOUBLE_EQ(both["std"], kMax);
  EXPECT_EQ(both["histogram"]["counts"][0], 1);
  EXPECT_EQ(both["histogram"]["counts"][19], 1);
  const auto tiny = stats_of("F64", "[2]", bytes_of<double>({1e-310, 3e-310}));
  EXPECT_DOUBLE_EQ(tiny["std"], 1e-310);
  EXPECT_DOUBLE_EQ(tiny["mean"], 2e-310);
}

TEST_F(Stats, IntegersAndBooleans) {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  const auto longs = stats_of("I64", "[3]", bytes_of<std::int64_t>({-large, 5, large}));
  EXPECT_EQ(longs["min"], -large);
  EXPECT_EQ(longs["max"], large);
  EXPECT_EQ(longs["quantiles"]["50"], 5);
  const auto top = stats_of("U64", "[2]", bytes_of<std::uint64_t>({~std::uint64_t{0}, 7}));
  EXPECT_EQ(top["max"], ~std::uint64_t{0});
  const auto bits = stats_of("BOOL", "[4]", std::string("\1\0\1\1", 4));
  EXPECT_EQ(bits["mean"], 0.75);
  EXPECT_EQ(bits["n_zeros"], 1);
  EXPECT_EQ(bits["histogram"]["counts"], nlohmann::json({1, 3}));
  EXPECT_EQ(stats_of("I8", "[2]", "\xff\x03")["min"], -1);
  EXPECT_EQ(stats_of("I32", "[2]", bytes_of<std::int32_t>({-70000, 3}))["min"], -70000);
}

// One more is the same double, so that there is no bin for each.
TEST_F(Stats, IntegersThatDoublesCannotTellApart) {
  for (const std::int64_t first :
       {std::int64_t{1} << 53, std::int64_t{1} << 62, std::int64_t{1764000000} * 1000000000}) {
    std::vector<std::int64_t> values(80);
    std::iota(values.begin(), values.end(), first);
    const auto json = stats_of("I64", "[80]", bytes_of<std::int64_t>(values));
    EXPECT_EQ(json["min"], first);
    EXPECT_EQ(json["max"], first + 79);
    std::uint64_t counted = 0;
    for (const auto& bin : json["histogram"]["counts"]) counted += bin.get<std::uint64_t>();
    EXPECT_EQ(counted, values.size());
  }
}

TEST_F(Stats, SmallFloats) {
  const auto range = [&](const char* dtype, const std::string& data, double min, double max) {
    const std::size_t count = std::string(dtype) == "F4"             ? data.size() * 2
                              : std::string(dtype).starts_with("F6") ? data.size() * 4 / 3
                              : std::string(dtype).starts_with("F8") ? data.size()
                                                                     : data.size() / 2;
    const auto record = stats_of(dtype, "[" + std::to_string(count) + "]", data);
    EXPECT_EQ(record["min"], min) << dtype;
    EXPECT_EQ(record["max"], max) << dtype;
    return record;
  };
  range("BF16", bytes_of<std::uint16_t>({0x3F80, 0xC000, 0x7F7F}), -2, 0x1.FEp127);
  range("BF16", bytes_of<std::uint16_t>({0x0001, 0x3F80}), 0x1p-133, 1);
  range("F16", bytes_of<std::uint16_t>({0x0001, 0x7BFF, 0x7C00}), 0x1p-24, 65504);
  EXPECT_EQ(range("F8_E4M3", "\x7e\xc0\x7f", -2, 448)["n_nan"], 1);
  EXPECT_EQ(range("F8_E5M2", "\x7b\xc0\x7c\xfc\x7d", -2, 57344)["n_negative_inf"], 1);
  EXPECT_EQ(range("F8_E4M3FNUZ", "\x7f\x80\x01", 0x1p-10, 240)["n_nan"], 1);
  EXPECT_EQ(range("F8_E5M2FNUZ", "\x7f\x80\x01", 0x1p-17, 57344)["n_nan"], 1);
  EXPECT_EQ(range("F8_E8M0", std::string("\x00\x7f\xff", 3), 0x1p-127, 1)["n_nan"], 1);
  // 6 and -0.5; E2M3: 7.5, -1, 0, 0; E3M2: 28, -0.25, 0, 0. Low bits first.
  range("F4", "\x97", -0.5, 6);
  range("F6_E2M3", std::string("\x1f\x0a\x00", 3), -1, 7.5);
  range("F6_E3M2", std::string("\x1f\x09\x00", 3), -0.25, 28);
  const auto complex = stats_of("C64", "[1]", bytes_of<float>({3, -4}));
  EXPECT_EQ(complex["n_finite"], 2);
  EXPECT_EQ(complex["min"], -4);
}

TEST_F(Stats, ErrorsAgainstAReference) {
  // Integers are compared, but not in the total: their range is another.
  make("new", model_of({{"x", "F32", "[4]", bytes_of<float>({1, 2, 3, 4.5})},
                        {"y", "F64", "[2]", bytes_of<double>({0, 1})},
                        {"z", "I64", "[1]", bytes_of<std::int64_t>({1000})}}));
  make("old", model_of({{"x", "F32", "[4]", bytes_of<float>({1, 2, 3, 5})},
                        {"y", "F64", "[2]", bytes_of<double>({0, 1})},
                        {"z", "I64", "[1]", bytes_of<std::int64_t>({1001})}}));
  for (const char* reference : {"old.safetensors", "old.cfck"}) {
    const Outcome outcome =
        run({"stats", "--json", folder / "new.cfck", "--ref", folder / reference});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto json = outcome.json();
    const auto& errors = json["records"][0]["errors"];
    EXPECT_EQ(errors["max_abs_error"], 0.5);
    EXPECT_EQ(errors["max_rel_error"], 0.125);
    EXPECT_EQ(errors["rmse"], 0.25);
    EXPECT_NEAR(errors["psnr"].get<double>(), 20 * std::log10(4 / 0.25), 1e-12);
    EXPECT_NEAR(errors["cosine"].get<double>(), 36.5 / std::sqrt(34.25 * 39), 1e-14);
    EXPECT_EQ(json["records"][1]["errors"]["psnr"], "inf");
    EXPECT_EQ(json["records"][1]["errors"]["cosine"], 1);
    EXPECT_EQ(json["records"][2]["errors"]["max_abs_error"], 1);
    EXPECT_EQ(json["total"]["n_values"], 6);
    EXPECT_EQ(json["total"]["max_abs_error"], 0.5);
    EXPECT_DOUBLE_EQ(json["total"]["rmse"], std::sqrt(0.25 / 6));
    EXPECT_NEAR(json["total"]["cosine"].get<double>(), 37.5 / std::sqrt(35.25 * 40), 1e-14);
  }
  const Outcome text = run({"stats", folder / "new.cfck", "x", "--ref", folder / "old.cfck"});
  EXPECT_NE(text.out.find("all 4 compared floats: max abs 0.5"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("max abs 0.5  max rel 0.125  RMSE 0.25  PSNR 24.08 dB"),
            std::string::npos)
      << text.out;
  const Outcome table = run({"stats", folder / "new.cfck", "--ref", folder / "old.cfck"});
  EXPECT_EQ(table.out.substr(0, table.out.find("\n\n")),
            "name  dtype  shape  zeros   min  median   max   mean    std  max err  RMSE  PSNR dB   "
            "    cosine\n"
            "x     F32    [4]        0     1     2.5   4.5  2.625  1.293      0.5  0.25    24.08  "
            "0.998689015\n"
            "y     F64    [2]        1     0     0.5     1    0.5    0.5        0     0      inf  "
            "1.000000000\n"
            "z     I64    [1]        0  1000    1000  1000   1000      0        1     1     -inf  "
            "1.000000000");
  const Outcome quiet = run({"stats", "-q", folder / "new.cfck", "--ref", folder / "old.cfck"});
  EXPECT_EQ(quiet.out.substr(0, quiet.out.find(':')), "all 6 compared floats");
}

TEST_F(Stats, IntegersAloneHaveNoTotal) {
  make("a", model_of({{"z", "I64", "[1]", bytes_of<std::int64_t>({1000})}}));
  const std::vector<std::string> command = {"stats", folder / "a.cfck", "--ref",
                                            folder / "a.safetensors"};
  const Outcome text = run(command);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.find("compared"), std::string::npos) << text.out;
  EXPECT_TRUE(run({"stats", "--json", folder / "a.cfck", "--ref", folder / "a.safetensors"})
                  .json()["total"]
                  .is_null());
}

TEST_F(Stats, SpecialValuesAgainstAReference) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  make("a", model_of({{"x", "F32", "[4]", bytes_of<float>({nan, inf, 1, nan})}}));
  make("b", model_of({{"x", "F32", "[4]", bytes_of<float>({nan, -inf, 1, 2})}}));
  const auto equal = run({"stats", "--json", folder / "a.cfck", "--ref", folder / "a.safetensors"});
  EXPECT_EQ(equal.json()["total"]["n_special_mismatches"], 0);
  const auto differ = run({"stats", "--json", folder / "a.cfck", "--ref", folder / "b.cfck"});
  EXPECT_EQ(differ.json()["total"]["n_special_mismatches"], 2);
  EXPECT_EQ(differ.json()["total"]["max_abs_error"], 0);
}

TEST_F(Stats, ReferencesThatDoNotFit) {
  const std::string two = bytes_of<float>({1, 2});
  make("a", model_of({{"same", "F32", "[2]", two},
                      {"mine", "F32", "[2]", two},
                      {"dtype", "F32", "[2]", two},
                      {"shape", "F32", "[2]", two}}));
  make("b", model_of({{"same", "F32", "[2]", two},
                      {"yours", "F32", "[2]", two},
                      {"dtype", "I32", "[2]", two},
                      {"shape", "F32", "[1,2]", two}}));
  const Outcome outcome = run({"stats", "--json", folder / "a.cfck", "--ref", folder / "b.cfck"});
  EXPECT_EQ(outcome.code, 1);
  std::string names;
  const auto json = outcome.json();
  for (const auto& problem : json["problems"]) names += problem["name"].get<std::string>() + " ";
  EXPECT_EQ(names, "mine dtype shape yours ");
  EXPECT_NE(outcome.err.find("F32 [2] here, I32 [2] in the reference"), std::string::npos);
  EXPECT_EQ(json["total"]["n_values"], 2);
  const auto common =
      run({"stats", "--json", "--common", folder / "a.cfck", "--ref", folder / "b.cfck"});
  EXPECT_EQ(common.code, 1);
  EXPECT_EQ(common.json()["problems"].size(), 2U);
  EXPECT_EQ(run({"stats", folder / "a.cfck", "same", "--ref", folder / "b.cfck"}).code, 0);
  EXPECT_EQ(run({"stats", folder / "a.cfck", "--ref", folder / "none"}).code, 3);
}

TEST_F(Stats, NamesAndPatterns) {
  make("m", small_model());
  const auto json = run({"stats", "--json", folder / "m.cfck", "layer.*", "ids"}).json();
  EXPECT_EQ(json["records"].size(), 3U);
  EXPECT_EQ(run({"stats", "--json", folder / "m.cfck"}).json()["records"].size(), 5U);
  const Outcome wrong = run({"stats", folder / "m.cfck", "layer.wight"});
  EXPECT_EQ(wrong.code, 3);
  EXPECT_NE(wrong.err.find("did you mean 'layer.weight'"), std::string::npos) << wrong.err;
}

// A line for each tensor, which fits the terminal; histograms are for those who ask.
TEST_F(Stats, ATableByDefault) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string name = "model.layers.0.self_attention.query_proj.weight";
  make("m", model_of({{name, "F32", "[4]", bytes_of<float>({0, 1, 2, 3})},
                      {"steps", "I64", "[]", bytes_of<std::int64_t>({123456789})},
                      {"empty", "F32", "[0]", ""}}));
  const Outcome plain = run({"stats", folder / "m.cfck"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(std::count(plain.out.begin(), plain.out.end(), '\n'), 4) << plain.out;
  EXPECT_EQ(plain.out.find("NaN"), std::string::npos) << plain.out;
  EXPECT_EQ(plain.out.find("quantiles"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("123456789"), std::string::npos) << plain.out;
  RunOptions terminal;
  terminal.terminal = true;
  terminal.environment = {"COLUMNS=80"};
  const std::string fit = run({"stats", "--color=never", folder / "m.cfck"}, terminal).out;
  const std::string table = fit.substr(fit.find("name "));
  EXPECT_LE(table.find('\n'), 82U) << fit;
  EXPECT_NE(table.find(name), std::string::npos) << fit;
  EXPECT_NE(table.find("do not fit the terminal"), std::string::npos) << fit;
  make("special", model_of({{"x", "F32", "[3]", bytes_of<float>({nan, -inf, 1})}}));
  const Outcome special = run({"stats", folder / "special.cfck"});
  EXPECT_NE(special.out.find("zeros  NaN  Inf  min"), std::string::npos) << special.out;
  EXPECT_EQ(run({"stats", "--ascii", folder / "m.cfck"}).code, 2);
}

TEST_F(Stats, DrawsAsTheTerminalCan) {
  make("m", small_model());
  const auto draw = [&](std::vector<std::string> flags, const char* locale) {
    flags.insert(flags.begin(), {"stats", "--histograms", folder / "m.cfck", "layer.weight"});
    RunOptions options;
    options.environment = {locale};
    return run(flags, options).out;
  };
  EXPECT_NE(draw({}, "LC_ALL=C.UTF-8").find("█"), std::string::npos);
  for (const std::string& text : {draw({}, "LC_ALL=C"), draw({"--ascii"}, "LC_ALL=C.UTF-8")}) {
    EXPECT_EQ(text.find("█"), std::string::npos);
    EXPECT_NE(text.find("####"), std::string::npos) << text;
    EXPECT_NE(text.find("quantiles (exact)"), std::string::npos);
  }
  EXPECT_EQ(draw({"--quiet"}, "LC_ALL=C").find('#'), std::string::npos);
}

// The histogram ends four deviations from the mean; values beyond are in its first and last bin.
TEST_F(Stats, OutliersAreInTheBinsAtTheEnds) {
  std::vector<float> values(10'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 100) - 49.5F;
  values[0] = -1e4F;
  values[1] = 1e4F;
  make("m", model_of({{"w", "F32", "[10000]", bytes_of(values)}}));
  const std::string text = run({"stats", "--histograms", folder / "m.cfck", "w"}).out;
  EXPECT_NE(text.find("  <"), std::string::npos) << text;
  EXPECT_NE(text.find("  >="), std::string::npos) << text;
  EXPECT_EQ(text.find("<="), std::string::npos) << text;
}

TEST_F(Stats, DamagedFiles) {
  make("m", model_of({{"large", "U8", "[100000]", noise(100000, 1)},
                      {"small", "F32", "[2]", bytes_of<float>({1, 63})}}));
  const std::string whole = read_file(folder / "m.cfck");
  write_file(folder / "short.cfck", whole.substr(0, whole.size() - 9));
  EXPECT_EQ(run({"stats", folder / "short.cfck"}).code, 4);
  std::string damaged = whole;
  damaged[200] = static_cast<char>(damaged[200] ^ 4);
  write_file(folder / "damaged.cfck", damaged);
  const Outcome outcome = run({"stats", "--json", folder / "damaged.cfck"});
  EXPECT_EQ(outcome.code, 5);
  const auto json = outcome.json();
  EXPECT_EQ(json["records"][0]["error"]["code"], "checksum");
  EXPECT_EQ(json["records"][1]["max"], 63);
  EXPECT_EQ(run({"stats", folder / "none"}).code, 3);
}

// Without a bound or a target nothing can be met.
TEST_F(Stats, AQualityHasNoMaximumError) {
  write_file(folder / "w.safetensors", weights_model());
  ASSERT_EQ(run({"convert", folder / "w.safetensors", folder / "w.cfck", "--quality", "high"}).code,
            0);
  const Outcome outcome =
      run({"stats", "--histograms", folder / "w.cfck", "--ref", folder / "w.safetensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("maximum error none"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("no maximum error: NaN and infinities are the same"),
            std::string::npos)
      << outcome.out;
}

}  // namespace
}  // namespace cfck::test

// cfck convert with maximum errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

class ConvertBounds : public ::testing::Test {
 protected:
  void SetUp() override { write_file(in, weights_model()); }

  // Converts IN to OUT with --json.
  Outcome convert(std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", "-f", "--json", in, out});
    return run(options);
  }
  // Returns the values of a tensor of OUT, by converting it back.
  std::vector<float> values(const std::string& name) {
    EXPECT_EQ(run({"extract", "-f", out, name, "-o", folder / "x.npy"}).code, 0);
    const std::string bytes = read_file(folder / "x.npy");
    const std::size_t start = bytes.find('\n') + 1;
    std::vector<float> list((bytes.size() - start) / 4);
    std::memcpy(list.data(), bytes.data() + start, 4 * list.size());
    return list;
  }

  TemporaryFolder folder;
  std::string in = folder / "m.safetensors";
  std::string out = folder / "m.cfck";
};

double largest_error(const std::vector<float>& x, const std::vector<float>& y) {
  EXPECT_EQ(x.size(), y.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(x[i]) - y[i]));
  }
  return largest;
}

std::map<std::string, std::string> reasons(const nlohmann::json& json) {
  std::map<std::string, std::string> found;
  for (const auto& kept : json["kept_lossless"]) found[kept["name"]] = kept["reason"];
  return found;
}

TEST_F(ConvertBounds, NoValueIsFurtherOff) {
  const std::vector<float> original = weights(4096, 1, 0.1F);
  double min = 1, most = -1, squares = 0;
  for (const double value : original) {
    min = std::min(min, value);
    most = std::max(most, value);
    squares += value * value;
  }
  const std::map<std::string, double> sizes = {
      {"abs", 1}, {"rel", most - min}, {"sigma", std::sqrt(squares / 4096)}};
  for (const auto& [kind, size] : sizes) {
    const Outcome outcome = convert({"--max-" + kind + "-error", "1e-3"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const double error = largest_error(original, values("a.weight"));
    EXPECT_LE(error, 1e-3 * size) << kind;
    EXPECT_GT(error, 0.9e-3 * size) << kind;
    const auto json = outcome.json();
    EXPECT_EQ(json["lossy"].size(), 1U);
    EXPECT_GE(json["lossy"][kind]["max_abs_error"], error);
    EXPECT_EQ(json["lossy"][kind]["n_records"], kind == "abs" ? 2 : 3);
    EXPECT_EQ(json["records"][0]["codec"], "direct");
  }
}

TEST_F(ConvertBounds, SaysWhatStayedLosslessAndWhy) {
  const Outcome outcome = convert({"--max-abs-error", "1e-3"});
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(reasons(outcome.json()),
            (std::map<std::string, std::string>{{"norm.bias", "few_dimensions"},
                                                {"ids", "not_float"},
                                                {"optimizer.state", "optimizer_state"},
                                                {"tiny", "near_zero"}}));
  EXPECT_EQ(outcome.json()["unmatched_rules"], nlohmann::json::array());
  const Outcome text = run({"convert", "-f", in, out, "--max-abs-error", "1e-3"});
  EXPECT_NE(text.out.find("lossy  2 tensors, abs 1e-03; worst error 1.00e-03"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("lossless  1 tensor, fewer than two dimensions: norm.bias\n"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("near_zero"), text.out.find("root mean square below"));
  // Without a maximum error there is nothing to explain.
  EXPECT_EQ(convert({}).json()["kept_lossless"], nlohmann::json::array());
  EXPECT_EQ(convert({}).json()["lossy"], nlohmann::json::object());
  EXPECT_EQ(run({"convert", "-f", in, out}).out.find("loss"), std::string::npos);
}

TEST_F(ConvertBounds, ManyNamesAreCutShort) {
  std::vector<TestTensor> tensors;
  for (const char* name : {"n1", "n2", "n3", "n4", "n5"}) {
    tensors.push_back({name, "F32", "[4]", bytes_of(weights(4, 1, 1))});
  }
  write_file(in, model_of(tensors));
  const Outcome text = run({"convert", "-f", in, out, "--max-abs-error", "1e-3"});
  EXPECT_NE(text.out.find("lossless  5 tensors, fewer than two dimensions: n1, n2, n3, ...\n"),
            std::string::npos)
      << text.out;
}

TEST_F(ConvertBounds, PerRow) {
  std::vector<float> rows;
  for (int row = 0; row < 4; ++row) {
    const auto more = weights(1024, static_cast<std::uint64_t>(row), std::ldexp(1.0F, 4 * row));
    rows.insert(rows.end(), more.begin(), more.end());
  }
  write_file(in, model_of({{"w", "F32", "[4,1024]", bytes_of(rows)}}));
  const Outcome outcome = convert({"--max-rel-error", "1e-2", "--per-row", "--codec", "direct"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<float> back = values("w");
  for (std::size_t row = 0; row < 4; ++row) {
    const auto first = static_cast<std::ptrdiff_t>(1024 * row);
    const std::vector<float> x(rows.begin() + first, rows.begin() + first + 1024);
    const std::vector<float> y(back.begin() + first, back.begin() + first + 1024);
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    const double range = static_cast<double>(*high) - *low;
    EXPECT_LE(largest_error(x, y), 1e-2 * range) << row;
    EXPECT_GT(largest_error(x, y), 0.4e-2 * range) << row;
  }
}

TEST_F(ConvertBounds, ADryRunKnowsTheSameNumbers) {
  const auto dry = convert({"--max-abs-error", "1e-3", "--dry-run"}).json();
  EXPECT_FALSE(fs::exists(out));
  const auto json = convert({"--max-abs-error", "1e-3"}).json();
  EXPECT_EQ(dry["output_bytes"], fs::file_size(out));
  for (const char* key : {"lossy", "kept_lossless", "unmatched_rules", "bits_per_weight"}) {
    EXPECT_EQ(dry[key], json[key]) << key;
  }
}

TEST_F(ConvertBounds, BadMaximumErrors) {
  for (const char* option : {"--max-abs-error", "--max-rel-error", "--max-sigma-error"}) {
    for (const char* value : {"0", "-0", "-1", "-1e-4", "nan", "NaN", "inf", "-inf", "1e-4x", "",
                              " 1", "1 ", "0x1p-3", "1,5", "1e", "e-4", "--", "1e-400", "1e999"}) {
      const Outcome outcome = convert({option, value});
      EXPECT_EQ(outcome.code, 2) << option << value;
      EXPECT_NE(outcome.err.find(option), std::string::npos) << outcome.err;
    }
  }
  for (const char* value : {"1e-4", "1E-4", ".001", "0.0001", "1"}) {
    EXPECT_EQ(convert({"--max-abs-error", value}).code, 0) << value;
  }
  EXPECT_EQ(convert({"--max-abs-error", "1e-310"}).code, 2);
  EXPECT_FALSE(fs::exists(folder / "none"));
}

TEST_F(ConvertBounds, WideOnesAreWarnedOf) {
  const auto warnings = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", "-f", in, out});
    const Outcome outcome = run(options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  for (const char* bound : {"5", "0.4", "0.1"}) {
    const std::string text = warnings({"--max-rel-error", bound});
    EXPECT_NE(text.find("max_rel_error 0.01 is a hundredth"), std::string::npos) << text;
  }
  for (const char* rule : {"*: max_sigma_error=1", "*: max_sigma_error=0.9"}) {
    const std::string text = warnings({"--rule", rule});
    EXPECT_NE(text.find("max_sigma_error 0.01 is a hundredth"), std::string::npos) << text;
  }
  EXPECT_EQ(warnings({"--max-rel-error", "0.01"}), "");
  EXPECT_EQ(warnings({"--max-sigma-error", "0.1"}), "");
}

TEST_F(ConvertBounds, OptionsThatContradict) {
  const std::vector<std::vector<std::string>> all = {
      {"--max-abs-error", "1", "--max-rel-error", "1"},
      {"--max-rel-error", "1", "--max-sigma-error", "1"},
      {"--per-row"},
      {"--per-row", "--max-abs-error", "1"},
      {"--codec", "direct"},
      {"--codec", "raw", "--max-abs-error", "1"},
      {"--codec", "lossless", "--max-abs-error", "1"}};
  for (const auto& options : all) {
    const Outcome outcome = convert(options);
    EXPECT_EQ(outcome.code, 2) << options[0];
    EXPECT_EQ(outcome.json()["error"]["code"], "invalid_argument");
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST_F(ConvertBounds, TensorsWithoutAnyToLose) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_file(in, model_of({{"constant", "F32", "[2,1024]", bytes_of(std::vector<float>(2048, 3))},
                           {"empty", "F32", "[0,4]", ""},
                           {"scalar", "F32", "[]", bytes_of<float>({7})},
                           {"nan", "F32", "[2,1024]", bytes_of(std::vector<float>(2048, nan))},
                           {"inf", "F32", "[2,1024]", bytes_of(std::vector<float>(2048, inf))}}));
  for (const char* option : {"--max-abs-error", "--max-rel-error", "--max-sigma-error"}) {
    for (const char* rule : {"no: codec=raw", "*: max_rel_error=1e-3"}) {
      const Outcome outcome = convert({option, "1e-3", "--rule", rule, "--verify"});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      ASSERT_EQ(run({"convert", "-f", out, folder / "back"}).code, 0);
      EXPECT_TRUE(read_file(folder / "back") == read_file(in)) << option << rule;
    }
  }
}

TEST_F(ConvertBounds, NoneOnTheWayBack) {
  ASSERT_EQ(convert({"--max-abs-error", "1e-3"}).code, 0);
  const std::vector<std::vector<std::string>> all = {
      {"--max-abs-error", "1e-3"},
      {"--max-rel-error", "1e-3", "--per-row"},
      {"--max-sigma-error", "1e-3"},
      {"--rule", "*: codec=raw"},
      {"--max-abs-error", "1e-3", "--codec", "direct"}};
  for (std::vector<std::string> options : all) {
    options.insert(options.begin(), {"convert", out, folder / "back"});
    const Outcome outcome = run(options);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("conversion to .cfck"), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(folder / "back"));
  }
  fs::create_directory(folder / "cfck");
  fs::copy(out, folder / "cfck/m.cfck");
  EXPECT_EQ(run({"convert", folder / "cfck", folder / "back", "--max-abs-error", "1"}).code, 2);
  const Outcome back = run({"convert", out, folder / "back", "--verify", "--json"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(back.json()["lossy"]["abs"]["n_records"], 2);
}

}  // namespace
}  // namespace cfck::test

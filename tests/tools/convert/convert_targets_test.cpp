// cfck convert with targets, and the reports of the other commands on the result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

class ConvertTargets : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(in, model_of({{"a.weight", "F32", "[200,200]", bytes_of(weights(40000, 1, 0.1F))},
                             {"b.weight", "F32", "[32,32,3,3]", bytes_of(weights(9216, 2, 0.3F))},
                             {"bias", "F32", "[64]", bytes_of(weights(64, 3, 0.1F))}}));
  }

  // Converts IN to OUT with --json.
  Outcome convert(std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", "-f", "--json", in, out});
    return run(options);
  }
  nlohmann::json inspect() { return run({"inspect", "--json", out}).json(); }

  TemporaryFolder folder;
  std::string in = folder / "m.safetensors";
  std::string out = folder / "m.cfck";
};

TEST_F(ConvertTargets, QualityIsReachedAndReported) {
  const Outcome outcome = convert({"--nmse=-20dB", "--verify"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto quality = outcome.json()["lossy"]["quality"];
  EXPECT_EQ(quality["n_records"], 2);
  EXPECT_LE(quality["nmse_db"], -20 + 1e-6);
  EXPECT_GE(quality["nmse_db"], -20.05);
  EXPECT_EQ(inspect()["lossy"]["quality"], quality);
  const Outcome psnr = convert({"--codec", "spectral", "--psnr", "40dB"});
  EXPECT_GE(psnr.json()["lossy"]["quality"]["psnr_db"], 40 - 1e-6);
  EXPECT_LE(psnr.json()["lossy"]["quality"]["psnr_db"], 40.05);
  const Outcome bits = convert({"--bits-per-weight", "2.5", "--trellis-states", "4"});
  EXPECT_LE(bits.json()["lossy"]["quality"]["bits_per_weight"], 2.5);
  EXPECT_GE(bits.json()["lossy"]["quality"]["bits_per_weight"], 0.995 * 2.5);
}

TEST_F(ConvertTargets, SizesAreMetFromBelow) {
  for (const auto& [text, size] :
       {std::pair<const char*, double>{"20kB", 20000}, {"0.05MB", 50000}, {"40KiB", 40960}}) {
    ASSERT_EQ(convert({"--size", text, "--verify"}).code, 0);
    const auto n_bytes = static_cast<double>(fs::file_size(out));
    EXPECT_LE(n_bytes, size);
    EXPECT_GE(n_bytes, 0.995 * size);
  }
  EXPECT_EQ(convert({"--size", "20kb", "--dry-run"}).json()["output_bytes"],
            convert({"--size", "20kB"}).json()["output_bytes"]);
}

TEST_F(ConvertTargets, RowsSayWhatWasAskedAndReached) {
  ASSERT_EQ(convert({"--bits-per-weight=3", "--rule", "b.*: nmse=-30dB"}).code, 0);
  const auto records = inspect()["records"];
  EXPECT_EQ(records[0]["codec"], "spectral");
  EXPECT_EQ(records[0]["target_kind"], "bits_per_weight");
  EXPECT_EQ(records[0]["target"], 3.0);
  EXPECT_EQ(records[0]["whole_file"], true);
  EXPECT_EQ(records[0]["bound_kind"], "none");
  EXPECT_FALSE(records[0].contains("bound"));
  EXPECT_EQ(records[1]["target_kind"], "nmse");
  EXPECT_EQ(records[1]["whole_file"], false);
  EXPECT_LE(records[1]["nmse_db"], -30 + 1e-6);
  EXPECT_GE(records[1]["nmse_db"], -30.05);
  EXPECT_FALSE(records[2].contains("target"));
  const std::string text = run({"inspect", out}).out;
  EXPECT_NE(text.find("NMSE dB"), std::string::npos) << text;
  EXPECT_NE(text.find("file 3 b/w"), std::string::npos) << text;
  EXPECT_NE(text.find("nmse -30.00 dB"), std::string::npos) << text;
  EXPECT_NE(text.find("bits per weight, NMSE"), std::string::npos) << text;
}

TEST_F(ConvertTargets, BlocksAreThoseAskedFor) {
  ASSERT_EQ(convert({"--nmse=-20dB", "--block", "16x4", "--rule", "b.*: nmse=-20dB, block=1"}).code,
            0);
  const Outcome bands = run({"inspect", "bands", out, "--json"});
  ASSERT_EQ(bands.code, 0) << bands.err;
  const auto records = bands.json()["records"];
  EXPECT_EQ(records[0]["codings"][0]["transform"], "dct") << records;
  EXPECT_EQ(records[0]["codings"][0]["block"], (std::vector<int>{16, 4})) << records;
  EXPECT_EQ(records[1]["codings"][0]["transform"], "identity") << records;
}

TEST_F(ConvertTargets, StatsAndVerifyCompareWithTheOriginal) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--nmse=-15dB"}, {"--nmse=-15dB", "--max-abs-error", "0.05"}}) {
    ASSERT_EQ(convert(options).code, 0);
    EXPECT_EQ(run({"verify", "--deep", out}).code, 0);
    const Outcome stats = run({"stats", out, "--ref", in});
    EXPECT_EQ(stats.code, 0) << stats.out << stats.err;
    const auto total = run({"stats", "--json", out, "--ref", in}).json();
    for (const auto& tensor : total["records"]) {
      if (tensor["name"] == "bias") continue;
      EXPECT_LT(tensor["errors"]["nmse_db"], -10) << tensor;
    }
    const bool has_bound = options.size() > 1;
    EXPECT_NE(stats.out.find(has_bound ? "  file nmse -15.00 dB, abs 5e-02 met\n"
                                       : "  file nmse -15.00 dB\n"),
              std::string::npos)
        << stats.out;
    const Outcome full = run({"stats", "--histograms", out, "--ref", in});
    EXPECT_NE(
        full.out.find(has_bound ? "maximum error abs" : "target nmse -15.00 dB (whole file): met"),
        std::string::npos)
        << full.out;
  }
  // Compared with another file, the maximum errors cannot be right.
  write_file(folder / "other.safetensors",
             model_of({{"a.weight", "F32", "[200,200]", bytes_of(weights(40000, 9, 0.1F))}}));
  EXPECT_NE(run({"stats", out, "--ref", folder / "other.safetensors", "--common"}).code, 0);
}

TEST_F(ConvertTargets, QualitiesAreWords) {
  double bytes_before = 1e18;
  double error_before = -1000;
  for (const char* word : {"near-lossless", "high", "balanced", "small"}) {
    const Outcome outcome = convert({"--quality", word, "--verify"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    const auto json = outcome.json();
    const double n_bytes = json["output_bytes"];
    const double error = json["lossy"]["quality"]["nmse_db"];
    EXPECT_LT(n_bytes, bytes_before) << word;
    EXPECT_GT(error, error_before) << word;
    bytes_before = n_bytes;
    error_before = error;
    const auto records = inspect()["records"];
    for (const auto& record : records) EXPECT_FALSE(record.contains("target"));
  }
  ASSERT_EQ(convert({"--rule", "a.*: quality=balanced", "--rule", "b.*: quality=high"}).code, 0);
  const auto records = inspect()["records"];
  EXPECT_GT(records[0]["nmse_db"], records[1]["nmse_db"]);
  EXPECT_EQ(records[2]["codec"], "lossless");
}

TEST_F(ConvertTargets, ErrorsThatRuinAModelAreWarnedOfEvenIfQuiet) {
  const auto said = [&](const std::vector<std::string>& options) {
    std::vector<std::string> all = {"convert", "-f", in, out};
    all.insert(all.end(), options.begin(), options.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  for (const char* flag : {"--json", "-q"}) {
    const std::string text = said({flag, "--nmse=-5dB"});
    EXPECT_EQ(text.find("warning: "), 0U) << text;
    EXPECT_NE(text.find("above -10 dB"), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
  EXPECT_EQ(said({"--nmse=-5dB", "--no-warnings"}), "");
  EXPECT_EQ(said({"--nmse=-20dB"}), "");
  EXPECT_NE(said({"-q", "--rule", "*: nmse=-20dB, force"}).find("fewer than two dimensions"),
            std::string::npos);
}

TEST_F(ConvertTargets, WhatMakesNoSenseIsRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> refusals = {
      {{"--nmse", "3"}, "'3' is not an NMSE"},
      {{"--psnr", "many"}, "'many' is not a PSNR"},
      {{"--size", "60XB"}, "'60XB' is not a size"},
      {{"--bits-per-weight", "0"}, "not positive"},
      {{"--trellis-states", "3"}, "not one of 1, 4, 8, 64"},
      {{"--nmse", "0.1", "--block", "8x65"}, "'8x65' is not a block"},
      {{"--nmse", "0.1", "--block", "8x"}, "'8x' is not a block"},
      {{"--nmse", "0.1", "--block", "0"}, "'0' is not a block"},
      {{"--nmse", "0.1", "--block", "64x64x2"}, "at most 4096 values"},
      {{"--block", "8x8"}, "block needs a quality or a target"},
      {{"--trellis-states", "8"}, "trellis_states needs a quality or a target"},
      {{"--rule", "a*: nmse=0.1, block=8,8"}, "8"},
      {{"--steps", "feedback"}, "--steps feedback needs --calibration FILE"},
      {{"--nmse", "0.1", "--steps", "calibrated"}, "--steps calibrated needs --calibration FILE"},
      {{"--steps", "prior"}, "--steps needs a quality or a target, e.g. --bits-per-weight 3"},
      {{"--psnr", "40", "--max-rel-error", "0.1"},
       "--max-rel-error cannot be combined with --psnr"},
      {{"--codec", "spectral"}, "codec spectral needs"},
      {{"--nmse", "0.1", "--size", "1MB"}, "give only one of"},
      {{"--codec", "direct", "--psnr", "40"}, "need codec spectral"},
      {{"--nmse", "0.1", "--max-sigma-error", "0.1"},
       "--max-sigma-error cannot be combined with --nmse"},
      {{"--quality", "best"}, "'best' is not a quality; choose near-lossless, high, balanced"},
      {{"--quality", "high", "--nmse=-20dB"}, "give either --quality or --nmse"},
      {{"--quality", "high", "--max-rel-error", "0.1"},
       "--max-rel-error cannot be combined with --quality"},
      {{"--quality", "high", "--steps", "flat"}, "quality 'high' is relative to the values"},
      {{"--rule", "bias: quality=fair"}, "'fair' is not a quality"},
      {{"--rule", "a*: size=20kB"}, "size: applies to the whole file"},
      {{"--rule", "a*: nmse=2dB"}, "'2dB' is not an NMSE"},
      {{"--size", "300"}, "with the coarsest steps the file takes"},
      {{"--bits-per-weight", "0.0001"}, "or more"}};
  for (const auto& [options, text] : refusals) {
    const Outcome outcome = convert(options);
    EXPECT_NE(outcome.code, 0) << text;
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(out));
  }
  ASSERT_EQ(convert({}).code, 0);
  const Outcome back = run({"convert", out, folder / "b.safetensors", "--nmse=-20dB"});
  EXPECT_NE(back.err.find("--nmse"), std::string::npos) << back.err;
}

}  // namespace
}  // namespace cfck::test

// cfck bands: how records of codec spectral are coded, in text and JSON.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

class Bands : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string kernels = bytes_of(weights(147456, 2, 0.3F));
    write_file(in, model_of({{"small", "F32", "[32,32,3,3]", bytes_of(weights(9216, 1, 0.3F))},
                             {"large", "F32", "[1024,512]", bytes_of(weights(524288, 3, 0.1F))},
                             {"kernels", "F32", "[128,128,3,3]", kernels},
                             {"same", "F32", "[128,128,3,3]", kernels},
                             {"none", "F32", "[0,64]", ""},
                             {"bias", "F32", "[64]", bytes_of(weights(64, 4, 0.1F))}}));
  }

  void convert(std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", "-f", in, out});
    const Outcome outcome = run(options);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  nlohmann::json bands(std::vector<std::string> options = {}, int code = 0) {
    options.insert(options.begin(), {"bands", "--json", out});
    const Outcome outcome = run(options);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return outcome.json();
  }
  static double sum(const nlohmann::json& record, const char* key) {
    double sum = record["lossless_chunks"]["bits"].get<double>();
    for (const auto& coding : record["codings"]) {
      for (const auto& band : coding["bands"]) sum += band[key].get<double>();
    }
    return sum;
  }

  TemporaryFolder folder;
  std::string in = folder / "m.safetensors";
  std::string out = folder / "m.cfck";
};

TEST_F(Bands, SayHowRecordsAreCoded) {
  convert({"--codec", "spectral", "--nmse=-20dB", "--trellis-states", "4"});
  const auto json = bands();
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["n_others"], 3);  // the duplicate, the empty one, the bias
  EXPECT_TRUE(json["problems"].empty());
  ASSERT_EQ(json["records"].size(), 3U);
  const auto index = run({"inspect", "--json", out}).json()["records"];
  for (const auto& record : json["records"]) {
    EXPECT_NEAR(sum(record, "bits"), 8 * record["stored_bytes"].get<double>(), 1e-3);
    EXPECT_GT(sum(record, "coefficient_bits"), 0.9 * sum(record, "bits"));
    for (const auto& row : index) {
      if (row["name"] != record["name"]) continue;
      EXPECT_EQ(row["stored_bytes"], record["stored_bytes"]);
      EXPECT_EQ(row["rmse"], record["rmse"]);
      EXPECT_EQ(row["shape"], record["shape"]);
    }
    ASSERT_EQ(record["codings"].size(), 1U);
    const auto& coding = record["codings"][0];
    EXPECT_EQ(coding["trellis_states"], 4);
    EXPECT_EQ(coding["n_values"], record["n_elems"]);
    EXPECT_EQ(coding["n_chunks"], record["n_chunks"]);
    EXPECT_GT(coding["step"], 0);
    // The error is known; without the original it is distributed like squared steps.
    double squares = 0;
    for (const auto& band : coding["bands"]) {
      EXPECT_FALSE(band.contains("rms_error"));
      squares +=
          band["n_values"].get<double>() * std::pow(band["estimated_rms_error"].get<double>(), 2);
    }
    EXPECT_NEAR(std::sqrt(squares / record["n_elems"].get<double>()), record["rmse"].get<double>(),
                1e-9);
  }
  const auto& small = json["records"][0]["codings"][0];
  EXPECT_EQ(small["parameters"], "inline");
  const auto& large = json["records"][1]["codings"][0];
  EXPECT_EQ(large["transform"], "identity");
  EXPECT_EQ(large["n_chunks"], 2);
  EXPECT_EQ(large["parameters"], "preamble");
  EXPECT_EQ(large["bands"].size(), 1U);
}

TEST_F(Bands, StepsOfKernelsAreShownByBand) {
  // With a prior kernels are transformed, and have a step for each band.
  convert({"--codec", "spectral", "--nmse=-20dB", "--steps", "prior"});
  const auto json = bands({"kernels"});
  ASSERT_EQ(json["records"].size(), 1U);
  const auto& coding = json["records"][0]["codings"][0];
  EXPECT_EQ(coding["transform"], "dct");
  EXPECT_EQ(coding["block"], (nlohmann::json{3, 3}));
  ASSERT_EQ(coding["bands"].size(), 9U);
  const auto& quarters = coding["step_field"]["bands"]["quarters"];
  ASSERT_EQ(quarters.size(), 9U);
  for (std::size_t b = 0; b < 9; ++b) {
    const auto& band = coding["bands"][b];
    EXPECT_EQ(band["band"], b);
    EXPECT_EQ(band["n_values"], 16384);
    const double step = coding["step"].get<double>() * std::exp2(quarters[b].get<int>() / 4.0);
    EXPECT_NEAR(band["step"].get<double>() / step, 1, 1e-6);
    EXPECT_NEAR(band["bits_per_weight"].get<double>(), band["bits"].get<double>() / 16384, 1e-9);
  }
  EXPECT_EQ(coding["bands"][1]["frequency"], (nlohmann::json{0, 1}));
  EXPECT_EQ(coding["bands"][2]["frequency"], (nlohmann::json{1, 0}));
  EXPECT_EQ(coding["bands"][8]["frequency"], (nlohmann::json{2, 2}));
  RunOptions inspect;
  inspect.program = "cfck-inspect";
  const Outcome text = run({"bands", out, "kernels"}, inspect);
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part :
       {"kernels  F32 [128,128,3,3]  147456 values in ", "dct, blocks of 3x3, 8 trellis states",
        "quarters", "by band", "frequency", "rms error (est.)", " 2,2 "}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  EXPECT_EQ(run({"bands", "--quiet", out, "kernels"}).out.find("frequency"), std::string::npos);
}

TEST_F(Bands, ErrorsAgainstTheOriginal) {
  convert({"--codec", "spectral", "--nmse=-15dB", "--steps", "prior"});
  const auto json = bands({"--ref", in});
  ASSERT_EQ(json["records"].size(), 3U);
  for (const auto& record : json["records"]) {
    double squares = 0;
    double min = 1e9;
    double most = 0;
    for (const auto& band : record["codings"][0]["bands"]) {
      EXPECT_FALSE(band.contains("estimated_rms_error"));
      const double rms = band["rms_error"].get<double>();
      squares += band["n_values"].get<double>() * rms * rms;
      EXPECT_NEAR(band["nmse_db"].get<double>(), 20 * std::log10(rms / band["rms"].get<double>()),
                  1e-9);
      min = std::min(min, rms / band["step"].get<double>());
      most = std::max(most, rms / band["step"].get<double>());
    }
    // The transform keeps sums of squares; the values were rounded to F32.
    EXPECT_NEAR(std::sqrt(squares / record["n_elems"].get<double>()) / record["rmse"].get<double>(),
                1, 1e-4);
    EXPECT_GT(min, 0.2);
    EXPECT_LT(most, 0.7);
  }
  const Outcome text = run({"bands", out, "--ref", in, "kernels"});
  EXPECT_NE(text.out.find("NMSE dB"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("(est.)"), std::string::npos) << text.out;
}

TEST_F(Bands, ReferencesThatDoNotFit) {
  convert({"--codec", "spectral", "--nmse=-20dB"});
  write_file(folder / "other",
             model_of({{"small", "F32", "[9216]", bytes_of(weights(9216, 1, 0.3F))}}));
  const auto json = bands({"small", "--ref", folder / "other"}, 1);
  EXPECT_EQ(json["problems"].size(), 1U);
  EXPECT_TRUE(json["records"][0]["codings"][0]["bands"][0].contains("estimated_rms_error"));
  const Outcome missing = run({"bands", out, "large", "--ref", folder / "other"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("the reference has no tensor with this name"), std::string::npos);
  EXPECT_EQ(run({"bands", out, "--ref", folder / "nothing"}).code, 3);
}

TEST_F(Bands, OtherFilesHaveNone) {
  const Outcome plain = run({"bands", in});
  EXPECT_EQ(plain.code, 0);
  EXPECT_NE(plain.out.find("6 tensors are of another codec"), std::string::npos) << plain.out;
  convert({});
  EXPECT_EQ(bands()["n_others"], 6);
  EXPECT_TRUE(bands()["records"].empty());
  const Outcome misspelt = run({"bands", out, "smal"});
  EXPECT_EQ(misspelt.code, 3);
  EXPECT_NE(misspelt.err.find("did you mean 'small'"), std::string::npos) << misspelt.err;
}

// Damage that hashes do not find gives the error that reading gives.
TEST_F(Bands, BrokenRecords) {
  std::size_t n_files = 0;
  for (const auto& entry : fs::directory_iterator(CFCK_VECTORS "/broken")) {
    if (!entry.path().filename().string().starts_with("spectral_")) continue;
    ++n_files;
    const Outcome read = run({"stats", entry.path()});
    const Outcome described = run({"bands", entry.path()});
    EXPECT_NE(described.code, 0) << entry.path();
    EXPECT_EQ(described.code, read.code) << entry.path();
    EXPECT_NE(described.err.find("(record 't', byte "), std::string::npos) << described.err;
    EXPECT_EQ(described.err.substr(described.err.find(':')), read.err.substr(read.err.find(':')));
    EXPECT_EQ(run({"bands", "--json", entry.path()}).json()["problems"].size(), 1U);
  }
  EXPECT_GT(n_files, 40U);
  convert({"--codec", "spectral", "--nmse=-20dB"});
  std::string bytes = read_file(out);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(out, bytes);
  const auto json = bands({}, 5);
  EXPECT_EQ(json["problems"].size(), 1U);
  EXPECT_EQ(json["records"].size(), 2U);
}

}  // namespace
}  // namespace cfck::test

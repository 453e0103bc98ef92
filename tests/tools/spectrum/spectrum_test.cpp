// cfck spectrum.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Spectrum : public ::testing::Test {
 protected:
  Json spectrum(const std::vector<TestTensor>& tensors, std::vector<std::string> options = {}) {
    write_file(file, model_of(tensors));
    options.insert(options.begin(), {"spectrum", "--json", file});
    const Outcome outcome = run(options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  }
  Json record_of(const std::string& shape, const std::vector<float>& values,
                 std::vector<std::string> options = {"--fast", "x"}) {
    return spectrum({{"x", "F32", shape, bytes_of(values)}}, std::move(options))["records"][0];
  }

  TemporaryFolder folder;
  std::string file = folder / "m.safetensors";
};

double total_energy(const Json& record) {
  double total = 0;
  for (const auto& band : record["bands"]) total += band["energy"].get<double>();
  return total;
}

double squares(const std::vector<float>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

TEST_F(Spectrum, EnergyStaysAndIsWhereTheFrequenciesAre) {
  const std::vector<float> noise = weights(40 * 36, 1, 1);
  EXPECT_NEAR(total_energy(record_of("[40,36]", noise)), squares(noise), 1e-6 * squares(noise));
  const auto flat = record_of("[16,16]", std::vector<float>(256, 3));
  EXPECT_EQ(flat["block"], Json({8, 8}));
  EXPECT_NEAR(flat["bands"][0]["energy"].get<double>(), 9 * 256, 1e-6);
  EXPECT_EQ(flat["bands"][0]["n_coefficients"], 4);
  EXPECT_NEAR(flat["bands"][3]["energy"].get<double>(), 0, 1e-9);
  // Signs that change from each value to the next: the highest frequency has most.
  std::vector<float> board(256);
  for (std::size_t i = 0; i < board.size(); ++i) board[i] = (i / 16 + i) % 2 == 0 ? 1.0F : -1.0F;
  const auto high = record_of("[16,16]", board);
  EXPECT_GT(high["bands"][3]["energy"].get<double>(), 0.9 * 256);
  EXPECT_EQ(high["bands"][3]["first_frequency"], 4);
  EXPECT_EQ(high["bands"][3]["last_frequency"], 7);
}

TEST_F(Spectrum, CodingGainIsThatOfTheTransform) {
  EXPECT_NEAR(record_of("[256,256]", weights(65536, 3, 1))["coding_gain_db"].get<double>(), 0, 0.1);
  // Of a first-order process with correlation 0.95 along both axes: about twice the 8.8 dB that the
  // DCT of 8 values has of it along one (Jayant & Noll, table 12.5), here measured.
  std::vector<float> smooth = weights(65536, 5, 1);
  for (std::size_t i = 0; i < smooth.size(); ++i) {
    if (i % 256 > 0) smooth[i] += 0.95F * smooth[i - 1];
  }
  for (std::size_t i = 256; i < smooth.size(); ++i) smooth[i] += 0.95F * smooth[i - 256];
  const double gain = record_of("[256,256]", smooth)["coding_gain_db"].get<double>();
  EXPECT_GT(gain, 15);
  EXPECT_LT(gain, 20);
}

TEST_F(Spectrum, KernelsAreBlocks) {
  const auto record = record_of("[8,4,3,3]", weights(288, 4, 1));
  EXPECT_EQ(record["block"], Json({3, 3}));
  ASSERT_EQ(record["bands"].size(), 3U);
  EXPECT_EQ(record["bands"][0]["n_coefficients"], 32);
  EXPECT_EQ(record["bands"][1]["n_coefficients"], 96);
  EXPECT_EQ(record["bands"][2]["n_coefficients"], 160);
  EXPECT_EQ(record["singular_values"]["n"], 8);
  EXPECT_EQ(record["rows"]["n"], 8);
  EXPECT_EQ(record["columns"]["n"], 4);
  EXPECT_EQ(record_of("[8,16,1,1]", weights(128, 4, 1))["block"], Json({8, 8, 1, 1}));
  EXPECT_EQ(record_of("[100]", weights(100, 4, 1))["block"], Json({64}));
}

TEST_F(Spectrum, SingularValuesOfKnownMatrices) {
  // Orthogonal columns of length 3, 2 and 1, and one of zeros.
  std::vector<float> matrix(6 * 4);
  matrix[0 * 4 + 0] = 3;
  matrix[2 * 4 + 1] = -2;
  matrix[5 * 4 + 2] = 1;
  for (const char* shape : {"[6,4]", "[4,6]"}) {
    std::vector<float> values = matrix;
    if (std::string(shape) == "[4,6]") {
      for (std::size_t i = 0; i < 24; ++i) values[i] = matrix[i % 6 * 4 + i / 6];
    }
    const auto singular = record_of(shape, values)["singular_values"];
    ASSERT_EQ(singular["n"], 4);
    const double expected[] = {3, 2, 1, 0};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(singular["values"][i].get<double>(), expected[i], 1e-7);
    }
    EXPECT_NEAR(singular["stable_rank"].get<double>(), 14.0 / 9, 1e-9);
    double entropy = 0;
    for (const double value : {3.0, 2.0, 1.0}) entropy -= value / 6 * std::log(value / 6);
    EXPECT_NEAR(singular["effective_rank"].get<double>(), std::exp(entropy), 1e-6);
    EXPECT_EQ(singular["rank_90"], 2);
    EXPECT_EQ(singular["rank_99"], 3);
    EXPECT_EQ(singular["rank_99_9"], 3);
  }
  EXPECT_FALSE(
      record_of("[6,4]", matrix, {"--fast", "--max-side", "3"}).contains("singular_values"));
  EXPECT_EQ(record_of("[6,4]", std::vector<float>(24))["singular_values"]["rank_90"], 0);
  // Neither squares that overflow nor those that vanish.
  for (const float scale : {1e30F, 1e-30F}) {
    std::vector<float> values = matrix;
    for (float& value : values) value *= scale;
    const auto record = record_of("[6,4]", values);
    EXPECT_NEAR(record["singular_values"]["stable_rank"].get<double>(), 14.0 / 9, 1e-6);
  }
}

TEST_F(Spectrum, BitsAreThoseOfConversion) {
  const std::vector<float> values = weights(128 * 256, 9, 0.3F);
  const auto codecs = record_of("[128,256]", values, {"x"})["codecs"];
  ASSERT_EQ(codecs.size(), 6U);
  for (const auto& tried : codecs) {
    std::vector<std::string> options = {"convert", "-f", file, folder / "m.cfck"};
    const std::string request = tried["request"];
    if (request.empty()) {
      options.insert(options.end(), {"--codec", tried["codec"].get<std::string>()});
    } else {
      const std::size_t space = request.find(' ');
      options.insert(options.end(), request.substr(0, space) + "=" + request.substr(space + 1));
    }
    ASSERT_EQ(run(options).code, 0);
    const auto shown = run({"show", "--json", folder / "m.cfck"}).json()["records"][0];
    EXPECT_NEAR(tried["bits_per_weight"].get<double>(), shown["bits_per_weight"].get<double>(),
                0.01)
        << tried;
    if (request.find("-20dB") != request.npos) {
      EXPECT_NEAR(tried["nmse_db"].get<double>(), -20, 0.06);
    }
  }
}

// Lossy codecs take no F8: what they would need is left out, and nothing else.
TEST_F(Spectrum, Float8IsMeasuredWithoutLossyCodecs) {
  std::string values(64 * 64, '\0');
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<char>(i * 37 % 120);
  for (const char* dtype : {"F8_E4M3", "F8_E5M2"}) {
    const Json record = spectrum({{"x", dtype, "[64,64]", values}})["records"][0];
    EXPECT_GT(total_energy(record), 0);
    EXPECT_FALSE(record.contains("error"));
    ASSERT_EQ(record["codecs"].size(), 6U);
    EXPECT_GT(record["codecs"][1]["bits_per_weight"].get<double>(), 0);
    EXPECT_FALSE(record["codecs"][1].contains("applies"));
    EXPECT_EQ(record["codecs"][2]["applies"], false);
    EXPECT_TRUE(record["codecs"][5]["bits_per_weight"].is_null());
    const Outcome text = run({"spectrum", file});
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_NE(text.out.find("not for F8_E"), std::string::npos) << text.out;
  }
}

TEST_F(Spectrum, OddTensors) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> odd(64, 1);
  odd[3] = nan;
  odd[9] = -std::numeric_limits<float>::infinity();
  const auto json = spectrum({{"odd", "F32", "[8,8]", bytes_of(odd)},
                              {"zero", "F32", "[8,8]", std::string(256, '\0')},
                              {"one", "F32", "[1,1]", std::string("\0\0\x80?", 4)},
                              {"empty", "F32", "[0,8]", ""},
                              {"scalar", "F32", "[]", std::string("\0\0\x80?", 4)},
                              {"bias", "F32", "[4]", std::string(16, '\1')},
                              {"ids", "I64", "[2,2]", std::string(32, '\1')},
                              {"half", "BF16", "[4,4]", std::string(32, '\x3F')}});
  EXPECT_EQ(json["n_skipped"], 4);
  ASSERT_EQ(json["records"].size(), 4U);
  for (const auto& record : json["records"]) {
    EXPECT_FALSE(record.contains("error")) << record;
    EXPECT_EQ(record["n_not_finite"], record["name"] == "odd" ? 2 : 0);
  }
  const auto named = run({"spectrum", "--json", file, "scalar", "bias", "ids"}).json();
  EXPECT_EQ(named["records"].size(), 2U);
  EXPECT_EQ(run({"spectrum", file, "nowhere"}).code, 3);
  for (const char* name : {"odd", "zero", "one", "scalar"}) {
    EXPECT_EQ(run({"spectrum", file, name}).code, 0) << name;
  }
}

TEST_F(Spectrum, LargeTensorsAreSampled) {
  // 2^25 values and a few rows more, of F16; each row is one number.
  std::string bytes(std::size_t{33'000} * 1024 * 2, '\0');
  for (std::size_t row = 0; row < 33'000; ++row) {
    const auto half = static_cast<std::uint16_t>(0x3800 + row % 1000);
    for (std::size_t i = 0; i < 1024; ++i) {
      std::memcpy(bytes.data() + 2 * (row * 1024 + i), &half, 2);
    }
  }
  const auto record =
      spectrum({{"x", "F16", "[33000,1024]", bytes}}, {"--fast", "--max-side", "10"})["records"][0];
  EXPECT_EQ(record["is_sample"], true);
  EXPECT_EQ(record["n_values"], 1U << 25);
  EXPECT_EQ(record["rows"]["n"], 1U << 15);
  EXPECT_GT(record["rows"]["max_rms"].get<double>(), 0.98);
}

TEST_F(Spectrum, WritesAPicture) {
  write_file(file, weights_model());
  const std::string picture = folder / "p.svg";
  ASSERT_EQ(run({"spectrum", file, "--svg", picture, "--fast"}).code, 0);
  const std::string svg = read_file(picture);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_NE(svg.find("a.weight"), svg.npos);
  EXPECT_EQ(run({"spectrum", file, "--svg", picture}).code, 8);
  EXPECT_EQ(read_file(picture), svg);
  EXPECT_EQ(run({"spectrum", file, "--svg", picture, "--force"}).code, 0);
  EXPECT_NE(read_file(picture), svg);
  EXPECT_EQ(run({"spectrum", file, "--svg", file, "--force"}).code, 2);
  EXPECT_EQ(run({"spectrum", file, "nowhere", "--svg", folder / "no.svg"}).code, 3);
  EXPECT_FALSE(fs::exists(folder / "no.svg"));
  // Through the other name of the program, from a .cfck file, as a table.
  ASSERT_EQ(run({"convert", file}).code, 0);
  RunOptions inspect;
  inspect.program = "cfck-inspect";
  const Outcome table = run({"spectrum", folder / "m.cfck"}, inspect);
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("b.weight"), table.out.npos);
}

}  // namespace
}  // namespace cfck::test

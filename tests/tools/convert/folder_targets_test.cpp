// cfck convert with targets for folders of several shards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;
using Options = std::vector<std::string>;

TestTensor tensor(const std::string& name, const std::string& shape, std::size_t n,
                  std::uint64_t seed, float scale) {
  return {name, "F32", shape, bytes_of(weights(n, seed, scale))};
}

// Shards of unequal size: the first has the loud tensors.
std::vector<std::vector<TestTensor>> shards() {
  return {{tensor("a.weight", "[200,200]", 40000, 1, 0.4F), tensor("a.bias", "[64]", 64, 2, 1)},
          {tensor("b.weight", "[32,32,3,3]", 9216, 3, 0.05F),
           {"b.ids", "I32", "[30,30]", noise(3600, 4)}},
          {tensor("c.weight", "[300,256]", 76800, 5, 0.1F),
           tensor("c.head", "[64,64]", 4096, 6, 0.1F)}};
}

// The tensors among them that plain targets reach.
constexpr const char* kReached[] = {"a.weight", "b.weight", "c.weight", "c.head"};

std::string shard_name(std::size_t number) {
  return "model-0000" + std::to_string(number + 1) + "-of-00003";
}

std::vector<float> floats_of(const std::string& file, const std::string& name) {
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const auto header = nlohmann::json::parse(file.substr(8, header_bytes));
  const std::size_t begin = header[name]["data_offsets"][0];
  const std::size_t end = header[name]["data_offsets"][1];
  std::vector<float> values((end - begin) / 4);
  std::memcpy(values.data(), file.data() + 8 + header_bytes + begin, end - begin);
  return values;
}

struct Quality {
  double nmse_db = 0;
  double psnr_db = 0;
};

class FolderTargets : public ::testing::Test {
 protected:
  void SetUp() override {
    nlohmann::json index;
    std::vector<TestTensor> all;
    for (std::size_t i = 0; i < model.size(); ++i) {
      write_file(in + "/" + shard_name(i) + ".safetensors", model_of(model[i]));
      for (const TestTensor& one : model[i]) {
        index["weight_map"][one.name] = shard_name(i) + ".safetensors";
        all.push_back(one);
      }
    }
    write_file(in + "/model.safetensors.index.json", index.dump());
    write_file(in + "/config.json", "{}");
    write_file(whole, model_of(all));
  }

  // Converts IN to OUT with --json.
  Outcome convert(Options options) {
    options.insert(options.begin(), {"convert", "-f", "--json", in, out});
    return run(options);
  }
  std::uint64_t cfck_bytes() const {
    std::uint64_t n_bytes = 0;
    for (std::size_t i = 0; i < 3; ++i)
      n_bytes += fs::file_size(out + "/" + shard_name(i) + ".cfck");
    return n_bytes;
  }
  // Computes the quality of all shards together, from the values alone.
  Quality decoded_quality() {
    EXPECT_EQ(run({"convert", "-f", out, folder / "back"}).code, 0);
    double squared_errors = 0;
    double squares = 0;
    double min = std::numeric_limits<double>::infinity();
    double max = -min;
    double n = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string name = shard_name(i) + ".safetensors";
      const std::string before = read_file(in + "/" + name);
      const std::string after = read_file(folder / ("back/" + name));
      for (const TestTensor& one : model[i]) {
        if (std::find(std::begin(kReached), std::end(kReached), one.name) == std::end(kReached)) {
          continue;
        }
        const std::vector<float> x = floats_of(before, one.name);
        const std::vector<float> y = floats_of(after, one.name);
        for (std::size_t k = 0; k < x.size(); ++k) {
          squared_errors += (double{x[k]} - y[k]) * (double{x[k]} - y[k]);
          squares += double{x[k]} * x[k];
          min = std::min(min, double{x[k]});
          max = std::max(max, double{x[k]});
        }
        n += static_cast<double>(x.size());
      }
    }
    const double range = max - min;
    return {10 * std::log10(squared_errors / squares),
            10 * std::log10(range * range / (squared_errors / n))};
  }
  std::map<std::string, nlohmann::json> rows(const std::string& path) {
    std::map<std::string, nlohmann::json> found;
    const nlohmann::json listing = run({"inspect", "--json", path}).json();
    for (const auto& row : listing["records"]) found[row["name"]] = row;
    return found;
  }

  const std::vector<std::vector<TestTensor>> model = shards();
  TemporaryFolder folder;
  std::string in = folder / "m";
  std::string out = folder / "o";
  std::string whole = folder / "whole.safetensors";
};

TEST_F(FolderTargets, NmseIsReachedOverAllShards) {
  for (const double nmse_db : {-12.0, -20.0, -35.0}) {
    const Outcome outcome = convert({"--nmse=" + std::to_string(nmse_db) + "dB", "--verify"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Quality quality = decoded_quality();
    EXPECT_LE(quality.nmse_db, nmse_db + 1e-6);
    EXPECT_GE(quality.nmse_db, nmse_db - 0.05);
    const auto reported = outcome.json()["lossy"]["quality"];
    EXPECT_EQ(reported["n_records"], 4);
    EXPECT_NEAR(reported["nmse_db"], quality.nmse_db, 1e-6);
  }
}

TEST_F(FolderTargets, PsnrIsReachedOverAllShards) {
  ASSERT_EQ(convert({"--psnr", "45", "--verify"}).code, 0);
  const Quality quality = decoded_quality();
  EXPECT_GE(quality.psnr_db, 45 - 1e-6);
  EXPECT_LE(quality.psnr_db, 45.05);
}

TEST_F(FolderTargets, BitsPerWeightCountAllShards) {
  for (const double bits : {1.5, 3.0}) {
    ASSERT_EQ(convert({"--bits-per-weight", std::to_string(bits), "--verify"}).code, 0);
    double n = 0;
    double stored_bytes = 0;
    for (const auto& [name, row] : rows(out)) {
      if (row["codec"] != "spectral") continue;
      n += row["n_elems"].get<double>();
      stored_bytes += row["stored_bytes"].get<double>();
    }
    EXPECT_EQ(n, 40000 + 9216 + 76800 + 4096);
    EXPECT_LE(8 * stored_bytes / n, bits);
    EXPECT_GE(8 * stored_bytes / n, 0.995 * bits);
  }
}

TEST_F(FolderTargets, SizeIsThatOfAllFiles) {
  for (const auto& [text, size] :
       {std::pair<const char*, double>{"30kB", 30000}, {"80kB", 80000}}) {
    const Outcome outcome = convert({"--size", text, "--verify"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto n_bytes = static_cast<double>(cfck_bytes());
    EXPECT_LE(n_bytes, size);
    EXPECT_GE(n_bytes, 0.995 * size);
    EXPECT_EQ(outcome.json()["output_bytes"], n_bytes);
    const Outcome dry = run({"convert", "--json", "--dry-run", in, folder / "dry", "--size", text});
    EXPECT_EQ(dry.json()["output_bytes"], n_bytes);
    EXPECT_FALSE(fs::exists(folder / "dry"));
  }
}

TEST_F(FolderTargets, EveryTensorIsStoredAsInOneFile) {
  for (const Options& options :
       {Options{"--nmse=-20dB"}, {"--psnr=50"}, {"--bits-per-weight=2.5", "--steps=prior"}}) {
    ASSERT_EQ(convert(options).code, 0);
    Options alone = {"convert", "-f", whole, folder / "whole.cfck"};
    alone.insert(alone.end(), options.begin(), options.end());
    ASSERT_EQ(run(alone).code, 0);
    const auto expected = rows(folder / "whole.cfck");
    for (const auto& [name, row] : rows(out)) {
      for (const char* key : {"codec", "stored_bytes", "rmse", "target", "whole_file", "digest"}) {
        EXPECT_EQ(row.contains(key), expected.at(name).contains(key)) << name << " " << key;
        if (row.contains(key)) {
          EXPECT_EQ(row[key], expected.at(name)[key]) << name << " " << key;
        }
      }
    }
    EXPECT_EQ(rows(out)["b.weight"]["whole_file"], true);
  }
}

TEST_F(FolderTargets, ReportsAndOtherCommandsKnowTheWhole) {
  const Outcome outcome = run({"convert", in, out, "--nmse=-20dB"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("spectral  4 tensors"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("NMSE -20.0"), std::string::npos) << outcome.out;
  EXPECT_EQ(run({"verify", "--deep", out}).code, 0);
  EXPECT_EQ(run({"stats", out, "--ref", in}).code, 0);
  EXPECT_NE(run({"inspect", out}).out.find("file nmse -20.00 dB"), std::string::npos);
}

TEST_F(FolderTargets, RulesHoldBesideTheTarget) {
  ASSERT_EQ(convert({"--size=60kB", "--rule", "b.*: nmse=-30dB", "--rule", "c.head: codec=lossless",
                     "--verify"})
                .code,
            0);
  EXPECT_LE(cfck_bytes(), 60000U);
  auto records = rows(out);
  EXPECT_EQ(records["b.weight"]["target_kind"], "nmse");
  EXPECT_EQ(records["b.weight"]["whole_file"], false);
  EXPECT_EQ(records["c.head"]["codec"], "lossless");
  EXPECT_EQ(records["c.weight"]["target_kind"], "size");
}

TEST_F(FolderTargets, LosslessTensorsThatCountAreVerifiedToo) {
  // One value in 64: no step takes fewer bytes than none.
  std::vector<float> values(1 << 15);
  for (std::size_t i = 0; i < values.size(); i += 64) values[i] = 4;
  write_file(in + "/sparse.safetensors",
             model_of({{"sparse", "F32", "[128,256]", bytes_of(values)},
                       {"twin", "F32", "[128,256]", bytes_of(values)}}));
  for (const char* option : {"--nmse=-20dB", "--psnr=45", "--bits-per-weight=2"}) {
    const Outcome outcome = convert({option, "--verify"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    // The index does not name it, but it is included all the same.
    EXPECT_EQ(rows(out + "/sparse.cfck").at("sparse")["codec"], "lossless");
  }
}

TEST_F(FolderTargets, CalibrationsAreFollowed) {
  // sigma of the values is 0.58 times their scale.
  const auto rms = [](const std::vector<float>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  std::vector<double> sigma;
  std::string tensors;
  for (std::size_t i = 0; i < 3; ++i) {
    for (const TestTensor& one : model[i]) {
      if (one.dtype != "F32" || one.name == "a.bias") continue;
      sigma.push_back(rms(floats_of(read_file(whole), one.name)));
      tensors += (tensors.empty() ? "[" : ",") + (R"({\"name\":\")" + one.name) +
                 R"(\",\"shape\":)" + one.shape + R"(,\"dtype\":\"F32\"})";
    }
  }
  const std::vector<double> octaves = {0, 1, 0, -1};
  write_file(folder / "c.safetensors",
             model_of({{"sigma", "F64", "[4]", bytes_of(sigma)},
                       {"log2_step", "F64", "[4]", bytes_of(octaves)}},
                      R"("format":"cfck.calibration","version":"1","tensors":")" + tensors +
                          R"(]","calibration":"{\"source\":\"batches\"}")"));
  ASSERT_EQ(run({"convert", folder / "c.safetensors", folder / "c.cfck"}).code, 0);
  const Options options = {"--calibration", folder / "c.cfck", "--bits-per-weight=3", "--verify"};
  const Outcome outcome = convert(options);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  Options alone = {"convert", whole, folder / "whole.cfck"};
  alone.insert(alone.end(), options.begin(), options.end());
  ASSERT_EQ(run(alone).code, 0);
  const auto expected = rows(folder / "whole.cfck");
  for (const auto& [name, row] : rows(out)) EXPECT_EQ(row["digest"], expected.at(name)["digest"]);
  // Steps differ by a factor of 4.
  auto records = rows(out);
  EXPECT_NEAR(records["c.weight"]["nmse_db"].get<double>(),
              records["a.weight"]["nmse_db"].get<double>(), 0.3);
  EXPECT_GT(records["b.weight"]["nmse_db"].get<double>(),
            records["c.head"]["nmse_db"].get<double>() + 9);
}

TEST_F(FolderTargets, WhatCannotBeReachedLeavesEverythingAsItWas) {
  for (const Options& options : {Options{"--size=3kB"}, {"--bits-per-weight=0.0001"}}) {
    const Outcome outcome = convert(options);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("with the coarsest steps"), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(out));
  }
  ASSERT_EQ(convert({"--nmse=-20dB"}).code, 0);
  std::map<std::string, std::string> before;
  for (const std::string& name : folder.files()) before[name] = read_file(folder / name);
  EXPECT_EQ(convert({"--size=3kB"}).code, 2);
  // A shard that is damaged after its header is found, too.
  fs::resize_file(in + "/" + shard_name(2) + ".safetensors", 1000);
  const Outcome broken = convert({"--nmse=-20dB"});
  EXPECT_NE(broken.code, 0);
  EXPECT_NE(broken.err.find(shard_name(2)), std::string::npos) << broken.err;
  before.erase("m/" + shard_name(2) + ".safetensors");
  for (const auto& [name, bytes] : before) EXPECT_TRUE(read_file(folder / name) == bytes) << name;
  EXPECT_EQ(folder.files().size(), before.size() + 1);
}

TEST_F(FolderTargets, AFolderOfOneFileIsThatFile) {
  write_file(folder / "one/model.safetensors", read_file(whole));
  for (const char* option : {"--size=70kB", "--nmse=-20dB"}) {
    ASSERT_EQ(run({"convert", "-f", folder / "one", folder / "p", option}).code, 0);
    ASSERT_EQ(run({"convert", "-f", whole, folder / "whole.cfck", option}).code, 0);
    EXPECT_TRUE(read_file(folder / "p/model.cfck") == read_file(folder / "whole.cfck"));
  }
}

}  // namespace
}  // namespace cfck::test

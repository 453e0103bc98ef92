// The output of cfck inspect for lossy files: show, stats, diff, extract, verify, digest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "format/container/container.hpp"
#include "tests/support/changed_index.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

class InspectBounds : public ::testing::Test {
 protected:
  void make(const std::string& model, std::vector<std::string> options) {
    write_file(in, model);
    options.insert(options.begin(), {"convert", "-f", in, out});
    const Outcome outcome = run(options);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  // Records of `command --json`, by name.
  std::map<std::string, nlohmann::json> records(std::vector<std::string> command, int code = 0) {
    command.insert(command.begin() + 1, "--json");
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    std::map<std::string, nlohmann::json> found;
    const auto json = outcome.json();
    for (const auto& record : json["records"]) found[record["name"]] = record;
    return found;
  }
  std::map<std::string, nlohmann::json> against(const std::string& reference, int code = 0) {
    return records({"stats", out, "--ref", reference}, code);
  }

  TemporaryFolder folder;
  std::string in = folder / "m.safetensors";
  std::string out = folder / "m.cfck";
};

TEST_F(InspectBounds, ShowHasBoundAndError) {
  make(weights_model(),
       {"--max-abs-error", "2.5e-4", "--rule", "b.*: max_sigma_error=1e-2, per_row"});
  const Outcome text = run({"show", out});
  for (const char* words : {"bound", "max err", "direct", "abs 2.5e-04", "2.50e-04",
                            "sigma 1e-02/row", "lossy  1 tensor, abs 2.5e-04; worst error "}) {
    EXPECT_NE(text.out.find(words), std::string::npos) << words << "\n" << text.out;
  }
  auto shown = records({"show", out});
  const auto& a = shown["a.weight"];
  EXPECT_EQ(a["codec"], "direct");
  EXPECT_EQ(a["bound_kind"], "abs");
  EXPECT_EQ(a["bound"], 2.5e-4);
  EXPECT_EQ(a["per_row"], false);
  EXPECT_LE(a["max_abs_error"], 2.5e-4);
  EXPECT_GT(a["max_abs_error"], 2.4e-4);
  EXPECT_LT(a["rmse"], a["max_abs_error"]);
  EXPECT_GT(a["rmse"], 1e-4);
  EXPECT_EQ(shown["b.weight"]["bound_kind"], "sigma");
  EXPECT_EQ(shown["b.weight"]["per_row"], true);
  for (const char* key : {"bound_kind", "bound", "per_row", "max_abs_error", "rmse"}) {
    EXPECT_FALSE(shown["ids"].contains(key)) << key;
  }
  EXPECT_EQ(records({"stats", out})["a.weight"]["index_max_abs_error"], a["max_abs_error"]);
  const auto json = run({"show", "--json", out}).json();
  EXPECT_EQ(json["lossy"]["abs"],
            (nlohmann::json{{"n_records", 1}, {"max_abs_error", a["max_abs_error"]}}));
  EXPECT_EQ(json["lossy"]["sigma"]["n_records"], 1);
}

TEST_F(InspectBounds, ShardsAreOneModel) {
  for (const char* name : {"a", "b"}) {
    const std::string shard = *name == 'a' ? "model-00001-of-00002" : "model-00002-of-00002";
    write_file(folder / ("m/" + shard + ".safetensors"),
               model_of({{name, "F32", "[64,64]", bytes_of(weights(4096, 1, 1))}}));
  }
  ASSERT_EQ(run({"convert", folder / "m", folder / "c", "--rule", "a: max_abs_error=1e-3", "--rule",
                 "b: max_abs_error=1e-2"})
                .code,
            0);
  const auto json = run({"show", "--json", folder / "c"}).json();
  EXPECT_EQ(json["lossy"]["abs"]["n_records"], 2);
  EXPECT_EQ(json["lossy"]["abs"]["max_abs_error"], json["records"][1]["max_abs_error"]);
  EXPECT_EQ(json["shards"][0]["lossy"]["abs"]["max_abs_error"],
            json["records"][0]["max_abs_error"]);
  EXPECT_NE(run({"show", folder / "c"}).out.find("lossy  2 tensors, abs 1e-03 to 1e-02"),
            std::string::npos);
  const Outcome outcome = run({"stats", "--json", folder / "c", "--ref", folder / "m"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto report = outcome.json();
  for (const auto& record : report["records"]) EXPECT_EQ(record["bound_kept"], true);
  EXPECT_NE(run({"stats", "--histograms", folder / "c"})
                .out.find("maximum error abs 1e-03: worst error "),
            std::string::npos);
}

TEST_F(InspectBounds, LosslessFilesLookAsBefore) {
  make(weights_model(), {});
  const Outcome text = run({"show", out});
  EXPECT_EQ(text.out.find("bound"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("lossy"), std::string::npos) << text.out;
  EXPECT_EQ(run({"show", "--json", out}).json()["lossy"], nlohmann::json::object());
  // Lossless rows of a lossy file have none either.
  make(weights_model(), {"--max-abs-error", "1e-3"});
  EXPECT_EQ(run({"show", out, "--filter", "ids"}).out.find("max err"), std::string::npos);
}

// Values of each size, and some that are not numbers.
std::string mixed_model(const std::string& dtype, std::size_t value_bytes) {
  const std::vector<float> values = weights(8192, 7, 0.5F);
  std::string data;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float value = std::ldexp(values[i], static_cast<int>(i % 16) - 8);
    char bytes[8];
    if (value_bytes == 8) {
      const double wide = static_cast<double>(value) / 3;
      std::memcpy(bytes, &wide, 8);
    } else {
      std::memcpy(bytes, &value, 4);
      // The upper half of an F32 is a BF16; as F16 it is a number too.
      if (value_bytes == 2) std::memmove(bytes, bytes + 2, 2);
    }
    data.append(bytes, value_bytes);
  }
  for (std::size_t i = 100; i < 8192; i += 1000) {
    // Infinity, or NaN.
    std::memset(data.data() + i * value_bytes, i % 3 == 0 ? 0x7f : 0xff, value_bytes);
  }
  return model_of({{"w", dtype, "[16,512]", data}});
}

TEST_F(InspectBounds, EveryBoundIsFoundKept) {
  const std::map<std::string, std::size_t> dtypes = {
      {"F64", 8}, {"F32", 4}, {"BF16", 2}, {"F16", 2}};
  for (const auto& [dtype, value_bytes] : dtypes) {
    for (const char* kind : {"abs", "rel", "sigma"}) {
      for (const bool per_row : {false, true}) {
        if (per_row && std::string(kind) == "abs") continue;
        for (const char* bound : {"0.3", "1e-2", "1e-4"}) {
          std::vector<std::string> options = {
              "--codec",
              "direct",
              "--max-" + std::string(kind) + "-error",
              bound,
              "--verify",
              "--rule",
              "w: codec=direct, max_" + std::string(kind) + "_error=" + bound};
          if (per_row) {
            options.back() += ",per_row";
            options.push_back("--per-row");
          }
          make(mixed_model(dtype, value_bytes), options);
          const auto w = against(in)["w"];
          if (!w.contains("bound")) continue;
          EXPECT_EQ(w["bound_kept"], true) << dtype << kind << per_row << bound;
          EXPECT_EQ(w["index_agrees"], true) << dtype << kind << per_row << bound;
          EXPECT_EQ(w["errors"]["n_special_mismatches"], 0);
          EXPECT_EQ(w["per_row"], per_row);
        }
      }
    }
    // At least these are lossy.
    EXPECT_EQ(records({"show", out})["w"]["codec"], "direct") << dtype;
  }
}

TEST_F(InspectBounds, RangesThatOverflowAndBoundsOfNoUse) {
  const double most = std::numeric_limits<double>::max();
  const double min = std::numeric_limits<double>::denorm_min();
  const std::string parts = noise(2048, 3);
  for (const auto& [low, high] : {std::pair<double, double>{-most, most},
                                  {most / 2, most},
                                  {0, min},
                                  {1, 1 + std::numeric_limits<double>::epsilon()}}) {
    std::vector<double> values;
    for (const char part : parts) {
      const double share = (part & 7) / 7.0;
      values.push_back(low * (1 - share) + high * share);
    }
    for (const char* option :
         {"max_rel_error=1e-3", "max_rel_error=1e-30", "max_rel_error=1e300",
          "max_sigma_error=1e-2", "max_sigma_error=1e300", "max_sigma_error=1e-2, per_row",
          "max_abs_error=1e-300", "max_abs_error=1e300"}) {
      make(model_of({{"w", "F64", "[2,1024]", bytes_of(values)}}),
           {"--verify", "--rule", "w: codec=direct, " + std::string(option)});
      const auto w = against(in)["w"];
      if (w.contains("bound")) {
        EXPECT_EQ(w["bound_kept"], true) << low << " " << option;
      } else {
        EXPECT_EQ(w["errors"]["max_abs_error"], 0) << low << " " << option;
      }
    }
  }
}

// Squares of the second row are below the normal numbers; each is rounded up.
TEST_F(InspectBounds, DeviationsOfTinyRowsAreNotRoundedUp) {
  std::vector<double> values;
  for (const float value : weights(4096, 8, 1)) values.push_back(value);
  const std::vector<float> parts = weights(4096, 9, 0.5F);
  for (const double square : {83.55, 20.55, 5.55}) {  // in units of the smallest double
    const double size = std::sqrt(square) * 0x1p-537;
    values.resize(4096);
    for (std::size_t i = 0; i < 4096; ++i) {
      const double part = i >= 8 && i < 400 && i % 2 == 0 ? static_cast<double>(parts[i]) : 1;
      values.push_back(i % 2 == 0 ? -size * part : size * part);
    }
    for (const char* bound : {"0.31", "0.3", "0.29"}) {
      make(model_of({{"w", "F64", "[2,4096]", bytes_of(values)}}),
           {"--verify", "--rule",
            "w: codec=direct, per_row, max_sigma_error=" + std::string(bound)});
      EXPECT_EQ(against(in)["w"]["bound_kept"], true) << square << " " << bound;
    }
  }
}

// Rewrites the index of OUT, with `change` applied to its records.
template <class Change>
void change_index(const std::string& path, const Change& change) {
  const std::string bytes = read_file(path);
  const auto changed =
      test::with_changed_index(std::as_bytes(std::span(bytes)), [&](format::Index& index) {
        for (auto& stored : index.records) change(stored.record);
      });
  write_file(path, std::string(reinterpret_cast<const char*>(changed.data()), changed.size()));
}

TEST_F(InspectBounds, TheIndexIsNotTrusted) {
  make(weights_model(), {"--max-rel-error", "1e-3"});
  EXPECT_EQ(against(in)["a.weight"]["bound_kept"], true);
  // A file that promises more than it keeps is found.
  change_index(out, [](Record& record) {
    if (record.name == "a.weight") record.error->bound.value *= 0.99;
  });
  auto found = against(in, 1);
  EXPECT_EQ(found["a.weight"]["bound_kept"], false);
  EXPECT_GT(found["a.weight"]["n_beyond"], 0);
  EXPECT_EQ(found["a.weight"]["index_agrees"], true);
  EXPECT_EQ(found["b.weight"]["bound_kept"], true);
  const Outcome text = run({"stats", "--histograms", out, "a.weight", "--ref", in});
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.out.find("maximum error rel 9.9e-04: exceeded by"), std::string::npos) << text.out;
  EXPECT_NE(text.err.find("exceed the maximum error rel 9.9e-04"), std::string::npos) << text.err;
  EXPECT_NE(run({"stats", out, "b.weight", "--ref", in}).out.find("rel 1e-03 met"),
            std::string::npos);
  EXPECT_NE(run({"stats", out, "a.weight", "--ref", in}).out.find("rel 9.9e-04 exceeded"),
            std::string::npos);

  // A file that reports too small errors is found.
  make(weights_model(), {"--max-rel-error", "1e-3"});
  change_index(out, [](Record& record) {
    if (record.name == "b.weight") record.error->rmse = record.error->max_abs_error /= 2;
  });
  found = against(in, 1);
  EXPECT_EQ(found["b.weight"]["bound_kept"], true);
  EXPECT_EQ(found["b.weight"]["index_agrees"], false);
  EXPECT_NE(run({"stats", out, "--ref", in}).err.find("but the index says"), std::string::npos);
}

TEST_F(InspectBounds, OneValueOfTheReferenceIsEnough) {
  std::vector<float> values = weights(4096, 1, 0.1F);
  for (const char* kind : {"abs", "rel", "sigma"}) {
    make(weights_model(), {"--max-" + std::string(kind) + "-error", "1e-3"});
    std::vector<float> other = values;
    other[1234] += 0.003F;
    write_file(folder / "other", model_of({{"a.weight", "F32", "[64,64]", bytes_of(other)}}));
    const auto json = run({"stats", "--json", "--common", out, "--ref", folder / "other"}).json();
    const auto& record = json["records"][0];
    EXPECT_EQ(record["bound_kept"], false) << kind;
    EXPECT_EQ(record["n_beyond"], 1) << kind;
    EXPECT_EQ(record["first_beyond"], 1234) << kind;
    EXPECT_EQ(json["problems"].size(), 2U);
    // NaN is not within anything but itself.
    other[1234] = std::numeric_limits<float>::quiet_NaN();
    write_file(folder / "other", model_of({{"a.weight", "F32", "[64,64]", bytes_of(other)}}));
    EXPECT_EQ(run({"stats", "--json", "--common", out, "--ref", folder / "other"})
                  .json()["records"][0]["first_beyond"],
              1234)
        << kind;
  }
}

TEST_F(InspectBounds, ReferencesThatDoNotFit) {
  make(weights_model(), {"--max-abs-error", "1e-3"});
  const std::string data = bytes_of(weights(4096, 1, 0.1F));
  const std::map<std::string, std::string> others = {
      {"other name", model_of({{"c.weight", "F32", "[64,64]", data}})},
      {"other shape", model_of({{"a.weight", "F32", "[4096]", data}})},
      {"other dtype", model_of({{"a.weight", "I32", "[64,64]", data}})}};
  for (const auto& [what, model] : others) {
    write_file(folder / "other", model);
    const Outcome outcome = run({"stats", "--json", out, "a.weight", "--ref", folder / "other"});
    EXPECT_EQ(outcome.code, 1) << what;
    EXPECT_FALSE(outcome.json()["records"][0].contains("bound_kept")) << what;
    EXPECT_FALSE(outcome.json()["problems"].empty()) << what;
  }
}

TEST_F(InspectBounds, DuplicatesHaveTheBoundOfTheirBase) {
  const std::string data = bytes_of(weights(4096, 1, 0.1F));
  make(model_of({{"a", "F32", "[64,64]", data}, {"b", "F32", "[64,64]", data}}),
       {"--max-sigma-error", "1e-2", "--per-row", "--verify"});
  auto found = against(in);
  EXPECT_EQ(found["b"]["bound_kept"], true);
  EXPECT_EQ(records({"show", out})["b"]["kind"], "duplicate");
  EXPECT_EQ(run({"show", "--json", out}).json()["lossy"]["sigma"]["n_records"], 2);
}

TEST_F(InspectBounds, DiffMeasuresWhatWasLost) {
  make(weights_model(), {"--max-abs-error", "1e-3"});
  const Outcome outcome = run({"diff", "--json", in, out});
  EXPECT_EQ(outcome.code, 1);
  const auto json = outcome.json();
  EXPECT_EQ(json["n_unchanged"], 4);
  ASSERT_EQ(json["changed"].size(), 2U);
  auto shown = records({"show", out});
  for (const auto& change : json["changed"]) {
    const auto& record = shown[change["name"]];
    EXPECT_EQ(change["max_abs_error"], record["max_abs_error"]);
    EXPECT_NEAR(change["rmse"].get<double>(), record["rmse"].get<double>(), 1e-15);
  }
  EXPECT_EQ(run({"diff", "--fast", in, out}).code, 1);
  // Converting back loses nothing more, and the digests say so without decoding.
  ASSERT_EQ(run({"convert", out, folder / "back"}).code, 0);
  for (const char* flag : {"--fast", "--quiet"}) {
    EXPECT_EQ(run({"diff", flag, out, folder / "back"}).code, 0) << flag;
  }
  EXPECT_EQ(run({"digest", "--json", out}).json()["records"],
            run({"digest", "--json", folder / "back"}).json()["records"]);
  // A lossy file is made from a lossy one.
  ASSERT_EQ(run({"convert", in, folder / "two.cfck", "--max-abs-error", "1e-2"}).code, 0);
  EXPECT_EQ(run({"diff", "--json", out, folder / "two.cfck"}).json()["changed"].size(), 2U);
}

TEST_F(InspectBounds, ExtractVerifyAndDamage) {
  make(weights_model(), {"--max-abs-error", "1e-3"});
  ASSERT_EQ(run({"extract", out, "a.weight", "-o", folder / "a.npy"}).code, 0);
  const std::string npy = read_file(folder / "a.npy");
  ASSERT_EQ(run({"convert", out, folder / "back"}).code, 0);
  const std::string back = read_file(folder / "back");
  EXPECT_NE(back.find(npy.substr(npy.find('\n') + 1)), std::string::npos);
  const Outcome verified = run({"verify", "--deep", "--json", out});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_EQ(verified.json()["n_records"], 6);
  change_index(out, [](Record& record) {
    if (record.name == "a.weight") record.digest[0] ^= 1;
  });
  EXPECT_EQ(run({"verify", out}).code, 0);
  EXPECT_EQ(run({"verify", "--deep", out}).code, 5);
  std::string bytes = read_file(out);
  bytes[200] = static_cast<char>(bytes[200] ^ 4);
  write_file(out, bytes);
  EXPECT_EQ(run({"verify", out}).code, 5);
  EXPECT_EQ(run({"stats", out, "--ref", in}).code, 5);
}

}  // namespace
}  // namespace cfck::test

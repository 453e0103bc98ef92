// cfck convert with rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

class ConvertRules : public ::testing::Test {
 protected:
  void SetUp() override { write_file(in, weights_model()); }

  Outcome convert(std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", "-f", "--json", in, out});
    return run(options);
  }
  Outcome with_file(const std::string& text, std::vector<std::string> options = {}) {
    write_file(folder / "rules.txt", text);
    options.insert(options.end(), {"--rules", folder / "rules.txt"});
    return convert(options);
  }
  // Returns how each tensor of OUT is stored: "raw", "lossless", "abs 0.001", ...
  std::map<std::string, std::string> stored() {
    std::map<std::string, std::string> all;
    const auto json = run({"show", "--json", out}).json();
    for (const auto& record : json["records"]) {
      std::string what = record["codec"];
      if (record.contains("bound")) {
        what = record["bound_kind"].get<std::string>() + " " + record["bound"].dump() +
               (record["per_row"].get<bool>() ? " rows" : "");
      }
      all[record["name"]] = what;
    }
    return all;
  }

  TemporaryFolder folder;
  std::string in = folder / "m.safetensors";
  std::string out = folder / "m.cfck";
};

TEST_F(ConvertRules, MayStandBeforeTheFiles) {
  const Outcome outcome = run({"convert", "--rule", "a.*: codec=raw", in, out});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(stored()["a.weight"], "raw");
}

TEST_F(ConvertRules, TheFirstThatMatchesCounts) {
  const Outcome outcome = convert({"--max-abs-error", "1e-2", "--rule", "a.*: codec=raw", "--rule",
                                   "[ab].weight: max-rel-error=1e-3, per-row", "--rule",
                                   "opt*:max_sigma_error = 0.5 , per_row=false, force", "--rule",
                                   "tiny: max_abs_error=1e-7"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(stored(), (std::map<std::string, std::string>{{"a.weight", "raw"},
                                                          {"b.weight", "rel 0.001 rows"},
                                                          {"norm.bias", "lossless"},
                                                          {"ids", "raw"},
                                                          {"optimizer.state", "sigma 0.5"},
                                                          {"tiny", "abs 1e-07"}}));
}

TEST_F(ConvertRules, PatternsLeaveAloneWhatOptionsForAllTensorsDo) {
  const auto lossless = [&](const std::string& rule) {
    const Outcome outcome = convert({"--rule", rule});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto found = stored();
    return std::count_if(found.begin(), found.end(),
                         [](const auto& tensor) { return tensor.second == "lossless"; });
  };
  EXPECT_EQ(lossless("*: max_abs_error=1e-2"), 3);  // norm.bias, optimizer.state, tiny
  EXPECT_EQ(lossless("*: max_sigma_error=1e-2"), 2);
  EXPECT_EQ(lossless("*: max_sigma_error=1e-2, force=false"), 2);
  EXPECT_EQ(lossless("*: max_sigma_error=1e-2, force"), 0);
  const Outcome twice =
      convert({"--rule", "*: max_sigma_error=1e-2, force", "--rule", "*: max_sigma_error=1e-2"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("contradicts"), std::string::npos) << twice.err;
}

// Names are looked up, patterns are tried: for both the order is decisive.
TEST_F(ConvertRules, NamesAndPatternsInOrder) {
  const Outcome outcome =
      convert({"--rule", "norm.bias: codec=raw", "--rule", "b.*: max_abs_error=1e-3", "--rule",
               "b.weight: codec=raw", "--rule", "[!ab]*: codec=lossless", "--rule",
               "*: max_abs_error=1e-2", "--rule", "tiny: codec=raw"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  auto found = stored();
  EXPECT_EQ(found["norm.bias"], "raw");
  EXPECT_EQ(found["b.weight"], "abs 0.001");
  EXPECT_EQ(found["a.weight"], "abs 0.01");
  EXPECT_EQ(found["tiny"], "lossless");
  for (const char* text : {"'b.weight' has no effect: earlier rules match its only tensor first, "
                           "'b.weight' by the rule 'b.*'",
                           "'tiny' has no effect: earlier rules match its only tensor first, "
                           "'tiny' by the rule '[!ab]*'"}) {
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
}

TEST_F(ConvertRules, ThoseOfTheFileComeLast) {
  const Outcome outcome = with_file(
      "# heads first\n"
      "\n"
      "a.weight: codec=lossless\n"
      "  b.weight : max_abs_error=1e-3\r\n"
      "\t# and the rest\n"
      "norm.*: codec=raw",
      {"--rule", "a.weight*: codec=raw", "--rule", "b*: per_row=true, max_rel_error=1e-2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(stored()["a.weight"], "raw");
  EXPECT_EQ(stored()["b.weight"], "rel 0.01 rows");
  EXPECT_EQ(stored()["norm.bias"], "raw");
  EXPECT_EQ(outcome.json()["unmatched_rules"], (nlohmann::json{"a.weight", "b.weight"}));
  EXPECT_NE(outcome.err.find("the rule 'a.weight' has no effect: earlier rules match its "
                             "only tensor first, 'a.weight' by the rule 'a.weight*'"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(with_file("").code, 0);
  EXPECT_EQ(with_file("# nothing\n\n").code, 0);
}

TEST_F(ConvertRules, TheLastColonSeparates) {
  write_file(in, model_of({{"scope:0/kernel", "F32", "[64,64]", bytes_of(weights(4096, 1, 1))},
                           {"a: b", "F32", "[64,64]", bytes_of(weights(4096, 2, 1))}}));
  const Outcome outcome =
      convert({"--rule", "scope:0/*: max_abs_error=1e-3", "--rule", "a: b:max_rel_error=1e-2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(stored()["scope:0/kernel"], "abs 0.001");
  EXPECT_EQ(stored()["a: b"], "rel 0.01");
}

TEST_F(ConvertRules, PatternsAreTheSameInEveryCommand) {
  write_file(in, model_of({{"blocks[0].w", "F32", "[64,64]", bytes_of(weights(4096, 1, 1))},
                           {"größe", "F32", "[64,64]", bytes_of(weights(4096, 2, 1))}}));
  const Outcome outcome =
      convert({"--rule", "blocks[0].w: max_abs_error=1e-3", "--rule", "gr??e: max_rel_error=1e-2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(stored()["blocks[0].w"], "abs 0.001");
  EXPECT_EQ(stored()["größe"], "rel 0.01");
  for (const char* pattern : {"blocks[0].w", "gr??e", "*[ß]*"}) {
    const auto shown = run({"show", "--json", out, "--filter", pattern}).json();
    EXPECT_EQ(shown["records"].size(), 1U) << pattern;
    const auto described = run({"stats", "--json", out, pattern}).json();
    EXPECT_EQ(described["records"].size(), 1U) << pattern;
  }
}

TEST_F(ConvertRules, MalformedOnesSayWhere) {
  const std::map<std::string, std::string> wrong = {
      {"a.weight", "no colon"},
      {"", "no colon"},
      {": codec=raw", "no pattern"},
      {"a:", "option is missing"},
      {"a: codec=raw,", "option is missing"},
      {"a: codec=raw,,per_row", "option is missing"},
      {"a: =1", "option is missing"},
      {"a: color=red", "color: no such option"},
      {"a: max_abs_err=1", "max_abs_err: no such option"},
      {"a: codec", "codec: '' is not a codec"},
      {"a: codec=zip", "codec: 'zip' is not a codec"},
      {"a: codec=raw # why", "'raw # why' is not a codec"},
      {"a: max_abs_error", "max_abs_error: '' is not a number"},
      {"a: max_abs_error=1e-4x", "max_abs_error: '1e-4x' is not a number"},
      {"a: max_abs_error=0x1p-3", "max_abs_error: '0x1p-3' is not a number"},
      {"a: max_abs_error=0", "max_abs_error: '0' is not positive"},
      {"a: max-sigma-error=-1", "max_sigma_error: '-1' is not positive"},
      {"a: max_rel_error=nan", "max_rel_error: 'nan' is not positive and finite"},
      {"a: max_rel_error=inf", "max_rel_error: 'inf' is not positive and finite"},
      {"a: max_abs_error=1, max_abs_error=1", "max_abs_error: given twice"},
      {"a: max_abs_error=1, max-rel-error=1", "give only one of"},
      {"a: per_row=maybe, max_rel_error=1", "per_row: 'maybe' is neither"},
      {"a: per_row", "per_row needs"},
      {"a: max_abs_error=1, per_row", "per_row needs"},
      {"a: codec=direct", "codec direct needs"},
      {"*: max_abs_error=1, force=yes", "force: 'yes' is neither"},
      {"*: force, force", "force: given twice"},
      {"a: codec=raw, max_abs_error=1", "do not take a maximum error"},
  };
  for (const auto& [rule, message] : wrong) {
    const Outcome outcome = convert({"--rule", rule});
    EXPECT_EQ(outcome.code, 2) << rule;
    EXPECT_NE(outcome.err.find("--rule '" + rule + "': "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.json()["error"]["code"], "invalid_argument");
    if (rule.empty()) continue;
    const Outcome in_file = with_file("# one\n\n" + rule + "\n");
    EXPECT_EQ(in_file.code, 2) << rule;
    EXPECT_NE(in_file.err.find("rules.txt:3: "), std::string::npos) << in_file.err;
    EXPECT_NE(in_file.err.find(message), std::string::npos) << in_file.err;
  }
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(ConvertRules, TwoOfOnePatternMustAgree) {
  EXPECT_EQ(convert({"--rule", "a*: codec=raw", "--rule", "a*: codec=raw"}).code, 0);
  const Outcome outcome =
      with_file("b: codec=raw\na*: codec=lossless\n", {"--rule", "a*:codec=raw"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("rules.txt:2: contradicts --rule 'a*:codec=raw'"), std::string::npos)
      << outcome.err;
}

TEST_F(ConvertRules, FilesThatCannotBeRead) {
  const Outcome missing = convert({"--rules", folder / "none"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.err.find("none"), std::string::npos) << missing.err;
  EXPECT_EQ(convert({"--rules", folder.path()}).code, 3);
  const Outcome binary = with_file(std::string("a: codec=raw\n\0\1", 15));
  EXPECT_EQ(binary.code, 2);
  EXPECT_NE(binary.err.find("is not a text file"), std::string::npos) << binary.err;
}

TEST_F(ConvertRules, ThoseThatMatchNothingAreWarnedOf) {
  const Outcome outcome = convert({"--rule", "a.wieght: codec=raw", "--rule", "*.wieght: codec=raw",
                                   "--rule", "qqq*: codec=raw"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("'a.wieght' matches no tensor; the closest names are 'a.weight'\n"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("'*.wieght' matches no tensor; the closest names are 'a.weight', "
                             "'b.weight'\n"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("'qqq*' matches no tensor\n"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.json()["unmatched_rules"], (nlohmann::json{"a.wieght", "*.wieght", "qqq*"}));
  EXPECT_EQ(run({"convert", "-qf", in, out, "--rule", "qqq*: codec=raw"}).err,
            "warning: the rule 'qqq*' matches no tensor\n");
  EXPECT_EQ(run({"convert", "-f", "--no-warnings", in, out, "--rule", "qqq*: codec=raw"}).err, "");
}

TEST_F(ConvertRules, AnIntegerTensorMayNotBeNamed) {
  const Outcome named = convert({"--rule", "ids: max_abs_error=1"});
  EXPECT_EQ(named.code, 2);
  EXPECT_NE(named.err.find("ids"), std::string::npos) << named.err;
  EXPECT_FALSE(fs::exists(out));
  const Outcome wild = convert({"--rule", "id*: max_abs_error=1"});
  EXPECT_EQ(wild.code, 0);
  EXPECT_EQ(wild.json()["kept_lossless"][0],
            (nlohmann::json{{"name", "ids"}, {"reason", "not_float"}}));
}

TEST_F(ConvertRules, FoldersAreOneModel) {
  for (const char* name : {"a", "b", "c"}) {
    const std::string tensor = std::string(name) + ".weight";
    write_file(folder / ("m/" + std::string(name) + ".safetensors"),
               model_of({{tensor, "F32", "[64,64]", bytes_of(weights(4096, 1, 1))},
                         {std::string(name) + ".bias", "F32", "[4]", bytes_of(weights(4, 1, 1))}}));
  }
  const Outcome outcome = run({"convert", "--json", "--verify", folder / "m", folder / "c",
                               "--max-abs-error", "1e-3", "--rule", "b.*: max_abs_error=1e-2",
                               "--rule", "c.wight: codec=raw", "--rule", "b.weight: codec=raw"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = outcome.json();
  EXPECT_EQ(json["unmatched_rules"], (nlohmann::json{"c.wight", "b.weight"}));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
  EXPECT_NE(outcome.err.find("'c.wight' matches no tensor; the closest names are 'c.weight'"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(json["lossy"]["abs"]["n_records"], 3);
  EXPECT_EQ(json["kept_lossless"].size(), 3U);
  const Outcome text = run({"convert", "-f", folder / "m", folder / "c", "--max-abs-error", "1e-3",
                            "--rule", "b.*: max_abs_error=1e-2"});
  EXPECT_NE(text.out.find("lossy  3 tensors, abs 1e-03 to 1e-02"), std::string::npos) << text.out;
}

}  // namespace
}  // namespace cfck::test

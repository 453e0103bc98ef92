// cfck diff.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

class Diff : public ::testing::Test {
 protected:
  // Writes NAME.safetensors and NAME.cfck.
  void make(const std::string& name, const std::string& model) {
    write_file(folder / (name + ".safetensors"), model);
    ASSERT_EQ(run({"convert", "-f", folder / (name + ".safetensors")}).code, 0);
  }
  // Compares a.cfck and b.cfck; the other three pairs must give the same result.
  nlohmann::json diff(const std::string& model_a, const std::string& model_b) {
    make("a", model_a);
    make("b", model_b);
    nlohmann::json first;
    for (const char* a : {"a.cfck", "a.safetensors"}) {
      for (const char* b : {"b.cfck", "b.safetensors"}) {
        const Outcome outcome = run({"diff", "--json", folder / a, folder / b});
        nlohmann::json json = outcome.json();
        EXPECT_EQ(outcome.code, json["equal"] ? 0 : 1) << outcome.err;
        json.erase("a");
        json.erase("b");
        if (first.is_null()) first = json;
        EXPECT_EQ(first, json);
      }
    }
    return first;
  }

  TemporaryFolder folder;
};

TEST_F(Diff, EqualFiles) {
  const auto json = diff(small_model(), small_model());
  EXPECT_TRUE(json["equal"]);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["n_unchanged"], 5);
  RunOptions inspect;
  inspect.program = "cfck-inspect";
  const Outcome outcome = run({"diff", folder / "a.cfck", folder / "b.safetensors"}, inspect);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "0 tensors added, 0 removed, 0 changed, 5 unchanged\n");
}

TEST_F(Diff, EveryKindOfDifference) {
  const std::string same = bytes_of<float>({1, 2});
  const std::string old_model = model_of({{"same", "F32", "[2]", same},
                                          {"gone", "F32", "[2]", same},
                                          {"values", "F32", "[4]", bytes_of<float>({1, 2, 3, 4})},
                                          {"dtype", "F32", "[2]", same},
                                          {"shape", "F32", "[2]", same}},
                                         R"("kept":"1","old":"1","other":"1")");
  const std::string new_model = model_of({{"same", "F32", "[2]", same},
                                          {"values", "F32", "[4]", bytes_of<float>({1, 2.5, 3, 3})},
                                          {"dtype", "I32", "[2]", same},
                                          {"shape", "F32", "[1,2]", same},
                                          {"new", "U8", "[1]", "x"}},
                                         R"("kept":"1","new":"1","other":"2")");
  const auto json = diff(old_model, new_model);
  EXPECT_FALSE(json["equal"]);
  EXPECT_EQ(json["n_unchanged"], 1);
  ASSERT_EQ(json["added"].size(), 1U);
  EXPECT_EQ(json["added"][0]["name"], "new");
  ASSERT_EQ(json["removed"].size(), 1U);
  EXPECT_EQ(json["removed"][0]["name"], "gone");
  ASSERT_EQ(json["changed"].size(), 3U);
  for (const auto& change : json["changed"]) {
    ASSERT_EQ(change["what"].size(), 1U);
    EXPECT_EQ(change["what"][0], change["name"]);
  }
  const auto& values = json["changed"][0];
  EXPECT_EQ(values["max_abs_error"], 1);
  EXPECT_DOUBLE_EQ(values["rmse"], std::sqrt(1.25 / 4));
  ASSERT_EQ(json["metadata"].size(), 3U);
  EXPECT_EQ(json["metadata"][1]["a"], "1");
  EXPECT_EQ(json["metadata"][1]["b"], "2");
  const Outcome text = run({"diff", folder / "a.cfck", folder / "b.cfck"});
  EXPECT_EQ(text.code, 1);
  for (const char* line :
       {"- gone  F32 [2]\n", "+ new  U8 [1]\n", "~ dtype  F32 [2] -> I32 [2]\n",
        "~ values  F32 [4]  values  max abs error 1  RMSE 0.559017\n",
        "~ shape  F32 [2] -> F32 [1,2]\n", "- metadata old  = 1\n", "+ metadata new  = 1\n",
        "~ metadata other  = 1 -> 2\n", "1 tensor added, 1 removed, 3 changed, 1 unchanged\n"}) {
    EXPECT_NE(text.out.find(line), std::string::npos) << line << text.out;
  }
}

TEST_F(Diff, NamesThatDifferByAPrefix) {
  const std::string same = bytes_of<float>({1, 2});
  const std::string plain =
      model_of({{"0.weight", "F32", "[2]", same}, {"0.bias", "F32", "[2]", same}});
  const std::string parallel =
      model_of({{"module.0.weight", "F32", "[2]", same}, {"module.0.bias", "F32", "[2]", same}});
  const std::string compiled = model_of(
      {{"_orig_mod.0.weight", "F32", "[2]", same}, {"_orig_mod.0.bias", "F32", "[2]", same}});
  const std::string shifted =
      model_of({{"1.weight", "F32", "[2]", same}, {"1.bias", "F32", "[2]", same}});
  const auto prefixes = diff(plain, parallel)["prefixes"];
  EXPECT_EQ(prefixes, (nlohmann::json{{"a", ""}, {"b", "module."}, {"n_names", 2}}));
  const Outcome text = run({"diff", folder / "a.cfck", folder / "b.cfck"});
  EXPECT_NE(text.out.find("the names differ by a prefix only: those of the second begin with "
                          "'module.'\n2 tensors added"),
            std::string::npos)
      << text.out;
  EXPECT_EQ(diff(parallel, plain)["prefixes"]["a"], "module.");
  EXPECT_EQ(diff(compiled, parallel)["prefixes"]["a"], "_orig_mod.");
  EXPECT_FALSE(diff(plain, shifted).contains("prefixes"));
}

TEST_F(Diff, MetadataAloneIsADifference) {
  const auto json = diff(model_of({}, R"("step":"1")"), model_of({}, R"("step":"2")"));
  EXPECT_FALSE(json["equal"]);
  EXPECT_EQ(json["metadata"].size(), 1U);
}

TEST_F(Diff, ErrorsOfSpecialAndHugeValues) {
  const double most = std::numeric_limits<double>::max();
  std::vector<double> huge(16, 1.0);
  std::vector<double> negative = huge;
  huge[0] = most;
  negative[0] = -most;
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::int64_t large = std::int64_t{1} << 53;
  const auto json = diff(model_of({{"nan", "F32", "[4]", bytes_of<float>({nan, inf, 1, 2})},
                                   {"huge", "F64", "[16]", bytes_of(huge)},
                                   {"tiny", "F64", "[2]", bytes_of<double>({5e-324, 0})},
                                   {"zero", "F32", "[1]", bytes_of<float>({0})},
                                   {"long", "I64", "[2]", bytes_of<std::int64_t>({large, 5})},
                                   {"byte", "F8_E4M3", "[2]", "\x38\x40"}}),
                         model_of({{"nan", "F32", "[4]", bytes_of<float>({nan, -inf, nan, 4})},
                                   {"huge", "F64", "[16]", bytes_of(negative)},
                                   {"tiny", "F64", "[2]", bytes_of<double>({0, 0})},
                                   {"zero", "F32", "[1]", bytes_of<float>({-0.0F})},
                                   {"long", "I64", "[2]", bytes_of<std::int64_t>({large + 1, 5})},
                                   {"byte", "F8_E4M3", "[2]", "\x38\x44"}}));
  ASSERT_EQ(json["changed"].size(), 6U);
  const auto of = [&](const char* name) {
    for (const auto& change : json["changed"]) {
      if (change["name"] == name) return change;
    }
    return nlohmann::json();
  };
  EXPECT_EQ(of("nan")["n_special_mismatches"], 2);
  EXPECT_EQ(of("nan")["max_abs_error"], 2);
  EXPECT_EQ(of("huge")["max_abs_error"], "inf");
  EXPECT_DOUBLE_EQ(of("huge")["rmse"], most / 2);
  EXPECT_EQ(of("tiny")["max_abs_error"], 5e-324);
  EXPECT_EQ(of("zero")["max_abs_error"], 0);
  EXPECT_EQ(of("long")["max_abs_error"], 1);
  EXPECT_DOUBLE_EQ(of("long")["rmse"], std::sqrt(0.5));
  EXPECT_EQ(of("byte")["max_abs_error"], 1);
}

TEST_F(Diff, FastDecodesNothing) {
  make("a", one_tensor(100'000));
  std::string changed = one_tensor(100'000);
  changed.back() = '\x40';
  make("b", changed);
  std::string damaged = read_file(folder / "b.cfck");
  damaged[1000] = static_cast<char>(damaged[1000] ^ 1);
  write_file(folder / "b.cfck", damaged);
  EXPECT_EQ(run({"diff", folder / "a.cfck", folder / "b.cfck"}).code, 5);
  for (const char* flag : {"--fast", "--digest-only"}) {
    const Outcome outcome = run({"diff", flag, "--json", folder / "a.cfck", folder / "b.cfck"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_FALSE(outcome.json()["changed"][0].contains("rmse"));
  }
}

TEST_F(Diff, Trouble) {
  make("a", small_model());
  EXPECT_EQ(run({"diff", folder / "a.cfck"}).code, 2);
  EXPECT_EQ(run({"diff", folder / "a.cfck", folder / "none"}).code, 3);
  const std::string whole = read_file(folder / "a.cfck");
  write_file(folder / "short.cfck", whole.substr(0, whole.size() - 3));
  const Outcome outcome = run({"diff", "--json", folder / "a.cfck", folder / "short.cfck"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE(outcome.err.find("short.cfck"), std::string::npos) << outcome.err;
  EXPECT_TRUE(outcome.json().contains("error"));
}

TEST_F(Diff, ShardsAgainstOneFile) {
  const std::string one = bytes_of<float>({1, 2});
  const std::string two = bytes_of<float>({3, 4});
  write_file(folder / "shards/model-00001-of-00002.safetensors",
             model_of({{"x", "F32", "[2]", one}}));
  write_file(folder / "shards/model-00002-of-00002.safetensors",
             model_of({{"y", "F32", "[2]", two}}));
  make("whole", model_of({{"y", "F32", "[2]", two}, {"x", "F32", "[2]", one}}));
  EXPECT_EQ(run({"diff", folder / "shards", folder / "whole.cfck"}).code, 0);
  // One name occurs in two shards.
  write_file(folder / "shards/model-00002-of-00002.safetensors",
             model_of({{"x", "F32", "[2]", two}}));
  const Outcome outcome = run({"diff", folder / "shards", folder / "whole.cfck"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE(outcome.err.find("two shards"), std::string::npos) << outcome.err;
}

// Files of a folder beside its model count too, whatever their names and formats are.
TEST_F(Diff, VariantsAndOtherFilesOfFolders) {
  const std::string old_model = one_tensor(8);
  const std::string new_model = one_tensor(9);
  for (const char* name : {"model.safetensors", "other.safetensors", "model.fp16.safetensors"}) {
    for (const char* of : {"x", "y"})
      write_file(folder / of + ("/" + std::string(name)), old_model);
  }
  const Outcome same = run({"diff", folder / "x", folder / "y"});
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_NE(same.out.find("2 models compared, 2 equal"), std::string::npos) << same.out;
  EXPECT_NE(same.err.find("1 other file with tensors was not compared: " +
                          folder / "x/other.safetensors"),
            std::string::npos)
      << same.err;
  const std::string lines = run({"diff", "--json", folder / "x", folder / "y"}).out;
  const std::size_t last = lines.rfind('\n', lines.size() - 2) + 1;
  const auto totals = nlohmann::json::parse(lines.substr(last));
  EXPECT_EQ(totals["n_models"], 2);
  EXPECT_EQ(totals["n_equal"], 2);
  EXPECT_TRUE(totals["equal"]);
  write_file(folder / "y/model.fp16.safetensors", new_model);
  EXPECT_EQ(run({"diff", folder / "x", folder / "y"}).code, 1);
  std::filesystem::remove(folder / "y/model.fp16.safetensors");
  EXPECT_EQ(run({"diff", folder / "x", folder / "y"}).code, 1);
  std::filesystem::remove(folder / "x/model.fp16.safetensors");
  EXPECT_EQ(run({"diff", folder / "x", folder / "y"}).code, 0);
  write_file(folder / "y/other.safetensors", new_model);
  const Outcome other = run({"diff", folder / "x", folder / "y"});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.out.find("~ file other.safetensors"), std::string::npos) << other.out;
  EXPECT_FALSE(run({"diff", "--json", folder / "x", folder / "y"}).json()["equal"]);
  std::filesystem::remove(folder / "x/other.safetensors");
  EXPECT_EQ(run({"diff", folder / "x", folder / "y"}).code, 1);
  write_file(folder / "y/model.fp16.safetensors", old_model);
  const Outcome one = run({"convert", folder / "y", folder / "one.cfck"});
  EXPECT_NE(one.err.find("were not converted: " + folder / "y/model.fp16.safetensors" + ", " +
                         folder / "y/other.safetensors"),
            std::string::npos)
      << one.err;
  // A converted folder has them under other suffixes.
  ASSERT_EQ(run({"convert", folder / "y", folder / "z"}).code, 0);
  const Outcome converted = run({"diff", folder / "y", folder / "z"});
  EXPECT_EQ(converted.code, 0) << converted.out << converted.err;
}

// Commands that describe a folder list its variants, and say which files they leave out.
TEST_F(Diff, OtherCommandsReadVariants) {
  write_file(folder / "p/model_index.json", R"({"vae": ["diffusers", "AutoencoderKL"]})");
  write_file(folder / "p/vae/config.json", "{}");
  write_file(folder / "p/vae/diffusion_pytorch_model.safetensors", one_tensor(8));
  write_file(folder / "p/vae/diffusion_pytorch_model.fp16.safetensors", one_tensor(9));
  write_file(folder / "p/vae/more.safetensors", one_tensor(10));
  for (const char* command : {"inspect", "digest", "stats"}) {
    for (const char* path : {"p", "p/vae"}) {
      const Outcome outcome = run({command, folder / path});
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_NE(outcome.out.find("diffusion_pytorch_model.fp16.safetensors"), std::string::npos)
          << command << outcome.out;
      EXPECT_NE(outcome.err.find("1 other file with tensors was not"), std::string::npos)
          << outcome.err;
    }
  }
}

}  // namespace
}  // namespace cfck::test

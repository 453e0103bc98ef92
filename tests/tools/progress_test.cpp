// The display of long work on terminals, and its cancellation.
#include <gtest/gtest.h>

#include <regex>
#include <utility>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

class Progress : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string values = bytes_of(weights(600 * 1024, 1, 0.1F));
    write_file(in, model_of({{"w", "F32", "[600,1024]", values}}));
    terminal.terminal = true;
  }

  // The first share of the work that is shown, in percent; -1: none.
  static int first_percent(const std::string& text) {
    std::smatch found;
    return std::regex_search(text, found, std::regex(R"(\] +([0-9]+)%)")) ? std::stoi(found[1])
                                                                          : -1;
  }
  std::string shown(const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments, terminal);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return outcome.out;
  }

  TemporaryFolder folder;
  std::string in = folder / "m.safetensors";
  std::string out = folder / "m.cfck";
  RunOptions terminal;
};

TEST_F(Progress, OfSearchesForSteps) {
  const std::string text = shown({"convert", in, out, "--bits-per-weight", "3"});
  EXPECT_NE(text.find("m.safetensors: measuring values"), std::string::npos) << text;
  EXPECT_LT(first_percent(text), 100);
  EXPECT_EQ(first_percent(shown({"convert", "-fq", in, out, "--bits-per-weight", "3"})), -1);
  const Outcome piped = run({"convert", "-f", in, out, "--bits-per-weight", "3"});
  EXPECT_EQ(first_percent(piped.err), -1);
  EXPECT_EQ(first_percent(piped.out), -1);
}

TEST_F(Progress, WithinTensorsOfBands) {
  ASSERT_EQ(run({"convert", in, out, "--bits-per-weight", "3"}).code, 0);
  const int percent = first_percent(shown({"bands", out}));
  EXPECT_GT(percent, 0);
  EXPECT_LT(percent, 100);
  EXPECT_EQ(first_percent(shown({"bands", "-q", out})), -1);
}

TEST_F(Progress, WithinTensorsOfStats) {
  const std::string large = folder / "large.safetensors";
  write_file(large, one_tensor(2'200'000));
  const int percent = first_percent(shown({"stats", large}));
  EXPECT_GT(percent, 0);
  EXPECT_LT(percent, 100);
  EXPECT_EQ(first_percent(shown({"stats", "-q", large})), -1);
}

TEST_F(Progress, OfEveryLongStep) {
  const std::string large = folder / "large.safetensors";
  const std::string stored = folder / "large.cfck";
  write_file(large, one_tensor(4'000'000));
  ASSERT_EQ(run({"convert", large}).code, 0);
  for (const auto& [arguments, label] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"verify", "--deep", stored}, "checking large.cfck"},
           {{"digest", large}, "reading large.safetensors"},
           {{"diff", large, stored}, "comparing"},
           {{"repair", stored, "-o", folder / "copy.cfck"}, "recovering large.cfck"},
           {{"compact", stored}, "compacting large.cfck"}}) {
    const std::string text = shown(arguments);
    EXPECT_NE(text.find(label), std::string::npos) << text;
    const int percent = first_percent(text);
    EXPECT_GE(percent, 0) << label;
    EXPECT_LT(percent, 100) << label;
  }
  ASSERT_EQ(run({"verify", "--deep", stored}).code, 0);
}

TEST_F(Progress, OfSeveralInputs) {
  std::vector<std::string> arguments = {"convert", "--output-dir", folder / "out", "-j", "2"};
  for (const std::string name : {"a", "b", "c", "d"}) {
    write_file(folder / (name + ".safetensors"), one_tensor(1'000'000));
    arguments.push_back(folder / (name + ".safetensors"));
  }
  const std::string text = shown(arguments);
  const int percent = first_percent(text);
  EXPECT_GE(percent, 0) << text;
  EXPECT_LT(percent, 100) << text;
  EXPECT_NE(text.find("4 of 4 inputs converted"), std::string::npos) << text;
}

}  // namespace
}  // namespace cfck::test

// Folders with a model of their own and models in the folders below it, as sentence-transformers
// and Trainer write them, and what is beside a model.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/convert/model_folders.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

class ModelsBelow : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder / "m/model.safetensors", shard("w", 1));
    write_file(folder / "m/config.json", "{}");
    write_file(folder / "m/2_Dense/model.safetensors", shard("linear", 2));
    write_file(folder / "m/2_Dense/config.json", "{}");
    write_file(folder / "m/logs/events.npz", "no archive");
    here.folder = folder.path();
    ASSERT_EQ(run({"convert", "m", "c"}, here).code, 0);
  }

  TemporaryFolder folder;
  RunOptions here;
};

TEST_F(ModelsBelow, CommandsForFoldersTakeThem) {
  for (const char* command : {"inspect", "stats", "digest", "verify"}) {
    const Outcome outcome = run({command, "c"}, here);
    EXPECT_EQ(outcome.code, 0) << command << outcome.err;
    EXPECT_NE(outcome.out.find("c/2_Dense"), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(run({"diff", "m", "c"}, here).code, 0);
  // A name has to be in one of the models.
  const Outcome named = run({"stats", "c", "linear", "--ref", "m"}, here);
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out.find("c/2_Dense:"), std::string::npos) << named.out;
  EXPECT_EQ(named.out.find("c:"), std::string::npos) << named.out;
  const Outcome wrong = run({"stats", "c", "liner"}, here);
  EXPECT_EQ(wrong.code, 3);
  EXPECT_NE(wrong.err.find("no model of the folder has a tensor 'liner'"), std::string::npos)
      << wrong.err;
  write_file(folder / "m/2_Dense/model.safetensors", shard("linear", 3));
  EXPECT_EQ(run({"diff", "m", "c"}, here).code, 1);
  std::string damaged = read_file(folder / "c/2_Dense/model.cfck");
  damaged[200] = static_cast<char>(damaged[200] ^ 4);
  write_file(folder / "c/2_Dense/model.cfck", damaged);
  const Outcome verified = run({"verify", "c"}, here);
  EXPECT_EQ(verified.code, 5);
  EXPECT_NE(verified.out.find("1 ok, 1 damaged"), std::string::npos) << verified.out;
}

// Commands that take one model say what they leave out.
TEST_F(ModelsBelow, CommandsForOneModelNameThem) {
  const std::vector<std::vector<std::string>> commands = {{"convert", "m", "one.cfck"},
                                                          {"report", "c", "-o", "report.html"},
                                                          {"spectrum", "c"},
                                                          {"bands", "c"},
                                                          {"compact", "c"}};
  for (const auto& command : commands) {
    const Outcome outcome = run(command, here);
    EXPECT_EQ(outcome.code, 0) << command[0] << outcome.err;
    EXPECT_NE(outcome.err.find("1 other model was not "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(command[1] + "/2_Dense"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(run({"convert", "m/2_Dense", "dense.cfck"}, here).err, "");
}

// Verify names what has no hashes, and checks what has.
TEST_F(ModelsBelow, VerifyNamesWhatItDoesNotCheck) {
  write_file(folder / "c/model.fp16.safetensors", shard("w", 4));
  write_file(folder / "c/other.safetensors", shard("w", 5));
  fs::copy_file(folder / "c/model.cfck", folder / "c/ema.cfck");
  const Outcome outcome = run({"verify", "c"}, here);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("2 other files with tensors were not checked, as only .cfck files "
                             "have hashes: c/model.fp16.safetensors, c/other.safetensors"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("3 ok, 0 damaged"), std::string::npos) << outcome.out;
}

// Modules that sentence-transformers loads by itself stay in the format that it knows.
TEST_F(ModelsBelow, ModulesOfSentenceTransformersAreCopied) {
  write_file(folder / "m/modules.json",
             R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                 {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}, 3])");
  const Outcome made = run({"convert", "m", "s"}, here);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("2_Dense/model.safetensors ("), std::string::npos) << made.out;
  EXPECT_EQ(read_file(folder / "s/2_Dense/model.safetensors"), shard("linear", 2));
  EXPECT_TRUE(fs::exists(folder / "s/model.cfck"));
  EXPECT_EQ(run({"diff", "m", "s"}, here).code, 0);
  const Outcome verified = run({"verify", "s"}, here);
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_NE(verified.err.find("1 other model was not checked, as only .cfck files have hashes: "
                              "s/2_Dense"),
            std::string::npos)
      << verified.err;
  ASSERT_EQ(run({"convert", "s", "back"}, here).code, 0);
  EXPECT_EQ(read_file(folder / "back/model.safetensors"), shard("w", 1));
  EXPECT_EQ(read_file(folder / "back/2_Dense/model.safetensors"), shard("linear", 2));
  // Where there is nothing else they are converted.
  fs::remove(folder / "m/model.safetensors");
  const Outcome alone = run({"convert", "m", "alone"}, here);
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_TRUE(fs::exists(folder / "alone/2_Dense/model.cfck"));
}

}  // namespace
}  // namespace cfck::test

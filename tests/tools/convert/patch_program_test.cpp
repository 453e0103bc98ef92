// cfck patch, cfck apply, and files that are stored against others on the command line.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/tools/convert/model_folders.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr std::size_t kElems = 65536;

// "w" F32 [256,256], of which every `step`th value is another than in the model of step 0; "same"
// [256,256]; "bias" [8].
std::string version(std::size_t step) {
  std::vector<float> values = weights(kElems, 1, 0.02F);
  for (std::size_t i = 0; step > 0 && i < kElems; i += 2000 / step) values[i] *= 1.01F;
  const std::vector<float> bias(8, static_cast<float>(step));
  return model_of({{"w", "F32", "[256,256]", bytes_of(values)},
                   {"same", "F32", "[256,256]", bytes_of(weights(kElems, 2, 0.02F))},
                   {"bias", "F32", "[8]", bytes_of(bias)}},
                  "\"step\":\"" + std::to_string(step) + "\"");
}

class PatchProgram : public ::testing::Test {
 protected:
  PatchProgram() {
    for (std::size_t step = 0; step < 3; ++step) {
      write_file(at("v" + std::to_string(step) + ".safetensors"), version(step));
    }
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  void make_patch() {
    const Outcome made = run({"patch", at("v0.safetensors"), at("v1.safetensors"), "-o", patch_});
    ASSERT_EQ(made.code, 0) << made.err;
  }

  const TemporaryFolder folder_;
  const std::string patch_ = folder_ / "update.cfck";
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(PatchProgram, ThereAndBackIsTheSameFile) {
  const Outcome made = run({"patch", at("v0.safetensors"), at("v1.safetensors"), "-o", patch_});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "1 unchanged, 1 as a difference, 1 by itself")) << made.out;
  EXPECT_LT(fs::file_size(patch_) * 100, version(1).size());
  const Outcome applied = run({"apply", at("v0.safetensors"), patch_, "-o", at("new.safetensors")});
  ASSERT_EQ(applied.code, 0) << applied.err;
  EXPECT_EQ(applied.err, "");
  EXPECT_TRUE(read_file(at("new.safetensors")) == version(1));
  // In other formats, and checked.
  ASSERT_EQ(run({"apply", "--verify", at("v0.safetensors"), patch_, "-o", at("new.cfck")}).code, 0);
  EXPECT_EQ(run({"diff", at("new.cfck"), at("v1.safetensors")}).code, 0);
  ASSERT_EQ(run({"apply", at("v0.safetensors"), patch_, "-o", at("new.npz")}).code, 0);
  EXPECT_EQ(run({"diff", at("new.npz"), at("new.cfck")}).code, 1);  // metadata
}

TEST_F(PatchProgram, ABaseOfAnyFormatWillDo) {
  ASSERT_EQ(run({"convert", at("v0.safetensors"), at("v0.cfck")}).code, 0);
  ASSERT_EQ(run({"convert", at("v1.safetensors"), at("v1.cfck")}).code, 0);
  make_patch();
  ASSERT_EQ(run({"patch", at("v0.cfck"), at("v1.cfck"), "-o", at("other.cfck")}).code, 0);
  for (const char* patch : {"update.cfck", "other.cfck"}) {
    for (const char* base : {"v0.safetensors", "v0.cfck"}) {
      const Outcome applied =
          run({"apply", "-f", at(base), at(patch), "-o", at("new.safetensors")});
      ASSERT_EQ(applied.code, 0) << applied.err;
      EXPECT_EQ(run({"diff", at("new.safetensors"), at("v1.safetensors")}).code, 0);
    }
  }
}

TEST_F(PatchProgram, InPlaceReplacesTheOldFile) {
  make_patch();
  const std::string model = at("v0.safetensors");
  ASSERT_EQ(::chmod(model.c_str(), 0640), 0);
  const Outcome applied = run({"apply", "--in-place", model, patch_});
  ASSERT_EQ(applied.code, 0) << applied.err;
  EXPECT_TRUE(read_file(model) == version(1));
  EXPECT_EQ(fs::status(model).permissions(), fs::perms{0640});
  const Outcome again = run({"apply", "--in-place", model, patch_});
  EXPECT_EQ(again.code, 8);
  EXPECT_TRUE(has(again.err, "has the values of this patch already")) << again.err;
  const Outcome other = run({"apply", "--in-place", at("v2.safetensors"), patch_});
  EXPECT_EQ(other.code, 3);
  EXPECT_TRUE(has(other.err, "was not made for '" + at("v2.safetensors") + "': 1 tensor has other"))
      << other.err;
  EXPECT_TRUE(read_file(at("v2.safetensors")) == version(2));
  EXPECT_TRUE(read_file(model) == version(1));
  EXPECT_EQ(folder_.files(),
            (Names{"update.cfck", "v0.safetensors", "v1.safetensors", "v2.safetensors"}));
}

TEST_F(PatchProgram, WhatIsNoPatchIsRefused) {
  make_patch();
  const std::string model = at("v0.safetensors");
  const Outcome swapped = run({"apply", patch_, model, "-o", at("new.safetensors")});
  EXPECT_NE(swapped.code, 0);
  const Outcome plain = run({"apply", model, at("v1.safetensors"), "-o", at("new.safetensors")});
  EXPECT_EQ(plain.code, 2);
  EXPECT_TRUE(has(plain.err, "this is a safetensors file")) << plain.err;
  write_file(at("other.safetensors"), one_tensor(5000));
  ASSERT_EQ(run({"convert", at("other.safetensors")}).code, 0);
  const Outcome other = run({"apply", "--in-place", model, at("other.cfck")});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.err, "is no patch of")) << other.err;
  EXPECT_TRUE(read_file(model) == version(0));
  // A file with the same tensors is as good as a patch.
  ASSERT_EQ(run({"convert", at("v2.safetensors")}).code, 0);
  EXPECT_EQ(run({"apply", "--in-place", model, at("v2.cfck")}).code, 0);
  EXPECT_TRUE(read_file(model) == version(2));
}

TEST_F(PatchProgram, TensorsThatThePatchLacksAreNamed) {
  write_file(at("fewer.safetensors"),
             model_of({{"same", "F32", "[256,256]", bytes_of(weights(kElems, 2, 0.02F))}}));
  ASSERT_EQ(run({"patch", at("v0.safetensors"), at("fewer.safetensors"), "-o", patch_}).code, 0);
  const Outcome applied = run({"apply", at("v0.safetensors"), patch_, "-o", at("new.safetensors")});
  EXPECT_EQ(applied.code, 0);
  EXPECT_TRUE(has(applied.err, "does not have 2 tensors of OLD")) << applied.err;
  EXPECT_TRUE(has(applied.err, "'bias'")) << applied.err;
}

TEST_F(PatchProgram, APatchBesideItsBaseIsApplied) {
  ASSERT_EQ(run({"convert", at("v0.safetensors")}).code, 0);
  ASSERT_EQ(run({"patch", at("v0.cfck"), at("v1.safetensors"), "-o", patch_}).code, 0);
  const Outcome applied = run({"apply", "--in-place", at("v0.cfck"), patch_});
  ASSERT_EQ(applied.code, 0) << applied.err;
  EXPECT_EQ(run({"diff", at("v0.cfck"), at("v1.safetensors")}).code, 0);
}

TEST_F(PatchProgram, ConvertTakesTheBaseOfItsInput) {
  make_patch();
  const Outcome converted =
      run({"convert", patch_, at("new.safetensors"), "--base", at("v0.safetensors")});
  ASSERT_EQ(converted.code, 0) << converted.err;
  EXPECT_TRUE(read_file(at("new.safetensors")) == version(1));
  EXPECT_EQ(run({"convert", patch_, at("new.safetensors"), "-f"}).code, 3);
}

TEST_F(PatchProgram, WhereNothingFitsAPatchSaysSo) {
  write_file(at("other.safetensors"), one_tensor(5000));
  const Outcome made = run({"patch", at("other.safetensors"), at("v1.safetensors"), "-o", patch_});
  EXPECT_EQ(made.code, 0);
  EXPECT_TRUE(has(made.err, "nothing is stored against")) << made.err;
}

TEST_F(PatchProgram, MisspeltOptionsAreNamed) {
  const Outcome wrong =
      run({"patch", at("v0.safetensors"), at("v1.safetensors"), "--out=" + patch_});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(has(wrong.err, "there is no option --out")) << wrong.err;
}

TEST_F(PatchProgram, AFullDiskLeavesTheOldFile) {
  make_patch();
  RunOptions full;
  full.max_file_bytes = 100000;
  const Outcome applied = run({"apply", "--in-place", at("v0.safetensors"), patch_}, full);
  EXPECT_EQ(applied.code, 3) << applied.err;
  EXPECT_TRUE(read_file(at("v0.safetensors")) == version(0));
  EXPECT_EQ(folder_.files().size(), 4U);
}

TEST_F(PatchProgram, WrongUsesSaySo) {
  make_patch();
  const Outcome nowhere = run({"apply", at("v0.safetensors"), patch_});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(has(nowhere.err, "--in-place")) << nowhere.err;
  const Outcome other =
      run({"patch", at("v0.safetensors"), at("v1.safetensors"), "-o", at("update.safetensors")});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.err, "a patch is a .cfck file")) << other.err;
  const Outcome missing =
      run({"patch", at("nothing.safetensors"), at("v1.safetensors"), "-o", at("x.cfck")});
  EXPECT_EQ(missing.code, 3);
  EXPECT_TRUE(has(missing.err, "nothing.safetensors")) << missing.err;
  EXPECT_EQ(run({"patch", at("v0.safetensors"), at("v1.safetensors"), "-o", patch_}).code, 8);
  const Outcome back = run({"convert", patch_, at("back.safetensors"), "--base", at("v0.cfck")});
  EXPECT_EQ(back.code, 3);
}

TEST_F(PatchProgram, FoldersOfModels) {
  make_model(at("old"));
  make_model(at("new"));
  write_file(at("new/model-00002-of-00002.safetensors"), shard("b.w", 3));
  const Outcome made = run({"patch", at("old"), at("new"), "-o", patch_});
  ASSERT_EQ(made.code, 0) << made.err;
  const Outcome applied = run({"apply", at("old"), patch_, "-o", at("made")});
  ASSERT_EQ(applied.code, 0) << applied.err;
  EXPECT_EQ(run({"diff", at("made"), at("new")}).code, 0);
  const Outcome replaced = run({"apply", "--in-place", at("old"), patch_});
  ASSERT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_EQ(run({"diff", at("old"), at("new")}).code, 0);
  EXPECT_TRUE(fs::exists(at("old/config.json")));
}

TEST_F(PatchProgram, ConvertedAgainstAFileBesideIt) {
  ASSERT_EQ(run({"convert", at("v0.safetensors")}).code, 0);
  const Outcome made = run({"convert", at("v1.safetensors"), "--base", at("v0.cfck"), "--verify"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.err, "");
  EXPECT_TRUE(has(made.out, "1 unchanged")) << made.out;
  ASSERT_EQ(run({"convert", at("v2.safetensors"), "--base", at("v1.cfck")}).code, 0);
  EXPECT_EQ(run({"verify", "--deep", at("v2.cfck")}).code, 0);
  EXPECT_EQ(run({"diff", at("v2.cfck"), at("v2.safetensors")}).code, 0);
  ASSERT_EQ(run({"convert", at("v2.cfck"), at("back.safetensors")}).code, 0);
  EXPECT_TRUE(read_file(at("back.safetensors")) == version(2));

  fs::create_directory(at("archive"));
  fs::rename(at("v0.cfck"), at("archive/v0.cfck"));
  EXPECT_EQ(run({"verify", at("v2.cfck")}).code, 3);
  const Outcome lost = run({"stats", at("v2.cfck"), "w"});
  EXPECT_EQ(lost.code, 3);
  EXPECT_TRUE(has(lost.err, "v0.cfck")) << lost.err;
  for (const char* command : {"stats", "digest", "bands", "spectrum"}) {
    EXPECT_EQ(run({command, at("v2.cfck"), "--base-dir", at("archive")}).code, 0) << command;
  }
  EXPECT_EQ(run({"diff", at("v2.cfck"), at("v2.safetensors"), "--base-dir", at("archive")}).code,
            0);
  EXPECT_EQ(run({"stats", at("v1.cfck"), "--base", at("v0.safetensors")}).code, 0);
}

TEST_F(PatchProgram, CompactedFilesStandAlone) {
  ASSERT_EQ(run({"convert", at("v0.safetensors")}).code, 0);
  ASSERT_EQ(run({"convert", at("v1.safetensors"), "--base", at("v0.cfck")}).code, 0);
  const Outcome compacted = run({"compact", at("v1.cfck")});
  ASSERT_EQ(compacted.code, 0) << compacted.err;
  EXPECT_TRUE(has(compacted.out, "it stands alone now")) << compacted.out;
  fs::remove(at("v0.cfck"));
  EXPECT_EQ(run({"diff", at("v1.cfck"), at("v1.safetensors")}).code, 0);
  EXPECT_FALSE(has(run({"compact", at("v1.cfck")}).out, "stands alone"));
}

TEST_F(PatchProgram, ReadersThatWillNotFindTheBaseAreToldOf) {
  ASSERT_EQ(run({"convert", at("v0.safetensors"), at("v0.cfck")}).code, 0);
  const Outcome other = run({"convert", at("v1.safetensors"), "--base", at("v0.safetensors")});
  ASSERT_EQ(other.code, 0);
  EXPECT_TRUE(has(other.err, "--base " + at("v0.safetensors"))) << other.err;
  fs::create_directory(at("sub"));
  const Outcome elsewhere =
      run({"convert", at("v1.safetensors"), at("sub/v1.cfck"), "--base", at("v0.cfck")});
  ASSERT_EQ(elsewhere.code, 0);
  EXPECT_TRUE(has(elsewhere.err, "--base-dir")) << elsewhere.err;
}

TEST_F(PatchProgram, ABaseOfOthersIsNotReplacedByForce) {
  ASSERT_EQ(run({"convert", at("v0.safetensors")}).code, 0);
  ASSERT_EQ(run({"convert", at("v1.safetensors"), "--base", at("v0.cfck")}).code, 0);
  const Outcome refused = run({"convert", "-f", at("v2.safetensors"), at("v0.cfck")});
  EXPECT_EQ(refused.code, 8);
  EXPECT_TRUE(has(refused.err, "'v1.cfck' is stored against")) << refused.err;
  EXPECT_EQ(run({"diff", at("v1.cfck"), at("v1.safetensors")}).code, 0);
  EXPECT_EQ(run({"convert", "-f", "--replace-base", at("v2.safetensors"), at("v0.cfck")}).code, 0);
  EXPECT_EQ(run({"diff", at("v1.cfck"), at("v1.safetensors")}).code, 3);
  const Outcome itself =
      run({"convert", "-f", at("v2.safetensors"), at("v0.cfck"), "--base", at("v0.cfck")});
  EXPECT_EQ(itself.code, 2);
  EXPECT_TRUE(has(itself.err, "the same file")) << itself.err;
}

TEST_F(PatchProgram, ChainsThatNobodyCouldReadAreNotMade) {
  ASSERT_EQ(run({"convert", at("v0.safetensors"), at("s0.cfck")}).code, 0);
  const auto add = [&](int step) {
    const std::string last = at("s" + std::to_string(step - 1) + ".cfck");
    const std::string input = at(step % 2 == 0 ? "v0.safetensors" : "v1.safetensors");
    return run({"convert", input, at("s" + std::to_string(step) + ".cfck"), "--base", last});
  };
  for (int step = 1; step <= 8; ++step) ASSERT_EQ(add(step).code, 0);
  EXPECT_EQ(run({"verify", "--deep", at("s8.cfck")}).code, 0);
  const Outcome refused = add(9);
  EXPECT_EQ(refused.code, 7);
  EXPECT_TRUE(has(refused.err, "cfck compact")) << refused.err;
  ASSERT_EQ(run({"compact", at("s8.cfck")}).code, 0);
  EXPECT_EQ(add(9).code, 0);
}

TEST_F(PatchProgram, InspectSaysWhatChanged) {
  make_patch();
  const Outcome shown = run({"inspect", patch_});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "not named, to be given with --base: 1 unchanged")) << shown.out;
  const Outcome counted =
      run({"inspect", "--json", "--changes", "--base", at("v0.safetensors"), patch_});
  ASSERT_EQ(counted.code, 0) << counted.err;
  const auto json = counted.json();
  for (const auto& record : json["records"]) {
    if (record["name"] == "w") {
      EXPECT_EQ(record["base"], "difference");
      EXPECT_EQ(record["n_changed"], (kElems + 1999) / 2000);
    } else if (record["name"] == "same") {
      EXPECT_EQ(record["base"], "unchanged");
      EXPECT_EQ(record["n_changed"], 0);
    } else {
      EXPECT_FALSE(record.contains("base"));
    }
  }
  const Outcome text = run({"inspect", "--changes", "--base", at("v0.safetensors"), patch_});
  EXPECT_TRUE(has(text.out, "33 of 131072 values changed")) << text.out;
  const Outcome without = run({"inspect", "--changes", patch_});
  EXPECT_EQ(without.code, 3);
}

}  // namespace
}  // namespace cfck::test

// Folders as one file, files as folders of shards, and folders of several models.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/convert/model_folders.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

std::string digest_of(const std::string& path) { return run({"digest", path}).out.substr(0, 32); }

// A folder is converted to the file that OUT names, or to a folder.
TEST(ConvertFolder, ShardsBecomeOneFile) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  const std::string digest = digest_of(folder / "m");
  ASSERT_EQ(run({"convert", folder / "m", folder / "c"}).code, 0);
  for (const char* from : {"m", "c"}) {
    for (const char* name : {"one.safetensors", "one.cfck", "one.npz"}) {
      const Outcome made = run({"convert", "--verify", folder / from, folder / name});
      ASSERT_EQ(made.code, 0) << made.err;
      EXPECT_TRUE(fs::is_regular_file(folder / name));
      EXPECT_EQ(digest_of(folder / name), digest) << name;
      EXPECT_EQ(run({"convert", folder / from, folder / name}).code, 8);
      fs::remove(folder / name);
    }
  }
  // The header of one shard is not that of all.
  ASSERT_EQ(run({"convert", folder / "m", folder / "one.cfck"}).code, 0);
  ASSERT_EQ(run({"convert", folder / "one.cfck", folder / "back.safetensors"}).code, 0);
  EXPECT_EQ(digest_of(folder / "back.safetensors"), digest);
  const auto json = run({"convert", "--json", folder / "c", folder / "j.safetensors"}).json();
  EXPECT_EQ(json["records"].size(), 2U);
  EXPECT_EQ(json["status"], "converted");
  EXPECT_EQ(run({"convert", folder / "m", folder / "m.cfck/"}).code, 0);
  EXPECT_TRUE(fs::is_directory(folder / "m.cfck"));
}

TEST(ConvertFolder, ADamagedShardLeavesNoFile) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  write_file(folder / "m/model-00002-of-00002.safetensors", "broken");
  const Outcome outcome = run({"convert", folder / "m", folder / "one.cfck"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE(outcome.err.find("model-00002-of-00002.safetensors"), std::string::npos) << outcome.err;
  fs::remove(folder / "m/model-00002-of-00002.safetensors");
  const Outcome missing = run({"convert", folder / "m", folder / "one.cfck"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.err.find("is missing; download it"), std::string::npos) << missing.err;
  EXPECT_FALSE(fs::exists(folder / "one.cfck"));
}

// Without an index, the names of shards say what belongs together.
TEST(ConvertFolder, ShardsWithoutAnIndex) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  fs::remove(folder / "m/model.safetensors.index.json");
  EXPECT_EQ(run({"convert", folder / "m", folder / "one.cfck"}).code, 0);
  write_file(folder / "m/other-00001-of-00001.safetensors", shard("c.w", 3));
  const Outcome mixed = run({"convert", folder / "m", folder / "two.cfck"});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(mixed.err.find("shards of several models"), std::string::npos) << mixed.err;
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"convert", folder / "m", folder / "out"}, {"verify", folder / "m"}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << command[0];
    EXPECT_NE(outcome.err.find("shards of several models"), std::string::npos) << outcome.err;
  }
  EXPECT_FALSE(fs::exists(folder / "out"));
  fs::remove(folder / "m/other-00001-of-00001.safetensors");
  fs::remove(folder / "m/model-00001-of-00002.safetensors");
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"convert", folder / "m", folder / "two.cfck"},
                                             {"convert", folder / "m", folder / "out"},
                                             {"verify", folder / "m"},
                                             {"inspect", folder / "m"},
                                             {"digest", folder / "m"}}) {
    const Outcome missing = run(command);
    EXPECT_EQ(missing.code, 3) << command[0];
    EXPECT_NE(missing.err.find("the shard 'model-00001-of-00002.safetensors' is missing"),
              std::string::npos)
        << missing.err;
  }
  EXPECT_FALSE(fs::exists(folder / "two.cfck"));
}

// One file has one value for a key; what is not taken is said.
TEST(ConvertFolder, ShardsWithDifferentMetadata) {
  const TemporaryFolder folder;
  const auto shard_of = [](const std::string& name, const std::string& metadata) {
    return with_header("{\"__metadata__\":{" + metadata + "},\"" + name +
                           R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                       "x");
  };
  write_file(folder / "m/model-00001-of-00002.safetensors",
             shard_of("a", R"("format":"pt","run":"one","a only":"1")"));
  write_file(folder / "m/model-00002-of-00002.safetensors",
             shard_of("b", R"("format":"pt","run":"two","b only":"2")"));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"convert", folder / "m", folder / "one.cfck"},
           {"convert", folder / "m", folder / "s/model.cfck", "--max-shard-size", "1GB"}}) {
    const Outcome made = run(command);
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_NE(made.err.find("different metadata under 'run'; the values are those of the first"),
              std::string::npos)
        << made.err;
  }
  write_file(folder / "m/model-00002-of-00002.safetensors",
             shard_of("b", R"("format":"pt","run":"one","b only":"2")"));
  EXPECT_EQ(run({"convert", folder / "m", folder / "two.cfck"}).err, "");
}

TEST(ConvertFolder, IntoShards) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  const std::string digest = digest_of(folder / "m");
  ASSERT_EQ(run({"convert", folder / "m", folder / "one.safetensors"}).code, 0);
  const std::string out = folder / "parts/weights.safetensors";
  const Outcome made =
      run({"convert", "--verify", folder / "one.safetensors", out, "--max-shard-size", "5kB"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(fs::exists(folder / "parts/weights-00001-of-00002.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "parts/weights.safetensors.index.json"));
  EXPECT_EQ(digest_of(folder / "parts"), digest);
  // A folder keeps its other files.
  ASSERT_EQ(
      run({"convert", "--verify", folder / "m", folder / "c", "--max-shard-size", "1GB"}).code, 0);
  EXPECT_TRUE(fs::exists(folder / "c/model.cfck"));
  EXPECT_TRUE(fs::exists(folder / "c/config.json"));
  EXPECT_EQ(digest_of(folder / "c"), digest);
  EXPECT_EQ(run({"convert", folder / "m", folder / "c", "--max-shard-size", "1GB"}).code, 8);
  EXPECT_EQ(run({"convert", folder / "m", "--max-shard-size", "1GB"}).code, 2);
  EXPECT_EQ(run({"convert", folder / "m", folder / "d", "--max-shard-size", "few"}).code, 2);
}

std::uint64_t inode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// A path in a folder adds shards to it: the folder stays, with all that is in it.
TEST(ConvertFolder, ShardsGoBesideOtherFiles) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  fs::create_directories(folder / "here");
  ASSERT_EQ(run({"convert", folder / "m", folder / "here/one.safetensors"}).code, 0);
  write_file(folder / "here/notes.txt", "notes");
  write_file(folder / "here/other.cfck", "other");
  const std::uint64_t inode = inode_of(folder / "here");
  RunOptions here;
  here.folder = folder / "here";
  const std::vector<std::string> command = {"convert", "one.safetensors", "big.cfck",
                                            "--max-shard-size"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return run(more, here);
  };
  const Outcome made = with({"5kB"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(inode_of(folder / "here"), inode);
  EXPECT_NE(made.out.find("one.safetensors -> big.cfck.index.json: "), std::string::npos)
      << made.out;
  const std::string first = folder / "here/big-00001-of-00002.cfck";
  const std::string before = read_file(first);
  EXPECT_EQ(digest_of(folder / "here/big.cfck.index.json"), digest_of(folder / "m"));
  const Outcome again = with({"5kB"});
  EXPECT_EQ(again.code, 8);
  EXPECT_NE(again.err.find("'big.cfck.index.json' exists already"), std::string::npos) << again.err;
  // Shards of another number are replaced with the index, and one file needs none.
  ASSERT_EQ(with({"1GB", "--force"}).code, 0);
  EXPECT_EQ(inode_of(folder / "here"), inode);
  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(fs::exists(folder / "here/big.cfck"));
  EXPECT_EQ(with({"5kB", "--skip-existing"}).code, 0);
  EXPECT_FALSE(fs::exists(first));
  const Outcome itself = run({"convert", "big.cfck", "big.cfck", "--quality", "high",
                              "--max-shard-size", "1GB", "--force"},
                             here);
  EXPECT_EQ(itself.code, 2);
  EXPECT_NE(itself.err.find("are the same file"), std::string::npos) << itself.err;
  EXPECT_EQ(folder.files().size(), 7U + 4U);
  EXPECT_EQ(read_file(folder / "here/notes.txt"), "notes");
  EXPECT_EQ(read_file(folder / "here/other.cfck"), "other");
}

// The current directory, the home folder and what is around them are never replaced.
TEST(ConvertFolder, TheCurrentDirectoryStays) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  write_file(folder / "one.safetensors", shard("w", 1));
  for (const std::string way : {"inside", "below", "home"}) {
    fs::remove_all(folder / "out");
    fs::create_directories(folder / "out/sub");
    RunOptions options;
    options.folder = folder / (way == "inside" ? "out" : way == "below" ? "out/sub" : "m");
    if (way == "home") options.environment = {"HOME=" + folder / "out"};
    const std::uint64_t inode = inode_of(folder / "out");
    for (int i = 0; i < 2; ++i) {
      if (i == 1 && way == "inside") {
        const Outcome taken = run({"convert", folder / "m", "."}, options);
        EXPECT_EQ(taken.code, 8);
        EXPECT_NE(taken.err.find("'.' exists already"), std::string::npos) << taken.err;
      }
      const Outcome made = run({"convert", folder / "m", folder / "out", "--force"}, options);
      ASSERT_EQ(made.code, 0) << made.err;
      EXPECT_EQ(inode_of(folder / "out"), inode) << way;
    }
    EXPECT_EQ(digest_of(folder / "out"), digest_of(folder / "m"));
    EXPECT_FALSE(fs::exists(folder / "out/.cfck-convert-unfinished"));
    fs::remove_all(folder / "out");
    fs::create_directories(folder / "out/sub");
    const std::uint64_t second = inode_of(folder / "out");
    const Outcome shards =
        run({"convert", folder / "one.safetensors", folder / "out", "--max-shard-size", "1GB"},
            options);
    ASSERT_EQ(shards.code, 0) << shards.err;
    EXPECT_EQ(inode_of(folder / "out"), second) << way;
    EXPECT_TRUE(fs::exists(folder / "out/model.cfck"));
  }
}

// Other files of tensors are named, and never copied over or beside the shards of the model.
TEST(ConvertFolder, IntoShardsLeavesOtherModelsOut) {
  const TemporaryFolder folder;
  write_file(folder / "one.safetensors", shard("w", 1));
  fs::create_directories(folder / "m/sub");
  ASSERT_EQ(run({"convert", folder / "one.safetensors", folder / "m/model.cfck"}).code, 0);
  write_file(folder / "m/other.safetensors", shard("w", 2));
  write_file(folder / "m/sub/model.safetensors", shard("w", 3));
  write_file(folder / "m/notes.txt", "notes");
  const std::string digest = digest_of(folder / "m/model.cfck");
  for (const char* out : {"a/model.cfck", "b/model.safetensors", "c/parts.cfck"}) {
    const Outcome made =
        run({"convert", "--verify", folder / "m", folder / out, "--max-shard-size", "1GB"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_NE(made.err.find("2 files of tensors left out"), std::string::npos) << made.err;
    EXPECT_NE(made.err.find("'other.safetensors', 'sub/model.safetensors'"), std::string::npos);
    const fs::path written = fs::path(folder / out);
    EXPECT_EQ(digest_of(written.string()), digest);
    std::size_t n_files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(written.parent_path())) {
      n_files += entry.is_regular_file() ? 1 : 0;
    }
    EXPECT_EQ(n_files, 2U) << out;
    EXPECT_TRUE(fs::exists(written.parent_path() / "notes.txt"));
  }
}

// A file that is read is not replaced, not even with --force.
TEST(ConvertFolder, NoOutputIsAShardOfTheInput) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  fs::create_directory_symlink(folder / "m", folder / "link");
  write_file(folder / "s/model.safetensors", shard("w", 1));
  const std::string digest = digest_of(folder / "m");
  const std::string shard_path = folder / "m/model-00001-of-00002.safetensors";
  const std::string whole_path = folder / "s/model.safetensors";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"convert", folder / "m", shard_path, "--force"},
           {"convert", folder / "link", shard_path, "--force"},
           {"convert", folder / "m", folder / "link/model.safetensors", "--max-shard-size", "5kB",
            "--force"},
           {"convert", whole_path, whole_path, "--max-shard-size", "1GB", "--force"}}) {
    const Outcome refused = run(command);
    EXPECT_EQ(refused.code, 2) << command[1];
  }
  const Outcome same = run({"convert", folder / "m", shard_path, "--force"});
  EXPECT_NE(same.err.find("input and output are the same file: '" + shard_path + "'"),
            std::string::npos)
      << same.err;
  EXPECT_EQ(digest_of(folder / "m"), digest);
  EXPECT_EQ(read_file(whole_path), shard("w", 1));
  const Outcome index = run({"convert", folder / "m/model.safetensors.index.json", folder / "t",
                             "--max-shard-size", "5kB"});
  EXPECT_EQ(index.code, 6);
  EXPECT_NE(index.err.find("is the index of shards; give their folder"), std::string::npos)
      << index.err;
}

// A pipeline has models in folders, as diffusers lays them out.
TEST(FolderOfModels, APipelineIsTakenByAllCommands) {
  const TemporaryFolder folder;
  write_file(folder / "p/model_index.json", "{}");
  write_file(folder / "p/unet/diffusion_pytorch_model.safetensors", shard("w", 1));
  write_file(folder / "p/vae/diffusion_pytorch_model.safetensors", shard("w", 2));
  ASSERT_EQ(run({"convert", folder / "p", folder / "c"}).code, 0);
  const Outcome verified = run({"verify", "--deep", folder / "c"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_NE(verified.out.find("2 ok, 0 damaged"), std::string::npos) << verified.out;
  for (const char* command : {"inspect", "stats", "digest"}) {
    const Outcome outcome = run({command, folder / "c"});
    EXPECT_EQ(outcome.code, 0) << command << outcome.err;
    EXPECT_NE(outcome.out.find("c/unet"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("c/vae"), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(run({"diff", folder / "p", folder / "c"}).code, 0);
  EXPECT_EQ(run({"stats", folder / "c", "--ref", folder / "p"}).code, 0);
  const Outcome refused = run({"convert", folder / "p", folder / "one.cfck"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("several models, in unet, vae"), std::string::npos) << refused.err;
  write_file(folder / "p/vae/diffusion_pytorch_model.safetensors", shard("w", 3));
  EXPECT_EQ(run({"diff", folder / "p", folder / "c"}).code, 1);
  fs::remove_all(folder / "c/vae");
  const Outcome missing = run({"diff", folder / "p", folder / "c"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.out.find("- " + (folder / "p/vae")), std::string::npos) << missing.out;
}

// Files whose names are not those of shards are no parts of one model.
TEST(FolderOfModels, CheckpointsAreListedOneByOne) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", "c"}) {
    write_file(folder / ("m/" + std::string(name) + ".safetensors"), shard("w", *name));
  }
  ASSERT_EQ(run({"convert", folder / "m", folder / "c"}).code, 0);
  EXPECT_EQ(run({"diff", folder / "m", folder / "c"}).code, 0);
  const Outcome shown = run({"inspect", folder / "c"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out.find("shards"), std::string::npos) << shown.out;
  std::string damaged = read_file(folder / "c/a.cfck");
  damaged[200] = static_cast<char>(damaged[200] ^ 4);
  write_file(folder / "c/a.cfck", damaged);
  write_file(folder / "c/b.cfck", "short");
  for (const std::vector<std::string>& paths : std::vector<std::vector<std::string>>{
           {folder / "c"}, {folder / "c/a.cfck", folder / "c/b.cfck", folder / "c/c.cfck"}}) {
    std::vector<std::string> command = {"verify"};
    command.insert(command.end(), paths.begin(), paths.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 4) << outcome.err;  // the worst
    EXPECT_NE(outcome.out.find("c/c.cfck: ok"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("1 ok, 2 damaged"), std::string::npos) << outcome.out;
  }
  const Outcome json = run({"verify", "--json", folder / "c"});
  const auto last =
      nlohmann::json::parse(json.out.substr(json.out.rfind('\n', json.out.size() - 2)));
  EXPECT_EQ(last["n_files"], 3);
  EXPECT_EQ(last["n_ok"], 1);
  EXPECT_EQ(last["n_damaged"], 2);
}

// A damaged shard does not keep the others from being checked.
TEST(FolderOfModels, VerifyGoesOnAfterADamagedShard) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  ASSERT_EQ(run({"convert", folder / "m", folder / "c"}).code, 0);
  write_file(folder / "c/model-00001-of-00002.cfck", "short");
  const Outcome outcome = run({"verify", folder / "c"});
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_NE(outcome.out.find("model-00002-of-00002.cfck: ok"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("1 ok, 1 damaged"), std::string::npos) << outcome.out;
  fs::remove(folder / "c/model-00001-of-00002.cfck");
  const Outcome missing = run({"verify", folder / "c"});
  EXPECT_EQ(missing.code, 3) << missing.err;
  EXPECT_NE(missing.err.find("is missing; download it"), std::string::npos) << missing.err;
  EXPECT_NE(missing.out.find("1 ok, 0 damaged, 1 not checked"), std::string::npos) << missing.out;
}

TEST(FolderOfModels, VerifyMissesWeightsOfAPipeline) {
  const TemporaryFolder folder;
  write_file(folder / "p/model_index.json",
             R"({"_class_name": "P", "scheduler": ["diffusers", "DDIM"],
                 "unet": ["diffusers", "UNet"], "vae": ["diffusers", "VAE"]})");
  write_file(folder / "p/scheduler/scheduler_config.json", "{}");
  for (const char* name : {"unet", "vae"}) {
    write_file(folder / "p/" + (name + std::string("/config.json")), "{}");
    write_file(folder / "p/" + (name + std::string("/model.safetensors")), shard("w", 1));
  }
  ASSERT_EQ(run({"convert", folder / "p", folder / "c"}).code, 0);
  ASSERT_EQ(run({"verify", folder / "c"}).code, 0);
  fs::remove(folder / "c/vae/model.cfck");
  const Outcome outcome = run({"verify", folder / "c"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find(folder / "c/vae: the folder has a config.json but no weights"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("1 ok, 0 damaged, 1 not checked"), std::string::npos) << outcome.out;
}

// A shard that is a broken link, as in a cache from which files were removed, is one missing file.
TEST(FolderOfModels, VerifyCountsABrokenLinkOnce) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  ASSERT_EQ(run({"convert", folder / "m", folder / "c"}).code, 0);
  fs::remove(folder / "c/model-00002-of-00002.cfck");
  fs::create_symlink("nowhere", folder / "c/model-00002-of-00002.cfck");
  const Outcome outcome = run({"verify", folder / "c"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.out.find("1 ok, 0 damaged, 1 not checked"), std::string::npos)
      << outcome.out << outcome.err;
}

// Commands that take one model name those of a pipeline.
TEST(FolderOfModels, CommandsForOneModelNameThoseOfAPipeline) {
  const TemporaryFolder folder;
  write_file(folder / "p/model_index.json", "{}");
  write_file(folder / "p/unet/model.safetensors", shard("w", 1));
  write_file(folder / "p/vae/model.safetensors", shard("w", 2));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"report", folder / "p"},
           {"bands", folder / "p"},
           {"spectrum", folder / "p"},
           {"extract", folder / "p", "w", "-o", folder / "w.npy"},
           {"convert", folder / "p", folder / "out", "--max-shard-size", "1GB"},
           {"convert", folder / "p", folder / "one.cfck"}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << command[0] << outcome.err;
    EXPECT_NE(outcome.err.find("has several models, in unet, vae"), std::string::npos)
        << command[0] << outcome.err;
  }
}

// Arrays of numpy are no models of folders; the report says how to convert them.
TEST(FolderOfModels, ArraysThatAreCopiedAreNamedApart) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  ASSERT_EQ(
      run({"convert", folder / "m/model-00001-of-00002.safetensors", folder / "m/a.npz"}).code, 0);
  fs::copy_file(folder / "m/a.npz", folder / "m/b.npz");
  const Outcome outcome = run({"convert", folder / "m", folder / "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 files with tensors of numpy were copied, not converted: convert "
                             "them with `cfck convert " +
                             folder / "m/*.npz" + " --output-dir " + folder / "out" + "`\n"),
            std::string::npos)
      << outcome.out;
  const std::size_t others = outcome.out.find("other files copied unchanged");
  ASSERT_NE(others, std::string::npos);
  EXPECT_EQ(outcome.out.find("npz", others), std::string::npos) << outcome.out;
}

// At the end of many lines, verify lists the failures again. It does not advise to repair what is
// no .cfck file.
TEST(FolderOfModels, VerifyListsFailuresOfMany) {
  const TemporaryFolder folder;
  write_file(folder / "one.safetensors", shard("w", 1));
  ASSERT_EQ(run({"convert", folder / "one.safetensors", folder / "01.cfck"}).code, 0);
  std::vector<std::string> command = {"verify", folder / "page.cfck", folder / "empty.cfck"};
  write_file(folder / "page.cfck", "<!DOCTYPE html><html></html>");
  write_file(folder / "empty.cfck", "");
  for (int i = 10; i < 30; ++i) {
    command.push_back(folder / (std::to_string(i) + ".cfck"));
    fs::copy_file(folder / "01.cfck", command.back());
  }
  const Outcome outcome = run(command);
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("2 files are not intact:\n  " + folder / "page.cfck" + "\n  " +
                             folder / "empty.cfck"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.err.find("repair"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("ok, 1 record, "), std::string::npos) << outcome.out;
}

TEST(FolderOfModels, VerifyChecksVariantsOnce) {
  const TemporaryFolder folder;
  write_file(folder / "m/model.safetensors", shard("w", 1));
  write_file(folder / "m/model.fp16.safetensors", shard("w", 2));
  ASSERT_EQ(run({"convert", folder / "m", folder / "c"}).code, 0);
  write_file(folder / "c/model.int8.safetensors", shard("w", 3));
  for (const std::string end : {"c", "c/"}) {
    const Outcome outcome = run({"verify", folder / end});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("2 ok, 0 damaged\n"), std::string::npos) << outcome.out;
  }
}

}  // namespace
}  // namespace cfck::test

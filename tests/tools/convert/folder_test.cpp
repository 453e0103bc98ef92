// cfck convert and cfck inspect with folders of shards.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "tests/tools/convert/model_folders.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[fs::relative(entry.path(), folder).string()] = read_file(entry.path().string());
    }
  }
  return files;
}

TEST(ConvertFolder, ThereAndBackIsTheSameFolder) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  const Outcome there = run({"convert", folder / "m", "--verify"});
  ASSERT_EQ(there.code, 0) << there.err;
  auto converted = contents(folder / "m-cfck");
  Names names;
  for (const auto& [name, bytes] : converted) names.push_back(name);
  EXPECT_EQ(names, (Names{"config.json", "model-00001-of-00002.cfck", "model-00002-of-00002.cfck",
                          "model.cfck.index.json", "run.sh", "tokenizer/vocab.txt"}));
  const auto index = nlohmann::json::parse(converted["model.cfck.index.json"]);
  EXPECT_EQ(index["weight_map"]["a.w"], "model-00001-of-00002.cfck");
  EXPECT_EQ(index["weight_map"]["b.w"], "model-00002-of-00002.cfck");
  EXPECT_EQ(index["metadata"]["total_size"], 8192);
  EXPECT_NE(fs::status(folder / "m-cfck/run.sh").permissions() & fs::perms::owner_exec,
            fs::perms::none);

  // The old name is taken; another one is not.
  EXPECT_EQ(run({"convert", folder / "m-cfck"}).code, 8);
  const Outcome back = run({"convert", folder / "m-cfck/", folder / "back"});
  ASSERT_EQ(back.code, 0) << back.err;
  auto original = contents(folder / "m");
  original.erase(".cache/lock");
  EXPECT_EQ(contents(folder / "back"), original);
  for (const auto& name : {"m", "m-cfck", "back"}) fs::remove_all(folder / name);
  EXPECT_EQ(folder.files(), Names{});
}

TEST(ConvertFolder, KnowsTheNamesThatLibrariesGiveToAnIndex) {
  const std::string json = R"({"weight_map": {"a.w": "part.safetensors"}})";
  const std::map<std::string, std::string> renamed = {
      {"adapter_model.safetensors.index.json", "adapter_model.cfck.index.json"},
      {"unet/diffusion_pytorch_model.safetensors.index.fp16.json",
       "unet/diffusion_pytorch_model.cfck.index.fp16.json"},
      {"model.fp16.safetensors.index.json", "model.fp16.cfck.index.json"},
      {"model.safetensors.fp16.index.json", "model.cfck.fp16.index.json"},
  };
  for (const auto& [name, converted] : renamed) {
    const TemporaryFolder folder;
    const std::string sub = name.substr(0, name.find('/') + 1);
    write_file(folder / ("m/" + sub + "part.safetensors"), shard("a.w", 1));
    write_file(folder / ("m/" + name), json);
    write_file(folder / "m/pytorch_model.bin.index.json", json);
    const Outcome there = run({"convert", folder / "m"});
    ASSERT_EQ(there.code, 0) << there.err;
    auto files = contents(folder / "m-cfck");
    ASSERT_TRUE(files.contains(converted)) << name;
    EXPECT_EQ(nlohmann::json::parse(files[converted])["weight_map"]["a.w"], "part.cfck");
    EXPECT_EQ(files["pytorch_model.bin.index.json"], json);
    const Outcome back = run({"convert", folder / "m-cfck", folder / "back"});
    ASSERT_EQ(back.code, 0) << back.err;
    EXPECT_EQ(contents(folder / "back"), contents(folder / "m"));
  }
}

TEST(ConvertFolder, TiedNamesAreInTheMetadataAndNotInTheIndex) {
  const TemporaryFolder folder;
  const std::string tied = with_header(
      R"({"__metadata__":{"b.w":"a.w"},"a.w":{"dtype":"F32","shape":[32,32],"data_offsets":[0,4096]}})",
      noise(4096, 1));
  write_file(folder / "m/model-00001-of-00001.safetensors", tied);
  write_file(folder / "m/model.safetensors.index.json",
             R"({"weight_map": {"a.w": "model-00001-of-00001.safetensors"}})");
  ASSERT_EQ(run({"convert", folder / "m", "--verify"}).code, 0);
  for (const char* name : {"m", "m-cfck"}) {
    const auto row = run({"inspect", "--json", folder / name}).json()["records"][1];
    EXPECT_EQ(row["name"], "b.w") << name;
    EXPECT_EQ(row["kind"], "alias") << name;
    EXPECT_EQ(row["shares_with"], "a.w") << name;
  }
  ASSERT_EQ(run({"convert", folder / "m-cfck", folder / "back"}).code, 0);
  EXPECT_EQ(contents(folder / "back"), contents(folder / "m"));
  // An index that names both is reduced to what the shard has.
  write_file(folder / "m-cfck/model.cfck.index.json",
             R"({"weight_map": {"a.w": "model-00001-of-00001.cfck", )"
             R"("b.w": "model-00001-of-00001.cfck"}})");
  ASSERT_EQ(run({"convert", folder / "m-cfck", folder / "again"}).code, 0);
  EXPECT_EQ(
      nlohmann::json::parse(read_file(folder / "again/model.safetensors.index.json"))["weight_map"],
      nlohmann::json({{"a.w", "model-00001-of-00001.safetensors"}}));
  const Outcome same = run({"diff", folder / "m", folder / "m-cfck"});
  EXPECT_EQ(same.code, 0) << same.out;
}

TEST(ConvertFolder, OneFileWithoutAnIndex) {
  const TemporaryFolder folder;
  write_file(folder / "m/model.safetensors", small_model());
  write_file(folder / "m/config.json", "{}");
  ASSERT_EQ(run({"convert", folder / "m", folder / "c"}).code, 0);
  EXPECT_TRUE(fs::exists(folder / "c/model.cfck"));
  EXPECT_TRUE(fs::exists(folder / "c/config.json"));
  ASSERT_EQ(run({"convert", folder / "c", folder / "b"}).code, 0);
  EXPECT_TRUE(read_file(folder / "b/model.safetensors") == small_model());
}

TEST(ConvertFolder, LinksAreFollowed) {
  const TemporaryFolder folder;
  make_model(folder / "blobs");
  fs::create_directory(folder / "snapshot");
  for (const char* name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                           "model.safetensors.index.json", "config.json", "tokenizer"}) {
    fs::create_symlink(fs::path("../blobs") / name, fs::path(folder / "snapshot") / name);
  }
  ASSERT_EQ(run({"convert", folder / "snapshot", folder / "c"}).code, 0);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "c")) {
    EXPECT_FALSE(entry.is_symlink()) << entry.path();
  }
  EXPECT_EQ(read_file(folder / "c/tokenizer/vocab.txt"), "a\nb\n");
  ASSERT_EQ(run({"convert", folder / "c", folder / "b"}).code, 0);
  EXPECT_EQ(read_file(folder / "b/model.safetensors.index.json"), kIndex);

  fs::create_directory_symlink("..", folder / "snapshot/loop");
  EXPECT_EQ(run({"convert", folder / "snapshot", folder / "x"}).code, 6);
  fs::remove(folder / "snapshot/loop");
  fs::create_symlink("nowhere", folder / "snapshot/broken");
  EXPECT_EQ(run({"convert", folder / "snapshot", folder / "x"}).code, 3);
  EXPECT_FALSE(fs::exists(folder / "x"));
}

TEST(ConvertFolder, AnIndexCannotLeadOutside) {
  const std::string names[] = {"../m.safetensors", "/etc/m.safetensors", "a/../../m.safetensors",
                               "..", ""};
  for (const std::string& name : names) {
    const TemporaryFolder folder;
    make_model(folder / "m");
    write_file(folder / "m.safetensors", shard("a.w", 1));
    nlohmann::json index;
    index["weight_map"]["a.w"] = name;
    write_file(folder / "m/model.safetensors.index.json", index.dump());
    for (const char* command : {"convert", "inspect", "digest"}) {
      const Outcome outcome = run({command, folder / "m"});
      EXPECT_EQ(outcome.code, 4) << command << " " << name;
      EXPECT_NE(outcome.err.find("a.w"), std::string::npos) << outcome.err;
    }
    EXPECT_FALSE(fs::exists(folder / "m-cfck"));
  }
}

TEST(ConvertFolder, BrokenIndexes) {
  const struct {
    std::string json;
    int code;
  } cases[] = {
      {"", 4},
      {"{", 4},
      {"[]", 4},
      {"{}", 4},
      {R"({"weight_map":[]})", 4},
      {R"({"weight_map":{"a.w":1}})", 4},
      {R"({"weight_map":{},"weight_map":{}})", 4},
      {R"({"weight_map":{"a.w":"model-00001-of-00002.safetensors",)"
       R"("a.w":"model-00002-of-00002.safetensors"}})",
       4},
      {R"({"weight_map":{"c.w":"model-00001-of-00002.safetensors"}})", 4},
      {R"({"weight_map":{"a.w":"model-00009-of-00009.safetensors"}})", 3},
      {"{\"weight_map\":{},\"metadata\":" + std::string(100000, '[') + std::string(100000, ']') +
           "}",
       4},
  };
  for (const auto& c : cases) {
    const TemporaryFolder folder;
    make_model(folder / "m");
    write_file(folder / "m/model.safetensors.index.json", c.json);
    const Outcome outcome = run({"convert", folder / "m"});
    EXPECT_EQ(outcome.code, c.code) << c.json.substr(0, 100) << outcome.err;
    EXPECT_FALSE(fs::exists(folder / "m-cfck"));
  }
}

TEST(ConvertFolder, ExistingOutputs) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  fs::create_directory(folder / "empty");
  EXPECT_EQ(run({"convert", folder / "m", folder / "empty"}).code, 0);
  EXPECT_TRUE(fs::exists(folder / "empty/model.cfck.index.json"));

  write_file(folder / "full/mine.txt", "keep me");
  write_file(folder / "full/config.json", "old");
  EXPECT_EQ(run({"convert", folder / "m", folder / "full"}).code, 8);
  EXPECT_EQ(run({"convert", folder / "m", folder / "full", "--dry-run"}).code, 0);
  EXPECT_EQ(read_file(folder / "full/config.json"), "old");
  ASSERT_EQ(run({"convert", folder / "m", folder / "full", "--force"}).code, 0);
  EXPECT_EQ(read_file(folder / "full/mine.txt"), "keep me");
  EXPECT_EQ(read_file(folder / "full/config.json"), "{\"hidden_size\": 32}");
  EXPECT_TRUE(fs::exists(folder / "full/model-00002-of-00002.cfck"));

  for (const std::string& bad : {folder / "m", folder / "m/inside", folder.path()}) {
    EXPECT_EQ(run({"convert", folder / "m", bad, "--force"}).code, 2) << bad;
  }
  write_file(folder / "file", "x");
  EXPECT_EQ(run({"convert", folder / "m", folder / "file", "--force"}).code, 2);
  EXPECT_EQ(run({"convert", folder / "empty", folder / "m"}).code, 8);
  // Nothing temporary is left.
  for (const std::string& name : folder.files()) {
    EXPECT_EQ(name.find("cfck-tmp"), std::string::npos) << name;
  }
}

TEST(ConvertFolder, FoldersWithFilesOfTwoCheckpointsAreNotRead) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  ASSERT_EQ(run({"convert", folder / "m"}).code, 0);
  write_file(folder / "m-cfck/.cfck-convert-unfinished", "");
  for (const char* command : {"inspect", "verify", "digest", "stats", "compact"}) {
    const Outcome outcome = run({command, folder / "m-cfck"});
    EXPECT_EQ(outcome.code, 4) << command;
    EXPECT_NE(outcome.err.find("--force"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(run({"convert", folder / "m-cfck", folder / "back"}).code, 4);
  EXPECT_FALSE(fs::exists(folder / "back"));
  ASSERT_EQ(run({"convert", "-f", folder / "m"}).code, 0);
  EXPECT_EQ(run({"verify", folder / "m-cfck"}).code, 0);
}

TEST(ConvertFolder, FilesOfAnotherCheckpointMustNotBeReadWithTheNewOnes) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  ASSERT_EQ(run({"convert", folder / "m", folder / "c"}).code, 0);
  write_file(folder / "single/model.safetensors", small_model());
  const auto before = contents(folder / "c");
  const Outcome refused = run({"convert", "-f", folder / "single", folder / "c"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("another checkpoint"), std::string::npos) << refused.err;
  EXPECT_EQ(contents(folder / "c"), before);
  fs::remove(folder / "c/model.cfck.index.json");
  EXPECT_EQ(run({"convert", "-f", folder / "single", folder / "c"}).code, 2);
  fs::remove(folder / "c/model-00001-of-00002.cfck");
  fs::remove(folder / "c/model-00002-of-00002.cfck");
  EXPECT_EQ(run({"convert", "-f", folder / "single", folder / "c"}).code, 0);
}

TEST(ConvertFolder, LinksThatLeadOutsideAreNamed) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  write_file(folder / "secret", "s");
  fs::create_symlink("config.json", folder / "m/inside.json");
  fs::create_symlink("../secret", folder / "m/notes.txt");
  const Outcome outcome = run({"convert", folder / "m"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("'notes.txt' is reached through a link that leads out"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.err.find("inside.json"), std::string::npos) << outcome.err;
  EXPECT_NE(run({"convert", "--dry-run", folder / "m", folder / "x"}).err.find("would be copied"),
            std::string::npos);
  const Outcome again = run({"convert", "--json", "-f", folder / "m"});
  EXPECT_EQ(again.json()["copied_from_outside"], nlohmann::json{"notes.txt"});

  // Caches of models look like this: there is nothing to warn of.
  make_model(folder / "cache/blobs");
  fs::create_directories(folder / "cache/snapshots/main");
  for (const char* name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                           "model.safetensors.index.json", "config.json"}) {
    fs::create_symlink(fs::path("../../blobs") / name,
                       fs::path(folder / "cache/snapshots/main") / name);
  }
  const Outcome cached = run({"convert", folder / "cache/snapshots/main", folder / "c"});
  EXPECT_EQ(cached.code, 0);
  EXPECT_EQ(cached.err.find("link"), std::string::npos) << cached.err;
  EXPECT_TRUE(fs::exists(folder / "c/config.json"));
}

TEST(ConvertFolder, WhatKilledProcessesLeftIsNotCopiedAndGoes) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  write_file(folder / "m/.config.json.cfck-tmp-12-3", "half");
  write_file(folder / ".m-cfck.cfck-tmp-12-3/model-00001-of-00002.cfck", "half");
  ASSERT_EQ(run({"convert", folder / "m"}).code, 0);
  EXPECT_FALSE(fs::exists(folder / "m-cfck/.config.json.cfck-tmp-12-3"));
  EXPECT_FALSE(fs::exists(folder / ".m-cfck.cfck-tmp-12-3"));
}

TEST(ConvertFolder, PipesAreRefused) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "model.safetensors";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* command : {"convert", "inspect", "verify", "stats", "digest"}) {
    const Outcome outcome = run({command, pipe});
    EXPECT_EQ(outcome.code, 6) << command;
    EXPECT_NE(outcome.err.find("is a pipe"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(run({"convert", folder.path()}).code, 6);
}

TEST(ConvertFolder, AFailureLeavesNoFolder) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  write_file(folder / "m/model-00002-of-00002.safetensors", "broken");
  const Outcome outcome = run({"convert", folder / "m"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE(outcome.err.find("model-00002-of-00002.safetensors"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(folder / "m-cfck"));
  fs::create_directory(folder / "nothing");
  EXPECT_EQ(run({"convert", folder / "nothing"}).code, 3);
}

TEST(ConvertFolder, FilesOfBothKindsAreRefused) {
  const TemporaryFolder folder;
  write_file(folder / "m/model.safetensors", small_model());
  write_file(folder / "m/model.cfck", "x");
  EXPECT_EQ(run({"convert", folder / "m"}).code, 2);
}

TEST(ConvertFolder, DryRunAndJson) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  const Outcome dry = run({"convert", folder / "m", "--dry-run", "--json"});
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_FALSE(fs::exists(folder / "m-cfck"));
  EXPECT_EQ(dry.json()["files"].size(), 2U);
  EXPECT_EQ(dry.json()["copied"], (nlohmann::json{"config.json", "run.sh", "tokenizer/vocab.txt"}));
  const Outcome real = run({"convert", folder / "m", "--json"});
  ASSERT_EQ(real.code, 0);
  EXPECT_EQ(real.json()["output_bytes"], dry.json()["output_bytes"]);
  EXPECT_EQ(real.json()["records"].size(), 2U);
  EXPECT_EQ(real.json()["files"][1]["output"], folder / "m-cfck/model-00002-of-00002.cfck");
}

// "b.w" of the first shard is stale, "c.w" is in a shard that the index does not name.
void make_overlay(const std::string& folder) {
  const std::string first = model_of(
      {{"a.w", "F32", "[32,32]", noise(4096, 1)}, {"b.w", "F32", "[32,32]", noise(4096, 9)}});
  write_file(folder + "/1.safetensors", first);
  write_file(folder + "/2.safetensors", shard("b.w", 2));
  write_file(folder + "/3.safetensors", shard("c.w", 3));
  write_file(folder + "/._1.safetensors", std::string(4096, '\0'));
  write_file(folder + "/._config.json", "");
  write_file(folder + "/model.safetensors.index.json",
             R"({"weight_map": {"a.w": "1.safetensors", "b.w": "2.safetensors"}})");
}

TEST(IndexOfAFolder, DecidesInEveryCommand) {
  const TemporaryFolder folder;
  make_overlay(folder / "m");
  const Outcome there = run({"convert", folder / "m", "--verify"});
  ASSERT_EQ(there.code, 0) << there.err;
  EXPECT_NE(there.err.find("no index names this shard"), std::string::npos) << there.err;
  EXPECT_NE(there.err.find("neither read nor copied"), std::string::npos) << there.err;
  for (const char* name : {"/._1.safetensors", "/._1.cfck", "/._config.json"}) {
    EXPECT_FALSE(fs::exists(folder / ("m-cfck" + std::string(name)))) << name;
  }
  ASSERT_EQ(run({"convert", folder / "m-cfck", folder / "back"}).code, 0);
  for (const char* name : {"1.safetensors", "model.safetensors.index.json"}) {
    EXPECT_EQ(read_file(folder / "back" + "/" + name), read_file(folder / "m" + "/" + name));
  }
  // The model of the folder in one file.
  write_file(folder / "same.safetensors", model_of({{"a.w", "F32", "[32,32]", noise(4096, 1)},
                                                    {"b.w", "F32", "[32,32]", noise(4096, 2)}}));
  for (const std::string name : {"m", "m/model.safetensors.index.json", "m-cfck", "back"}) {
    SCOPED_TRACE(name);
    const Outcome same = run({"diff", folder / name, folder / "same.safetensors"});
    EXPECT_EQ(same.code, 0) << same.out << same.err;
    const auto listed = run({"inspect", "--json", folder / name}).json();
    Names names;
    for (const auto& record : listed["records"]) names.push_back(record["name"]);
    EXPECT_EQ(names, (Names{"a.w", "b.w"}));
    EXPECT_EQ(listed["unnamed_shards"].size(), 1U);
    EXPECT_EQ(listed["stray_tensors"][0]["name"], "b.w");
    EXPECT_EQ(run({"stats", "--json", folder / name, "--ref", folder / "same.safetensors"}).code,
              0);
    EXPECT_EQ(run({"extract", folder / name, "b.w", "-o", folder / "b.npy", "-f"}).code, 0);
    EXPECT_TRUE(read_file(folder / "b.npy").ends_with(noise(4096, 2)));
    EXPECT_EQ(run({"extract", folder / name, "c.w", "-o", folder / "c.npy"}).code, 3);
  }
  for (const char* command : {"inspect", "verify"}) {
    const Outcome warned = run({command, folder / "m-cfck"});
    EXPECT_EQ(warned.code, 0) << warned.err;
    EXPECT_NE(warned.err.find("3.cfck': no index names this shard"), std::string::npos);
    const Outcome strict = run({command, "--strict", folder / "m-cfck"});
    EXPECT_EQ(strict.code, 4);
    EXPECT_NE(strict.err.find("3.cfck"), std::string::npos) << strict.err;
  }
  fs::remove(folder / "m-cfck/3.cfck");
  EXPECT_EQ(run({"verify", "--strict", folder / "m-cfck"}).code, 0);
}

TEST(InspectFolder, TakesFoldersWhereverFilesAreTaken) {
  const TemporaryFolder folder;
  make_model(folder / "m");
  // A file that the index does not name is not part of the model.
  write_file(folder / "m/other.safetensors", small_model());
  ASSERT_EQ(run({"convert", folder / "m"}).code, 0);
  for (const char* name : {"m", "m-cfck"}) {
    const auto json = run({"inspect", "--json", folder / name}).json();
    EXPECT_EQ(json["n_records"], 2) << name;
    EXPECT_EQ(json["n_elems"], 2048);
    EXPECT_EQ(json["shards"].size(), 2U);
    EXPECT_EQ(json["records"].size(), 2U);
    EXPECT_EQ(json["records"][1]["name"], "b.w");
    EXPECT_TRUE(json["records"][1]["shard"].get<std::string>().starts_with("model-00002"));
    EXPECT_NE(run({"inspect", folder / name}).out.find("2 shards"), std::string::npos);
  }
  EXPECT_EQ(run({"verify", folder / "m-cfck"}).code, 0);
  EXPECT_EQ(run({"verify", "--deep", folder / "m-cfck"}).code, 0);
  EXPECT_EQ(run({"verify", folder / "m"}).code, 6);
  const std::string digest = run({"digest", folder / "m"}).out.substr(0, 32);
  EXPECT_EQ(run({"digest", folder / "m-cfck"}).out.substr(0, 32), digest);
  EXPECT_EQ(run({"compact", folder / "m-cfck"}).code, 0);
  fs::create_directory(folder / "empty");
  EXPECT_EQ(run({"inspect", folder / "empty"}).code, 3);
  fs::remove(folder / "m-cfck/model-00002-of-00002.cfck");
  EXPECT_EQ(run({"inspect", folder / "m-cfck"}).code, 3);
}

}  // namespace
}  // namespace cfck::test

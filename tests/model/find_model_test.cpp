// Which file of a folder stands for its model, how shards and their indexes are called, and what
// Python programs are told about files of other programs.
#include "model/folder/find_model.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cfck/io.hpp"
#include "model/folder/model_files.hpp"
#include "model/folder/model_folder.hpp"
#include "model/folder/shard_index.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/foreign_formats.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

class FindModel : public ::testing::Test {
 protected:
  FindModel() {
    folder_ = fs::temp_directory_path() /
              ("cfck-find-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FindModel() override { fs::remove_all(folder_); }

  std::string path() const { return folder_.string(); }
  std::string put(const std::string& name, const std::string& text = "") {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  void empty() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

 private:
  fs::path folder_;
};

TEST_F(FindModel, TakesTheBestName) {
  const std::vector<std::vector<std::string>> cases = {
      {"model.cfck.index.json", "model.cfck", "model.safetensors.index.json"},
      {"model.cfck", "model.safetensors.index.json", "model.safetensors"},
      {"model.safetensors.index.json", "model.safetensors", "model.fp16.safetensors"},
      {"diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.cfck"},
      {"diffusion_pytorch_model.safetensors.index.fp16.json"},
      {"model.fp16.safetensors.index.json", "unknown.cfck"},
      {"model.fp16.cfck", "model.safetensors.index.fp16.json"},
      {"adapter_model.safetensors", "a.cfck", "b.cfck"},
      {"consolidated.safetensors", "x-00001-of-00002.safetensors"},
      {"x.cfck", "x.safetensors", "x-00001-of-00002.fp16.cfck"},
      {"my own name.safetensors"},
  };
  for (const auto& names : cases) {
    SCOPED_TRACE(names.front());
    empty();
    for (const std::string& name : names) put(name);
    put("config.json");
    put("model.bin.index.json");
    put(".model.cfck");
    fs::create_directory(path() + "/other.cfck");
    for (const std::string& folder : {path(), path() + "/"}) {
      const auto found = find_model(folder);
      ASSERT_TRUE(found.has_value()) << found.error().to_string();
      EXPECT_EQ(*found, path() + "/" + names.front());
    }
  }
}

TEST_F(FindModel, NamesThoseBetweenWhichItCannotChoose) {
  const std::vector<std::vector<std::string>> cases = {
      {"adapter_model.safetensors", "model.safetensors"},
      {"model.bf16.safetensors", "model.fp16.safetensors"},
      {"a.safetensors", "b.cfck"},
  };
  for (const auto& names : cases) {
    SCOPED_TRACE(names.front());
    empty();
    for (const std::string& name : names) put(name);
    const auto found = find_model(path());
    ASSERT_FALSE(found.has_value());
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(found.error().message.find(names[0] + ", " + names[1]), std::string::npos);
  }
}

// A calibration or another checkpoint beside the model is not part of it.
TEST_F(FindModel, ArchivesAreOfTheSameModel) {
  const auto files_in = [&](const std::vector<std::string>& names) {
    empty();
    for (const std::string& name : names) put(name);
    std::vector<std::string> found;
    const auto files = model_files(path());
    if (!files) return std::vector{files.error().to_string()};
    for (const std::string& file : files->paths) {
      found.push_back(fs::path(file).filename().string());
    }
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(files_in({"model.cfck", "model.calibration.cfck"}), Names{"model.cfck"});
  EXPECT_EQ(files_in({"model.safetensors", "model.calibration.cfck"}), Names{"model.safetensors"});
  EXPECT_EQ(files_in({"model.safetensors", "zz.cfck"}), Names{"model.safetensors"});
  EXPECT_EQ(files_in({"b.cfck", "a.cfck"}), (Names{"a.cfck", "b.cfck"}));
  EXPECT_EQ(files_in({"x-00002-of-00002.cfck", "x-00001-of-00002.cfck"}),
            (Names{"x-00001-of-00002.cfck", "x-00002-of-00002.cfck"}));

  empty();
  put("2.safetensors");
  put("stray.cfck");
  const std::string index =
      put("model.safetensors.index.json", R"({"weight_map": {"b": "2.safetensors"}})");
  for (const std::string& from : {path(), index}) {
    const auto files = model_files(from);
    ASSERT_TRUE(files.has_value()) << files.error().to_string();
    EXPECT_EQ(files->paths, std::vector{path() + "/2.safetensors"});
  }
  for (const Names& names :
       {Names{"model.safetensors", "adapter_model.cfck"}, {"a.cfck", "b.safetensors"}}) {
    EXPECT_NE(files_in(names).front().find("has several models"), std::string::npos);
  }
}

TEST_F(FindModel, SaysWhatAFolderLacks) {
  const auto error_of = [&] {
    const auto found = find_model(path());
    return found ? Error{} : found.error();
  };
  EXPECT_EQ(error_of().code, ErrorCode::kNotFound);
  EXPECT_NE(error_of().message.find("nor another model file"), std::string::npos);
  put("model-00001-of-00002.safetensors");
  EXPECT_EQ(error_of().code, ErrorCode::kNotFound);
  EXPECT_NE(error_of().message.find("no index"), std::string::npos);
  fs::remove_all(path());
  EXPECT_EQ(error_of().code, ErrorCode::kIo);
}

TEST_F(FindModel, ReadsAnIndexInItsOrder) {
  const std::string index = put(
      "any name.json", R"({"weight_map": {"b": "2.cfck", "a": "parts/1.cfck", "c": "2.cfck"}})");
  const auto map = read_weight_map(index, {});
  ASSERT_TRUE(map.has_value()) << map.error().to_string();
  EXPECT_EQ(*map, (WeightMap{{"b", "2.cfck"}, {"a", "parts/1.cfck"}, {"c", "2.cfck"}}));
  const auto too_long = read_weight_map(index, 10);
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(too_long.error().message.find("max_index_bytes"), std::string::npos);
  EXPECT_EQ(read_weight_map(path() + "/none", {}).error().code, ErrorCode::kNotFound);
  for (const std::string name : {"/etc/passwd", "../x", "a/../../x", "", ".", "..", "a//b", "a/",
                                 "./a", "a\\\\..\\\\b", "a\\u0000b"}) {
    SCOPED_TRACE(name);
    const auto outside = read_weight_map(put("i", R"({"weight_map": {"w": ")" + name + "\"}}"), {});
    ASSERT_FALSE(outside.has_value());
    EXPECT_EQ(outside.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(outside.error().record, "w");
    EXPECT_NE(outside.error().message.find("not a file of this folder"), std::string::npos);
    EXPECT_NE(outside.error().message.find(path()), std::string::npos);
  }
}

TEST_F(FindModel, WatchesAnIndexOfAnyName) {
  const std::string index = put("any name.json", "1");
  const FolderWatch all(path());
  const FolderWatch named(path(), "any name.json");
  EXPECT_FALSE(named.changed());
  put("other.json");
  EXPECT_FALSE(named.changed());
  fs::rename(put("new", "2"), index);
  EXPECT_TRUE(named.changed());
  EXPECT_FALSE(all.changed());
  put("model.cfck.index.json");
  EXPECT_TRUE(all.changed());
}

TEST(ShardNames, AreMadeAndRecognised) {
  const ArchiveFormat& cfck = cfck_format();
  EXPECT_EQ(shard_name("model", 2, 13, cfck), "model-00002-of-00013.cfck");
  EXPECT_EQ(shard_name("model", 123456, 123456, safetensors_format()),
            "model-123456-of-123456.safetensors");
  EXPECT_EQ(shard_name("model", 1, 1, cfck), "model.cfck");
  EXPECT_TRUE(is_shard_name("x-00001-of-00003.cfck", cfck));
  EXPECT_TRUE(is_shard_name("x-00001-of-00003.fp16.cfck", cfck));
  for (const char* name : {"x-00001-of-00003.safetensors", "x-0001-of-00003.cfck", "model.cfck",
                           "x-00001-of-0000a.cfck", "x-00001-of-00003.a.b.cfck",
                           "x-00001-of-00003..cfck", ".cfck", ""}) {
    EXPECT_FALSE(is_shard_name(name, cfck)) << name;
  }
}

TEST(IndexNames, HaveParts) {
  const auto parts = parse_index_name("model.fp16.safetensors.index.bf16.json");
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->stem, "model.fp16");
  EXPECT_EQ(parts->format, &safetensors_format());
  EXPECT_EQ(parts->variant, "bf16");
  EXPECT_EQ(parse_index_name("a.cfck.safetensors.index.json")->format, &safetensors_format());
  EXPECT_EQ(parse_index_name("a.cfck.fp16.index.json")->variant, "fp16");
  for (const char* name :
       {"model.onnx.index.json", ".cfck.index.json", "model.cfck.json", "model.cfck.a.b.index.json",
        "model.cfck.a.index.b.json", "model.cfck.index..json", "model.cfck.index.jsonx"}) {
    EXPECT_FALSE(parse_index_name(name).has_value()) << name;
  }
}

TEST(ForeignFormats, TellPythonWhatReadsThem) {
  const auto message_of = [](std::string_view head) {
    const auto error = foreign_in_python(head, "m\n.bin");
    EXPECT_TRUE(error && error->code == ErrorCode::kUnsupported);
    return error ? error->message : std::string();
  };
  EXPECT_EQ(message_of("GGUF...."),
            "m\\n.bin is not a cfck file but a GGUF file: load it with gguf");
  EXPECT_NE(message_of("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.")
                .find("load it with torch.load"),
            std::string::npos);
  EXPECT_NE(message_of("\x80\x04}.").find("a pickle of another program"), std::string::npos);
  EXPECT_NE(message_of("\x89HDF\r\n\x1a\n").find("load it with h5py"), std::string::npos);
  EXPECT_NE(message_of("version https://git-lfs").find("git lfs pull"), std::string::npos);
  EXPECT_FALSE(foreign_in_python("plain text", "m").has_value());
}

TEST(ForeignFormats, AreNamed) {
  const std::string_view kZip = "PK\x03\x04";
  const std::pair<std::string_view, const char*> by_content[] = {
      {std::string_view("\x00\x05\x16\x07\x00\x02", 6), "macOS keeps attributes"},
      {"lmgg\x01", "GGML"},
      {"BZh91AY", "bzip2"},
      {std::string_view("\xfd\x37zXZ\0", 6), "an xz file"},
      {"7z\xbc\xaf\x27\x1c", "7z"},
      {"\x80\x04}q\x00.", "pickle"},
      {"\x08\x07\x12\x07pytorch\x1a\x03", "ONNX"},
      {"\x1c\x01\x01\x01TFL3", "TensorFlow Lite"},
  };
  for (const auto& [head, name] : by_content) {
    const auto error = foreign_format(head, "m.bin");
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->code, ErrorCode::kUnsupported) << name;
    EXPECT_NE(error->message.find(name), std::string::npos) << error->message;
  }
  const std::tuple<std::string_view, const char*, const char*> by_name[] = {
      {kZip, "ckpt/__0_0.distcp", "torch.distributed.checkpoint"},
      {"\x80\x04", "ckpt/.metadata", "torch.distributed.checkpoint"},
      {"\x80\x04", ".metadata", "torch.distributed.checkpoint"},
      {"\x80\x02", "m.pdparams", "PaddlePaddle"},
      {kZip, "m.mar", "TorchServe"},
      {"\x82\xa6params", "flax_model.msgpack", "Flax"},
      {"...", "v/variables.data-00000-of-00001", "TensorFlow"},
      {"...", "model.ckpt.index", "TensorFlow"},
  };
  for (const auto& [head, path, name] : by_name) {
    const auto error = foreign_by_name(head, path);
    ASSERT_TRUE(error) << path;
    EXPECT_EQ(error->code, ErrorCode::kUnsupported) << path;
    EXPECT_NE(error->message.find(name), std::string::npos) << error->message;
  }
  for (const char* name :
       {"model.bin", "run.zip", "x.metadata", "model.data-1", "a.data-0-of-1/m.pt"}) {
    EXPECT_FALSE(foreign_by_name(kZip, name)) << name;
  }
}

TEST(ForeignFormats, TextIsNamed) {
  const std::pair<std::string_view, const char*> heads[] = {
      {"<!DOCTYPE html>\n<html>", "web page"},
      {"\xef\xbb\xbf\n <html lang=\"en\">", "web page"},
      {"<?xml version=\"1.0\"?><Error>", "XML"},
      {"<html>\xff", "web page"},
      {"{\"error\":\"Repository not found\"}", "JSON"},
      {"Entry not found", "text ('Entry not found')"},
      {std::string_view("\0\0\0\0\0\0\0\0\0", 9), "zero bytes only"},
  };
  for (const auto& [head, name] : heads) {
    const auto error = no_tensors(head, "a safetensors file");
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->code, ErrorCode::kCorrupt) << name;
    EXPECT_NE(error->message.find("not a safetensors file, though it is called one"),
              std::string::npos);
    EXPECT_NE(error->message.find(name), std::string::npos) << error->message;
  }
  EXPECT_FALSE(no_tensors("\x93NUMPY", {}));
}

}  // namespace
}  // namespace cfck::model

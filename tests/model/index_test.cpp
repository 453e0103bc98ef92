// The index of a folder of shards decides which copy of a tensor counts.
#include <gtest/gtest.h>

#include "cfck/archive.hpp"
#include "model/folder/model_files.hpp"
#include "model/folder/open_model.hpp"
#include "model/formats/archive_format.hpp"
#include "tests/model/folders_of_models.hpp"

namespace cfck {
namespace {

using test::cfck_bytes;
using test::Folder;
using test::MakeFile;
using test::read_whole;
using test::safetensors_bytes;
using test::take;
using test::values_of;
using test::write_bytes;
using test::write_text;

TEST(ShardIndex, SaysWhichCopyCounts) {
  for (const auto& [suffix, make] : {std::pair<std::string, MakeFile>{".cfck", &cfck_bytes},
                                     {".safetensors", &safetensors_bytes}}) {
    SCOPED_TRACE(suffix);
    const Folder folder;
    // "b" of the first shard is stale, and so is "left over"; "b.w" is tied to it, "a.w" to "a".
    write_bytes(folder / ("1" + suffix),
                make({{"a", "b", "left over"}, {{"a.w", "a"}, {"b.w", "b"}, {"b.v", "b"}}}));
    write_bytes(folder / ("2" + suffix), make({{"b"}, {}}));
    write_bytes(folder / ("3" + suffix), make({{"stray"}, {}}));
    write_text(folder / "._1.safetensors", "attributes");
    const auto index = [&](const std::string& names) {
      write_text(
          folder / ("model" + suffix + ".index.json"),
          R"({"weight_map": {"a": "1)" + suffix + R"(", "b": "2)" + suffix + "\"" + names + "}}");
    };
    index("");
    for (const std::string& path : {folder.path(), folder / ("model" + suffix + ".index.json")}) {
      const auto archive = take(TensorArchive::open(path));
      std::vector<std::string> names;
      for (const ArchiveTensor& tensor : archive->tensors()) names.push_back(tensor.name);
      EXPECT_EQ(names, suffix == ".cfck" ? (std::vector<std::string>{"a", "a.w", "b"})
                                         : (std::vector<std::string>{"a", "b", "a.w"}));
      EXPECT_EQ(archive->files()[archive->find("b")->file].path, folder / ("2" + suffix));
      EXPECT_EQ(archive->find("a.w")->base, archive->find("a")->index);
    }
    // Ties to memory without a name stay ties.
    index(R"(, "b.w": "1)" + suffix + R"(", "b.v": "1)" + suffix + "\"");
    const auto archive = take(TensorArchive::open(folder.path()));
    const ArchiveTensor& view = *archive->find("b.w");
    EXPECT_EQ(view.base, archive->find("b.v")->base);
    EXPECT_TRUE(archive->tensors()[view.base].hidden);
    EXPECT_EQ(read_whole(*archive, view), values_of("b"));
    // A tensor that the index places in a shard must be there.
    index(R"(, "c": "2)" + suffix + "\"");
    const auto lacking = TensorArchive::open(folder.path());
    ASSERT_FALSE(lacking);
    EXPECT_EQ(lacking.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(lacking.error().record, "c");
    index(R"(, "c": "4)" + suffix + "\"");
    const auto missing = TensorArchive::open(folder.path());
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_NE(missing.error().message.find("download it"), std::string::npos);
  }
}

TEST(ShardIndex, WhatIsNotReadIsNamed) {
  const Folder folder;
  write_bytes(folder / "1.safetensors", safetensors_bytes({{"a", "b"}, {}}));
  write_bytes(folder / "2.safetensors", safetensors_bytes({{"b"}, {}}));
  write_bytes(folder / "3.safetensors", safetensors_bytes({{"c"}, {}}));
  write_text(folder / "._1.safetensors", "attributes");
  write_text(folder / "model.safetensors.index.json",
             R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  const model::ModelFiles files = take(model::model_files(folder.path()));
  EXPECT_EQ(files.paths, (std::vector{folder / "1.safetensors", folder / "2.safetensors"}));
  EXPECT_EQ(files.unnamed, std::vector{folder / "3.safetensors"});
  EXPECT_EQ(files.attribute_files, std::vector{folder / "._1.safetensors"});
  EXPECT_EQ(model::check_all_named(files).error().code, ErrorCode::kCorrupt);
  const auto first = take(TensorArchive::open(files.paths[0]));
  const auto of_model = take(model::tensors_of_model(files, 0, first->tensors()));
  const auto strays = model::stray_tensors(files, 0, first->tensors(), of_model);
  ASSERT_EQ(strays.size(), 1U);
  EXPECT_EQ(strays[0].name, "b");
  const auto warnings = model::unread_warnings(files, strays);
  ASSERT_EQ(warnings.size(), 3U);
  EXPECT_NE(warnings[0].find("3.safetensors': no index names this shard"), std::string::npos);
  EXPECT_NE(warnings[1].find("also has a tensor"), std::string::npos);
  EXPECT_NE(warnings[2].find("macOS"), std::string::npos);
  // A shard that another index of the folder names is no stray one.
  write_text(folder / "model.fp16.safetensors.index.json",
             R"({"weight_map": {"c": "3.safetensors"}})");
  EXPECT_TRUE(take(model::model_files(folder.path())).unnamed.empty());
}

TEST(ShardIndex, DecidesWhichNamesOfMetadataCount) {
  const Folder folder;
  write_bytes(folder / "1.safetensors", safetensors_bytes({{"a"}, {{"a.w", "a"}, {"a.v", "a"}}}));
  write_text(folder / "model.safetensors.index.json",
             R"({"weight_map": {"a": "1.safetensors", "a.w": "1.safetensors"}})");
  const auto open = [](const std::string& path) {
    return model::open_archive_file(path, ArchiveOptions{});
  };
  const model::OpenedModel model = take(model::open_model(folder.path(), open));
  EXPECT_TRUE(model.lists(*model.archive->find("a")));
  EXPECT_TRUE(model.lists(*model.archive->find("a.w")));
  EXPECT_FALSE(model.lists(*model.archive->find("a.v")));
}

TEST(ShardIndex, ShardsComeInItsOrderOrSorted) {
  const Folder folder;
  write_bytes(folder / "1.cfck", cfck_bytes({{"a"}, {}}));
  write_bytes(folder / "2.cfck", cfck_bytes({{"b"}, {}}));
  const std::string index = folder / "model.cfck.index.json";
  write_text(index, R"({"weight_map": {"b": "2.cfck", "a": "1.cfck"}})");
  const std::vector<std::string> sorted = {folder / "1.cfck", folder / "2.cfck"};
  EXPECT_EQ(take(model::model_files(index)).paths, sorted);
  const auto in_index_order = take(model::model_files(index, {.in_index_order = true}));
  EXPECT_EQ(in_index_order.paths, (std::vector{sorted[1], sorted[0]}));
  EXPECT_EQ(in_index_order.places.at("b"), 0U);
  const auto limited = model::model_files(index, {.max_index_bytes = 20});
  ASSERT_FALSE(limited);
  EXPECT_EQ(limited.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(limited.error().message.find("max_index_bytes"), std::string::npos);
}

// As a download does that replaces one shard after another.
TEST(ShardIndex, AFolderThatIsReplacedWhileItIsOpenedIsReadAgain) {
  const Folder folder;
  const auto put = [&](const std::string& suffix) {
    write_bytes(folder / "new", cfck_bytes({{"a" + suffix}, {}}));
    std::filesystem::rename(folder / "new", folder / "1.cfck");
    write_bytes(folder / "new", cfck_bytes({{"b" + suffix}, {}}));
    std::filesystem::rename(folder / "new", folder / "2.cfck");
    write_text(folder / "new", R"({"weight_map": {"a)" + suffix + R"(": "1.cfck", "b)" + suffix +
                                   R"(": "2.cfck"}})");
    std::filesystem::rename(folder / "new", folder / "model.cfck.index.json");
  };
  for (int n_replaced = 0; n_replaced < 5; ++n_replaced) {
    put(".0");
    int n_opened = 0;
    const auto open = [&](const std::string& path) {
      auto opened = model::open_archive_file(path, ArchiveOptions{});
      // Before the second shard is opened.
      if (n_opened++ % 2 == 0 && n_opened / 2 < n_replaced) {
        put("." + std::to_string(n_opened / 2 + 1));
      }
      return opened;
    };
    const model::OpenedModel model = take(model::open_model(folder.path(), open));
    const std::string suffix = "." + std::to_string(n_replaced);
    for (const std::string name : {"a", "b"}) {
      ASSERT_NE(model.archive->find(name + suffix), nullptr) << name << n_replaced;
    }
    EXPECT_EQ(model.parts.size(), 2U);
    EXPECT_EQ(model.archive->tensors().size(), 2U);
  }
}

// The index and the folder are the same before and after: only the shard was another one.
TEST(ShardIndex, AShardThatIsReplacedAndPutBackIsReadAgain) {
  const Folder folder;
  const std::string shard = folder / "2.cfck";
  write_bytes(folder / "1.cfck", cfck_bytes({{"a"}, {}}));
  write_bytes(shard, cfck_bytes({{"b"}, {}}));
  write_bytes(folder / "other", cfck_bytes({{"b", "of another version"}, {}}));
  write_text(folder / "model.cfck.index.json", R"({"weight_map": {"a": "1.cfck", "b": "2.cfck"}})");
  int n_opened = 0;
  const auto open = [&](const std::string& path) {
    const bool is_other = path == shard && n_opened++ == 0;
    if (is_other) {
      std::filesystem::rename(shard, folder / "kept");
      std::filesystem::rename(folder / "other", shard);
    }
    auto opened = model::open_archive_file(path, ArchiveOptions{});
    if (is_other) std::filesystem::rename(folder / "kept", shard);
    return opened;
  };
  const model::OpenedModel model = take(model::open_model(folder.path(), open));
  EXPECT_EQ(n_opened, 2);
  EXPECT_EQ(model.parts[1]->tensors().size(), 1U);
}

TEST(ShardIndex, NamesThatSeveralShardsTieAreLeftOut) {
  const Folder folder;
  write_bytes(folder / "1.cfck", cfck_bytes({{"a"}, {{"c", "a"}, {"a.c", "a"}}}));
  write_bytes(folder / "2.cfck", cfck_bytes({{"b"}, {{"c", "b"}}}));
  write_text(folder / "model.cfck.index.json", R"({"weight_map": {"a": "1.cfck", "b": "2.cfck"}})");
  const auto archive = take(TensorArchive::open(folder.path()));
  EXPECT_EQ(archive->find("c"), nullptr);
  EXPECT_EQ(archive->find("a.c")->base, archive->find("a")->index);
  EXPECT_EQ(read_whole(*archive, *archive->find("b")), values_of("b"));
}

}  // namespace
}  // namespace cfck

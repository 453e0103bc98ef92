// Archives of every kind give the same tensors; wrong and hostile ones give errors.
#include "cfck/archive.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "cfck/cfck.hpp"
#include "tests/model/folders_of_models.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::cfck_bytes;
using test::Folder;
using test::MakeFile;
using test::read_whole;
using test::safetensors_bytes;
using test::take;
using test::values_of;
using test::write_bytes;
using test::write_text;

std::string index_json(const std::map<std::string, std::string>& weight_map) {
  std::string json = "{\"metadata\":{},\"weight_map\":{";
  for (const auto& [name, file] : weight_map) {
    if (json.back() != '{') json += ',';
    json += "\"" + name + "\":\"" + file + "\"";
  }
  return json + "}}";
}

void write_shards(const Folder& folder, const std::string& suffix, MakeFile make,
                  const std::string& index) {
  write_bytes(folder / ("part-1" + suffix), make({{"a", "b"}, {{"a.tied", "a"}}}));
  write_bytes(folder / ("part-2" + suffix), make({{"c"}, {}}));
  if (index.empty()) return;
  write_bytes(folder / ("other" + suffix), make({{"not named by the index"}, {}}));
  write_text(
      folder / index,
      index_json({{"a", "part-1" + suffix}, {"b", "part-1" + suffix}, {"c", "part-2" + suffix}}));
}

struct Kind {
  const char* name;
  std::string_view format;
  // Writes the model {a, b, c; a.tied} and returns its path.
  std::string (*write)(const Folder& folder);
};

std::string write_single(const Folder& folder, const std::string& name, MakeFile make) {
  write_bytes(folder / name, make({{"a", "b", "c"}, {{"a.tied", "a"}}}));
  return folder / name;
}

const Kind kKinds[] = {
    {"cfck file", "cfck",
     [](const Folder& folder) { return write_single(folder, "m.cfck", &cfck_bytes); }},
    {"safetensors file", "safetensors",
     [](const Folder& folder) {
       return write_single(folder, "m.safetensors", &safetensors_bytes);
     }},
    {"file of another name", "safetensors",
     [](const Folder& folder) { return write_single(folder, "weights", &safetensors_bytes); }},
    {"cfck file in a folder", "cfck",
     [](const Folder& folder) {
       write_single(folder, "m.cfck", &cfck_bytes);
       write_single(folder, "m.safetensors", &safetensors_bytes);
       return folder.path();
     }},
    {"cfck shards", "cfck",
     [](const Folder& folder) {
       write_shards(folder, ".cfck", &cfck_bytes, "model.cfck.index.json");
       return folder.path();
     }},
    {"safetensors shards", "safetensors",
     [](const Folder& folder) {
       write_shards(folder, ".safetensors", &safetensors_bytes, "model.safetensors.index.json");
       return folder.path() + "/";
     }},
    {"shards of a variant", "safetensors",
     [](const Folder& folder) {
       write_shards(folder, ".safetensors", &safetensors_bytes,
                    "model.safetensors.index.fp16.json");
       return folder.path();
     }},
    {"shards without an index", "cfck",
     [](const Folder& folder) {
       write_shards(folder, ".cfck", &cfck_bytes, "");
       return folder.path();
     }},
};

void for_each_kind(const std::function<void(const Kind& kind, const TensorArchive& archive)>& check,
                   const ArchiveOptions& options = {}) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const Folder folder;
    const auto archive = take(TensorArchive::open(kind.write(folder), options));
    check(kind, *archive);
  }
}

ErrorCode code_of(const Result<void>& result) { return result ? ErrorCode{} : result.error().code; }

TEST(Archive, ASourceThatIsNoneIsAnError) {
  EXPECT_EQ(TensorArchive::open(std::unique_ptr<ByteSource>()).error().code,
            ErrorCode::kInvalidArgument);
  for (const char* format : {"cfck", "safetensors"}) {
    EXPECT_EQ(TensorArchive::open_as(format, nullptr).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Archive, ListsTheSameTensors) {
  for_each_kind([](const Kind& kind, const TensorArchive& archive) {
    std::vector<std::string> names;
    for (const ArchiveTensor& tensor : archive.tensors()) {
      if (tensor.hidden) continue;
      names.push_back(tensor.name);
      EXPECT_EQ(tensor.dtype, DType::kF32);
      EXPECT_EQ(tensor.shape, (Shape{6, 100}));
      EXPECT_EQ(tensor.n_elems, 600U);
      EXPECT_EQ(tensor.n_bytes, 2400U);
      EXPECT_EQ(archive.find(tensor.name), &tensor);
      EXPECT_EQ(&archive.tensors()[tensor.index], &tensor);
      EXPECT_EQ(archive.files()[tensor.file].format, kind.format);
      EXPECT_EQ(tensor.record != nullptr, kind.format == "cfck");
      EXPECT_EQ(tensor.offset_bytes.has_value(), kind.format != "cfck");
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"a", "a.tied", "b", "c"}));
    EXPECT_EQ(archive.find("d"), nullptr);
    EXPECT_EQ(archive.find(""), nullptr);
    EXPECT_EQ(archive.metadata().at("made by"), "a test");
  });
}

TEST(Archive, ReadsEveryTensorAndSeveralAtOnce) {
  for_each_kind([](const Kind&, const TensorArchive& archive) {
    std::vector<Bytes> memory;
    std::vector<ArchiveRead> reads;
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_EQ(read_whole(archive, *archive.find(name)), values_of(name));
      memory.emplace_back(2400);
    }
    for (std::size_t i = 0; i < memory.size(); ++i) {
      reads.push_back({archive.find(std::string(1, static_cast<char>('a' + i))), memory[i]});
    }
    std::uint64_t last_bytes = 0;
    test::expect_ok(archive.read_many(reads, [&](std::uint64_t done_bytes, std::string_view) {
      EXPECT_GE(done_bytes, last_bytes);
      last_bytes = done_bytes;
      return true;
    }));
    EXPECT_EQ(last_bytes, 7200U);
    EXPECT_EQ(memory[1], values_of("b"));
    EXPECT_EQ(memory[2], values_of("c"));
  });
}

TEST(Archive, ReadsIntoMemoryOfItsOwn) {
  for_each_kind([](const Kind&, const TensorArchive& archive) {
    for (const char* name : {"a", "a.tied", "c"}) {
      const OwnedTensor tensor = take(archive.read(name));
      EXPECT_EQ(tensor.dtype(), DType::kF32);
      EXPECT_EQ(tensor.shape(), (Shape{6, 100}));
      const Bytes expected = values_of(std::string(1, name[0]));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), tensor.bytes().begin(),
                             tensor.bytes().end()));
      const ArchiveTensor copy = *archive.find(name);
      EXPECT_EQ(take(archive.read(copy)).bytes().size(), 2400U);
    }
    const auto missing = archive.read("d\n");
    ASSERT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(missing.error().record, "d\n");
    EXPECT_NE(missing.error().message.find("'d\\n'"), std::string::npos);
    ArchiveTensor stranger = *archive.find("a");
    stranger.index = 1000;
    const auto refused = archive.read(stranger);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  });
}

// No memory is taken for what a file claims beyond the limit.
TEST(Archive, ChecksTheLimitBeforeItAllocates) {
  ArchiveOptions options;
  options.decode.limits.max_decoded_bytes = 2399;
  for_each_kind(
      [](const Kind&, const TensorArchive& archive) {
        for (const char* name : {"b", "a.tied"}) {
          const auto refused = archive.read(name);
          ASSERT_FALSE(refused.has_value());
          EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
        }
      },
      options);
  options.decode.limits.max_decoded_bytes = 2400;
  for_each_kind(
      [](const Kind&, const TensorArchive& archive) {
        EXPECT_EQ(take(archive.read("b")).bytes().size(), 2400U);
      },
      options);
}

TEST(Archive, KnowsTies) {
  for_each_kind([](const Kind& kind, const TensorArchive& archive) {
    const ArchiveTensor& tied = *archive.find("a.tied");
    const ArchiveTensor& base = *archive.find("a");
    EXPECT_EQ(tied.sharing, Sharing::kMemory);
    EXPECT_EQ(tied.base, base.index);
    EXPECT_EQ(tied.element_offset, 0U);
    EXPECT_EQ(tied.strides, (std::vector<std::uint64_t>{100, 1}));
    EXPECT_EQ(tied.stored_bytes, 0U);
    EXPECT_EQ(tied.named_by_metadata, kind.format != "cfck");
    EXPECT_EQ(base.sharing, Sharing::kNone);
    EXPECT_EQ(base.base, base.index);
    EXPECT_EQ(read_whole(archive, tied), values_of("a"));
  });
}

TEST(Archive, ReadsElementsAndSlices) {
  for_each_kind([](const Kind&, const TensorArchive& archive) {
    for (const char* name : {"c", "a.tied"}) {
      const ArchiveTensor& tensor = *archive.find(name);
      const Bytes whole = read_whole(archive, tensor);
      Bytes part(250 * 4);
      test::expect_ok(archive.read_elements(tensor, 150, 250, part));
      EXPECT_EQ(std::memcmp(part.data(), whole.data() + 600, part.size()), 0);
      Bytes box(2 * 3 * 4);
      const std::uint64_t starts[] = {4, 10};
      const std::uint64_t stops[] = {6, 13};
      test::expect_ok(archive.read_slice(tensor, starts, stops, box));
      EXPECT_EQ(std::memcmp(box.data(), whole.data() + 410 * 4, 12), 0);
      EXPECT_EQ(std::memcmp(box.data() + 12, whole.data() + 510 * 4, 12), 0);
      EXPECT_EQ(code_of(archive.read_elements(tensor, 500, 250, part)),
                ErrorCode::kInvalidArgument);
      EXPECT_EQ(code_of(archive.read_elements(tensor, 0, 1, part)), ErrorCode::kInvalidArgument);
      EXPECT_EQ(code_of(archive.read_slice(tensor, starts, stops, part)),
                ErrorCode::kInvalidArgument);
    }
  });
}

TEST(Archive, RefusesWhatIsNotItsOwn) {
  for_each_kind([](const Kind&, const TensorArchive& archive) {
    ArchiveTensor stranger = *archive.find("a");
    Bytes memory(stranger.n_bytes);
    test::expect_ok(archive.read(stranger, memory));  // a copy is as good
    stranger.index = 1000;
    EXPECT_EQ(code_of(archive.read(stranger, memory)), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of(archive.read_elements(stranger, 0, 600, memory)),
              ErrorCode::kInvalidArgument);
    const ArchiveRead nothing{};
    EXPECT_EQ(code_of(archive.read_many({&nothing, 1})), ErrorCode::kInvalidArgument);
    memory.pop_back();
    EXPECT_EQ(code_of(archive.read(*archive.find("a"), memory)), ErrorCode::kInvalidArgument);
  });
}

TEST(Archive, IsCancelledByProgress) {
  for_each_kind([](const Kind&, const TensorArchive& archive) {
    Bytes memory(2400);
    const ArchiveRead read{archive.find("c"), memory};
    const auto result =
        archive.read_many({&read, 1}, [](std::uint64_t, std::string_view) { return false; });
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(result.error().message.find("cancelled"), std::string::npos);
  });
}

TEST(Archive, KeepsLimits) {
  ArchiveOptions options;
  options.decode.limits.max_decoded_bytes = 2000;
  for_each_kind(
      [](const Kind&, const TensorArchive& archive) {
        const ArchiveTensor& tensor = *archive.find("b");
        test::expect_ok(archive.check_decoded_bytes(tensor, 2000));
        EXPECT_EQ(code_of(archive.check_decoded_bytes(tensor, 2001)), ErrorCode::kLimitExceeded);
        Bytes memory(tensor.n_bytes);
        EXPECT_EQ(code_of(archive.read(tensor, memory)), ErrorCode::kLimitExceeded);
        EXPECT_EQ(archive.files()[tensor.file].max_decoded_bytes, 2000U);
      },
      options);
}

TEST(Archive, VerifiesWhatHasChecksums) {
  for_each_kind([](const Kind& kind, const TensorArchive& archive) {
    const auto report = archive.verify(VerifyLevel::kDeep);
    ASSERT_EQ(report.has_value(), kind.format == "cfck");
    if (!report) {
      EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
      return;
    }
    EXPECT_TRUE(report->problems.empty());
    EXPECT_GE(report->n_records, 3U);
  });
}

TEST(Archive, OpensSources) {
  for (const MakeFile make : {&cfck_bytes, &safetensors_bytes}) {
    const Bytes bytes = make({{"a"}, {{"b", "a"}}});
    const auto archive = take(TensorArchive::open(std::make_unique<OwnedMemorySource>(bytes)));
    EXPECT_EQ(archive->files().front().path, "<memory>");
    EXPECT_EQ(read_whole(*archive, *archive->find("b")), values_of("a"));
  }
}

TEST(Archive, ShardsMayHaveTheMetadataOfAll) {
  const Folder folder;
  const std::string metadata = R"("__metadata__":{"x.w":"a.w","b.w":"a.w"},)";
  const auto shard = [&](const std::string& name) {
    const std::string json =
        "{" + metadata + "\"" + name + R"(.w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    std::uint64_t length = json.size();
    std::string file(reinterpret_cast<const char*>(&length), 8);
    return file + json + name;
  };
  write_text(folder / "1.safetensors", shard("a"));
  write_text(folder / "2.safetensors", shard("b"));
  const auto archive = take(TensorArchive::open(folder.path()));
  ASSERT_EQ(archive->tensors().size(), 3U);
  EXPECT_FALSE(archive->find("b.w")->named_by_metadata);
  EXPECT_EQ(archive->find("x.w")->index, 2U);
  EXPECT_EQ(archive->find("x.w")->base, archive->find("a.w")->index);
  EXPECT_EQ(read_whole(*archive, *archive->find("b.w")), Bytes{std::byte{'b'}});
}

// Folders that are not archives: the code, and a part of the message.
struct WrongFolder {
  const char* what;
  ErrorCode code;
  const char* message;
  void (*write)(const Folder& folder);
};

TEST(Archive, RefusesWrongFolders) {
  const WrongFolder kWrong[] = {
      {"empty", ErrorCode::kNotFound, "has no .cfck and no .safetensors files",
       [](const Folder&) {}},
      {"a missing shard", ErrorCode::kNotFound, "part-2.cfck",
       [](const Folder& folder) {
         write_shards(folder, ".cfck", &cfck_bytes, "model.cfck.index.json");
         fs::remove(folder / "part-2.cfck");
       }},
      {"a name twice", ErrorCode::kCorrupt, "two shards have a tensor with this name",
       [](const Folder& folder) {
         write_bytes(folder / "1.cfck", cfck_bytes({{"a"}, {}}));
         write_bytes(folder / "2.cfck", cfck_bytes({{"b"}, {{"a", "b"}}}));
       }},
      {"an index that is not JSON", ErrorCode::kCorrupt, "the shard index",
       [](const Folder& folder) { write_text(folder / "model.cfck.index.json", "{\"weight_map"); }},
      {"an index without a map", ErrorCode::kCorrupt, "weight_map",
       [](const Folder& folder) { write_text(folder / "model.cfck.index.json", "{}"); }},
      {"a key twice", ErrorCode::kCorrupt, "the shard index",
       [](const Folder& folder) {
         write_text(folder / "model.cfck.index.json",
                    R"({"weight_map":{"a":"1.cfck","a":"2.cfck"}})");
       }},
      {"a file outside", ErrorCode::kCorrupt, "outside its folder",
       [](const Folder& folder) {
         write_text(folder / "model.cfck.index.json", index_json({{"a", "../m.cfck"}}));
       }},
      {"an absolute file", ErrorCode::kCorrupt, "outside its folder",
       [](const Folder& folder) {
         write_text(folder / "model.cfck.index.json", index_json({{"a", "/etc/m.cfck"}}));
       }},
      {"half replaced", ErrorCode::kCorrupt, "may have files of two checkpoints",
       [](const Folder& folder) {
         write_single(folder, "m.cfck", &cfck_bytes);
         write_text(folder / ".cfck-convert-unfinished", "");
       }},
      {"a damaged shard", ErrorCode::kTruncated, "part-1.safetensors",
       [](const Folder& folder) {
         write_shards(folder, ".safetensors", &safetensors_bytes, "");
         fs::resize_file(folder / "part-1.safetensors", 300);
       }},
  };
  for (const WrongFolder& wrong : kWrong) {
    SCOPED_TRACE(wrong.what);
    const Folder folder;
    wrong.write(folder);
    const auto archive = TensorArchive::open(folder.path());
    ASSERT_FALSE(archive.has_value());
    EXPECT_EQ(archive.error().code, wrong.code) << archive.error().to_string();
    EXPECT_NE(archive.error().message.find(wrong.message), std::string::npos)
        << archive.error().to_string();
  }
}

struct WrongFile {
  std::string bytes;
  ErrorCode code;
  const char* message;
};

TEST(Archive, SaysWhatOtherFilesAre) {
  const WrongFile kWrong[] = {
      {"", ErrorCode::kTruncated, "the file is empty"},
      {std::string("PK\x03\x04", 4), ErrorCode::kTruncated, "zip file"},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", ErrorCode::kTruncated,
       "the pickle ends inside an operand"},
      {"\x80\x02}q\x01.", ErrorCode::kUnsupported, "a pickle of another program"},
      {"GGUF\x03", ErrorCode::kUnsupported, "a GGUF file"},
      {"\x89HDF\r\n\x1a\n", ErrorCode::kUnsupported, "an HDF5 file"},
      {"\x93NUMPY\x01", ErrorCode::kTruncated, "numpy array"},
      {"version https://git-lfs", ErrorCode::kUnsupported, "git lfs pull"},
      {std::string("\0\0\0\0\0\0\0\x10{}", 10), ErrorCode::kLimitExceeded,
       "not a safetensors file, or"},
      {"something else", ErrorCode::kCorrupt, "it seems to be text ('something else')"},
      {"some\x01thing", ErrorCode::kCorrupt, "nor a file of any other known format"},
  };
  for (const WrongFile& wrong : kWrong) {
    SCOPED_TRACE(wrong.message);
    const Folder folder;
    write_text(folder / "file", wrong.bytes);
    const auto archive = TensorArchive::open(folder / "file");
    ASSERT_FALSE(archive.has_value());
    EXPECT_EQ(archive.error().code, wrong.code) << archive.error().to_string();
    EXPECT_NE(archive.error().message.find(wrong.message), std::string::npos)
        << archive.error().to_string();
    EXPECT_NE(archive.error().message.find(folder / "file"), std::string::npos)
        << archive.error().to_string();
  }
  EXPECT_EQ(TensorArchive::open("/nowhere/at/all").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace cfck

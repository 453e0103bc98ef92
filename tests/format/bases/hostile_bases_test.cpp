// Files with bases whose makers mean harm, or that are many.
#include <filesystem>
#include <utility>

#include "cfck/archive.hpp"
#include "cfck/base.hpp"
#include "cfck/patch.hpp"
#include "format/read/last_chunk.hpp"
#include "tests/format/bases/stepped.hpp"
#include "tests/support/changed_index.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

// As many ways to the last file as folders to the power of files.
TEST(HostileBase, FilesThatCannotBeUsedAreTriedOnce) {
  const TemporaryFolder folder;
  Tensors tensors;
  tensors["x"] = {DType::kF32, {2000}, weights(1, 2000)};
  std::vector<std::string> folders;
  for (int i = 0; i < 12; ++i) {
    folders.push_back(folder.path(std::to_string(i)));
    fs::create_directory(folders.back());
  }
  std::string last;
  for (int i = 0; i <= 8; ++i) {
    const std::string path = folders[0] + "/step" + std::to_string(i);
    save(path, tensors, last);
    last = path;
    tensors["x"].values = stepped(tensors["x"].values, static_cast<std::uint64_t>(i), 20);
  }
  save(folders[0] + "/step0", tensors);
  for (std::size_t i = 1; i < folders.size(); ++i) {
    fs::copy(folders[0], folders[i]);
  }
  DecodeOptions options;
  options.base_dirs = folders;
  const Reader reader = take(Reader::open(last, options));
  EXPECT_EQ(reader.check_base().error().code, ErrorCode::kMissingBase);
  // The last folder has a whole chain.
  fs::remove(folders[11] + "/step0");
  Tensors first;
  first["x"] = {DType::kF32, {2000}, weights(1, 2000)};
  save(folders[11] + "/step0", first);
  expect_ok(take(Reader::open(last, options)).check_base());
}

// Files whose hashes are right, made by somebody who means harm.
TEST(HostileBase, HostileNamesAndRecordsAreRefused) {
  const Tensors old = old_tensors();
  const Bytes file = file_of(new_tensors(old), base_of(old));
  const auto opened = [&](const std::function<void(format::Index&)>& change) {
    DecodeOptions options;
    options.base = base_of(old);
    return Reader::open(std::make_unique<OwnedMemorySource>(with_changed_index(file, change)),
                        options);
  };
  EXPECT_TRUE(opened([](format::Index& index) { index.base_name = "a file.cfck"; }));
  for (const std::string& name :
       {std::string("../old.cfck"), std::string("/etc/passwd"), std::string("a\\b"),
        std::string("."), std::string(".."), std::string("a\0b", 3), std::string("\xff"),
        std::string(256, 'a'), std::string(100000, '/')}) {
    const auto reader = opened([&](format::Index& index) { index.base_name = name; });
    ASSERT_FALSE(reader) << name;
    EXPECT_EQ(reader.error().code, ErrorCode::kCorrupt);
  }
  // What is proven to be something else is refused when it is read, and nothing is written.
  const auto refused = [&](const char* name, const std::function<void(Record&)>& change) {
    const Bytes changed = with_changed_index(file, [&](format::Index& index) {
      for (format::StoredRecord& stored : index.records) {
        if (stored.record.name == name) {
          change(stored.record);
        }
      }
    });
    Tensors tensors = old;
    std::vector<PatchedTensor> targets;
    for (auto& [of, tensor] : tensors) {
      targets.push_back({of, tensor.dtype, tensor.shape, tensor.values});
    }
    const auto applied = apply_patch(MemorySource(changed), targets);
    EXPECT_EQ(values_of(tensors), values_of(old));
    EXPECT_FALSE(applied);
    return applied ? ErrorCode{} : applied.error().code;
  };
  for (const char* name : {"large", "small", "same"}) {
    EXPECT_EQ(refused(name, [](Record& record) { (*record.base_digest)[3] ^= 1; }),
              ErrorCode::kMissingBase);
    EXPECT_EQ(refused(name, [](Record& record) { record.digest[3] ^= 1; }), ErrorCode::kChecksum);
    EXPECT_NE(refused(name, [](Record& record) { record.base_digest.reset(); }),
              ErrorCode::kInternal);
    EXPECT_NE(refused(name, [](Record& record) { record.codec = CodecId::kLossless; }),
              ErrorCode::kInternal);
    EXPECT_NE(refused(name, [](Record& record) { record.name = "another"; }), ErrorCode::kInternal);
    EXPECT_NE(refused(name, [](Record& record) { record.shape[0] += 8; }), ErrorCode::kInternal);
  }
}

// A file may have many small chunks where its base has a large one.
TEST(HostileBase, LargeChunksAreDecodedOnceForManySmallOnes) {
  const Bytes values = noise(1, 1000);
  std::vector<std::pair<std::uint64_t, std::size_t>> decoded;
  const format::LastChunk last;
  const auto read = [&](std::uint64_t offset_bytes, std::size_t n_bytes) {
    Bytes found(n_bytes);
    expect_ok(last.read({.number = 3, .n_bytes = 1000, .chunk_bytes = 300}, offset_bytes, found,
                        [&](std::uint64_t first, MutableBytes out) -> Result<void> {
                          decoded.emplace_back(first, out.size());
                          std::copy_n(values.begin() + static_cast<long>(first), out.size(),
                                      out.begin());
                          return {};
                        }));
    EXPECT_TRUE(
        std::equal(found.begin(), found.end(), values.begin() + static_cast<long>(offset_bytes)));
  };
  for (std::uint64_t at = 0; at < 1000; at += 7) {
    read(at, std::min<std::size_t>(7, 1000 - at));
  }
  using Decoded = std::vector<std::pair<std::uint64_t, std::size_t>>;
  EXPECT_EQ(std::exchange(decoded, {}), (Decoded{{0, 300}, {300, 300}, {600, 300}, {900, 100}}));
  // Whole chunks go to where they are wanted, at once.
  read(250, 700);
  EXPECT_EQ(decoded, (Decoded{{0, 300}, {300, 300}, {600, 300}, {900, 100}}));
}

TEST(HostileBase, ChunksOfAnySizeAreReadAgainstChunksOfAnySize) {
  Tensors old = old_tensors();
  old["bits"] = {DType::kF4, {40000}, weights(7, 5000)};
  old["bits copied"] = old["bits"];
  const Tensors now = new_tensors(old);
  const TemporaryFolder folder;
  for (const std::uint64_t of_base : {5000, 1 << 22}) {
    const auto save_with = [&](const char* name, const Tensors& tensors, std::uint64_t chunk_elems,
                               std::shared_ptr<const Base> base) {
      EncodeOptions options;
      options.chunk_elems = chunk_elems;
      options.base = std::move(base);
      put_bytes(folder.path(name),
                write_file([&](Writer& writer) { add_to(writer, tensors); }, options));
    };
    save_with("old.cfck", old, of_base, nullptr);
    for (const std::uint64_t of_file : {7000, 1 << 22}) {
      auto archive = take(TensorArchive::open(folder.path("old.cfck")));
      for (std::shared_ptr<const Base> base :
           {take(open_base(folder.path("old.cfck"))),
            take(base_of_archive(std::move(archive), "old.cfck"))}) {
        save_with("new.cfck", now, of_file, base);
        DecodeOptions options;
        options.base = base;
        options.threads = 3;
        const Reader reader = take(Reader::open(folder.path("new.cfck"), options));
        EXPECT_EQ(all_tensors(reader), values_of(now));
        expect_sound(reader);
      }
    }
  }
}

}  // namespace
}  // namespace cfck::test

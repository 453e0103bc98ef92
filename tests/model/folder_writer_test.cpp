// Folders of shards that are written: how tensors are placed, what is replaced, and what is not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cfck/cfck.hpp"
#include "tests/support/fault_files.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::take;
using Files = std::map<std::string, std::string>;

constexpr std::string_view kFormats[] = {"cfck", "safetensors"};

// The system's files, without syncing, which takes long.
class QuickFiles final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open_read(const std::string& path) override {
    return system_files().open_read(path);
  }
  Result<std::unique_ptr<File>> open_read_write(const std::string& path) override {
    return system_files().open_read_write(path);
  }
  Result<std::unique_ptr<File>> create_exclusive(const std::string& path) override {
    return system_files().create_exclusive(path);
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return system_files().rename(from, to);
  }
  Result<void> exchange(const std::string& one, const std::string& other) override {
    return can_exchange ? system_files().exchange(one, other) : unsupported("not here");
  }
  Result<void> link(const std::string& from, const std::string& to) override {
    return system_files().link(from, to);
  }
  Result<void> make_directory(const std::string& path) override {
    return system_files().make_directory(path);
  }
  Result<void> remove(const std::string& path) override { return system_files().remove(path); }
  Result<void> sync_directory(const std::string&) override { return {}; }
  bool exists(const std::string& path) override { return system_files().exists(path); }

  bool can_exchange = true;
};

class FolderWriter : public ::testing::TestWithParam<std::string_view> {
 protected:
  FolderWriter() {
    root_ = fs::temp_directory_path() / ("cfck-shards-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    for (const char* name : {"a", "b", "c", "d"}) {
      values_[name] = test::weights(values_.size() + 1, 600);
    }
  }
  ~FolderWriter() override { fs::remove_all(root_); }

  static std::string format() { return std::string(GetParam()); }
  static std::string with_suffix(const std::string& name) { return name + "." + format(); }
  std::string path() const { return (root_ / "out").string(); }

  std::unique_ptr<ArchiveWriter> create(const FolderOptions& folder,
                                        const EncodeOptions& options = {}) {
    return take(ArchiveWriter::create_folder(format(), path(), options, folder, files_));
  }
  void add(ArchiveWriter& writer, const std::string& name) {
    test::expect_ok(writer.add(name, TensorView{DType::kF32, {6, 100}, values_.at(name)}));
  }
  // Writes these tensors, of 2400 bytes each.
  ArchiveSummary write(const std::vector<std::string>& names, std::uint64_t max_shard_bytes) {
    const auto writer = create({.max_shard_bytes = max_shard_bytes});
    for (const std::string& name : names) add(*writer, name);
    return take(writer->finish());
  }

  // The files of the folder with their contents, and what is beside it.
  Files contents() const {
    Files found;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      found[fs::relative(entry.path(), root_).string()] =
          std::string(std::istreambuf_iterator<char>(file), {});
    }
    return found;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& [name, text] : contents()) found.push_back(name);
    return found;
  }
  nlohmann::json index() const {
    std::ifstream file(path() + "/" + with_suffix("model") + ".index.json");
    return nlohmann::json::parse(file);
  }
  void expect_values(const std::vector<std::string>& names) const {
    const auto archive = take(TensorArchive::open(path()));
    EXPECT_EQ(archive->tensors().size(), names.size());
    for (const std::string& name : names) {
      const OwnedTensor tensor = take(archive->read(name));
      const Bytes& expected = values_.at(name.substr(0, 1));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), tensor.bytes().begin(),
                             tensor.bytes().end()))
          << name;
    }
  }
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories(path());
    std::ofstream(path() + "/" + name) << text;
  }

  fs::path root_;
  std::map<std::string, Bytes> values_;
  QuickFiles files_;
};

std::string only_letters(const ::testing::TestParamInfo<std::string_view>& info) {
  return std::string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Formats, FolderWriter, ::testing::ValuesIn(kFormats), only_letters);

TEST_P(FolderWriter, PlacesTensorsInOrder) {
  const ArchiveSummary summary = write({"a", "b", "c", "d"}, 2 * 2400);
  EXPECT_EQ(summary.n_records, 4U);
  EXPECT_EQ(summary.decoded_bytes, 4U * 2400);
  const std::string first = with_suffix("model-00001-of-00002");
  const std::string second = with_suffix("model-00002-of-00002");
  const Files files = contents();
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(summary.file_bytes, files.at("out/" + first).size() + files.at("out/" + second).size());
  EXPECT_EQ(
      index(),
      (nlohmann::json{{"metadata", {{"total_size", 9600}}},
                      {"weight_map", {{"a", first}, {"b", first}, {"c", second}, {"d", second}}}}));
  expect_values({"a", "b", "c", "d"});
  const auto archive = take(TensorArchive::open(path()));
  EXPECT_EQ(archive->files().size(), 2U);
  EXPECT_EQ(archive->files()[archive->find("c")->file].path, path() + "/" + second);
}

TEST_P(FolderWriter, OneShardNeedsNoIndex) {
  write({"a", "b"}, 4800);
  EXPECT_EQ(names(), (std::vector<std::string>{"out/" + with_suffix("model")}));
  expect_values({"a", "b"});
  // It is the file that create() writes.
  MemorySink sink;
  const auto single = take(ArchiveWriter::create(format(), sink));
  add(*single, "a");
  add(*single, "b");
  take(single->finish());
  const std::string written = contents().begin()->second;
  EXPECT_EQ(written.size(), sink.bytes().size());
  EXPECT_EQ(std::memcmp(written.data(), sink.bytes().data(), written.size()), 0);
}

TEST_P(FolderWriter, WritesAnEmptyModel) {
  EXPECT_EQ(write({}, 1).n_records, 0U);
  EXPECT_EQ(names(), (std::vector<std::string>{"out/" + with_suffix("model")}));
  EXPECT_TRUE(take(TensorArchive::open(path()))->tensors().empty());
}

TEST_P(FolderWriter, PathsMayBeLinksAndEndInASlash) {
  put("config.json", "{}");
  fs::create_directory_symlink(path(), root_ / "link");
  for (const std::string& name : {path() + "/", (root_ / "link").string(), path() + "/../out//"}) {
    SCOPED_TRACE(name);
    const auto writer = take(ArchiveWriter::create_folder(format(), name, {}, {}, files_));
    add(*writer, "a");
    take(writer->finish());
    EXPECT_EQ(writer->finish().error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(fs::is_symlink(root_ / "link"));
    EXPECT_EQ(names(),
              (std::vector<std::string>{"out/config.json", "out/" + with_suffix("model")}));
    fs::remove(path() + "/" + with_suffix("model"));
  }
}

TEST_P(FolderWriter, ATensorAboveTheMaximumHasAShardOfItsOwn) {
  const auto writer = create({.max_shard_bytes = 2400, .stem = "adapter_model"});
  const Bytes large = test::noise(5, 5000);
  const Bytes small = test::noise(6, 100);
  test::expect_ok(writer->add("small", TensorView{DType::kU8, {100}, small}));
  test::expect_ok(writer->add("large", TensorView{DType::kU8, {5000}, large}));
  test::expect_ok(writer->add("empty", TensorView{DType::kU8, {0}, {}}));
  test::expect_ok(writer->add("last", TensorView{DType::kU8, {100}, small}));
  take(writer->finish());
  const auto archive = take(TensorArchive::open(path()));
  ASSERT_EQ(archive->files().size(), 3U);
  const auto file_of = [&](const char* name) { return archive->find(name)->file; };
  EXPECT_EQ(file_of("small"), 0U);
  EXPECT_EQ(file_of("large"), 1U);
  EXPECT_EQ(file_of("empty"), 1U + (file_of("last") == file_of("empty") ? 1U : 0U));
  EXPECT_EQ(file_of("last"), 2U);
  EXPECT_EQ(archive->files()[1].path, path() + "/" + with_suffix("adapter_model-00002-of-00003"));
}

TEST_P(FolderWriter, TiedTensorsStayWithTheirBase) {
  const auto writer = create({.max_shard_bytes = 2400});
  add(*writer, "a");
  add(*writer, "b");
  EXPECT_TRUE(take(writer->tie("a.tied", "a")));
  EXPECT_TRUE(take(writer->tie("a.again", "a.tied")));
  test::expect_ok(writer->set_metadata("key", "value"));
  take(writer->finish());
  EXPECT_EQ(index()["metadata"]["total_size"], 4800);
  expect_values({"a", "a.again", "a.tied", "b"});
  const auto archive = take(TensorArchive::open(path()));
  EXPECT_EQ(archive->find("a.tied")->base, archive->find("a.again")->base);
  EXPECT_EQ(archive->find("a.tied")->file, archive->find("a")->file);
  EXPECT_NE(archive->find("a.tied")->file, archive->find("b")->file);
  // Every shard has the metadata; the index names the tensors that each has.
  std::set<std::string> indexed;
  const nlohmann::json weight_map = index()["weight_map"];
  for (const auto& [name, file] : weight_map.items()) {
    indexed.insert(name);
    const auto shard = take(TensorArchive::open(path() + "/" + file.get<std::string>()));
    EXPECT_EQ(shard->metadata().at("key"), "value");
    ASSERT_NE(shard->find(name), nullptr);
    EXPECT_FALSE(shard->find(name)->named_by_metadata);
  }
  EXPECT_EQ(indexed.size(), format() == "cfck" ? 4U : 2U);
}

TEST_P(FolderWriter, ArchivesOfEveryFormatAreSharded) {
  for (const std::string_view from : kFormats) {
    SCOPED_TRACE(from);
    MemorySink sink;
    const auto source = take(ArchiveWriter::create(from, sink));
    for (const char* name : {"a", "b", "c"}) add(*source, name);
    EXPECT_TRUE(take(source->tie("a.tied", "a")));
    test::expect_ok(source->set_metadata("key", "value"));
    test::expect_ok(source->attach("extra", values_.at("d")));
    take(source->finish());
    const auto archive =
        take(TensorArchive::open(std::make_unique<OwnedMemorySource>(sink.take())));
    const auto writer = create({.max_shard_bytes = 4800});
    test::expect_ok(writer->add_archive(*archive));
    EXPECT_EQ(take(writer->finish()).n_records, 4U);
    expect_values({"a", "a.tied", "b", "c"});
    const auto written = take(TensorArchive::open(path()));
    EXPECT_EQ(written->files().size(), 2U);
    EXPECT_EQ(written->metadata().at("key"), "value");
    EXPECT_EQ(written->find("a.tied")->base, written->find("a")->index);
    EXPECT_NE(written->find("c")->file, written->find("a")->file);
    if (format() == "cfck" && from == "cfck") {
      EXPECT_EQ(take(written->attachment("extra")), values_.at("d"));
    }
  }
}

TEST_P(FolderWriter, ViewsStayWithWhatTheyShow) {
  const Bytes file = test::write_file([&](Writer& writer) {
    test::expect_ok(writer.add("a", TensorView{DType::kF32, {6, 100}, values_.at("a")}));
    test::expect_ok(writer.add("b", TensorView{DType::kF32, {6, 100}, values_.at("b")}));
    const std::uint64_t strides[] = {1, 100};
    test::expect_ok(writer.add_alias("a.t", "a", 0, {100, 6}, strides));
  });
  const auto archive = take(TensorArchive::open(std::make_unique<OwnedMemorySource>(file)));
  const auto writer = create({.max_shard_bytes = 1});
  test::expect_ok(writer->add_archive(*archive));
  take(writer->finish());
  const auto written = take(TensorArchive::open(path()));
  const OwnedTensor expected = take(archive->read("a.t"));
  const OwnedTensor actual = take(written->read("a.t"));
  EXPECT_EQ(actual.shape(), expected.shape());
  EXPECT_TRUE(std::equal(actual.bytes().begin(), actual.bytes().end(), expected.bytes().begin(),
                         expected.bytes().end()));
  EXPECT_EQ(written->find("a.t")->sharing == Sharing::kMemory, format() == "cfck");
}

TEST_P(FolderWriter, ProgressCountsAllShards) {
  const auto writer = create({.max_shard_bytes = 2400});
  std::uint64_t last_bytes = 0;
  std::set<std::string> seen;
  writer->set_progress([&](std::uint64_t done_bytes, std::string_view name) {
    EXPECT_GE(done_bytes, last_bytes);
    last_bytes = done_bytes;
    seen.emplace(name);
    return true;
  });
  for (const char* name : {"a", "b", "c"}) add(*writer, name);
  take(writer->finish());
  EXPECT_EQ(last_bytes, 7200U);
  EXPECT_EQ(seen, (std::set<std::string>{"a", "b", "c"}));
}

TEST_P(FolderWriter, ReplacesAFolderAndKeepsItsOtherFiles) {
  for (const bool can_exchange : {true, false}) {
    SCOPED_TRACE(can_exchange);
    files_.can_exchange = can_exchange;
    fs::remove_all(path());
    put("config.json", "{}");
    write({"a", "b", "c"}, 2400);
    EXPECT_EQ(names().size(), 5U);
    write({"c", "d"}, 2400);
    EXPECT_EQ(names(), (std::vector<std::string>{"out/config.json",
                                                 "out/" + with_suffix("model-00001-of-00002"),
                                                 "out/" + with_suffix("model-00002-of-00002"),
                                                 "out/" + with_suffix("model") + ".index.json"}));
    expect_values({"c", "d"});
    write({"b"}, 2400);
    EXPECT_EQ(names(),
              (std::vector<std::string>{"out/config.json", "out/" + with_suffix("model")}));
    expect_values({"b"});
  }
}

TEST_P(FolderWriter, RefusesToMixCheckpoints) {
  for (const std::string name :
       {"other", "model-00001-of-00002.fp16", "adapter_model-00001-of-00002"}) {
    fs::remove_all(path());
    put(with_suffix(name), "tensors");
    const Files before = contents();
    const auto refused = ArchiveWriter::create_folder(format(), path());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find(with_suffix(name)), std::string::npos);
    EXPECT_EQ(contents(), before);
  }
  // A .cfck file is read in place of safetensors; the other way round nothing is in the way.
  fs::remove_all(path());
  put(format() == "cfck" ? "model.safetensors" : "model.cfck", "tensors");
  EXPECT_EQ(ArchiveWriter::create_folder(format(), path()).has_value(), format() == "cfck");
}

TEST_P(FolderWriter, RefusesWrongArguments) {
  const auto code_of = [&](const std::string& path, const FolderOptions& folder) {
    const auto writer = ArchiveWriter::create_folder(format(), path, {}, folder, files_);
    return writer ? ErrorCode{} : writer.error().code;
  };
  EXPECT_EQ(code_of(path(), {.max_shard_bytes = 0}), ErrorCode::kInvalidArgument);
  for (const std::string& stem : {std::string(), std::string("a/b"), std::string(".a"),
                                  std::string("a\0b", 3), std::string("\xff")}) {
    EXPECT_EQ(code_of(path(), {.stem = stem}), ErrorCode::kInvalidArgument) << stem;
  }
  EXPECT_EQ(code_of("", {}), ErrorCode::kIo);
  EXPECT_EQ(code_of(path() + "/no/folder", {}), ErrorCode::kIo);
  std::ofstream(root_ / "file") << "text";
  EXPECT_EQ(code_of((root_ / "file").string(), {}), ErrorCode::kInvalidArgument);
  put("config.json", "{}");
  EXPECT_EQ(code_of(path(), {.replace_existing = false}), ErrorCode::kExists);
  const auto unknown = ArchiveWriter::create_folder("hdf5", path());
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(names(), (std::vector<std::string>{"file", "out/config.json"}));
}

TEST_P(FolderWriter, AnErrorEndsTheWriter) {
  const auto writer = create({.max_shard_bytes = 2400});
  add(*writer, "a");
  add(*writer, "b");
  const TensorView again{DType::kF32, {6, 100}, values_.at("a")};
  const Result<void> twice = writer->add("a", again);  // the first one is in another shard
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(twice.error().record, "a");
  EXPECT_EQ(writer->add("c", again).error().message, twice.error().message);
  EXPECT_FALSE(writer->finish().has_value());
  EXPECT_FALSE(fs::exists(path()));
}

// Whatever goes wrong, the folder has one checkpoint whole, and nothing stays beside it.
TEST_P(FolderWriter, AFailureLosesNothing) {
  write({"a", "b", "c"}, 2400);
  put("config.json", "{}");
  const Files before = contents();
  std::uint64_t n_failed = 0;
  for (std::uint64_t at = 0;; ++at) {
    SCOPED_TRACE(at);
    test::FaultFiles faulty(files_);
    faulty.set_fault(test::Fault{.at = at, .only = {}});
    Result<void> done = [&]() -> Result<void> {
      CFCK_TRY_ASSIGN(
          const auto writer,
          ArchiveWriter::create_folder(format(), path(), {}, {.max_shard_bytes = 2400}, faulty));
      for (const char* name : {"c", "d"}) {
        CFCK_TRY(writer->add(name, TensorView{DType::kF32, {6, 100}, values_.at(name)}));
      }
      CFCK_TRY(writer->finish());
      return {};
    }();
    if (faulty.failures() == 0) {
      test::expect_ok(done);
      break;
    }
    if (done) continue;  // a hint, or what the exchange can do without
    ++n_failed;
    if (done.error().message.find("was replaced, but") == std::string::npos) {
      EXPECT_EQ(contents(), before);
    } else {
      expect_values({"c", "d"});
    }
    fs::remove_all(path());
    fs::create_directories(path());
    for (const auto& [name, text] : before) std::ofstream(root_ / name) << text;
  }
  EXPECT_GT(n_failed, 10U);
  expect_values({"c", "d"});
  EXPECT_EQ(names().size(), 4U);
}

TEST_P(FolderWriter, NothingStaysOfAWriterThatIsDropped) {
  {
    const auto writer = create({.max_shard_bytes = 2400});
    add(*writer, "a");
    add(*writer, "b");
  }
  EXPECT_TRUE(fs::is_empty(root_));
}

class Targets : public FolderWriter {};
INSTANTIATE_TEST_SUITE_P(Cfck, Targets, ::testing::Values("cfck"), only_letters);

TEST_P(Targets, AreThoseOfAllShards) {
  EncodeOptions options;
  options.nmse = 1e-3;
  const auto writer = create({.max_shard_bytes = 12000}, options);
  Bytes first = test::weights(7, 3000);
  Bytes second = test::weights(8, 3000);
  test::expect_ok(writer->add("x", TensorView{DType::kF32, {30, 100}, first}));
  test::expect_ok(writer->add("y", TensorView{DType::kF32, {30, 100}, second}));
  unsigned n_searches = 0;
  writer->set_search_progress([&](const StepSearch&) {
    ++n_searches;
    return true;
  });
  const ArchiveSummary summary = take(writer->finish());
  EXPECT_EQ(summary.lossy.size(), 2U);
  EXPECT_GT(summary.step, 0);
  EXPECT_GT(n_searches, 0U);
  // The step is that of one file with both tensors.
  MemorySink sink;
  const auto single = take(ArchiveWriter::create("cfck", sink, options));
  test::expect_ok(single->add("x", TensorView{DType::kF32, {30, 100}, first}));
  test::expect_ok(single->add("y", TensorView{DType::kF32, {30, 100}, second}));
  EXPECT_EQ(summary.step, take(single->finish()).step);
}

TEST_P(Targets, ASizeIsThatOfAllShards) {
  EncodeOptions options;
  options.size = 12000;
  const auto writer = create({.max_shard_bytes = 12000}, options);
  std::vector<Bytes> values;
  for (unsigned i = 0; i < 3; ++i) values.push_back(test::weights(10 + i, 3000));
  for (unsigned i = 0; i < 3; ++i) {
    test::expect_ok(writer->add(std::to_string(i), TensorView{DType::kF32, {30, 100}, values[i]}));
  }
  const ArchiveSummary summary = take(writer->finish());
  EXPECT_LE(summary.file_bytes, 12000U);
  EXPECT_GT(summary.file_bytes, 8000U);
}

TEST_P(Targets, ARuleThatMatchesInOneShardMatches) {
  EncodeOptions options;
  TensorOptions bound;
  bound.max_abs_error = 1e-2;
  options.rules = {{"b", bound}, {"nothing", bound}};
  const auto writer = create({.max_shard_bytes = 2400}, options);
  for (const char* name : {"a", "b", "c"}) add(*writer, name);
  EXPECT_EQ(take(writer->finish()).unmatched_rules, (std::vector<std::string>{"nothing"}));
}

}  // namespace
}  // namespace cfck

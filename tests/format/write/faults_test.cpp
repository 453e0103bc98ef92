// Every step of every change to a file fails once, or fails from then on: the
// file is what it was or what it should be, never a third thing.
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "tests/support/fault_files.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

constexpr int kNoSpace = 28;
constexpr int kDeviceError = 5;

Bytes first_file() {
  static const Bytes a = weights(1, 9000);
  static const Bytes b = noise(2, 120000);
  return write_file([&](Writer& writer) {
    expect_ok(writer.add("a", TensorView{DType::kF32, {9000}, a}));
    expect_ok(writer.add("b", TensorView{DType::kU8, {120000}, b}));
    expect_ok(writer.add("c", TensorView{DType::kU8, {100}, ByteView(b).first(100)}));
  });
}

Update some_changes() {
  static const Bytes d = noise(3, 90000);
  Update changes;
  changes.tensors = {{"d", DType::kU8, {90000}, {1}, d.data()},
                     {"e", DType::kU8, {50}, {1}, d.data() + 89000}};
  changes.remove = {"a"};
  return changes;
}

Result<void> save(const std::string& path, FileSystem& files) {
  static const Bytes values = noise(4, 2500000);
  CFCK_TRY_ASSIGN(const std::unique_ptr<AtomicFile> out, AtomicFile::create(path, {}, files));
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(*out));
  CFCK_TRY(writer.add("new", TensorView{DType::kU8, {2500000}, values}));
  CFCK_TRY(writer.finish());
  return out->commit();
}

// Lossy records: of several chunks with a preamble, packed, and one that stays lossless.
Result<void> save_lossy(const std::string& path, FileSystem& files) {
  static const Bytes large = weights(5, 30000);
  static const Bytes small = weights(6, 2048);
  EncodeOptions options;
  options.max_rel_error = 1e-2;
  options.chunk_elems = 8000;
  CFCK_TRY_ASSIGN(const std::unique_ptr<AtomicFile> out, AtomicFile::create(path, {}, files));
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(*out, options));
  CFCK_TRY(writer.add("large", TensorView{DType::kF32, {100, 300}, large}));
  CFCK_TRY(writer.add("small", TensorView{DType::kF32, {64, 32}, small}));
  CFCK_TRY(writer.add("vector", TensorView{DType::kF32, {2048}, small}));
  CFCK_TRY_ASSIGN(const WriteSummary summary, writer.finish());
  EXPECT_EQ(summary.lossy.size(), 2U);
  return out->commit();
}

// A change, and the files it may leave behind: name, contents before and after.
struct Change {
  const char* name;
  std::map<std::string, Bytes> before;
  std::function<Result<void>(const TemporaryFolder&, FileSystem&)> run;
};

Bytes updated_file() {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_bytes(path, first_file());
  take(update(path, some_changes()));
  return bytes_of(path);
}

std::vector<Change> all_changes() {
  Bytes torn = updated_file();
  torn.resize(torn.size() - 50);
  return {{"save",
           {{"f", first_file()}},
           [](const TemporaryFolder& folder, FileSystem& files) {
             return save(folder.path("f"), files);
           }},
          {"first save",
           {},
           [](const TemporaryFolder& folder, FileSystem& files) {
             return save(folder.path("f"), files);
           }},
          {"lossy save",
           {{"f", first_file()}},
           [](const TemporaryFolder& folder, FileSystem& files) {
             return save_lossy(folder.path("f"), files);
           }},
          {"update",
           {{"f", first_file()}},
           [](const TemporaryFolder& folder, FileSystem& files) -> Result<void> {
             CFCK_TRY(update(folder.path("f"), some_changes(), {}, {}, files));
             return {};
           }},
          {"compact",
           {{"f", updated_file()}},
           [](const TemporaryFolder& folder, FileSystem& files) -> Result<void> {
             CFCK_TRY(compact(folder.path("f"), {}, files));
             return {};
           }},
          {"repair",
           {{"f", torn}},
           [](const TemporaryFolder& folder, FileSystem& files) -> Result<void> {
             CFCK_TRY(repair(folder.path("f"), folder.path("g"), {}, files));
             return {};
           }}};
}

std::map<std::string, Bytes> contents_of(const TemporaryFolder& folder) {
  std::map<std::string, Bytes> contents;
  for (const std::string& name : folder.names()) {
    contents[name] = bytes_of(folder.path(name));
  }
  return contents;
}

void fill(const TemporaryFolder& folder, const std::map<std::string, Bytes>& contents) {
  for (const std::string& name : folder.names()) {
    std::filesystem::remove(folder.path(name));
  }
  for (const auto& [name, bytes] : contents) {
    put_bytes(folder.path(name), bytes);
  }
}

bool failed_to(const FaultFiles& files, Operation operation) {
  for (const TraceEntry& entry : files.trace()) {
    if (entry.operation == operation && entry.failed) {
      return true;
    }
  }
  return false;
}

// After an update that could not be undone, the old state is still in the file.
void expect_repairable(const TemporaryFolder& folder, const Error& error) {
  EXPECT_NE(error.message.find("failed too"), std::string::npos) << error.to_string();
  const RepairReport report = take(repair(folder.path("f"), folder.path("repaired")));
  EXPECT_TRUE(report.lost.empty());
  const OpenFile repaired(bytes_of(folder.path("repaired")));
  EXPECT_EQ(all_tensors(repaired.reader()), all_tensors(OpenFile(first_file()).reader()));
}

void check_outcome(const Change& change, const TemporaryFolder& folder, const FaultFiles& files,
                   const Result<void>& result, const std::map<std::string, Bytes>& after) {
  std::map<std::string, Bytes> found = contents_of(folder);
  if (failed_to(files, Operation::kRemove)) {
    std::erase_if(found, [](const auto& file) { return file.first.starts_with("."); });
  }
  if (result) {
    EXPECT_EQ(found == after, true) << "reported as done";
    return;
  }
  if (found == change.before || found == after) {
    return;
  }
  if (std::string(change.name) == "update" &&
      (failed_to(files, Operation::kTruncate) || failed_to(files, Operation::kSync))) {
    expect_repairable(folder, result.error());
    return;
  }
  ADD_FAILURE() << "a third state after: " << result.error().to_string();
}

class Faults : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Faults, LeaveTheOldFileOrTheNewOne) {
  const Change change = all_changes()[GetParam()];
  const TemporaryFolder folder;
  fill(folder, change.before);
  FaultFiles unharmed;
  expect_ok(change.run(folder, unharmed));
  const std::map<std::string, Bytes> after = contents_of(folder);
  const std::uint64_t n_steps = unharmed.count();
  ASSERT_GT(n_steps, 5U);
  ASSERT_EQ(after == change.before, false);
  for (std::uint64_t at = 0; at < n_steps; ++at) {
    for (const bool from_then_on : {false, true}) {
      for (const std::uint64_t written_before : {0, 1000}) {
        SCOPED_TRACE(std::string(change.name) + ", step " + std::to_string(at) + " (" +
                     operation_name(unharmed.trace()[at].operation) + ")" +
                     (from_then_on ? " and all after it" : ""));
        fill(folder, change.before);
        FaultFiles files;
        const int number = at % 2 == 0 ? kNoSpace : kDeviceError;
        files.set_fault(Fault{at, std::nullopt, from_then_on, number, written_before});
        const Result<void> result = change.run(folder, files);
        EXPECT_GT(files.failures(), 0U);
        check_outcome(change, folder, files, result, after);
      }
    }
  }
}

std::string change_name(const ::testing::TestParamInfo<std::size_t>& info) {
  static const char* const kNames[] = {"Save",   "FirstSave", "LossySave",
                                       "Update", "Compact",   "Repair"};
  return kNames[info.param];
}

INSTANTIATE_TEST_SUITE_P(All, Faults, ::testing::Range(std::size_t{0}, std::size_t{6}),
                         change_name);

TEST(FaultsReported, AFailedUpdateThatIsTakenBackSaysWhyOnly) {
  const TemporaryFolder folder;
  put_bytes(folder.path("f"), first_file());
  FaultFiles files;
  files.set_fault(Fault{2, Operation::kWrite, false, kNoSpace, 10});
  const Result<WriteSummary> result = update(folder.path("f"), some_changes(), {}, {}, files);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_NE(result.error().message.find("No space"), std::string::npos);
  EXPECT_EQ(result.error().message.find("failed too"), std::string::npos);
  EXPECT_EQ(files.count(Operation::kTruncate), 1U);
  EXPECT_EQ(bytes_of(folder.path("f")), first_file());
}

TEST(FaultsReported, DataReachTheDeviceBeforeTheIndexIsWritten) {
  const TemporaryFolder folder;
  put_bytes(folder.path("f"), first_file());
  FaultFiles files;
  take(update(folder.path("f"), some_changes(), {}, {}, files));
  std::vector<Operation> order;
  for (const TraceEntry& entry : files.trace()) {
    if (entry.operation == Operation::kWrite || entry.operation == Operation::kSync) {
      order.push_back(entry.operation);
    }
  }
  ASSERT_GT(order.size(), 5U);
  EXPECT_EQ(order.back(), Operation::kSync);
  // META, INDX, TAIL, and before them the sync of everything they speak of.
  EXPECT_EQ(order[order.size() - 5], Operation::kSync);
  EXPECT_EQ(std::count(order.begin(), order.end(), Operation::kSync), 2);
}

// Runs as nobody, because root may write anywhere.
class AsNobody {
 public:
  AsNobody() : was_(::geteuid()) { changed_ = was_ == 0 && ::seteuid(65534) == 0; }
  ~AsNobody() {
    if (changed_ && ::seteuid(was_) != 0) {
      std::abort();
    }
  }

 private:
  const uid_t was_;
  bool changed_ = false;
};

TEST(FaultsReported, AReadOnlyFolderIsAnErrorAndNothingElse) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_bytes(path, updated_file());
  const Bytes before = bytes_of(path);
  using std::filesystem::perms;
  const auto root = std::filesystem::path(path).parent_path();
  const auto read_only = perms::owner_read | perms::owner_exec | perms::group_read |
                         perms::group_exec | perms::others_read | perms::others_exec;
  std::filesystem::permissions(path, perms::owner_read | perms::others_read);
  std::filesystem::permissions(root, read_only);
  {
    const AsNobody nobody;
    for (const Result<void>& refused :
         {save(path, system_files()), save(folder.path("g"), system_files()),
          [&]() -> Result<void> {
            CFCK_TRY(update(path, some_changes()));
            return {};
          }(),
          [&]() -> Result<void> {
            CFCK_TRY(compact(path));
            return {};
          }(),
          [&]() -> Result<void> {
            CFCK_TRY(repair(path, folder.path("g")));
            return {};
          }()}) {
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::kIo) << refused.error().to_string();
    }
  }
  std::filesystem::permissions(root, perms::owner_all);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"f"});
  EXPECT_EQ(bytes_of(path), before);
}

}  // namespace
}  // namespace cfck::test

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "cfck/io.hpp"
#include "tests/support/fault_files.hpp"

namespace cfck {
namespace {

using test::Fault;
using test::FaultFiles;
using test::Operation;

ByteView view_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = testing::TempDir() + "cfck_atomic_" + name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, const std::string& text) { std::ofstream(path(name)) << text; }
  std::string get(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      found.push_back(entry.path().filename());
    }
    std::ranges::sort(found);
    return found;
  }
  Result<void> save(const std::string& name, std::string_view text,
                    FileSystem& files = system_files(), AtomicFile::Options options = {}) {
    CFCK_TRY_ASSIGN(auto file, AtomicFile::create(path(name), options, files));
    CFCK_TRY(file->write(view_of(text.substr(0, text.size() / 2))));
    CFCK_TRY(file->write(view_of(text.substr(text.size() / 2))));
    return file->commit();
  }

  std::string folder_;
};

TEST_F(AtomicFileTest, AppearsWithCommit) {
  auto file = AtomicFile::create(path("f"), {});
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write(view_of("hello")));
  EXPECT_FALSE(std::filesystem::exists(path("f")));
  ASSERT_TRUE((*file)->commit());
  EXPECT_EQ(get("f"), "hello");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
  EXPECT_FALSE((*file)->write(view_of("more")));
  EXPECT_FALSE((*file)->commit());
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  put("f", "old");
  {
    auto file = AtomicFile::create(path("f"), {});
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(view_of("new")));
    EXPECT_EQ(names().size(), 2U);
  }
  EXPECT_EQ(get("f"), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(AtomicFileTest, CanBeReadBackBeforeCommit) {
  auto file = AtomicFile::create(path("f"), {});
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write(view_of("hello")));
  const auto source = (*file)->read_back();
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->size(), 5U);
  ASSERT_TRUE((*file)->write(view_of(" world")));
  ASSERT_TRUE((*file)->commit());
  EXPECT_EQ(get("f"), "hello world");
}

TEST_F(AtomicFileTest, WritesOfEverySizeComeOutInOrder) {
  std::string expected;
  auto file = AtomicFile::create(path("f"), {});
  ASSERT_TRUE(file);
  for (const std::size_t n_bytes :
       {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20, (std::size_t{1} << 20) - 1,
        std::size_t{3000000}, std::size_t{0}, std::size_t{5}}) {
    const std::string text(n_bytes, static_cast<char>('a' + expected.size() % 26));
    ASSERT_TRUE((*file)->write(view_of(text)));
    expected += text;
  }
  ASSERT_TRUE((*file)->commit());
  EXPECT_EQ(get("f"), expected);
}

TEST_F(AtomicFileTest, KeepsPermissions) {
  put("f", "old");
  ASSERT_EQ(::chmod(path("f").c_str(), 0640), 0);
  ASSERT_TRUE(save("f", "new"));
  struct stat info {};
  ASSERT_EQ(::stat(path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
  EXPECT_EQ(get("f"), "new");
}

TEST_F(AtomicFileTest, NewFilesFollowTheUmask) {
  const mode_t old = ::umask(027);
  EXPECT_TRUE(save("f", "new"));
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat(path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
}

TEST_F(AtomicFileTest, FollowsLinks) {
  std::filesystem::create_directories(path("store"));
  put("store/real", "old");
  std::filesystem::create_symlink("store/real", path("link"));
  std::filesystem::create_symlink("link", path("link2"));
  ASSERT_TRUE(save("link2", "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link2")));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(get("store/real"), "new");
  std::filesystem::create_symlink(path("store/later"), path("dangling"));
  ASSERT_TRUE(save("dangling", "made"));
  EXPECT_EQ(get("store/later"), "made");
  std::filesystem::create_symlink("loop", path("loop"));
  EXPECT_EQ(save("loop", "x").error().code, ErrorCode::kIo);
}

TEST_F(AtomicFileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(save("", "x").error().code, ErrorCode::kInvalidArgument);
  std::filesystem::create_directories(path("folder"));
  EXPECT_EQ(save("folder", "x").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::create("/dev/null", {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(save("missing/f", "x").error().code, ErrorCode::kNotFound);
}

TEST_F(AtomicFileTest, ReplacesOnlyWhenAllowed) {
  put("f", "old");
  const AtomicFile::Options keep{false, true};
  EXPECT_EQ(save("f", "new", system_files(), keep).error().code, ErrorCode::kExists);
  EXPECT_TRUE(save("g", "new", system_files(), keep));
  // Another process was faster.
  auto file = AtomicFile::create(path("h"), keep);
  ASSERT_TRUE(file);
  put("h", "theirs");
  EXPECT_EQ((*file)->commit().error().code, ErrorCode::kExists);
  EXPECT_EQ(get("h"), "theirs");
  EXPECT_EQ(names(), (std::vector<std::string>{"f", "g", "h"}));
}

TEST_F(AtomicFileTest, SyncsBeforeItRenames) {
  FaultFiles files;
  ASSERT_TRUE(save("f", "new", files));
  std::vector<Operation> order;
  for (const auto& entry : files.trace()) {
    if (entry.operation == Operation::kSync || entry.operation == Operation::kRename) {
      order.push_back(entry.operation);
    }
  }
  EXPECT_EQ(order,
            (std::vector<Operation>{Operation::kSync, Operation::kRename, Operation::kSync}));
  EXPECT_EQ(files.trace().back().path, folder_);
}

TEST_F(AtomicFileTest, LongFilesAreAnnouncedWhileTheyAreWritten) {
  const std::string text(std::size_t{9} << 20, 'x');
  FaultFiles synced;
  ASSERT_TRUE(save("f", text, synced));
  EXPECT_EQ(get("f"), text);
  EXPECT_GE(synced.announced_bytes(), std::uint64_t{8} << 20);
  EXPECT_LE(synced.announced_bytes(), text.size());
  FaultFiles not_synced;
  AtomicFile::Options options;
  options.sync = false;
  ASSERT_TRUE(save("g", text, not_synced, options));
  EXPECT_EQ(not_synced.announced_bytes(), 0u);
}

TEST_F(AtomicFileTest, LongFilesGetRoomInAdvanceAndGiveBackWhatIsLeft) {
  const std::string text(std::size_t{12} << 20, 'x');
  FaultFiles files;
  auto file = AtomicFile::create(path("f"), {}, files);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write(view_of(text).first(text.size() / 2)));
  EXPECT_GT(files.reserved_bytes(), text.size());
  const auto source = (*file)->read_back();
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->size(), text.size() / 2);
  ASSERT_TRUE((*file)->write(view_of(text).last(text.size() / 2)));
  ASSERT_TRUE((*file)->commit());
  EXPECT_EQ(get("f"), text);
  EXPECT_EQ(files.count(Operation::kTruncate), 1U);
  struct stat info {};
  ASSERT_EQ(::stat(path("f").c_str(), &info), 0);
  EXPECT_LT(static_cast<std::uint64_t>(info.st_blocks) * 512, text.size() + (1U << 20));
}

TEST_F(AtomicFileTest, ShortFilesAskForNoRoom) {
  FaultFiles files;
  ASSERT_TRUE(save("f", std::string(std::size_t{1} << 20, 'x'), files));
  EXPECT_EQ(files.reserved_bytes(), 0U);
  EXPECT_EQ(files.count(Operation::kTruncate), 0U);
}

TEST_F(AtomicFileTest, EveryFailureLeavesTheOldOrTheNewFile) {
  FaultFiles counter;
  put("f", "old");
  ASSERT_TRUE(save("f", "new!", counter));
  const std::uint64_t n_steps = counter.count();
  ASSERT_GE(n_steps, 5U);
  for (std::uint64_t step = 0; step < n_steps; ++step) {
    for (const bool sticky : {false, true}) {
      put("f", "old");
      FaultFiles files;
      files.set_fault(Fault{step, std::nullopt, sticky, 28, 1});
      const Result<void> saved = save("f", "new!", files);
      ASSERT_FALSE(saved) << step;
      EXPECT_EQ(saved.error().code, ErrorCode::kIo);
      EXPECT_EQ(saved.error().message.find("cfck-tmp"), std::string::npos);
      const bool renamed = std::ranges::any_of(files.trace(), [](const auto& entry) {
        return entry.operation == Operation::kRename && !entry.failed;
      });
      EXPECT_EQ(get("f"), renamed ? "new!" : "old") << step;
      // Where even removing fails, the temporary file stays; nothing else does.
      for (const std::string& name : names()) {
        if (name != "f") {
          EXPECT_TRUE(sticky);
          EXPECT_TRUE(name.starts_with(".f.cfck-tmp-")) << name;
          std::filesystem::remove(path(name));
        }
      }
    }
  }
}

TEST_F(AtomicFileTest, AnErrorIsFinal) {
  FaultFiles files;
  files.set_fault(Fault{0, Operation::kWrite, false, 28, 0});
  auto file = AtomicFile::create(path("f"), {}, files);
  ASSERT_TRUE(file);
  const std::string large(2 << 20, 'x');
  const auto written = (*file)->write(view_of(large));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message.find("cfck-tmp"), std::string::npos);
  EXPECT_FALSE((*file)->write(view_of("x")));
  EXPECT_FALSE((*file)->read_back());
  EXPECT_FALSE((*file)->commit());
  EXPECT_TRUE(names().empty());
}

TEST_F(AtomicFileTest, AChildLeavesItsParentsFileAlone) {
  auto file = AtomicFile::create(path("f"), {});
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write(view_of("hello")));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    file->reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE((*file)->commit());
  EXPECT_EQ(get("f"), "hello");
}

// Leaves the temporary file of a killed process.
void die_while_saving(const std::string& path) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto file = AtomicFile::create(path, {});
    if (file && (*file)->write(view_of(std::string(2 << 20, 'x')))) {
      ::raise(SIGKILL);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST_F(AtomicFileTest, WhatKilledSavesLeaveGoesWithTheNextSave) {
  for (const char* name : {"f", "f", "g"}) {
    die_while_saving(path(name));
  }
  EXPECT_EQ(names().size(), 1U);  // each save removes what the one before left
  ASSERT_TRUE(save("other", "x"));
  EXPECT_EQ(names(), std::vector<std::string>{"other"});
}

TEST_F(AtomicFileTest, TemporaryFilesInUseStay) {
  auto mine = AtomicFile::create(path("f"), {});
  ASSERT_TRUE(mine);
  ASSERT_TRUE((*mine)->write(view_of("mine")));
  int ready[2];
  int done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  char byte = 0;
  if (child == 0) {
    const auto file = AtomicFile::create(path("g"), {});
    bool good = file && (*file)->write(view_of("theirs"));
    good = good && ::write(ready[1], "x", 1) == 1 && ::read(done[0], &byte, 1) == 1;
    ::_exit(good && (*file)->commit() ? 0 : 1);
  }
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_TRUE(save("h", "x"));
  ASSERT_EQ(::write(done[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE((*mine)->commit());
  EXPECT_EQ(names(), (std::vector<std::string>{"f", "g", "h"}));
  EXPECT_EQ(get("f") + get("g"), "minetheirs");
  for (const int end : {ready[0], ready[1], done[0], done[1]}) {
    ::close(end);
  }
}

TEST_F(AtomicFileTest, OnlyFilesThatAreCertainlyTemporaryAreRemoved) {
  const std::vector<std::string> kept = {
      ".cfck-tmp-1-2",      ".f.cfck-tmp-1",   ".f.cfck-tmp-1-",     ".f.cfck-tmp-a-1",
      ".f.cfck-tmp-1-2.md", ".f.cfck-tmp--12", "f.cfck-tmp-1-2",     ".f.cfck-tmp-1-2 ",
      ".link.cfck-tmp-1-2", ".f.cfck-tmp-1-2", ".dir.cfck-tmp-1-2/f"};
  std::filesystem::create_directory(path(".dir.cfck-tmp-1-2"));
  for (const std::string& name : kept) {
    if (name == ".link.cfck-tmp-1-2") {
      std::filesystem::create_symlink("f.cfck-tmp-1-2", path(name));
    } else {
      put(name, "x");
    }
  }
  // A second name of a file: its owner wants the file.
  std::filesystem::create_hard_link(path(".f.cfck-tmp-1-2"), path("second name"));
  ASSERT_TRUE(save("f", "x"));
  for (const std::string& name : kept) {
    EXPECT_TRUE(std::filesystem::exists(path(name))) << name;
  }
}

TEST_F(AtomicFileTest, SaversThatSweepAtTheSameTimeLeaveEachOtherAlone) {
  std::vector<std::thread> savers;
  std::atomic<int> n_saved = 0;
  for (int i = 0; i < 4; ++i) {
    savers.emplace_back([&, i] {
      for (int j = 0; j < 25; ++j) {
        n_saved += save("f" + std::to_string(i), "x", system_files(), {true, false}) ? 1 : 0;
      }
    });
  }
  for (std::thread& saver : savers) {
    saver.join();
  }
  EXPECT_EQ(n_saved, 100);
  EXPECT_EQ(names(), (std::vector<std::string>{"f0", "f1", "f2", "f3"}));
}

TEST_F(AtomicFileTest, AFileThatWasSavedIsReportedAsSaved) {
  put("f", "old");
  FaultFiles files;
  files.set_fault(Fault{1, Operation::kSync, false, 5, 0});
  const Result<void> saved = save("f", "new", files);
  ASSERT_FALSE(saved);
  EXPECT_EQ(get("f"), "new");
  EXPECT_NE(saved.error().message.find("was saved, but syncing its folder failed"),
            std::string::npos)
      << saved.error().message;
  files.set_fault(Fault{0, Operation::kRename, false, 5, 0});
  files.reset_counts();
  const Result<void> failed = save("f", "newer", files);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message.find("was saved"), std::string::npos);
  EXPECT_EQ(get("f"), "new");
}

TEST_F(AtomicFileTest, AForkedChildDoesNotKeepTheFileLocked) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto file = AtomicFile::create(path("f"), {});
  ASSERT_TRUE(file);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  char byte = 0;
  if (child == 0) {
    ::close(ends[1]);
    (void)!::read(ends[0], &byte, 1);
    ::_exit(0);
  }
  ASSERT_TRUE((*file)->write(view_of("hello")));
  ASSERT_TRUE((*file)->commit());
  auto again = system_files().open_read_write(path("f"));
  ASSERT_TRUE(again);
  EXPECT_TRUE((*again)->lock());
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(AtomicFileTest, LongNamesWork) {
  const std::string name(250, 'n');
  ASSERT_TRUE(save(name, "x"));
  EXPECT_EQ(names(), std::vector<std::string>{name});
}

}  // namespace
}  // namespace cfck

// Folders that replace others: every step fails, and files of both are never taken for one.
#include "model/folder/files/replace_folder.hpp"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <new>

#include "model/folder/files/temporary_folder.hpp"
#include "model/folder/model_files.hpp"
#include "model/folder/model_folder.hpp"
#include "tests/support/failing_new.hpp"
#include "tests/support/fault_files.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;
using test::Fault;
using test::FaultFiles;
using Contents = std::map<std::string, std::string>;

// The system's files, without the calls that only some file systems have.
class PlainFiles : public FileSystem {
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
  Result<void> make_directory(const std::string& path) override {
    return system_files().make_directory(path);
  }
  Result<void> remove(const std::string& path) override { return system_files().remove(path); }
  Result<void> sync_directory(const std::string&) override { return {}; }  // it takes long
  bool exists(const std::string& path) override { return system_files().exists(path); }
};

// The system's files, with those calls.
class LinkingFiles : public PlainFiles {
 public:
  Result<void> link(const std::string& from, const std::string& to) override {
    return system_files().link(from, to);
  }
  Result<void> exchange(const std::string& one, const std::string& other) override {
    return system_files().exchange(one, other);
  }
};

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

Contents contents_of(const fs::path& folder) {
  Contents found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    if (entry.is_symlink()) {
      found[name] = "-> " + fs::read_symlink(entry.path()).string();
    } else if (entry.is_regular_file()) {
      std::ifstream file(entry.path());
      found[name] = std::string(std::istreambuf_iterator<char>(file), {});
    } else {
      found[name] = "folder";
    }
  }
  return found;
}

// "old", a folder of a checkpoint and other files, and "new" beside it.
class ReplaceFolder : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    root_ = fs::path(testing::TempDir()) / ("cfck_replace_" + name);
    fill();
  }
  void TearDown() override { fs::remove_all(root_); }

  void fill() {
    fs::remove_all(root_);
    for (const char* shard : {"1.cfck", "2.cfck", "index.json", "deep/3.cfck"}) {
      put(root_ / "old" / shard, std::string("old ") + shard);
      put(root_ / "new" / shard, std::string("new ") + shard);
    }
    put(root_ / "new/fresh/4.cfck", "new fresh/4.cfck");
    put(root_ / "old/mine.txt", "mine");
    put(root_ / "old/deep/mine.txt", "mine too");
    put(root_ / "old/.git/config", "hidden");
    fs::create_symlink("nowhere", root_ / "old/link");
    fs::create_directory(root_ / "old/empty");
  }
  FolderReplacement replacement() const {
    return {root_ / "new",
            root_ / "old",
            {"1.cfck", "2.cfck", "deep/3.cfck", "fresh/4.cfck", "index.json"}};
  }
  Contents replaced() const {
    Contents contents = contents_of(root_ / "old");
    for (const auto& [name, text] : contents_of(root_ / "new")) contents[name] = text;
    return contents;
  }
  void check_every_fault(FileSystem& inner);

  fs::path root_;
};

TEST_F(ReplaceFolder, KeepsWhatIsNotReplaced) {
  const Contents expected = replaced();
  struct stat before {};
  struct stat after {};
  fs::permissions(root_ / "old", fs::perms(0750));
  fs::permissions(root_ / "old/empty", fs::perms(0700));
  ASSERT_EQ(::stat((root_ / "old/mine.txt").c_str(), &before), 0);
  ASSERT_TRUE(replace_folder(replacement(), system_files()));
  EXPECT_EQ(contents_of(root_ / "old"), expected);
  ASSERT_EQ(::stat((root_ / "old/mine.txt").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_EQ(fs::status(root_ / "old").permissions(), fs::perms(0750));
  EXPECT_EQ(fs::status(root_ / "old/empty").permissions(), fs::perms(0700));
}

TEST_F(ReplaceFolder, WhatKilledSavesLeftIsNotKept) {
  put(root_ / "old/.1.cfck.cfck-tmp-12-3", "half");
  ASSERT_TRUE(replace_folder(replacement(), system_files()));
  EXPECT_FALSE(fs::exists(root_ / "old/.1.cfck.cfck-tmp-12-3"));
}

TEST_F(ReplaceFolder, ChangesAllNamesInOneStepWhereItCan) {
  FaultFiles files;
  ASSERT_TRUE(replace_folder(replacement(), files));
  EXPECT_EQ(files.count(test::Operation::kRename), 1U);
}

void ReplaceFolder::check_every_fault(FileSystem& inner) {
  const Contents before = contents_of(root_ / "old");
  const Contents after = replaced();
  FaultFiles unharmed(inner);
  ASSERT_TRUE(replace_folder(replacement(), unharmed));
  ASSERT_EQ(contents_of(root_ / "old"), after);
  for (std::uint64_t at = 0; at < unharmed.count(); ++at) {
    for (const bool from_then_on : {false, true}) {
      SCOPED_TRACE("step " + std::to_string(at) + (from_then_on ? " and all after it" : ""));
      fill();
      FaultFiles files(inner);
      files.set_fault(Fault{at, std::nullopt, from_then_on, 5, 3});
      const Result<void> result = replace_folder(replacement(), files);
      ASSERT_FALSE(result);
      const Contents found = contents_of(root_ / "old");
      const bool marked = !check_unmarked(root_ / "old");
      const bool says_so = result.error().message.find("was replaced") != std::string::npos;
      EXPECT_TRUE(marked || found == before || found == after) << result.error().message;
      EXPECT_EQ(!marked && found == after, says_so && !marked) << result.error().message;
      if (!marked) continue;
      // The next conversion ends well.
      for (const auto& [name, text] : after) {
        if (text.starts_with("new")) put(root_ / "new" / name, text);
      }
      ASSERT_TRUE(replace_folder(replacement(), inner));
      EXPECT_EQ(contents_of(root_ / "old"), after);
    }
  }
}

TEST_F(ReplaceFolder, EveryFaultLeavesTheOldTheNewOrAMarkedFolder) {
  LinkingFiles files;
  check_every_fault(files);
}

TEST_F(ReplaceFolder, EveryFaultDoesWithoutExchange) {
  PlainFiles files;
  check_every_fault(files);
}

// Looks at the folder after every rename.
class WatchingFiles final : public PlainFiles {
 public:
  explicit WatchingFiles(std::function<void()> look) : look_(std::move(look)) {}
  Result<void> rename(const std::string& from, const std::string& to) override {
    CFCK_TRY(PlainFiles::rename(from, to));
    look_();
    return {};
  }

 private:
  std::function<void()> look_;
};

TEST_F(ReplaceFolder, WithoutExchangeAMixedFolderIsMarked) {
  int n_looks = 0;
  WatchingFiles files([&] {
    ++n_looks;
    const Result<void> checked = check_unmarked(root_ / "old");
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(checked.error().message.find("--force"), std::string::npos);
  });
  ASSERT_TRUE(replace_folder(replacement(), files));
  EXPECT_EQ(n_looks, 5);
  EXPECT_TRUE(check_unmarked(root_ / "old"));
}

// Puts files into the folder in the last moment.
class LateFiles final : public LinkingFiles {
 public:
  explicit LateFiles(std::function<void()> before) : before_(std::move(before)) {}
  Result<void> exchange(const std::string& one, const std::string& other) override {
    before_();
    return system_files().exchange(one, other);
  }

 private:
  std::function<void()> before_;
};

TEST_F(ReplaceFolder, FilesThatComeInTheLastMomentAreKept) {
  Contents expected = replaced();
  LateFiles files([&] {
    put(root_ / "old/late", "late");
    put(root_ / "old/deep/late", "late too");
    put(root_ / "old/more/late", "late as well");
  });
  ASSERT_TRUE(replace_folder(replacement(), files));
  expected["late"] = "late";
  expected["deep/late"] = "late too";
  expected["more"] = "folder";
  expected["more/late"] = "late as well";
  EXPECT_EQ(contents_of(root_ / "old"), expected);
}

TEST_F(ReplaceFolder, FilesThatAreSavedAgainInTheLastMomentAreKept) {
  Contents expected = replaced();
  LateFiles files([&] {
    for (const std::string name : {"mine.txt", "deep/mine.txt", "2.cfck"}) {
      put(root_ / "saving", "late " + name);
      fs::rename(root_ / "saving", root_ / "old" / name);
    }
  });
  ASSERT_TRUE(replace_folder(replacement(), files));
  expected["mine.txt"] = "late mine.txt";
  expected["deep/mine.txt"] = "late deep/mine.txt";
  EXPECT_EQ(contents_of(root_ / "old"), expected);
}

TEST_F(ReplaceFolder, ReadersNoticeIt) {
  put(root_ / "old/model.cfck.index.json", "{}");
  put(root_ / "new/model.cfck.index.json", "{}");
  const FolderReplacement with_index{root_ / "new", root_ / "old", {"model.cfck.index.json"}};
  const FolderWatch of_file(root_ / "old/1.cfck");
  PlainFiles plain;
  for (FileSystem* const files : {static_cast<FileSystem*>(&plain), &system_files()}) {
    const FolderWatch watch(root_ / "old");
    put(root_ / "old/other", "x");
    EXPECT_TRUE(watch.check());
    ASSERT_TRUE(replace_folder(with_index, *files));
    const Result<void> checked = watch.check();
    ASSERT_FALSE(checked);
    EXPECT_NE(checked.error().message.find("replaced while"), std::string::npos);
    fill();
    put(root_ / "old/model.cfck.index.json", "{}");
    put(root_ / "new/model.cfck.index.json", "{}");
  }
  EXPECT_TRUE(of_file.check());
  const FolderWatch watch(root_ / "old");
  put(root_ / "old" / kUnfinishedMark, "");
  EXPECT_EQ(watch.check().error().code, ErrorCode::kCorrupt);
}

TEST_F(ReplaceFolder, FoldersThatAreReplacedMeanwhileAreReadAgain) {
  const std::string index = root_ / "old/model.cfck.index.json";
  int n_calls = 0;
  int n_replaced = 0;
  const auto open = [&]() -> Result<void> {
    if (n_calls++ < n_replaced) {
      put(root_ / "new.json", "{}");
      fs::rename(root_ / "new.json", index);
      if (n_calls == 1) return not_found("a shard of before");
    }
    return {};
  };
  for (const std::string& path : {std::string(root_ / "old"), index}) {
    put(index, "{}");
    for (n_replaced = 0; n_replaced < 5; ++n_replaced) {
      n_calls = 0;
      EXPECT_TRUE(open_unchanged(path, open));
      EXPECT_EQ(n_calls, n_replaced + 1);
    }
    n_calls = 0;
    const Result<void> given_up = open_unchanged(path, open);
    ASSERT_FALSE(given_up);
    EXPECT_EQ(given_up.error().code, ErrorCode::kIo);
    EXPECT_NE(given_up.error().message.find("replaced repeatedly"), std::string::npos);
    EXPECT_EQ(n_calls, 5);
  }
  n_calls = 0;
  const auto fail = [&]() -> Result<void> {
    ++n_calls;
    return not_found("no shard");
  };
  EXPECT_EQ(open_unchanged(root_ / "old", fail).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(n_calls, 1);
}

TEST_F(ReplaceFolder, AFolderIsNotReplacedByAFile) {
  put(root_ / "old/5.cfck/inside", "x");
  put(root_ / "new/5.cfck", "x");
  const Contents before = contents_of(root_ / "old");
  const Result<void> result = replace_folder(replacement(), system_files());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(contents_of(root_ / "old"), before);
}

// Files that are added to a folder, which stays, are all there or none of them.
TEST_F(ReplaceFolder, AddsFilesToAFolderThatStays) {
  for (const char* name : {"1.cfck", "2.cfck", "deep/3.cfck", "index.json"}) {
    fs::remove(root_ / "old" / name);
  }
  const Contents before = contents_of(root_ / "old");
  struct stat info {};
  ASSERT_EQ(::stat((root_ / "old").c_str(), &info), 0);
  const auto inode = info.st_ino;
  put(root_ / "old/index.json/inside", "x");
  const Result<void> refused = add_to_folder(replacement(), system_files());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  fs::remove_all(root_ / "old/index.json");
  fs::remove(root_ / "new/index.json");
  ASSERT_FALSE(add_to_folder(replacement(), system_files()));
  fs::remove(root_ / "old/fresh");  // only the folder for a file may stay
  EXPECT_EQ(contents_of(root_ / "old"), before);
  put(root_ / "new/index.json", "new index.json");
  LinkingFiles linking;
  ASSERT_TRUE(add_to_folder(replacement(), linking));
  // All names are taken now: they are replaced.
  put(root_ / "new/1.cfck", "newer");
  ASSERT_TRUE(add_to_folder(replacement(), linking));
  Contents after = contents_of(root_ / "old");
  EXPECT_EQ(after["1.cfck"], "newer");
  EXPECT_EQ(after["mine.txt"], "mine");
  EXPECT_EQ(after.count(kUnfinishedMark), 0U);
  ASSERT_EQ(::stat((root_ / "old").c_str(), &info), 0);
  EXPECT_EQ(info.st_ino, inode);
}

TEST_F(ReplaceFolder, TemporaryFoldersOfKilledProcessesGo) {
  put(root_ / ".old.cfck-tmp-1-0/1.cfck", "x");
  put(root_ / ".old.cfck-tmp-2-0/1.cfck", "x");
  put(root_ / ".old.cfck-tmp-3/1.cfck", "x");
  const int held = ::open((root_ / ".old.cfck-tmp-2-0").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  std::string path;
  {
    const auto one = TemporaryFolder::create(root_ / "old");
    ASSERT_TRUE(one);
    path = (*one)->path();
    const auto other = TemporaryFolder::create(root_ / "old");
    ASSERT_TRUE(other);
    EXPECT_NE((*other)->path(), path);
    EXPECT_TRUE(fs::exists(path));
  }
  ::close(held);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(root_ / ".old.cfck-tmp-1-0"));
  EXPECT_TRUE(fs::exists(root_ / ".old.cfck-tmp-2-0/1.cfck"));
  EXPECT_TRUE(fs::exists(root_ / ".old.cfck-tmp-3/1.cfck"));
}

// Everything that happens to a folder, and nothing for which the test itself needs memory.
Result<void> replace_and_read(const std::string& old_folder, FileSystem& files) {
  CFCK_TRY_ASSIGN(const auto folder, TemporaryFolder::create(old_folder));
  CFCK_TRY_ASSIGN(const auto file, files.create_exclusive(folder->path() + "/1.cfck"));
  CFCK_TRY(file->write_at(0, std::as_bytes(std::span("new"))));
  CFCK_TRY(replace_folder({folder->path(), old_folder, {"1.cfck"}}, files));
  const FolderWatch watch(old_folder);
  CFCK_TRY(read_folder(old_folder));
  CFCK_TRY(model_files(old_folder));
  return watch.check();
}

// Where std::filesystem lists a folder, this ends the program.
TEST_F(ReplaceFolder, WhereMemoryIsExhaustedNothingStays) {
  LinkingFiles files;
  const std::string old_folder = root_ / "old";
  fs::remove_all(root_ / "new");
  fs::remove(root_ / "old/link");  // it leads nowhere, and is not read
  bool has_failed = true;
  for (std::uint64_t at = 1; has_failed; at += 1 + at / 20) {
    for (const auto shortage : {test::Shortage::kOnce, test::Shortage::kFromThenOn}) {
      put(root_ / ".old.cfck-tmp-1-0/deep/1.cfck", "left by a kill");
      test::run_out_of_memory(at, shortage);
      try {
        const Result<void> result = replace_and_read(old_folder, files);
        has_failed = test::memory_is_back();
        EXPECT_TRUE(result || has_failed) << result.error().message;
      } catch (const std::bad_alloc&) {
        EXPECT_TRUE(test::memory_is_back());
      }
      fs::remove_all(root_ / ".old.cfck-tmp-1-0");
      EXPECT_EQ(contents_of(root_).size(), contents_of(root_ / "old").size() + 1) << at;
      EXPECT_EQ(contents_of(root_ / "old").at("mine.txt"), "mine") << at;
    }
  }
}

}  // namespace
}  // namespace cfck::model

// Readers of a file to which update() is appending: they see the file as it was before, until
// the update is finished.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "cfck/update.hpp"
#include "tests/support/forwarding_files.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

// The system's files, with a call of `before` before every write and every sync of a file, which
// fail if that returns an error. A write has written its first half then.
class WatchedFiles final : public ForwardingFiles {
 public:
  using Before = std::function<Result<void>()>;
  explicit WatchedFiles(Before before) : before_(std::move(before)) {}

  Result<std::unique_ptr<File>> open_read_write(const std::string& path) override;

 private:
  class WatchedFile;
  Before before_;
};

class WatchedFiles::WatchedFile final : public ForwardingFile {
 public:
  WatchedFile(std::unique_ptr<File> inner, Before& before)
      : ForwardingFile(std::move(inner)), before_(before) {}
  Result<void> write_at(std::uint64_t offset_bytes, ByteView bytes) override {
    CFCK_TRY(ForwardingFile::write_at(offset_bytes, bytes.first(bytes.size() / 2)));
    CFCK_TRY(before_());
    return ForwardingFile::write_at(offset_bytes, bytes);
  }
  Result<void> sync() override {
    CFCK_TRY(before_());
    return ForwardingFile::sync();
  }

 private:
  Before& before_;
};

Result<std::unique_ptr<File>> WatchedFiles::open_read_write(const std::string& path) {
  CFCK_TRY_ASSIGN(std::unique_ptr<File> inner, system_files().open_read_write(path));
  return std::unique_ptr<File>(std::make_unique<WatchedFile>(std::move(inner), before_));
}

using Tensors = std::map<std::string, Bytes>;

Tensors old_tensors() { return {{"a", noise(1, 50000)}, {"b", noise(2, 10)}}; }

Tensors new_tensors() { return {{"a", noise(3, 90000)}, {"b", noise(2, 10)}}; }

void put_old_file(const std::string& path) {
  const Tensors tensors = old_tensors();
  put_bytes(path, write_file([&](Writer& writer) {
              for (const auto& [name, values] : tensors) {
                expect_ok(writer.add(name, TensorView{DType::kU8, {values.size()}, values}));
              }
            }));
}

Result<void> run_update(const std::string& path, FileSystem& files) {
  const Bytes values = new_tensors()["a"];
  EncodeOptions options;
  options.threads = 1;
  Update changes;
  changes.tensors = {{"a", DType::kU8, {values.size()}, {1}, values.data()}};
  CFCK_TRY(update(path, changes, options, {}, files));
  return {};
}

// Loads what a reader finds, in either mode.
Result<Tensors> load(const std::string& path) {
  std::optional<Tensors> found;
  for (const ReadMode mode : {ReadMode::kPread, ReadMode::kMmap}) {
    CFCK_TRY_ASSIGN(const auto source, open_file(path, mode));
    CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*source));
    Tensors tensors = all_tensors(reader);
    EXPECT_TRUE(!found || *found == tensors);
    found = std::move(tensors);
  }
  return *found;
}

void expect_tensors(const std::string& path, const Tensors& tensors) {
  const Result<Tensors> found = load(path);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(*found == tensors, true);
}

TEST(Append, ReadersOfTheSameProcessSeeTheGenerationBefore) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_old_file(path);
  const std::size_t old_bytes = bytes_of(path).size();
  int n_steps = 0;
  WatchedFiles files([&]() -> Result<void> {
    ++n_steps;
    EXPECT_GT(bytes_of(path).size(), old_bytes);
    expect_tensors(path, old_tensors());
    return {};
  });
  expect_ok(run_update(path, files));
  EXPECT_GE(n_steps, 6);
  expect_tensors(path, new_tensors());
}

TEST(Append, ReadersOnOtherThreadsSeeTheGenerationBefore) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_old_file(path);
  WatchedFiles files([&]() -> Result<void> {
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] { expect_tensors(path, old_tensors()); });
    }
    for (std::thread& reader : readers) {
      reader.join();
    }
    return {};
  });
  expect_ok(run_update(path, files));
  expect_tensors(path, new_tensors());
}

TEST(Append, AReaderKeepsItsTensorsWhenTheUpdateFailsOrSucceeds) {
  for (int failing = 0; failing <= 8; ++failing) {
    const TemporaryFolder folder;
    const std::string path = folder.path("f");
    put_old_file(path);
    std::vector<std::unique_ptr<ByteSource>> sources;
    int step = 0;
    WatchedFiles files([&]() -> Result<void> {
      sources.push_back(take(open_file(path, ReadMode::kPread)));
      sources.push_back(take(open_file(path, ReadMode::kMmap)));
      if (step++ == failing) {
        return Error{ErrorCode::kIo, "no space", {}, {}};
      }
      return {};
    });
    const bool updated = run_update(path, files).has_value();
    EXPECT_EQ(updated, step <= failing);
    for (const auto& source : sources) {
      EXPECT_EQ(all_tensors(take(Reader::open(*source))) == old_tensors(), true) << failing;
    }
    expect_tensors(path, updated ? new_tensors() : old_tensors());
  }
}

// A process that updates a file and stops in the middle, before step `at`.
class StoppedUpdate {
 public:
  StoppedUpdate(const std::string& path, int at) {
    EXPECT_EQ(::pipe(reached_), 0);
    EXPECT_EQ(::pipe(released_), 0);
    child_ = ::fork();
    if (child_ == 0) {
      int step = 0;
      WatchedFiles files([&]() -> Result<void> {
        char byte = 0;
        if (step++ == at &&
            (::write(reached_[1], "x", 1) != 1 || ::read(released_[0], &byte, 1) != 1)) {
          ::_exit(2);
        }
        return {};
      });
      ::_exit(run_update(path, files) ? 0 : 1);
    }
    char byte = 0;
    EXPECT_EQ(::read(reached_[0], &byte, 1), 1);
  }
  ~StoppedUpdate() {
    for (const int end : {reached_[0], reached_[1], released_[0], released_[1]}) {
      ::close(end);
    }
  }
  StoppedUpdate(const StoppedUpdate&) = delete;
  StoppedUpdate& operator=(const StoppedUpdate&) = delete;

  void finish() {
    EXPECT_EQ(::write(released_[1], "x", 1), 1);
    EXPECT_EQ(wait(), 0);
  }
  void kill() {
    EXPECT_EQ(::kill(child_, SIGKILL), 0);
    EXPECT_TRUE(WIFSIGNALED(wait()));
  }

 private:
  int wait() const {
    int status = -1;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    return status;
  }

  pid_t child_ = -1;
  int reached_[2] = {};
  int released_[2] = {};
};

TEST(Append, ReadersOfOtherProcessesSeeTheGenerationBefore) {
  for (const int at : {0, 2, 5}) {
    const TemporaryFolder folder;
    const std::string path = folder.path("f");
    put_old_file(path);
    StoppedUpdate update(path, at);
    expect_tensors(path, old_tensors());
    // repair() takes what is committed, too.
    EXPECT_EQ(take(repair(path, folder.path("copy"))).generation, 0U);
    expect_tensors(folder.path("copy"), old_tensors());
    update.finish();
    expect_tensors(path, new_tensors());
  }
}

TEST(Append, AfterAKillTheFileIsCutOffAndSaysSo) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_old_file(path);
  StoppedUpdate update(path, 2);
  expect_tensors(path, old_tensors());
  update.kill();
  const Result<Tensors> found = load(path);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kTruncated);
  EXPECT_NE(found.error().message.find("cfck repair"), std::string::npos) << found.error().message;
}

TEST(Append, AForkedChildDoesNotKeepTheLocks) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_old_file(path);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t child = -1;
  WatchedFiles files([&]() -> Result<void> {
    if (child < 0) {
      child = ::fork();
      if (child == 0) {
        char byte = 0;
        ::close(ends[1]);
        (void)!::read(ends[0], &byte, 1);
        ::_exit(0);
      }
    }
    return {};
  });
  expect_ok(run_update(path, files));
  expect_tensors(path, new_tensors());
  EXPECT_TRUE(run_update(path, system_files()));
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Append, LocksOfOtherProgramsDoNotHideBytes) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put_old_file(path);
  const int descriptor = ::open(path.c_str(), O_RDWR);
  for (const off_t start : {0, 100}) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_start = start;  // to the end of the file
    ASSERT_EQ(::fcntl(descriptor, F_OFD_SETLK, &lock), 0);
    expect_tensors(path, old_tensors());
    lock.l_type = F_UNLCK;
    ASSERT_EQ(::fcntl(descriptor, F_OFD_SETLK, &lock), 0);
  }
  ::close(descriptor);
}

}  // namespace
}  // namespace cfck::test

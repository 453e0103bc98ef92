// The process dies in the middle: the state of the disk afterwards.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

// Kills its process before some step; a write that dies has written its half.
class DeadlyFiles final : public FileSystem {
 public:
  explicit DeadlyFiles(std::uint64_t at) : at_(at) {}

  Result<std::unique_ptr<File>> open_read(const std::string& path) override {
    return wrap([&] { return system_files().open_read(path); });
  }
  Result<std::unique_ptr<File>> open_read_write(const std::string& path) override {
    return wrap([&] { return system_files().open_read_write(path); });
  }
  Result<std::unique_ptr<File>> create_exclusive(const std::string& path) override {
    return wrap([&] { return system_files().create_exclusive(path); });
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    step();
    return system_files().rename(from, to);
  }
  Result<void> remove(const std::string& path) override {
    step();
    return system_files().remove(path);
  }
  Result<void> sync_directory(const std::string& path) override {
    step();
    return system_files().sync_directory(path);
  }
  bool exists(const std::string& path) override { return system_files().exists(path); }

  void step(const std::function<void()>& last_words = {}) {
    if (steps_++ == at_) {
      if (last_words) {
        last_words();
      }
      ::raise(SIGKILL);
    }
  }

 private:
  class DeadlyFile;
  Result<std::unique_ptr<File>> wrap(const std::function<Result<std::unique_ptr<File>>()>& open);

  const std::uint64_t at_;
  std::uint64_t steps_ = 0;
};

class DeadlyFiles::DeadlyFile final : public File {
 public:
  DeadlyFile(DeadlyFiles& files, std::unique_ptr<File> inner)
      : files_(files), inner_(std::move(inner)) {}
  Result<std::uint64_t> size() const override { return inner_->size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    return inner_->read_at(offset_bytes, out);
  }
  Result<void> write_at(std::uint64_t offset_bytes, ByteView bytes) override {
    files_.step([&] { (void)inner_->write_at(offset_bytes, bytes.first(bytes.size() / 2)); });
    return inner_->write_at(offset_bytes, bytes);
  }
  Result<void> sync() override {
    files_.step();
    return inner_->sync();
  }
  Result<void> truncate(std::uint64_t n_bytes) override {
    files_.step();
    return inner_->truncate(n_bytes);
  }
  Result<void> lock() override {
    files_.step();
    return inner_->lock();
  }
  Result<void> close() override {
    files_.step();
    return inner_->close();
  }

 private:
  DeadlyFiles& files_;
  std::unique_ptr<File> inner_;
};

Result<std::unique_ptr<File>> DeadlyFiles::wrap(
    const std::function<Result<std::unique_ptr<File>>()>& open) {
  step();
  CFCK_TRY_ASSIGN(std::unique_ptr<File> inner, open());
  return std::unique_ptr<File>(std::make_unique<DeadlyFile>(*this, std::move(inner)));
}

// Runs `action` in a child that dies at step `at`. True if it ran to its end.
bool run_and_die(std::uint64_t at, const std::function<Result<void>(FileSystem&)>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    DeadlyFiles files(at);
    ::_exit(action(files) ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    return false;
  }
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  return true;
}

EncodeOptions one_thread() {
  EncodeOptions options;
  options.threads = 1;
  return options;
}

Bytes file_of(std::uint64_t seed) {
  const Bytes values = noise(seed, 40000);
  return write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("a", TensorView{DType::kU8, {40000}, values}));
        expect_ok(writer.add("b", TensorView{DType::kU8, {10}, ByteView(values).first(10)}));
      },
      one_thread());
}

TEST(Killed, ASaveLeavesTheOldFileOrTheNewOne) {
  const Bytes before = file_of(1);
  const Bytes values = noise(2, 3000000);
  const auto save = [&](const std::string& path, FileSystem& files) -> Result<void> {
    CFCK_TRY_ASSIGN(const std::unique_ptr<AtomicFile> out, AtomicFile::create(path, {}, files));
    CFCK_TRY_ASSIGN(Writer writer, Writer::create(*out, one_thread()));
    CFCK_TRY(writer.add("new", TensorView{DType::kU8, {3000000}, values}));
    CFCK_TRY(writer.finish());
    return out->commit();
  };
  bool done = false;
  bool seen_old = false;
  for (std::uint64_t at = 0; !done; ++at) {
    const TemporaryFolder folder;
    const std::string path = folder.path("f");
    put_bytes(path, before);
    done = run_and_die(at, [&](FileSystem& files) { return save(path, files); });
    const Bytes found = bytes_of(path);
    if (found == before) {
      seen_old = true;
      EXPECT_FALSE(done);
    } else {
      EXPECT_EQ(OpenFile(found).tensor("new") == values, true) << "step " << at;
    }
  }
  EXPECT_TRUE(seen_old);
}

TEST(Killed, AnUpdateLeavesAFileThatIsWholeOrCanBeRepaired) {
  const Bytes before = file_of(1);
  const std::map<std::string, Bytes> old_tensors = all_tensors(OpenFile(before).reader());
  const Bytes values = noise(3, 90000);
  Update changes;
  changes.tensors = {{"a", DType::kU8, {90000}, {1}, values.data()}};
  bool done = false;
  std::uint64_t n_torn = 0;
  for (std::uint64_t at = 0; !done; ++at) {
    const TemporaryFolder folder;
    const std::string path = folder.path("f");
    put_bytes(path, before);
    done = run_and_die(at, [&](FileSystem& files) -> Result<void> {
      CFCK_TRY(update(path, changes, one_thread(), {}, files));
      return {};
    });
    const Bytes found = bytes_of(path);
    const MemorySource source(found);
    const Result<Reader> opened = Reader::open(source);
    if (opened) {
      const std::map<std::string, Bytes> tensors = all_tensors(*opened);
      EXPECT_TRUE(tensors == old_tensors || tensors.at("a") == values) << "step " << at;
      continue;
    }
    ++n_torn;
    EXPECT_NE(opened.error().message.find("repair"), std::string::npos)
        << opened.error().to_string();
    const RepairReport report = take(repair(path, folder.path("g")));
    EXPECT_EQ(report.generation, 0U);
    EXPECT_EQ(report.end_bytes, before.size());
    EXPECT_TRUE(report.lost.empty());
    EXPECT_EQ(bytes_of(folder.path("g")) == before, true);
  }
  EXPECT_GE(n_torn, 4U);
}

TEST(Killed, ACompactLeavesTheOldFileOrTheNewOne) {
  const TemporaryFolder work;
  put_bytes(work.path("f"), file_of(1));
  take(update(work.path("f"), {{}, {"a"}, {}}));
  const Bytes before = bytes_of(work.path("f"));
  take(compact(work.path("f")));
  const Bytes after = bytes_of(work.path("f"));
  bool done = false;
  for (std::uint64_t at = 0; !done; ++at) {
    const TemporaryFolder folder;
    const std::string path = folder.path("f");
    put_bytes(path, before);
    done = run_and_die(at, [&](FileSystem& files) -> Result<void> {
      CFCK_TRY(compact(path, {}, files));
      return {};
    });
    const Bytes found = bytes_of(path);
    EXPECT_TRUE(found == (done ? after : before) || found == after) << "step " << at;
  }
}

}  // namespace
}  // namespace cfck::test

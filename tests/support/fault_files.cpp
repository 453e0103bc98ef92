#include "tests/support/fault_files.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace cfck::test {
namespace {

class FaultFile final : public File {
 public:
  FaultFile(FaultFiles& files, std::unique_ptr<File> inner, std::string path)
      : files_(files), inner_(std::move(inner)), path_(std::move(path)) {}

  Result<std::uint64_t> size() const override {
    CFCK_TRY(files_.step(Operation::kSize, path_));
    return inner_->size();
  }
  Result<std::uint64_t> committed_size() const override {
    CFCK_TRY(files_.step(Operation::kSize, path_));
    return inner_->committed_size();
  }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    CFCK_TRY(files_.step(Operation::kRead, path_, offset_bytes, out.size()));
    return inner_->read_at(offset_bytes, out);
  }
  Result<void> write_at(std::uint64_t offset_bytes, ByteView bytes) override {
    Result<void> allowed = files_.step(Operation::kWrite, path_, offset_bytes, bytes.size());
    if (!allowed) {
      const std::uint64_t n_bytes =
          std::min<std::uint64_t>(files_.bytes_written_before_failure(), bytes.size());
      CFCK_TRY(inner_->write_at(offset_bytes, bytes.first(n_bytes)));
      return allowed;
    }
    return inner_->write_at(offset_bytes, bytes);
  }
  Result<void> sync() override {
    CFCK_TRY(files_.step(Operation::kSync, path_));
    return inner_->sync();
  }
  void sync_soon(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept override {
    files_.announce(n_bytes);
    inner_->sync_soon(offset_bytes, n_bytes);
  }
  void reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) noexcept override {
    files_.note_reserved(n_bytes);
    inner_->reserve(offset_bytes, n_bytes);
  }
  Result<void> truncate(std::uint64_t n_bytes) override {
    CFCK_TRY(files_.step(Operation::kTruncate, path_, n_bytes));
    return inner_->truncate(n_bytes);
  }
  Result<void> lock() override {
    CFCK_TRY(files_.step(Operation::kLock, path_));
    return inner_->lock();
  }
  Result<void> close() override {
    CFCK_TRY(files_.step(Operation::kClose, path_));
    return inner_->close();
  }

 private:
  FaultFiles& files_;
  std::unique_ptr<File> inner_;
  std::string path_;
};

ErrorCode code_of(int number) {
  return number == ENOENT   ? ErrorCode::kNotFound
         : number == EEXIST ? ErrorCode::kExists
                            : ErrorCode::kIo;
}

Result<std::unique_ptr<File>> wrap(FaultFiles& files, Result<std::unique_ptr<File>> opened,
                                   const std::string& path) {
  CFCK_TRY_ASSIGN(std::unique_ptr<File> inner, std::move(opened));
  return std::unique_ptr<File>(std::make_unique<FaultFile>(files, std::move(inner), path));
}

}  // namespace

const char* operation_name(Operation operation) noexcept {
  constexpr const char* kNames[] = {"open",     "read",   "write", "sync", "rename",
                                    "truncate", "remove", "close", "size", "lock"};
  return kNames[static_cast<std::size_t>(operation)];
}

void FaultFiles::set_fault(std::optional<Fault> fault) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
}

std::uint64_t FaultFiles::count() const {
  const std::lock_guard lock(mutex_);
  return trace_.size();
}

std::uint64_t FaultFiles::count(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint64_t>(std::ranges::count(trace_, operation, &TraceEntry::operation));
}

std::uint64_t FaultFiles::failures() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint64_t>(std::ranges::count(trace_, true, &TraceEntry::failed));
}

std::vector<TraceEntry> FaultFiles::trace() const {
  const std::lock_guard lock(mutex_);
  return trace_;
}

void FaultFiles::reset_counts() {
  const std::lock_guard lock(mutex_);
  trace_.clear();
}

std::uint64_t FaultFiles::bytes_written_before_failure() const {
  const std::lock_guard lock(mutex_);
  return fault_ ? fault_->bytes_written_before : 0;
}

Result<void> FaultFiles::step(Operation operation, const std::string& path,
                              std::uint64_t offset_bytes, std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  bool fails = false;
  if (fault_ && (!fault_->only || *fault_->only == operation)) {
    const auto number =
        static_cast<std::uint64_t>(std::ranges::count_if(trace_, [&](const TraceEntry& e) {
          return !fault_->only || e.operation == *fault_->only;
        }));
    fails = fault_->from_then_on ? number >= fault_->at : number == fault_->at;
  }
  trace_.push_back({operation, path, offset_bytes, n_bytes, fails});
  if (!fails) {
    return {};
  }
  return Error{code_of(fault_->error_number),
               std::string("cannot ") + operation_name(operation) + " '" + path +
                   "': " + std::generic_category().message(fault_->error_number),
               {},
               {}};
}

Result<std::unique_ptr<File>> FaultFiles::open_read(const std::string& path) {
  CFCK_TRY(step(Operation::kOpen, path));
  return wrap(*this, inner_.open_read(path), path);
}

Result<std::unique_ptr<File>> FaultFiles::open_read_write(const std::string& path) {
  CFCK_TRY(step(Operation::kOpen, path));
  return wrap(*this, inner_.open_read_write(path), path);
}

Result<std::unique_ptr<File>> FaultFiles::create_exclusive(const std::string& path) {
  CFCK_TRY(step(Operation::kOpen, path));
  return wrap(*this, inner_.create_exclusive(path), path);
}

Result<void> FaultFiles::rename(const std::string& from, const std::string& to) {
  CFCK_TRY(step(Operation::kRename, to));
  return inner_.rename(from, to);
}

Result<void> FaultFiles::exchange(const std::string& one, const std::string& other) {
  CFCK_TRY(step(Operation::kRename, other));
  return inner_.exchange(one, other);
}

Result<void> FaultFiles::link(const std::string& from, const std::string& to) {
  CFCK_TRY(step(Operation::kOpen, to));
  return inner_.link(from, to);
}

Result<void> FaultFiles::make_directory(const std::string& path) {
  CFCK_TRY(step(Operation::kOpen, path));
  return inner_.make_directory(path);
}

Result<void> FaultFiles::remove(const std::string& path) {
  CFCK_TRY(step(Operation::kRemove, path));
  return inner_.remove(path);
}

Result<void> FaultFiles::sync_directory(const std::string& path) {
  CFCK_TRY(step(Operation::kSync, path));
  return inner_.sync_directory(path);
}

}  // namespace cfck::test

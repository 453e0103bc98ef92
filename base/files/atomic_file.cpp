#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "base/files/access.hpp"
#include "base/files/temporary_names.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/io.hpp"

namespace cfck {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
// For at least this many bytes a system call costs less than one more copy.
constexpr std::size_t kDirectBytes = std::size_t{1} << 16;
// The device is told of this many bytes at once, and works while more is encoded.
constexpr std::uint64_t kSyncBytes = std::uint64_t{1} << 20;
// Space reserved in large pieces costs less than page by page, in files that become longer than
// this. What is left at the end is given back.
constexpr std::uint64_t kShortBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kReserveBytes = std::uint64_t{32} << 20;
constexpr int kMaxLinks = 40;  // as Linux has it
constexpr int kMaxAttempts = 100;

Error refuse(const std::string& path, const std::string& reason) {
  return invalid_argument("'" + escaped(path) + "' " + reason);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Follows symbolic links one by one: the last one may lead to a file that does not exist
// yet.
Result<std::string> follow_links(const std::string& path) {
  std::string target = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    char buffer[PATH_MAX];
    const ssize_t n_bytes = ::readlink(target.c_str(), buffer, sizeof buffer);
    if (n_bytes < 0) {
      return target;  // not a link
    }
    const std::string next(buffer, static_cast<std::size_t>(n_bytes));
    target = next.starts_with('/') ? next : folder_of(target) + "/" + next;
  }
  return io_error("'" + escaped(path) + "' leads through too many symbolic links");
}

}  // namespace

struct AtomicFile::Impl {
  Impl(FileSystem& f, std::string t, Options o) : files(f), target(std::move(t)), options(o) {}
  ~Impl() { discard(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> open_temporary();
  Error of_open(Error failure, const std::string& hidden_name) const;
  // The temporary name tells a caller nothing: errors name the target in its place.
  Error naming_target(Error failure, const std::string& hidden_name) const;
  Result<void> check_target();
  Result<void> flush();
  Result<void> write(ByteView bytes);
  Result<void> write_through(ByteView bytes);
  void reserve_for(std::size_t n_bytes) noexcept;
  Result<void> commit();
  void discard() noexcept;
  // Runs a step, unless an earlier one failed or the file is committed; after a failure nothing
  // is left of the temporary file.
  template <class Step>
  std::invoke_result_t<Step> run(const char* advice, Step&& step);

  FileSystem& files;
  const std::string target;
  const Options options;
  const pid_t owner = ::getpid();
  std::string temporary;  // empty once it is gone
  std::unique_ptr<File> file;
  std::vector<std::byte> buffer;
  std::uint64_t written_bytes = 0;
  std::uint64_t reserved_bytes = 0;   // where the room asked for ends
  std::uint64_t announced_bytes = 0;  // to sync_soon()
  int unfinished_writers = 0;
  std::optional<Error> error;
  bool committed = false;
};

Result<void> AtomicFile::Impl::check_target() {
  if (!files.exists(target)) {
    return {};
  }
  struct stat info {};
  if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return refuse(target, S_ISDIR(info.st_mode) ? "is a folder; name a file"
                                                : "is not a regular file and is not replaced");
  }
  if (!options.replace_existing) {
    return exists_already("'" + escaped(target) +
                          "' exists already; remove it first, or choose another name");
  }
  return {};
}

Error AtomicFile::Impl::of_open(Error failure, const std::string& hidden_name) const {
  const std::size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 && errno == ENOENT) {
    failure.message =
        "there is no folder '" + escaped(folder) + "' to write '" + escaped(target) + "' to";
    return failure;
  }
  return naming_target(std::move(failure), hidden_name);
}

Error AtomicFile::Impl::naming_target(Error failure, const std::string& hidden_name) const {
  const std::string hidden = "'" + escaped(hidden_name) + "'";
  if (const std::size_t at = failure.message.find(hidden); at != std::string::npos) {
    failure.message.replace(at, hidden.size(), "'" + escaped(target) + "'");
  }
  return failure;
}

Result<void> AtomicFile::Impl::open_temporary() {
  const bool replaces = files.exists(target);
  for (int attempt = 0;; ++attempt) {
    std::string name = temporary_path(target);
    Result<std::unique_ptr<File>> created =
        replaces ? create_like(files, name, target, true) : files.create_exclusive(name);
    if (created) {
      temporary = std::move(name);
      file = *std::move(created);
      return {};
    }
    // The name may be taken: left over from a process of the same number; or another process took
    // the new file for a leftover in the instant before it was locked.
    if (created.error().code != ErrorCode::kExists || attempt == kMaxAttempts) {
      return of_open(std::move(created).error(), name);
    }
  }
}

template <class Step>
std::invoke_result_t<Step> AtomicFile::Impl::run(const char* advice, Step&& step) {
  if (error) {
    return copy_of(*error);
  }
  if (committed) {
    return run_guarded([&] { return refuse(target, advice); });
  }
  auto result = run_guarded(std::forward<Step>(step));
  if (!result) {
    error = run_guarded([&] { return naming_target(copy_of(result.error()), temporary); });
    discard();
    return copy_of(*error);
  }
  return result;
}

Result<void> AtomicFile::Impl::flush() {
  if (buffer.empty()) {
    return {};
  }
  CFCK_TRY(write_through(buffer));
  buffer.clear();
  return {};
}

void AtomicFile::Impl::reserve_for(std::size_t n_bytes) noexcept {
  const std::uint64_t end = written_bytes + n_bytes;
  if (end > kShortBytes && end > reserved_bytes) {
    const std::uint64_t first = std::max(written_bytes, reserved_bytes);
    reserved_bytes = end + kReserveBytes;
    file->reserve(first, reserved_bytes - first);
  }
}

Result<void> AtomicFile::Impl::write_through(ByteView bytes) {
  reserve_for(bytes.size());
  CFCK_TRY(file->write_at(written_bytes, bytes));
  written_bytes += bytes.size();
  if (options.sync && written_bytes - announced_bytes >= kSyncBytes) {
    file->sync_soon(announced_bytes, written_bytes - announced_bytes);
    announced_bytes = written_bytes;
  }
  return {};
}

Result<void> AtomicFile::Impl::write(ByteView bytes) {
  if (bytes.size() >= kDirectBytes || buffer.size() + bytes.size() > kBufferBytes) {
    CFCK_TRY(flush());
  }
  if (bytes.size() >= kDirectBytes) {
    return write_through(bytes);
  }
  buffer.reserve(kBufferBytes);
  buffer.insert(buffer.end(), bytes.begin(), bytes.end());
  return {};
}

Result<void> AtomicFile::Impl::commit() {
  CFCK_TRY(flush());
  if (reserved_bytes > written_bytes) {
    (void)file->truncate(written_bytes);  // the size is right; what was reserved may stay so
  }
  if (options.sync) {
    CFCK_TRY(file->sync());
  }
  CFCK_TRY(file->close());
  CFCK_TRY(check_target());
  const std::string folder = folder_of(target);
  CFCK_TRY(files.rename(temporary, target));
  temporary.clear();
  committed = true;
  file.reset();  // held until here, so that it was not removed as a leftover
  Result<void> synced = options.sync ? files.sync_directory(folder) : Result<void>();
  if (!synced) {
    Error failure = std::move(synced).error();
    failure.message = "'" + escaped(target) + "' was saved, but syncing its folder failed (" +
                      failure.message + "): after a power failure, the previous file may reappear";
    return failure;
  }
  return {};
}

void AtomicFile::Impl::discard() noexcept {
  file.reset();
  // A forked child must not remove its parent's file.
  if (temporary.empty() || owner != ::getpid()) {
    return;
  }
  (void)run_guarded([&] { return files.remove(temporary); });
  temporary.clear();
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path, Options options,
                                                       FileSystem& files) {
  return run_guarded([&]() -> Result<std::unique_ptr<AtomicFile>> {
    if (path.empty() || path.back() == '/') {
      return refuse(path, "is not the name of a file");
    }
    CFCK_TRY_ASSIGN(std::string target, follow_links(path));
    auto impl = std::make_unique<Impl>(files, std::move(target), options);
    CFCK_TRY(impl->check_target());
    files.remove_leftovers(folder_of(impl->target));
    // The object is there before the file is, so that its destructor removes the file
    // whatever happens.
    auto file = std::unique_ptr<AtomicFile>(new AtomicFile(std::move(impl)));
    CFCK_TRY(file->impl_->open_temporary());
    return file;
  });
}

AtomicFile::AtomicFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

AtomicFile::~AtomicFile() = default;

Result<void> AtomicFile::write(ByteView bytes) {
  return impl_->run("was committed already; nothing more can be written",
                    [&] { return impl_->write(bytes); });
}

Result<std::unique_ptr<ByteSource>> AtomicFile::read_back() {
  CFCK_TRY(
      impl_->run("was committed already; open it by its name", [&] { return impl_->flush(); }));
  return open_file(impl_->temporary, ReadMode::kPread, impl_->files);
}

void AtomicFile::writer_began() noexcept { ++impl_->unfinished_writers; }

void AtomicFile::writer_finished() noexcept { --impl_->unfinished_writers; }

Result<void> AtomicFile::commit() {
  if (impl_->unfinished_writers > 0 && !impl_->error) {
    return run_guarded([&] {
      return refuse(impl_->target,
                    "is not replaced: the writer of the new file failed or was not finished; call "
                    "its finish() before commit()");
    });
  }
  return impl_->run("was committed already", [&] { return impl_->commit(); });
}

}  // namespace cfck

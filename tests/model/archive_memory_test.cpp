// Memory runs out at every allocation of every call of archives and their writers: each gives an
// error or succeeds, and throws nothing.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "cfck/cfck.hpp"
#include "tests/support/sample_tensors.hpp"
#include "tests/support/shortages.hpp"

namespace cfck::test {
namespace {

constexpr std::string_view kFormats[] = {"cfck", "safetensors"};
constexpr std::string_view kLongName = "a tensor with a name that no short string holds";

Bytes file_of(std::string_view format, const std::string& name) {
  MemorySink sink;
  const Bytes bytes = weights(1, 6000);
  const auto writer = take(ArchiveWriter::create(format, sink));
  expect_ok(writer->add(name, TensorView{DType::kF32, {60, 100}, bytes}));
  EXPECT_TRUE(take(writer->tie(name + ", tied", name)));
  expect_ok(writer->set_metadata("a key that is longer than a short string", "and its value"));
  expect_ok(writer->attach("an attachment with a long name", bytes));
  take(writer->finish());
  return sink.take();
}

// Paths of a file and of a folder of each format.
std::vector<std::string> models_in(const TemporaryFolder& folder) {
  std::vector<std::string> paths;
  for (const std::string_view format : kFormats) {
    const std::string suffix = "." + std::string(format);
    put_bytes(folder.path("file" + suffix), file_of(format, std::string(kLongName)));
    paths.push_back(folder.path("file" + suffix));
    const auto writer = take(ArchiveWriter::create_folder(format, folder.path("folder" + suffix),
                                                          {}, {.max_shard_bytes = 24'000}));
    const Bytes bytes = weights(1, 6000);
    expect_ok(writer->add(kLongName, TensorView{DType::kF32, {60, 100}, bytes}));
    expect_ok(writer->add("b", TensorView{DType::kF32, {60, 100}, bytes}));
    take(writer->finish());
    paths.push_back(folder.path("folder" + suffix));
  }
  return paths;
}

// Success where a call fails as it must.
template <class T>
Result<void> refused(Result<T> result, ErrorCode code) {
  if (result) return Error{ErrorCode::kInternal, "not refused", {}, {}};
  return result.error().code == code ? Result<void>() : std::move(result).error();
}

void expect_survives_all(const std::function<Result<void>()>& call, std::uint64_t n_at_least = 0) {
  Operation operation;
  operation.run = call;
  operation.n_at_least = n_at_least;
  expect_survives(operation);
}

void expect_reads_survive(const TensorArchive* archive) {
  const ArchiveTensor& tensor = *archive->find(kLongName);
  ArchiveTensor stranger = tensor;
  stranger.archive_id = 0;
  Bytes memory(tensor.n_bytes);
  const std::uint64_t starts[] = {1, 2};
  const std::uint64_t stops[] = {5, 60};
  const std::uint64_t beyond[] = {5, 600};
  const MutableBytes box = MutableBytes(memory).first(std::size_t{4 * 58 * 4});
  const MutableBytes part = MutableBytes(memory).first(std::size_t{400});
  const std::function<Result<void>()> calls[] = {
      [&] { return archive->check_decoded_bytes(tensor, 24'000); },
      [&] {
        return refused(archive->check_decoded_bytes(stranger, 1), ErrorCode::kInvalidArgument);
      },
      [&] { return archive->read(tensor, memory); },
      [&] { return refused(archive->read(stranger, memory), ErrorCode::kInvalidArgument); },
      [&] { return refused(archive->read(tensor, part), ErrorCode::kInvalidArgument); },
      [&]() -> Result<void> {
        CFCK_TRY(archive->read(kLongName));
        return {};
      },
      [&] {
        return refused(archive->read("a name that the archive does not have at all"),
                       ErrorCode::kNotFound);
      },
      [&] { return archive->read_elements(tensor, 7, 100, part); },
      [&] {
        return refused(archive->read_elements(stranger, 7, 100, part), ErrorCode::kInvalidArgument);
      },
      [&] {
        return refused(archive->read_elements(tensor, 7000, 100, part),
                       ErrorCode::kInvalidArgument);
      },
      [&] { return archive->read_slice(tensor, starts, stops, box); },
      [&] {
        return refused(archive->read_slice(stranger, starts, stops, box),
                       ErrorCode::kInvalidArgument);
      },
      [&] {
        return refused(archive->read_slice(tensor, starts, beyond, box),
                       ErrorCode::kInvalidArgument);
      }};
  for (const auto& call : calls) {
    SCOPED_TRACE(&call - calls);
    expect_survives_all(call);
  }
}

TEST(ArchiveMemory, RunsOutInEveryCallOfAnArchive) {
  const TemporaryFolder folder;
  for (const std::string& path : models_in(folder)) {
    SCOPED_TRACE(path);
    expect_survives_all(
        [&]() -> Result<void> {
          CFCK_TRY(TensorArchive::open(path));
          return {};
        },
        20);
    const auto archive = take(TensorArchive::open(path));
    expect_reads_survive(archive.get());
    const std::function<Result<void>()> calls[] = {
        [&] {
          return refused(archive->attachment("an attachment that the archive does not have"),
                         ErrorCode::kNotFound);
        },
        [&]() -> Result<void> {
          for (const Attachment& attachment : archive->attachments()) {
            CFCK_TRY(archive->attachment(attachment.name));
          }
          return {};
        },
        [&]() -> Result<void> {
          auto report = archive->verify(VerifyLevel::kDeep);
          if (report) return {};
          return refused(std::move(report), ErrorCode::kUnsupported);
        }};
    for (const auto& call : calls) {
      SCOPED_TRACE(&call - calls);
      expect_survives_all(call);
    }
  }
}

TEST(ArchiveMemory, RunsOutInCallsBeyondALimit) {
  const TemporaryFolder folder;
  ArchiveOptions options;
  options.decode.limits.max_decoded_bytes = 23'999;
  for (const std::string& path : models_in(folder)) {
    SCOPED_TRACE(path);
    const auto archive = take(TensorArchive::open(path, options));
    const ArchiveTensor& tensor = *archive->find(kLongName);
    expect_survives_all([&] {
      return refused(archive->check_decoded_bytes(tensor, 24'000), ErrorCode::kLimitExceeded);
    });
    expect_survives_all([&] { return refused(archive->read(tensor), ErrorCode::kLimitExceeded); });
  }
}

// Calls everything that a writer has.
Result<void> write_all(ArchiveWriter& writer, const TensorArchive& archive,
                       const TensorView& view) {
  // Larger than what a std::function holds itself.
  const std::array<std::uint64_t, 8> large{};
  WriteProgress progress;
  SearchProgress search;
  try {
    progress = [large](std::uint64_t, std::string_view) { return large[0] == 0; };
    search = [large](const StepSearch&) { return large[0] == 0; };
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "callbacks", {}, {}};
  }
  writer.set_progress(std::move(progress));
  writer.set_search_progress(std::move(search));
  CFCK_TRY(writer.add_archive(archive));
  CFCK_TRY(writer.add("another tensor with a long name", view));
  CFCK_TRY(writer.tie("another tensor with a long name, tied", "another tensor with a long name"));
  CFCK_TRY(writer.set_metadata("another key, longer than a short string", "value"));
  CFCK_TRY(writer.attach("another attachment, of a long name", view.data));
  CFCK_TRY(writer.finish());
  return refused(writer.finish(), ErrorCode::kInvalidArgument);
}

TEST(ArchiveMemory, RunsOutInEveryCallOfAWriter) {
  const TemporaryFolder folder;
  const Bytes bytes = weights(2, 6000);
  const TensorView view{DType::kF32, {60, 100}, bytes};
  const Bytes file = file_of("cfck", std::string(kLongName));
  const auto archive = take(TensorArchive::open(std::make_unique<OwnedMemorySource>(file)));
  EncodeOptions options;
  options.threads = 1;
  for (const std::string_view format : kFormats) {
    SCOPED_TRACE(format);
    expect_survives_all(
        [&]() -> Result<void> {
          MemorySink sink;
          CFCK_TRY_ASSIGN(const auto writer, ArchiveWriter::create(format, sink, options));
          return write_all(*writer, *archive, view);
        },
        20);
    const std::string path = folder.path("out." + std::string(format));
    expect_survives_all(
        [&]() -> Result<void> {
          CFCK_TRY_ASSIGN(
              const auto writer,
              ArchiveWriter::create_folder(format, path, options, {.max_shard_bytes = 24'000}));
          return write_all(*writer, *archive, view);
        },
        20);
  }
}

TEST(ArchiveMemory, RunsOutWhenAnErrorIsRepeated) {
  const Bytes bytes = weights(2, 6000);
  const TensorView view{DType::kF32, {60, 100}, bytes};
  for (const std::string_view format : kFormats) {
    SCOPED_TRACE(format);
    MemorySink sink;
    const auto writer = take(ArchiveWriter::create(format, sink));
    EXPECT_FALSE(writer->tie(kLongName, "a base that was never added to the writer"));
    ArchiveWriter* const all[] = {writer.get()};
    const std::function<Result<void>()> calls[] = {
        [&] { return refused(writer->add(kLongName, view), ErrorCode::kNotFound); },
        [&] { return refused(writer->tie(kLongName, "base"), ErrorCode::kNotFound); },
        [&] { return refused(writer->set_metadata(kLongName, "value"), ErrorCode::kNotFound); },
        [&] { return refused(writer->attach(kLongName, bytes), ErrorCode::kNotFound); },
        [&] { return refused(writer->finish(), ErrorCode::kNotFound); },
        [&] { return refused(ArchiveWriter::finish_together(all), ErrorCode::kNotFound); }};
    for (const auto& call : calls) expect_survives_all(call);
  }
}

}  // namespace
}  // namespace cfck::test

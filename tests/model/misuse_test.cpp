// Calls that archives must refuse, the same in every format.
#include <gtest/gtest.h>

#include "cfck/archive_writer.hpp"
#include "cfck/cfck.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck {
namespace {

using test::Bytes;
using test::take;

constexpr std::string_view kFormats[] = {"cfck", "safetensors"};
const Shape kShape = {8, 8};

template <class T>
ErrorCode code_of(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? ErrorCode::kInternal : result.error().code;
}

TensorView view_of(const Bytes& bytes) { return {DType::kF32, kShape, bytes}; }

Bytes file_of(std::string_view format, const std::vector<std::string>& names,
              std::uint64_t seed = 1) {
  MemorySink sink;
  const Bytes bytes = test::weights(seed, 64);
  const auto writer = take(ArchiveWriter::create(format, sink));
  for (const std::string& name : names) test::expect_ok(writer->add(name, view_of(bytes)));
  take(writer->finish());
  return sink.take();
}

std::unique_ptr<TensorArchive> open_bytes(const Bytes& bytes) {
  return take(TensorArchive::open(std::make_unique<OwnedMemorySource>(bytes)));
}

std::unique_ptr<TensorArchive> open_folder(const test::TemporaryFolder& folder,
                                           std::string_view format) {
  const std::string suffix = "." + std::string(format);
  test::put_bytes(folder.path("1" + suffix), file_of(format, {"a"}, 1));
  test::put_bytes(folder.path("2" + suffix), file_of(format, {"b"}, 2));
  return take(TensorArchive::open(folder.path(".")));
}

void expect_refuses(const TensorArchive& archive, const ArchiveTensor& stranger) {
  Bytes memory(stranger.n_bytes);
  const std::uint64_t starts[] = {0, 0};
  const std::uint64_t stops[] = {8, 8};
  EXPECT_EQ(code_of(archive.check_decoded_bytes(stranger, 1)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(archive.read(stranger, memory)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(archive.read(stranger)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(archive.read_elements(stranger, 0, 64, memory)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(archive.read_slice(stranger, starts, stops, memory)),
            ErrorCode::kInvalidArgument);
}

TEST(Misuse, TensorsOfAnotherArchiveAreRefusedWhateverTheyLookLike) {
  for (const std::string_view format : kFormats) {
    SCOPED_TRACE(format);
    const test::TemporaryFolder one;
    const test::TemporaryFolder other;
    const Bytes file = file_of(format, {"a", "b"});
    const auto folder = open_folder(one, format);
    const auto same_folder = open_folder(other, format);
    const auto single = open_bytes(file);
    const auto same = open_bytes(file);
    const TensorArchive* const all[] = {folder.get(), same_folder.get(), single.get(), same.get()};
    for (const TensorArchive* const archive : all) {
      for (const TensorArchive* const owner : all) {
        if (archive != owner) expect_refuses(*archive, *owner->find("b"));
      }
      expect_refuses(*archive, {});
    }
  }
}

TEST(Misuse, AnArchiveReadsWhatItsOwnListSays) {
  for (const std::string_view format : kFormats) {
    SCOPED_TRACE(format);
    const test::TemporaryFolder place;
    const auto folder = open_folder(place, format);
    const auto single = open_bytes(file_of(format, {"a", "b"}, 2));
    for (const TensorArchive* const archive : {folder.get(), single.get()}) {
      ArchiveTensor forged = *archive->find("b");
      forged.file = 1'000'000;
      forged.base = 1'000'000;
      forged.n_elems = std::uint64_t{1} << 40;
      forged.dtype = DType::kU8;
      forged.shape = {std::uint64_t{1} << 40};
      forged.offset_bytes = std::uint64_t{1} << 40;
      forged.record = nullptr;
      Bytes memory(forged.n_bytes);
      test::expect_ok(archive->check_decoded_bytes(forged, 1));
      test::expect_ok(archive->read(forged, memory));
      EXPECT_EQ(memory, test::weights(2, 64));
      EXPECT_EQ(code_of(archive->read_elements(forged, 64, 64, memory)),
                ErrorCode::kInvalidArgument);
      EXPECT_EQ(take(archive->read(forged)).shape(), kShape);
    }
  }
}

}  // namespace
}  // namespace cfck

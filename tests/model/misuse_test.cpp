// Calls that archives and writers must refuse, the same in every format: tensors of strangers,
// calls after an error, names and sources that are wrong.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <stdexcept>

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

// Writers of a file of each format, into memory, and of a folder.
struct Output {
  std::string_view format;
  bool is_folder = false;
};

void PrintTo(const Output& output, std::ostream* out) {
  *out << output.format << (output.is_folder ? " folder" : " file");
}

class MisusedWriter : public ::testing::TestWithParam<Output> {
 protected:
  std::unique_ptr<ArchiveWriter> create() {
    sink_.take();
    return GetParam().is_folder
               ? take(ArchiveWriter::create_folder(GetParam().format, folder_.path("out")))
               : take(ArchiveWriter::create(GetParam().format, sink_));
  }
  std::unique_ptr<TensorArchive> open_written() const {
    return GetParam().is_folder ? take(TensorArchive::open(folder_.path("out")))
                                : open_bytes(sink_.bytes());
  }

  // Checks that `writer` refuses every call with this code, and writes nothing more.
  void expect_refuses_all(ArchiveWriter& writer, ErrorCode code) {
    const std::size_t n_bytes = sink_.bytes().size();
    const auto archive = open_bytes(file_of("cfck", {"x"}));
    EXPECT_EQ(code_of(writer.add("y", view_of(bytes_))), code);
    EXPECT_EQ(code_of(writer.add("y", TensorSource{DType::kF32, kShape, &source_, 0})), code);
    EXPECT_EQ(code_of(writer.tie("y", "a")), code);
    EXPECT_EQ(code_of(writer.set_metadata("key", "value")), code);
    EXPECT_EQ(code_of(writer.attach("name", bytes_)), code);
    EXPECT_EQ(code_of(writer.add_archive(*archive)), code);
    ArchiveWriter* const all[] = {&writer};
    EXPECT_EQ(code_of(ArchiveWriter::finish_together(all)), code);
    EXPECT_EQ(code_of(writer.finish()), code);
    EXPECT_EQ(sink_.bytes().size(), n_bytes);
  }

  // Checks that a new writer refuses what `call` does, with this code, and everything after it.
  void expect_refused(ErrorCode code, const std::function<Result<void>(ArchiveWriter&)>& call) {
    const auto writer = create();
    test::expect_ok(writer->add("a", view_of(bytes_)));
    EXPECT_EQ(code_of(call(*writer)), code);
    expect_refuses_all(*writer, code);
  }

  const test::TemporaryFolder folder_;
  MemorySink sink_;
  const Bytes bytes_ = test::weights(1, 64);
  const MemorySource source_{bytes_};
};

TEST_P(MisusedWriter, RefusesEverythingOnceFinished) {
  const auto writer = create();
  test::expect_ok(writer->add("a", view_of(bytes_)));
  take(writer->finish());
  expect_refuses_all(*writer, ErrorCode::kInvalidArgument);
  EXPECT_EQ(open_written()->tensors().size(), 1U);
}

TEST_P(MisusedWriter, RefusesEverythingOnceFinishedTogether) {
  const auto writer = create();
  test::expect_ok(writer->add("a", view_of(bytes_)));
  ArchiveWriter* const all[] = {writer.get()};
  take(ArchiveWriter::finish_together(all));
  expect_refuses_all(*writer, ErrorCode::kInvalidArgument);
}

TEST_P(MisusedWriter, RefusesEverythingAfterAnError) {
  expect_refused(ErrorCode::kInvalidArgument,
                 [&](ArchiveWriter& writer) { return writer.add("a", view_of(bytes_)); });
  const auto archive = open_bytes(file_of("safetensors", {"0", "a", "b"}));
  expect_refused(ErrorCode::kInvalidArgument,
                 [&](ArchiveWriter& writer) { return writer.add_archive(*archive); });
}

TEST_P(MisusedWriter, RefusesEverythingAfterACancelledFinish) {
  expect_refused(ErrorCode::kCancelled, [&](ArchiveWriter& writer) -> Result<void> {
    writer.set_progress([](std::uint64_t, std::string_view) { return false; });
    CFCK_TRY(writer.add("b", view_of(bytes_)));
    CFCK_TRY(writer.finish());
    return {};
  });
  expect_refused(ErrorCode::kInternal, [&](ArchiveWriter& writer) -> Result<void> {
    writer.set_progress([](std::uint64_t, std::string_view) -> bool {
      throw std::runtime_error("thrown by a callback");
    });
    CFCK_TRY(writer.add("b", view_of(bytes_)));
    CFCK_TRY(writer.finish());
    return {};
  });
}

TEST_P(MisusedWriter, FinishesDifferentWritersTogetherOnly) {
  const auto writer = create();
  test::expect_ok(writer->add("a", view_of(bytes_)));
  const std::size_t n_bytes = sink_.bytes().size();
  ArchiveWriter* const twice[] = {writer.get(), writer.get()};
  EXPECT_EQ(code_of(ArchiveWriter::finish_together(twice)), ErrorCode::kInvalidArgument);
  ArchiveWriter* const none[] = {writer.get(), nullptr};
  EXPECT_EQ(code_of(ArchiveWriter::finish_together(none)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(sink_.bytes().size(), n_bytes);
  take(writer->finish());
}

TEST_P(MisusedWriter, RefusesTextThatIsNotUtf8) {
  const std::string bad = "a\xff";
  const auto refuses = [&](const std::function<Result<void>(ArchiveWriter&)>& call) {
    expect_refused(ErrorCode::kInvalidArgument, call);
  };
  refuses([&](ArchiveWriter& writer) { return writer.add(bad, view_of(bytes_)); });
  refuses([&](ArchiveWriter& writer) {
    return writer.add(bad, TensorSource{DType::kF32, kShape, &source_, 0});
  });
  refuses([&](ArchiveWriter& writer) { return writer.set_metadata(bad, "value"); });
  refuses([&](ArchiveWriter& writer) { return writer.set_metadata("key", bad); });
  refuses([&](ArchiveWriter& writer) { return writer.attach(bad, bytes_); });
}

TEST_P(MisusedWriter, RefusesSourcesThatAreTooShort) {
  const auto refuses = [&](TensorSource source) {
    expect_refused(ErrorCode::kInvalidArgument,
                   [&](ArchiveWriter& writer) { return writer.add("b", source); });
  };
  refuses({DType::kF32, kShape, nullptr, 0});
  refuses({DType::kF32, kShape, &source_, 1});
  refuses({DType::kF32, kShape, &source_, 257});
  refuses({DType::kF32, kShape, &source_, ~std::uint64_t{0} - 7});
  refuses({DType::kF32, {8, 9}, &source_, 0});
  expect_refused(ErrorCode::kUnsupported, [&](ArchiveWriter& writer) {
    TensorView elsewhere = view_of(bytes_);
    elsewhere.device.kind = DeviceKind::kCuda;
    return writer.add("b", elsewhere);
  });
}

TEST_P(MisusedWriter, TiesOnlyWhatThereIs) {
  expect_refused(ErrorCode::kNotFound, [](ArchiveWriter& writer) -> Result<void> {
    CFCK_TRY(writer.tie("t", "nowhere"));
    return {};
  });
  const auto writer = create();
  test::expect_ok(writer->add("a", view_of(bytes_)));
  EXPECT_FALSE(take(writer->tie("a", "a")));
  EXPECT_FALSE(take(writer->tie("t\xff", "a")));
  EXPECT_FALSE(take(writer->tie(std::string(65536, 't'), "a")));
  EXPECT_EQ(take(writer->tie("__metadata__", "a")), GetParam().format == "cfck");
  EXPECT_TRUE(take(writer->tie("t", "a")));
  take(writer->finish());
  const auto archive = open_written();
  EXPECT_EQ(archive->tensors().size(), GetParam().format == "cfck" ? 3U : 2U);
  EXPECT_EQ(take(archive->read("t")).bytes().size(), bytes_.size());
}

INSTANTIATE_TEST_SUITE_P(Formats, MisusedWriter,
                         ::testing::Values(Output{"cfck"}, Output{"safetensors"},
                                           Output{"cfck", true}, Output{"safetensors", true}),
                         [](const auto& output) {
                           return std::string(output.param.format) +
                                  (output.param.is_folder ? "_folder" : "");
                         });

TEST(Misuse, SafetensorsRefusesTheNameOfItsMetadataAtOnce) {
  const Bytes bytes = test::weights(1, 64);
  MemorySink sink;
  const auto writer = take(ArchiveWriter::create("safetensors", sink));
  EXPECT_EQ(code_of(writer->add("__metadata__", view_of(bytes))), ErrorCode::kInvalidArgument);
  const auto second = take(ArchiveWriter::create("safetensors", sink));
  const auto archive = open_bytes(file_of("cfck", {"__metadata__"}));
  EXPECT_EQ(code_of(second->add_archive(*archive)), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace cfck

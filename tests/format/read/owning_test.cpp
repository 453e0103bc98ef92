// Readers that own their source, tensors that own their memory, records that are copied.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "cfck/reader.hpp"
#include "tests/support/sample_tensors.hpp"
#include "tests/support/sanitizer.hpp"

namespace cfck::test {
namespace {

const Bytes& weight_values() {
  static const Bytes values = weights(1, 60 * 50);
  return values;
}

const Bytes& raw_values() {
  static const Bytes values = noise(2, 100000);
  return values;
}

const Bytes& sample_file() {
  static const Bytes file = write_file([](Writer& writer) {
    expect_ok(writer.add("weight", TensorView{DType::kF32, {60, 50}, weight_values()}));
    expect_ok(writer.add("raw", TensorView{DType::kU8, {100000}, raw_values()},
                         TensorOptions{.codec = CodecChoice::kRaw}));
    expect_ok(writer.add("empty", TensorView{DType::kF32, {0, 3}, {}}));
    const std::uint64_t strides[] = {1, 50};
    expect_ok(writer.add_alias("view", "weight", 0, {50, 60}, strides));
  });
  return file;
}

template <class T>
ErrorCode code_of(const Result<T>& result) {
  return result ? ErrorCode{} : result.error().code;
}

bool is_equal(ByteView a, ByteView b) { return std::ranges::equal(a, b); }

void expect_sample(const Reader& reader) {
  const OwnedTensor weight = take(reader.read("weight"));
  EXPECT_EQ(weight.dtype(), DType::kF32);
  EXPECT_EQ(weight.shape(), (Shape{60, 50}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(weight.bytes().data()) % 64, 0u);
  EXPECT_TRUE(is_equal(weight.bytes(), weight_values()));
  EXPECT_EQ(weight.values<float>().size(), 3000u);
  EXPECT_TRUE(is_equal(take(reader.read(*reader.find("raw"))).bytes(), raw_values()));
}

TEST(OwningReader, KeepsAFileOpen) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  put_bytes(path, sample_file());
  for (const ReadMode mode : {ReadMode::kPread, ReadMode::kMmap}) {
    Reader first = take(Reader::open(path, {.threads = 2}, mode));
    const Reader reader = std::move(first);
    expect_sample(reader);
    EXPECT_EQ(reader.map(*reader.find("raw")).has_value(), mode == ReadMode::kMmap);
  }
  EXPECT_EQ(code_of(Reader::open(folder.path("no such file"))), ErrorCode::kNotFound);
}

TEST(OwningReader, TakesASource) {
  expect_sample(take(Reader::open(std::make_unique<OwnedMemorySource>(sample_file()))));
  EXPECT_EQ(code_of(Reader::open(std::unique_ptr<const ByteSource>())),
            ErrorCode::kInvalidArgument);
}

TEST(OwningReader, DoesNotReadIntoTheFile) {
  Bytes memory = sample_file();
  const auto reader = take(Reader::open(std::make_unique<MemorySource>(memory)));
  const Record& raw = *reader.find("raw");
  const MutableBytes over = MutableBytes(memory).first(raw.decoded_bytes);
  const ReadRequest request{&raw, over};
  EXPECT_EQ(code_of(reader.read(raw, over)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(reader.read_many({&request, 1})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(reader.read_elements(raw, 1, 9, over.first(9))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(memory, sample_file());
}

TEST(OwnedTensor, EmptyTensorsAndViewsAreRead) {
  const OpenFile file(sample_file());
  const OwnedTensor empty = take(file->read("empty"));
  EXPECT_EQ(empty.shape(), (Shape{0, 3}));
  EXPECT_TRUE(empty.bytes().empty());
  OwnedTensor view = take(file->read("view"));
  EXPECT_TRUE(is_equal(view.bytes(), file.tensor("view")));
  const std::byte* const memory = view.bytes().data();
  OwnedTensor moved = std::move(view);
  EXPECT_TRUE(view.bytes().empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved.bytes().data(), memory);
  moved = take(file->read("raw"));
  EXPECT_TRUE(is_equal(moved.bytes(), raw_values()));
}

TEST(OwnedTensor, SizesAreCheckedBeforeMemoryIsTaken) {
  const OpenFile file(sample_file());
  EXPECT_EQ(code_of(file->read("no such tensor")), ErrorCode::kNotFound);
  const Reader limited = take(Reader::open(std::make_unique<OwnedMemorySource>(sample_file()),
                                           {.limits = {.max_decoded_bytes = 11999}}));
  EXPECT_EQ(code_of(limited.read("raw")), ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_of(limited.read("weight")), ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_of(OwnedTensor::allocate(DType::kF64, {std::uint64_t{1} << 62, 4})),
            ErrorCode::kLimitExceeded);
}

TEST(OwnedTensor, HugeOnesAreOutOfMemory) {
  if (kHasSanitizer) GTEST_SKIP();
  EXPECT_EQ(code_of(OwnedTensor::allocate(DType::kU8, {std::uint64_t{1} << 60})),
            ErrorCode::kOutOfMemory);
}

TEST(Record, CopiesStandForTheirTensor) {
  const OpenFile file(sample_file());
  const Record weight = file.record("weight");
  const Record view = file.record("view");
  const Record raw = file.record("raw");
  Bytes out(weight.decoded_bytes);
  expect_ok(file->read(weight, out));
  EXPECT_EQ(out, weight_values());
  expect_ok(file->read_elements(weight, 0, 3000, out));
  EXPECT_EQ(out, weight_values());
  const std::uint64_t starts[] = {0, 0};
  const std::uint64_t stops[] = {60, 50};
  expect_ok(file->read_slice(weight, starts, stops, out));
  EXPECT_EQ(out, weight_values());
  Bytes turned(view.decoded_bytes);
  const ReadRequest requests[] = {{&weight, out}, {&view, turned}};
  expect_ok(file->read_many(requests));
  EXPECT_EQ(turned, file.tensor("view"));
  EXPECT_TRUE(is_equal(take(file->map(raw)), raw_values()));
  EXPECT_TRUE(is_equal(take(file->read(raw)).bytes(), raw_values()));
  // Another reader of an equal file has the same tensors.
  EXPECT_TRUE(OpenFile(sample_file())->read(weight));
}

TEST(Record, ThoseOfOtherFilesAreRefused) {
  const OpenFile file(sample_file());
  const Bytes other_values = weights(7, 60 * 50);
  const OpenFile other(write_file([&](Writer& writer) {
    expect_ok(writer.add("weight", TensorView{DType::kF32, {60, 50}, other_values}));
  }));
  const auto expect_refused = [&](const Record& record) {
    Bytes out(record.decoded_bytes);
    const std::uint64_t starts[] = {0, 0};
    const ReadRequest request{&record, out};
    EXPECT_EQ(code_of(file->read(record, out)), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of(file->read(record)), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of(file->read_many({&request, 1})), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of(file->read_elements(record, 0, 1, out)), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of(file->read_slice(record, starts, starts, {})), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of(file->map(record)), ErrorCode::kInvalidArgument);
  };
  expect_refused(other.record("weight"));
  expect_refused(Record{});
  Record changed = file.record("weight");
  changed.shape = {50, 60};
  expect_refused(changed);
  changed = file.record("weight");
  changed.index = 1000;
  expect_refused(changed);
}

TEST(Device, OnlyTheHostIsKnown) {
  const OpenFile file(sample_file());
  const Device cuda{.kind = DeviceKind::kCuda};
  const Record& record = file.record("weight");
  Bytes out(record.decoded_bytes);
  const ReadRequest request{&record, out, cuda};
  const Result<void> read = file->read_many({&request, 1});
  EXPECT_EQ(code_of(read), ErrorCode::kUnsupported);
  EXPECT_EQ(read.error().record, "weight");
  const auto refused = [&](const std::function<Result<void>(Writer&)>& add) {
    MemorySink sink;
    Writer writer = take(Writer::create(sink));
    return code_of(add(writer)) == ErrorCode::kUnsupported;
  };
  const TensorView view{DType::kF32, {60, 50}, weight_values(), cuda};
  EXPECT_TRUE(refused([&](Writer& writer) { return writer.add("w", view); }));
  EXPECT_TRUE(refused([&](Writer& writer) { return writer.add("w", view, TensorOptions{}); }));
  const StridedTensor strided{.name = "w",
                              .dtype = DType::kF32,
                              .shape = {60, 50},
                              .strides = {50, 1},
                              .data = weight_values().data(),
                              .device = cuda};
  EXPECT_TRUE(refused([&](Writer& writer) { return writer.add_tensors({&strided, 1}); }));
}

TEST(TensorOptions, EveryAddTakesItsOwn) {
  const TensorOptions raw{.codec = CodecChoice::kRaw};
  const StridedTensor strided{.name = "strided",
                              .dtype = DType::kF32,
                              .shape = {60, 50},
                              .strides = {50, 1},
                              .data = weight_values().data(),
                              .options = raw};
  const Bytes others = weights(3, 60 * 50);
  const OpenFile file(write_file([&](Writer& writer) {
    const TensorView view{DType::kF32, {60, 50}, others};
    expect_ok(writer.add("plain", TensorView{DType::kF32, {3000}, others}));
    expect_ok(writer.add("bounded", view, TensorOptions{.max_abs_error = 1e-3}));
    expect_ok(writer.add_tensors({&strided, 1}));
  }));
  EXPECT_EQ(file.record("plain").codec, CodecId::kLossless);
  EXPECT_EQ(file.record("bounded").codec, CodecId::kDirect);
  EXPECT_EQ(file.record("strided").codec, CodecId::kRaw);
}

}  // namespace
}  // namespace cfck::test

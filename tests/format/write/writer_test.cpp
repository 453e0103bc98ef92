// A Reader reads what a Writer writes: all dtypes, shapes, names and options.
#include <sys/mman.h>

#include <algorithm>

#include "base/hashing/hashing.hpp"
#include "format/container/container.hpp"
#include "format/read/reader_access.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

std::vector<Shape> sample_shapes() {
  Shape deep(64, 1);
  deep[3] = 8;
  deep[60] = 4;
  return {{},        {0},          {3, 0, 5}, {1},    {8},           {24},         {7, 8},
          {3, 3, 4}, {2, 3, 4, 8}, {0, 0},    {1000}, {40, 3, 3, 2}, {1, 1, 5, 1}, deep};
}

// Bytes of different kinds for one tensor: some shrink, some do not.
std::vector<Bytes> sample_contents(std::uint64_t seed, std::size_t n_bytes) {
  Bytes few = noise(seed + 1, n_bytes);
  for (std::byte& byte : few) {
    byte &= std::byte{3};
  }
  return {noise(seed, n_bytes), constant(0, n_bytes), constant(0x3f, n_bytes), few};
}

TEST(Writer, EveryDtypeAndShapeComesBack) {
  for (const CodecChoice choice : {CodecChoice::kAuto, CodecChoice::kRaw, CodecChoice::kLossless}) {
    std::map<std::string, Bytes> expected;
    std::map<std::string, std::pair<DType, Shape>> described;
    std::uint64_t seed = 0;
    EncodeOptions options;
    options.codec = choice;
    const OpenFile file(write_file(
        [&](Writer& writer) {
          for (int dtype = 1; dtype <= 22; ++dtype) {
            for (const Shape& shape : sample_shapes()) {
              const Result<std::uint64_t> n = n_bytes(static_cast<DType>(dtype), shape);
              if (!n) {
                continue;  // less than whole bytes
              }
              for (Bytes& bytes : sample_contents(seed++, *n)) {
                const std::string name = std::to_string(expected.size());
                const Bytes& kept = expected[name] = std::move(bytes);
                described[name] = {static_cast<DType>(dtype), shape};
                expect_ok(writer.add(name, TensorView{static_cast<DType>(dtype), shape, kept}));
              }
            }
          }
        },
        options));
    EXPECT_GT(expected.size(), 1000U);
    EXPECT_EQ(all_tensors(file.reader()), expected);
    for (const auto& [name, what] : described) {
      EXPECT_EQ(file.record(name).dtype, what.first);
      EXPECT_EQ(file.record(name).shape, what.second);
    }
    expect_sound(file.reader());
  }
}

TEST(Writer, AnyNameComesBack) {
  const std::vector<std::string> names = {"",
                                          " ",
                                          "a/../b",
                                          std::string("\0\x01\n\x7f", 4),
                                          "\xf0\x9f\xa6\x8a",
                                          "\xe2\x80\xae reversed",
                                          std::string(65535, 'x'),
                                          "model.layers.0.weight"};
  const Bytes one = noise(1, 4);
  const OpenFile file(write_file([&](Writer& writer) {
    for (const std::string& name : names) {
      expect_ok(writer.add(name, TensorView{DType::kU8, {4}, one}));
    }
  }));
  for (const std::string& name : names) {
    EXPECT_EQ(file.tensor(name), one);
  }
}

TEST(Writer, AFileWithoutTensorsIsValid) {
  const OpenFile file(write_file([](Writer&) {}));
  EXPECT_TRUE(file->records().empty());
  expect_sound(file.reader());
}

struct Refusal {
  const char* what;
  std::string name;
  TensorView tensor;
  ErrorCode code;
};

TEST(Writer, RefusesWhatTheFormatCannotHold) {
  const Bytes four = noise(1, 4);
  const Shape many(65, 1);
  const std::uint64_t huge = std::uint64_t{1} << 48;
  const std::vector<Refusal> refusals = {
      {"not UTF-8", "\xff", {DType::kU8, {4}, four}, ErrorCode::kInvalidArgument},
      {"overlong UTF-8", "\xc0\x80", {DType::kU8, {4}, four}, ErrorCode::kInvalidArgument},
      {"surrogate", "\xed\xa0\x80", {DType::kU8, {4}, four}, ErrorCode::kInvalidArgument},
      {"long name", std::string(65536, 'x'), {DType::kU8, {4}, four}, ErrorCode::kLimitExceeded},
      {"taken name", "first", {DType::kU8, {4}, four}, ErrorCode::kInvalidArgument},
      {"too few bytes", "a", {DType::kU8, {5}, four}, ErrorCode::kInvalidArgument},
      {"too many bytes", "a", {DType::kU8, {3}, four}, ErrorCode::kInvalidArgument},
      {"no bytes", "a", {DType::kU8, {4}, {}}, ErrorCode::kInvalidArgument},
      {"part of a byte", "a", {DType::kF4, {7}, four}, ErrorCode::kInvalidArgument},
      {"many dimensions", "a", {DType::kU32, many, four}, ErrorCode::kLimitExceeded},
      {"large dimension", "a", {DType::kU8, {0, huge}, {}}, ErrorCode::kLimitExceeded},
      {"product", "a", {DType::kU8, {huge - 1, huge - 1, 0}, {}}, ErrorCode::kLimitExceeded},
      {"unknown dtype", "a", {static_cast<DType>(23), {4}, four}, ErrorCode::kUnsupported},
      {"dtype zero", "a", {static_cast<DType>(0), {4}, four}, ErrorCode::kUnsupported},
  };
  for (const Refusal& refusal : refusals) {
    MemorySink sink;
    Writer writer = take(Writer::create(sink));
    expect_ok(writer.add("first", TensorView{DType::kU8, {4}, four}));
    const Result<void> refused = writer.add(refusal.name, refusal.tensor);
    ASSERT_FALSE(refused) << refusal.what;
    EXPECT_EQ(refused.error().code, refusal.code) << refusal.what << refused.error().to_string();
    // And from then on everything.
    const Result<void> after = writer.add("good", TensorView{DType::kU8, {4}, four});
    ASSERT_FALSE(after) << refusal.what;
    EXPECT_EQ(after.error().message, refused.error().message);
    EXPECT_FALSE(writer.finish()) << refusal.what;
  }
}

TEST(Writer, RefusesASourceThatIsTooShort) {
  const Bytes bytes = noise(1, 100);
  const MemorySource source(bytes);
  for (const TensorSource& tensor :
       {TensorSource{DType::kU8, {101}, &source, 0}, TensorSource{DType::kU8, {1}, &source, 100},
        TensorSource{DType::kU8, {1}, &source, ~std::uint64_t{0}},
        TensorSource{DType::kU8, {1}, nullptr, 0}}) {
    MemorySink sink;
    Writer writer = take(Writer::create(sink));
    const Result<void> refused = writer.add("a", tensor);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().record, "a");
  }
}

TEST(Writer, RefusesCallsAfterFinish) {
  MemorySink sink;
  Writer writer = take(Writer::create(sink));
  EXPECT_TRUE(writer.finish());
  const Bytes bytes = noise(1, 4);
  EXPECT_FALSE(writer.add("a", TensorView{DType::kU8, {4}, bytes}));
  EXPECT_FALSE(writer.finish());
  const std::size_t length = sink.bytes().size();
  Writer moved = std::move(writer);
  EXPECT_FALSE(writer.finish());  // NOLINT: a moved-from writer must not crash
  EXPECT_EQ(sink.bytes().size(), length);
}

// A mix in which every way of storing a record occurs.
std::map<std::string, Bytes> mixed_tensors() {
  std::map<std::string, Bytes> tensors;
  for (std::uint64_t i = 0; i < 40; ++i) {
    tensors["small" + std::to_string(i)] = weights(i, 10 + 97 * i);
  }
  tensors["a raw, one chunk"] = noise(100, 300000);
  tensors["b raw, some chunks"] = noise(101, 3 << 20);
  tensors["c raw, many chunks"] = noise(102, 12 << 20);
  tensors["d weights"] = weights(103, 3 << 20);
  tensors["e late"] = joined({noise(104, 11 << 20), constant(0, 1 << 20)});
  tensors["f at last"] = joined({noise(105, 4 << 20), constant(0, 1 << 20)});
  tensors["t small again"] = weights(106, 100);
  tensors["u zeros"] = constant(0, 5 << 20);
  return tensors;
}

TEST(Writer, TheBytesDoNotDependOnThreads) {
  const std::map<std::string, Bytes> tensors = mixed_tensors();
  Bytes first;
  for (const unsigned threads : {1U, 2U, 3U, 4U}) {
    EncodeOptions options;
    options.threads = threads;
    Bytes bytes = write_file(
        [&](Writer& writer) {
          for (const auto& [name, values] : tensors) {
            expect_ok(writer.add(name, TensorView{DType::kF32, {values.size() / 4}, values}));
          }
        },
        options);
    if (first.empty()) {
      first = bytes;
      const OpenFile file(bytes);
      EXPECT_EQ(all_tensors(file.reader()), tensors);
      expect_sound(file.reader());
      for (const char* raw : {"a raw, one chunk", "b raw, some chunks", "c raw, many chunks"}) {
        EXPECT_EQ(file.record(raw).codec, CodecId::kRaw) << raw;
      }
      for (const char* lossless : {"d weights", "e late", "f at last", "u zeros", "small3"}) {
        EXPECT_EQ(file.record(lossless).codec, CodecId::kLossless) << lossless;
      }
    }
    EXPECT_EQ(bytes == first, true) << threads << " threads";
  }
}

TEST(Writer, AutoNeverTakesMoreThanRawOrLossless) {
  const std::map<std::string, Bytes> tensors = mixed_tensors();
  const auto stored = [&](CodecChoice choice) {
    EncodeOptions options;
    options.codec = choice;
    return OpenFile(write_file(
        [&](Writer& writer) {
          for (const auto& [name, values] : tensors) {
            expect_ok(writer.add(name, TensorView{DType::kF32, {values.size() / 4}, values}));
          }
        },
        options));
  };
  const OpenFile automatic = stored(CodecChoice::kAuto);
  const OpenFile raw = stored(CodecChoice::kRaw);
  const OpenFile lossless = stored(CodecChoice::kLossless);
  for (const auto& [name, values] : tensors) {
    // The padding of raw records depends on their position, so it is not measured.
    EXPECT_LE(automatic.record(name).stored_bytes,
              std::min(raw.record(name).stored_bytes, lossless.record(name).stored_bytes) + 63)
        << name;
  }
}

TEST(Writer, ChunksHaveTheLengthAskedFor) {
  const Bytes values = weights(1, 60 * 50);
  for (const std::uint32_t chunk_elems :
       {1U, 7U, 8U, 49U, 50U, 51U, 100U, 125U, 2999U, 3000U, 1U << 20, ~0U}) {
    for (const CodecChoice choice :
         {CodecChoice::kAuto, CodecChoice::kRaw, CodecChoice::kLossless}) {
      EncodeOptions options;
      options.chunk_elems = chunk_elems;
      options.codec = choice;
      options.threads = 2;
      const OpenFile file(write_file(
          [&](Writer& writer) {
            expect_ok(writer.add("t", TensorView{DType::kF32, {60, 50}, values}));
            expect_ok(writer.add("b", TensorView{DType::kF4, {3, 8000}, values}));
          },
          options));
      EXPECT_EQ(file.tensor("t"), values);
      EXPECT_EQ(file.tensor("b"), values);
      EXPECT_LE(file.record("t").chunk_elems, std::max(chunk_elems, 8U));
      if (file.record("b").n_chunks > 1) {
        EXPECT_EQ(file.record("b").chunk_elems % 8, 0U);
      }
      expect_sound(file.reader());
    }
  }
}

struct PackCase {
  std::vector<std::size_t> sizes;         // of raw U8 records
  std::vector<std::uint64_t> pack_bytes;  // what the packs must hold
};

TEST(Writer, PacksAreCutWhereTheFormatSays) {
  const std::size_t most = format::kMaxPackedPayloadBytes;
  const std::size_t filled = format::kMaxPackBytes - format::kFrameHeaderBytes - 7 * most;
  const std::vector<PackCase> cases = {
      {{most}, {most}},
      {{most + 1}, {}},
      {{1, most + 1, 1}, {2}},  // stays open across a chunked record
      {{most, most, most, most - 1, most + 1, 5}, {4 * most + 4}},
      {{most, most, most, most, most + 1, 5}, {4 * most, 5}},  // 65536 bytes: closed before it
      {{most, most, most, most, most, most, most, filled}, {7 * most + filled}},
      {{most, most, most, most, most, most, most, filled + 1}, {7 * most, filled + 1}},
      {{most, most, most, most, most, most, most, filled, 1}, {7 * most + filled, 1}},
  };
  EncodeOptions options;
  options.codec = CodecChoice::kRaw;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<Bytes> values;
    for (const std::size_t size : cases[i].sizes) {
      values.push_back(noise(values.size() + 7, size));
    }
    const OpenFile file(write_file(
        [&](Writer& writer) {
          for (std::size_t k = 0; k < values.size(); ++k) {
            expect_ok(writer.add(std::to_string(k),
                                 TensorView{DType::kU8, {values[k].size()}, values[k]}));
          }
        },
        options));
    std::vector<std::uint64_t> found;
    for (const format::PackEntry& pack : ReaderAccess::index(file.reader()).packs) {
      found.push_back(pack.n_bytes - format::kFrameHeaderBytes);
    }
    EXPECT_EQ(found, cases[i].pack_bytes) << "case " << i;
    for (std::size_t k = 0; k < values.size(); ++k) {
      EXPECT_EQ(file.tensor(std::to_string(k)), values[k]);
      EXPECT_EQ(file.record(std::to_string(k)).kind,
                values[k].size() <= most ? RecordKind::kPacked : RecordKind::kChunked);
    }
    expect_sound(file.reader());
  }
}

TEST(Writer, RawRecordsCanBeMappedInPlace) {
  EncodeOptions options;
  options.codec = CodecChoice::kRaw;
  const Bytes small = noise(1, 3);
  const Bytes large = noise(2, 5 << 20);
  const OpenFile file(write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("x", TensorView{DType::kU8, {20000}, ByteView(large).first(20000)}));
        expect_ok(writer.add("small", TensorView{DType::kU8, {3}, small}));
        expect_ok(writer.add("large", TensorView{DType::kU8, {large.size()}, large}));
      },
      options));
  const ByteView mapped = take(file->map(file.record("large")));
  EXPECT_TRUE(std::ranges::equal(mapped, large));
  EXPECT_EQ(static_cast<std::size_t>(mapped.data() - file.bytes().data()) % 64, 0U);
}

TEST(Writer, MetadataAndAttachmentsComeBack) {
  const Bytes header = weights(3, 100000);
  const OpenFile file(write_file([&](Writer& writer) {
    expect_ok(writer.set_metadata("format", "numpy"));
    expect_ok(writer.set_metadata("", "empty key"));
    expect_ok(writer.set_metadata("format", "pt"));
    expect_ok(writer.attach("b", header));
    expect_ok(writer.attach("a", noise(1, 10)));
    expect_ok(writer.attach("a", {}));
  }));
  EXPECT_EQ(file->metadata(), (Metadata{{"", "empty key"}, {"format", "pt"}}));
  ASSERT_EQ(file->attachments().size(), 2U);
  EXPECT_EQ(take(file->attachment("a")), Bytes());
  EXPECT_EQ(take(file->attachment("b")), header);
  MemorySink sink;
  Writer writer = take(Writer::create(sink));
  EXPECT_FALSE(writer.set_metadata("k", "\xff"));
}

TEST(Writer, ProgressCountsEveryByteAndCanCancel) {
  const std::map<std::string, Bytes> tensors = mixed_tensors();
  std::uint64_t total = 0;
  std::uint64_t last = 0;
  MemorySink sink;
  Writer writer = take(Writer::create(sink));
  writer.set_progress([&](std::uint64_t done, std::string_view) {
    EXPECT_GE(done, last);
    last = done;
    return true;
  });
  for (const auto& [name, values] : tensors) {
    total += 2 * values.size();
    expect_ok(writer.add(name, TensorView{DType::kF32, {values.size() / 4}, values}));
    expect_ok(writer.add(name + " again", TensorView{DType::kF32, {values.size() / 4}, values}));
  }
  EXPECT_TRUE(writer.finish());
  EXPECT_EQ(last, total);

  Writer cancelled = take(Writer::create(sink));
  cancelled.set_progress([](std::uint64_t, std::string_view) { return false; });
  const Bytes& values = tensors.begin()->second;
  (void)cancelled.add("a", TensorView{DType::kF32, {values.size() / 4}, values});
  const Result<WriteSummary> finished = cancelled.finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(finished.error().message, "cancelled");
}

TEST(Writer, RefusesAttachmentsThatNoReaderTakesByDefault) {
  // Never touched.
  const std::size_t n_bytes = kMaxAttachmentBytes + 1;
  void* const memory =
      ::mmap(nullptr, n_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  MemorySink sink;
  Writer writer = take(Writer::create(sink));
  const Result<void> refused =
      writer.attach("large", ByteView(static_cast<const std::byte*>(memory), n_bytes));
  ::munmap(memory, n_bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(refused.error().message.find("max_attachment_bytes"), std::string::npos);
}

}  // namespace
}  // namespace cfck::test

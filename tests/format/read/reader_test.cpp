// Reading: whole records, ranges, boxes, aliases, mapped records, limits.
#include "cfck/reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/bytes.hpp"
#include "cfck/version.hpp"
#include "format/container/element_view.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

std::uint64_t product(const Shape& shape) { return *n_elems(shape); }

// Gathers element by element, by the definition: slow, but obviously right.
Bytes gathered(const Bytes& tensor, unsigned bits, std::uint64_t offset, const Shape& shape,
               const std::vector<std::uint64_t>& strides) {
  const std::uint64_t count = product(shape);
  Bytes out(format::byte_of(count, bits));
  for (std::uint64_t flat = 0; flat < count; ++flat) {
    std::uint64_t element = offset;
    std::uint64_t rest = flat;
    for (std::size_t i = shape.size(); i-- > 0;) {
      element += rest % shape[i] * strides[i];
      rest /= shape[i];
    }
    for (unsigned bit = 0; bit < bits; ++bit) {
      const std::uint64_t from = element * bits + bit;
      const std::uint64_t to = flat * bits + bit;
      if ((std::to_integer<unsigned>(tensor[from / 8]) >> (from % 8) & 1) != 0) {
        out[to / 8] |= std::byte{1} << static_cast<int>(to % 8);
      }
    }
  }
  return out;
}

std::vector<std::uint64_t> row_major(const Shape& shape) {
  std::vector<std::uint64_t> strides(shape.size());
  std::uint64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

struct Case {
  CodecChoice codec;
  DType dtype;
  Shape shape;
  std::uint32_t chunk_elems;
};

// Chunked and packed, raw and compressed, whole bytes and parts of them.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const CodecChoice codec : {CodecChoice::kRaw, CodecChoice::kLossless}) {
    all.push_back({codec, DType::kF32, {12, 10, 6}, 100});
    all.push_back({codec, DType::kF32, {5, 7}, 0});
    all.push_back({codec, DType::kBF16, {300, 200}, 7000});
    all.push_back({codec, DType::kU8, {97, 31}, 64});
    all.push_back({codec, DType::kF4, {16, 10, 4}, 48});
    all.push_back({codec, DType::kF6E3M2, {8, 12, 4}, 40});
    all.push_back({codec, DType::kF64, {70000}, 4096});
    all.push_back({codec, DType::kI64, {1, 3, 1, 50}, 16});
  }
  return all;
}

Bytes contents(const Case& c) {
  const std::uint64_t n = *n_bytes(c.dtype, c.shape);
  Bytes bytes = c.dtype == DType::kF32 ? weights(3, n / 4) : noise(5, n);
  // Something to compress in half of it.
  std::fill_n(bytes.begin(), n / 2, std::byte{0x11});
  return bytes;
}

OpenFile file_of(const Case& c, const Bytes& bytes) {
  EncodeOptions options;
  options.codec = c.codec;
  options.chunk_elems = c.chunk_elems;
  return OpenFile(write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("t", TensorView{c.dtype, c.shape, bytes}));
      },
      options));
}

TEST(Reader, RangesOfElements) {
  for (const Case& c : cases()) {
    const Bytes bytes = contents(c);
    const OpenFile file = file_of(c, bytes);
    const Record& record = file.record("t");
    const unsigned bits = bits_per_element(c.dtype);
    const std::uint64_t unit = bits == 4 ? 2 : bits == 6 ? 4 : 1;
    Random random(record.n_elems);
    for (int round = 0; round < 60; ++round) {
      const std::uint64_t first = random.below(record.n_elems / unit + 1) * unit;
      const std::uint64_t count = random.below((record.n_elems - first) / unit + 1) * unit;
      Bytes out(format::byte_of(count, bits));
      expect_ok(file->read_elements(record, first, count, out));
      const auto start = bytes.begin() + static_cast<std::ptrdiff_t>(format::byte_of(first, bits));
      ASSERT_TRUE(std::equal(out.begin(), out.end(), start));
    }
  }
}

TEST(Reader, Boxes) {
  for (const Case& c : cases()) {
    const Bytes bytes = contents(c);
    const OpenFile file = file_of(c, bytes);
    const Record& record = file.record("t");
    const unsigned bits = bits_per_element(c.dtype);
    Random random(record.n_elems + 1);
    int n_read = 0;
    for (int round = 0; round < 80; ++round) {
      std::vector<std::uint64_t> starts;
      std::vector<std::uint64_t> stops;
      Shape shape;
      std::uint64_t offset = 0;
      for (std::size_t i = 0; i < c.shape.size(); ++i) {
        starts.push_back(random.below(c.shape[i] + 1));
        stops.push_back(starts[i] + random.below(c.shape[i] - starts[i] + 1));
        shape.push_back(stops[i] - starts[i]);
        offset += starts[i] * row_major(c.shape)[i];
      }
      if (product(shape) % 8 * bits % 8 != 0) {
        continue;  // no whole bytes
      }
      ++n_read;
      Bytes out(format::byte_of(product(shape), bits));
      expect_ok(file->read_slice(record, starts, stops, out));
      ASSERT_EQ(out, gathered(bytes, bits, offset, shape, row_major(c.shape)));
    }
    EXPECT_GT(n_read, 5);
  }
}

struct View {
  std::uint64_t offset;
  Shape shape;
  std::vector<std::uint64_t> strides;
};

// Views of 12 x 10 x 6 elements: contiguous, rows, columns, transposed, expanded, steps.
const View kViews[] = {
    {0, {12, 10, 6}, {60, 6, 1}},
    {120, {3, 60}, {60, 1}},
    {7, {5, 3}, {60, 6}},
    {0, {6, 12, 10}, {1, 60, 6}},
    {719, {4, 4}, {0, 0}},
    {3, {4, 6}, {0, 1}},
    {1, {359}, {2}},
    {0, {2, 10, 6}, {6, 60, 1}},
    {0, {1, 1}, {999999, 5}},
    {4, {10, 4}, {12, 3}},
    {8, {4, 8}, {16, 1}},
};

TEST(Reader, AliasesComeBackContiguous) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8, DType::kF64}) {
    const Case c{CodecChoice::kAuto, dtype, {12, 10, 6}, 64};
    const unsigned bits = bits_per_element(dtype);
    const Bytes bytes = contents(c);
    EncodeOptions options;
    options.chunk_elems = 64;
    const OpenFile file(write_file(
        [&](Writer& writer) {
          expect_ok(writer.add("base", TensorView{dtype, c.shape, bytes}));
          for (std::size_t i = 0; i < std::size(kViews); ++i) {
            expect_ok(writer.add_alias(std::to_string(i), "base", kViews[i].offset, kViews[i].shape,
                                       kViews[i].strides));
          }
        },
        options));
    std::vector<Bytes> together(std::size(kViews));
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < std::size(kViews); ++i) {
      const View& view = kViews[i];
      const Bytes expected = gathered(bytes, bits, view.offset, view.shape, view.strides);
      const Record& record = file.record(std::to_string(i));
      EXPECT_EQ(file.tensor(record.name), expected) << i;
      together[i].resize(expected.size());
      requests.push_back({&record, together[i]});
      // A range in the middle.
      if (record.n_elems > 16) {
        Bytes part(format::byte_of(8, bits));
        expect_ok(file->read_elements(record, 8, 8, part));
        EXPECT_TRUE(
            std::equal(part.begin(), part.end(),
                       expected.begin() + static_cast<std::ptrdiff_t>(format::byte_of(8, bits))));
      }
    }
    // With and without the base in the same call.
    for (const bool with_base : {false, true}) {
      Bytes base(bytes.size());
      if (with_base) {
        requests.push_back({&file.record("base"), base});
      }
      expect_ok(file->read_many(requests));
      for (std::size_t i = 0; i < std::size(kViews); ++i) {
        EXPECT_EQ(together[i],
                  gathered(bytes, bits, kViews[i].offset, kViews[i].shape, kViews[i].strides));
      }
      EXPECT_TRUE(!with_base || base == bytes);
    }
    expect_sound(file.reader());
  }
}

TEST(Reader, BoxesOfAliases) {
  const Bytes bytes = weights(9, 720);
  const OpenFile file(write_file([&](Writer& writer) {
    expect_ok(writer.add("base", TensorView{DType::kF32, {12, 60}, bytes}));
    expect_ok(writer.add_alias("t", "base", 0, {60, 12}, std::vector<std::uint64_t>{1, 60}));
  }));
  Bytes out(5 * 4 * 4);
  expect_ok(file->read_slice(file.record("t"), std::vector<std::uint64_t>{10, 3},
                             std::vector<std::uint64_t>{15, 7}, out));
  EXPECT_EQ(out, gathered(bytes, 32, 10 + 3 * 60, {5, 4}, {1, 60}));
}

TEST(Reader, DuplicatesAreCopied) {
  const Bytes bytes = weights(4, 40000);
  const Bytes same = bytes;
  const OpenFile file(write_file([&](Writer& writer) {
    expect_ok(writer.add("a", TensorView{DType::kF32, {40000}, bytes}));
    expect_ok(writer.add("b", TensorView{DType::kF32, {40000}, same}));
  }));
  EXPECT_EQ(file.record("b").kind, RecordKind::kDuplicate);
  Bytes first(bytes.size());
  Bytes second(bytes.size());
  const ReadRequest requests[] = {{&file.record("b"), first}, {&file.record("a"), second}};
  std::uint64_t reported = 0;
  expect_ok(file->read_many(requests, [&](std::uint64_t done, std::string_view) {
    reported = done;
    return true;
  }));
  EXPECT_EQ(first, bytes);
  EXPECT_EQ(second, bytes);
  EXPECT_EQ(reported, 2 * bytes.size());
}

TEST(Reader, RefusesWrongCalls) {
  const Bytes bytes = noise(1, 48);
  const OpenFile file(write_file([&](Writer& writer) {
    expect_ok(writer.add("a", TensorView{DType::kF32, {3, 4}, bytes}));
    expect_ok(writer.add("four", TensorView{DType::kF4, {96}, bytes}));
  }));
  const Record& record = file.record("a");
  Bytes out(48);
  const auto code = [](const Result<void>& result) {
    return result ? ErrorCode{} : result.error().code;
  };
  const auto kBad = ErrorCode::kInvalidArgument;
  EXPECT_EQ(code(file->read(record, MutableBytes(out).first(47))), kBad);
  EXPECT_EQ(code(file->read_elements(record, 0, 13, out)), kBad);
  EXPECT_EQ(code(file->read_elements(record, 13, 0, {})), kBad);
  EXPECT_EQ(code(file->read_elements(record, ~std::uint64_t{0}, 2, out)), kBad);
  EXPECT_EQ(code(file->read_elements(record, 2, ~std::uint64_t{0}, out)), kBad);
  EXPECT_EQ(code(file->read_elements(record, 0, 11, out)), kBad);
  EXPECT_EQ(code(file->read_elements(file.record("four"), 1, 2, MutableBytes(out).first(1))), kBad);
  EXPECT_EQ(code(file->read_elements(file.record("four"), 0, 3, MutableBytes(out).first(2))), kBad);
  const std::vector<std::uint64_t> zeros{0, 0};
  const std::vector<std::uint64_t> all{3, 4};
  const std::vector<std::uint64_t> beyond{4, 4};
  const std::vector<std::uint64_t> one{1};
  EXPECT_EQ(code(file->read_slice(record, zeros, all, out)), ErrorCode{});
  EXPECT_EQ(code(file->read_slice(record, zeros, beyond, out)), kBad);
  EXPECT_EQ(code(file->read_slice(record, all, zeros, {})), kBad);
  EXPECT_EQ(code(file->read_slice(record, one, one, {})), kBad);
  EXPECT_EQ(code(file->read_slice(record, zeros, zeros, {})), ErrorCode{});
  Record foreign = record;
  foreign.digest[0] ^= 1;
  EXPECT_EQ(code(file->read(foreign, out)), kBad);
  const ReadRequest nothing[] = {{nullptr, out}};
  EXPECT_EQ(code(file->read_many(nothing)), kBad);
  EXPECT_EQ(file->find("A"), nullptr);
  EXPECT_EQ(file->attachment("x").error().code, ErrorCode::kNotFound);
}

TEST(Reader, ProgressCanCancel) {
  const Bytes bytes = weights(2, 50000);
  EncodeOptions options;
  options.chunk_elems = 1000;
  const OpenFile file(write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("a", TensorView{DType::kF32, {50000}, bytes}));
      },
      options));
  Bytes out(bytes.size());
  const ReadRequest requests[] = {{&file.record("a"), out}};
  int calls = 0;
  const Result<void> result = file->read_many(requests, [&](std::uint64_t, std::string_view name) {
    EXPECT_EQ(name, "a");
    return ++calls < 3;
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(result.error().message, "cancelled");
  std::uint64_t last = 0;
  expect_ok(file->read_many(requests, [&](std::uint64_t done, std::string_view) {
    EXPECT_GT(done, last);
    last = done;
    return true;
  }));
  EXPECT_EQ(last, bytes.size());
}

TEST(Reader, MapsRawRecords) {
  const Bytes large = noise(1, 100000);
  const Bytes soft = weights(1, 30000);
  EncodeOptions options;
  options.codec = CodecChoice::kRaw;
  options.chunk_elems = 1024;
  Bytes bytes = write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("large", TensorView{DType::kU8, {100000}, large}));
        expect_ok(writer.add("small", TensorView{DType::kU8, {10}, ByteView(large).first(10)}));
        expect_ok(writer.add("none", TensorView{DType::kU8, {0}, {}}));
        const MemorySource* source = new MemorySource(soft);
        expect_ok(writer.add("soft", TensorSource{DType::kF32, {30000}, source, 0},
                             TensorOptions{.codec = CodecChoice::kLossless}));
        // Freed with the test process: the writer may read it until finish().
        static std::vector<std::unique_ptr<const MemorySource>> kept;
        kept.emplace_back(source);
      },
      options);
  const OpenFile file(bytes);
  const ByteView mapped = take(file->map(file.record("large")));
  EXPECT_TRUE(std::ranges::equal(mapped, large));
  EXPECT_EQ((mapped.data() - file.bytes().data()) % 64, 0);
  EXPECT_TRUE(take(file->map(file.record("none"))).empty());
  EXPECT_EQ(file->map(file.record("small")).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(file->map(file.record("soft")).error().code, ErrorCode::kUnsupported);

  const TemporaryFolder folder;
  put_bytes(folder.path("f"), bytes);
  for (const ReadMode mode : {ReadMode::kPread, ReadMode::kMmap}) {
    const auto source = take(open_file(folder.path("f"), mode));
    const Reader reader = take(Reader::open(*source));
    EXPECT_EQ(reader.map(*reader.find("large")).has_value(), mode == ReadMode::kMmap);
    EXPECT_EQ(all_tensors(reader), all_tensors(file.reader()));
  }
  const std::ptrdiff_t place = mapped.data() - file.bytes().data();
  bytes[static_cast<std::size_t>(place) + 5000] ^= std::byte{1};
  const MemorySource source(bytes);
  const Reader damaged = take(Reader::open(source));
  EXPECT_EQ(damaged.map(*damaged.find("large")).error().code, ErrorCode::kChecksum);
}

TEST(Reader, LimitsWhatOneCallReturns) {
  const Bytes bytes = weights(2, 1000);
  const Bytes file_bytes = write_file([&](Writer& writer) {
    expect_ok(writer.add("a", TensorView{DType::kF32, {1000}, bytes}));
    expect_ok(writer.add_alias("t", "a", 0, {2, 1}, std::vector<std::uint64_t>{999, 1}));
    expect_ok(writer.add_alias("back", "a", 0, {2, 2}, std::vector<std::uint64_t>{1, 500}));
  });
  const MemorySource source(file_bytes);
  DecodeOptions options;
  options.limits.max_decoded_bytes = 3999;
  const Reader reader = take(Reader::open(source, options));
  Bytes out(4000);
  const Result<void> whole = reader.read(*reader.find("a"), out);
  EXPECT_EQ(whole.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(whole.error().message.find("max_decoded_bytes"), std::string::npos);
  EXPECT_EQ(whole.error().record, "a");
  expect_ok(reader.read_elements(*reader.find("a"), 0, 999, MutableBytes(out).first(3996)));
  expect_ok(reader.read(*reader.find("t"), MutableBytes(out).first(8)));
  EXPECT_TRUE(std::equal(out.begin() + 4, out.begin() + 8, bytes.end() - 4));
  expect_ok(reader.read(*reader.find("back"), MutableBytes(out).first(16)));
  Bytes both(4000);
  const ReadRequest requests[] = {{reader.find("a"), out}, {reader.find("t"), {}}};
  EXPECT_FALSE(reader.read_many(requests));
}

TEST(Reader, AttachmentsAndMetadata) {
  const Bytes text = noise(3, 3000);
  const Bytes file_bytes = write_file([&](Writer& writer) {
    expect_ok(writer.set_metadata("k", "v"));
    expect_ok(writer.attach("text", text));
    expect_ok(writer.attach("nothing", {}));
  });
  const OpenFile file(file_bytes);
  EXPECT_EQ(file->metadata(), (Metadata{{"k", "v"}}));
  ASSERT_EQ(file->attachments().size(), 2U);
  EXPECT_EQ(file->attachments()[1].name, "text");
  EXPECT_EQ(file->attachments()[1].decoded_bytes, 3000U);
  EXPECT_EQ(take(file->attachment("text")), text);
  EXPECT_TRUE(take(file->attachment("nothing")).empty());
  EXPECT_EQ(file->format_version(),
            std::to_string(kFormatMajor) + "." + std::to_string(kFormatMinor));
  EXPECT_EQ(file->generation(), 0U);
  EXPECT_EQ(file->dead_bytes(), 0U);
  EXPECT_EQ(file->file_bytes(), file_bytes.size());
  const MemorySource source(file_bytes);
  DecodeOptions options;
  options.limits.max_attachment_bytes = 2999;
  const Reader reader = take(Reader::open(source, options));
  const auto refused = reader.attachment("text");
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(refused.error().message.find("max_attachment_bytes"), std::string::npos);
}

TEST(Reader, ContentDigestSeesTensorsOnly) {
  const Bytes a = weights(1, 5000);
  const Bytes b = weights(2, 5000);
  const auto digest = [&](CodecChoice codec, bool swapped, const Bytes& second) {
    EncodeOptions options;
    options.codec = codec;
    const OpenFile file(write_file(
        [&](Writer& writer) {
          const auto add = [&](const char* name, const Bytes& bytes) {
            expect_ok(writer.add(name, TensorView{DType::kF32, {5000}, bytes}));
          };
          if (swapped) {
            add("b", second);
            add("a", a);
            expect_ok(writer.set_metadata("x", "y"));
          } else {
            add("a", a);
            add("b", second);
          }
        },
        options));
    return file->content_digest();
  };
  const Digest first = digest(CodecChoice::kRaw, false, b);
  EXPECT_EQ(digest(CodecChoice::kLossless, true, b), first);
  EXPECT_EQ(digest(CodecChoice::kAuto, false, a) == first, false);
}

}  // namespace
}  // namespace cfck::test

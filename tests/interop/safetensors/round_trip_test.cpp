// safetensors to .cfck and back: the bytes are equal, and there are new headers where there is no
// old one.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "cfck/reader.hpp"
#include "cfck/safetensors.hpp"
#include "cfck/writer.hpp"
#include "tests/interop/safetensors/conversions.hpp"
#include "tests/interop/safetensors/safetensors_file.hpp"

namespace cfck {
namespace {

using test::entry;
using test::safetensors_file;
using test::to_cfck;
using test::to_safetensors;
using Bytes = std::vector<std::byte>;

// Values that look a little like weights: a repeated pattern under noise.
std::string noise(std::size_t n_bytes, std::uint64_t seed) {
  std::string text(n_bytes, '\0');
  for (char& c : text) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    c = static_cast<char>(seed >> 59);
  }
  return text;
}

void expect_round_trip(const Bytes& file, EncodeOptions options = {}) {
  EXPECT_TRUE(to_safetensors(to_cfck(file, options)) == file);
}

TEST(SafetensorsRoundTrip, EveryDTypeAndShape) {
  static constexpr const char* kNames[] = {
      "BOOL",        "F4",  "F6_E2M3", "F6_E3M2", "U8",   "I8",  "F8_E5M2", "F8_E4M3",
      "F8_E8M0",     "I16", "U16",     "F16",     "BF16", "I32", "U32",     "F8_E4M3FNUZ",
      "F8_E5M2FNUZ", "F32", "C64",     "F64",     "I64",  "U64"};
  const struct {
    const char* text;
    std::uint64_t n_elems;
  } shapes[] = {{"[8]", 8}, {"[2,1,600,4]", 4800}, {"[0,3]", 0}, {"[3,0]", 0}, {"[24]", 24}};
  std::string json = "{";
  std::uint64_t end = 0;
  for (const char* name : kNames) {
    const auto dtype = dtype_from_name(name);
    ASSERT_TRUE(dtype) << name;
    for (const auto& shape : shapes) {
      const std::uint64_t begin = end;
      end += shape.n_elems * bits_per_element(*dtype) / 8;
      if (json.size() > 1) json += ",";
      json += entry(std::string(name) + shape.text, name, shape.text,
                    "[" + std::to_string(begin) + "," + std::to_string(end) + "]");
    }
  }
  const Bytes file = safetensors_file(json + "}", noise(end, 1));
  expect_round_trip(file);
  for (const CodecChoice codec : {CodecChoice::kRaw, CodecChoice::kLossless}) {
    EncodeOptions options;
    options.codec = codec;
    options.threads = 1;
    options.chunk_elems = 64;
    expect_round_trip(file, options);
  }
}

TEST(SafetensorsRoundTrip, OddHeaders) {
  const std::string a = entry("a", "F32", "[]", "[2,6]");
  const std::string b = entry("b", "BF16", "[1]", "[0,2]");
  const std::string headers[] = {
      "{" + a + "," + b + "}",
      "{" + b + "," + a + "}      \n\t ",
      "{ " + b + " ,\n " + a + R"(, "__metadata__" : { "z":"1", "a":"\u00e9\u0000" } })",
      R"({"__metadata__":null,)" + a + "," + b + "}",
      R"({"__metadata__":{},)" + a + "," + b + "}",
      "{" + b + R"(,"\u0061":{"data_offsets":[2,6],"extra":{"x":[1.5]},"shape":[],"dtype":"F32"}})",
  };
  for (const std::string& header : headers) {
    const Bytes file = safetensors_file(header, "123456");
    EXPECT_TRUE(to_safetensors(to_cfck(file)) == file) << header;
  }
}

TEST(SafetensorsRoundTrip, NoTensors) {
  expect_round_trip(safetensors_file("{}"));
  expect_round_trip(safetensors_file(R"({"__metadata__":{"only":"this"}}   )"));
}

TEST(SafetensorsRoundTrip, ManyChunksAndManySmallTensors) {
  std::string json = "{";
  std::uint64_t end = 0;
  const auto add = [&](const std::string& name, std::uint64_t n_elems) {
    if (json.size() > 1) json += ",";
    json += entry(name, "F32", "[" + std::to_string(n_elems) + "]",
                  "[" + std::to_string(end) + "," + std::to_string(end + 4 * n_elems) + "]");
    end += 4 * n_elems;
  };
  for (int i = 0; i < 500; ++i) add("small" + std::to_string(i), static_cast<std::uint64_t>(i % 9));
  add("large", 1'000'003);
  for (int i = 500; i < 700; ++i) add("small" + std::to_string(i), 384);
  const Bytes file = safetensors_file(json + "}", noise(end, 2));
  const Bytes packed = to_cfck(file);
  for (const unsigned threads : {1U, 2U, 5U}) {
    EXPECT_TRUE(to_safetensors(packed, threads) == file) << threads;
  }
}

// The expected header is the one that safetensors 0.8 writes for equal tensors.
TEST(SafetensorsRoundTrip, NewHeadersAreThoseOfSafetensors) {
  MemorySink sink;
  auto writer = Writer::create(sink);
  ASSERT_TRUE(writer);
  const std::string bytes = "0123456789abcdef";
  const auto view = [&](DType dtype, Shape shape, std::size_t n_bytes) {
    return TensorView{dtype, std::move(shape), std::as_bytes(std::span(bytes.data(), n_bytes))};
  };
  ASSERT_TRUE(writer->add("u8", view(DType::kU8, {3}, 3)));
  ASSERT_TRUE(writer->add("b/\x7f\"\n\x01\xC3\xA9", view(DType::kF32, {2, 1}, 8)));
  ASSERT_TRUE(writer->add("a", view(DType::kF32, {}, 4)));
  ASSERT_TRUE(writer->add("i64", view(DType::kI64, {2}, 16)));
  ASSERT_TRUE(writer->add("c64", view(DType::kC64, {1}, 8)));
  ASSERT_TRUE(writer->set_metadata("format", "pt"));
  ASSERT_TRUE(writer->set_metadata("about", "q\"\t"));
  ASSERT_TRUE(writer->finish());
  const std::string json = R"({"__metadata__":{"about":"q\"\t","format":"pt"},)"
                           R"("i64":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                           R"("c64":{"dtype":"C64","shape":[1],"data_offsets":[16,24]},)"
                           R"("a":{"dtype":"F32","shape":[],"data_offsets":[24,28]},)"
                           "\"b/\x7f\\\"\\n\\u0001\xC3\xA9\":"
                           R"({"dtype":"F32","shape":[2,1],"data_offsets":[28,36]},)"
                           R"("u8":{"dtype":"U8","shape":[3],"data_offsets":[36,39]}})";
  std::string padded = json;
  padded.resize((json.size() + 7) / 8 * 8, ' ');
  const Bytes expected = safetensors_file(
      padded, bytes + bytes.substr(0, 8) + bytes.substr(0, 4) + bytes.substr(0, 8) + "012");
  EXPECT_TRUE(to_safetensors(sink.bytes()) == expected);
}

TEST(SafetensorsRoundTrip, AHeaderThatNoLongerFitsIsNotUsed) {
  const std::string bytes = "01234567";
  const std::string good = "{" + entry("a", "F32", "[2]", "[0,8]") + "}";
  const std::string stale[] = {
      "{" + entry("a", "F32", "[2,1]", "[0,8]") + "} ",
      "{" + entry("a", "I32", "[2]", "[0,8]") + "} ",
      "{" + entry("b", "F32", "[2]", "[0,8]") + "} ",
      "{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[0]", "[8,8]") + "}",
      R"({"__metadata__":{"k":"v"},)" + good.substr(1),
      "{}",
      "no JSON",
      "",
  };
  std::string padded = good;
  padded.resize((good.size() + 7) / 8 * 8, ' ');
  for (const std::string& header : stale) {
    MemorySink sink;
    auto writer = Writer::create(sink);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add("a", TensorView{DType::kF32, {2}, std::as_bytes(std::span(bytes))}));
    ASSERT_TRUE(writer->attach("safetensors.header", std::as_bytes(std::span(header))));
    ASSERT_TRUE(writer->finish());
    EXPECT_TRUE(to_safetensors(sink.bytes()) == safetensors_file(padded, bytes)) << header;
  }
}

TEST(SafetensorsRoundTrip, ViewsAndEqualTensorsAreWrittenInFull) {
  const std::string bytes = noise(4 * 600, 3);
  MemorySink sink;
  EncodeOptions options;
  options.chunk_elems = 64;
  auto writer = Writer::create(sink, options);
  ASSERT_TRUE(writer);
  const TensorView view{DType::kF32, {20, 30}, std::as_bytes(std::span(bytes))};
  ASSERT_TRUE(writer->add("a", view));
  ASSERT_TRUE(writer->add("b", view));  // equal by chance
  const std::uint64_t rows[] = {30, 1};
  ASSERT_TRUE(writer->add_alias("c", "a", 60, {18, 30}, rows));
  const std::uint64_t transposed[] = {1, 30};
  ASSERT_TRUE(writer->add_alias("d", "a", 0, {30, 20}, transposed));
  ASSERT_TRUE(writer->finish());

  std::string turned;
  for (std::size_t i = 0; i < 30; ++i) {
    for (std::size_t j = 0; j < 20; ++j) turned += bytes.substr(4 * (j * 30 + i), 4);
  }
  const Bytes file = to_safetensors(sink.bytes());
  const auto header = read_safetensors_header(MemorySource(file));
  ASSERT_TRUE(header);
  const std::string expected = bytes + bytes + bytes.substr(240) + turned;
  ASSERT_EQ(file.size(), 8 + header->json.size() + expected.size());
  EXPECT_EQ(std::memcmp(file.data() + 8 + header->json.size(), expected.data(), expected.size()),
            0);
}

TEST(SafetensorsRoundTrip, ATensorCannotBeCalledMetadata) {
  MemorySink sink;
  auto writer = Writer::create(sink);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add("__metadata__", TensorView{DType::kU8, {0}, {}}));
  ASSERT_TRUE(writer->finish());
  const MemorySource source(sink.bytes());
  const auto reader = Reader::open(source);
  ASSERT_TRUE(reader);
  MemorySink out;
  const auto written = write_safetensors(*reader, out);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(written.error().record, "__metadata__");
}

class FullSink final : public ByteSink {
 public:
  explicit FullSink(std::size_t room) : room_(room) {}
  Result<void> write(ByteView bytes) override {
    if (bytes.size() > room_) return Error{ErrorCode::kIo, "no room", {}, {}};
    room_ -= bytes.size();
    return {};
  }

 private:
  std::size_t room_;
};

TEST(SafetensorsRoundTrip, StopsWhenTheSinkFailsOrTheCallerCancels) {
  const Bytes file = safetensors_file("{" + entry("a", "F32", "[1000000]", "[0,4000000]") + "}",
                                      noise(4'000'000, 4));
  const Bytes packed = to_cfck(file);
  const MemorySource source(packed);
  const auto reader = Reader::open(source);
  ASSERT_TRUE(reader);
  for (const std::size_t room : {0U, 7U, 8U, 100U, 2'000'000U}) {
    FullSink sink(room);
    const auto written = write_safetensors(*reader, sink, {}, 2);
    ASSERT_FALSE(written) << room;
    EXPECT_EQ(written.error().code, ErrorCode::kIo);
  }
  MemorySink sink;
  std::uint64_t seen = 0;
  const auto cancelled = write_safetensors(*reader, sink, [&](std::uint64_t done, auto name) {
    seen = done;
    EXPECT_EQ(name, "a");
    return done < 2'000'000;
  });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_GE(seen, 2'000'000U);
  EXPECT_LT(seen, 4'000'000U);
}

}  // namespace
}  // namespace cfck

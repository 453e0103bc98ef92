// Tensors that share memory: written once, as safetensors.torch.save_model does, and
// tied again where the metadata says so.
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

const std::string kData = "01234567";

// "b.w" of two F32, and "a.w" and "c.w" that share its memory.
Bytes tied_file(const Metadata& metadata = {}) {
  MemorySink sink;
  auto writer = Writer::create(sink);
  EXPECT_TRUE(writer);
  const std::uint64_t rows[] = {1};
  EXPECT_TRUE(writer->add("b.w", TensorView{DType::kF32, {2}, std::as_bytes(std::span(kData))}));
  EXPECT_TRUE(writer->add_alias("c.w", "b.w", 0, {2}, rows));
  EXPECT_TRUE(writer->add_alias("a.w", "b.w", 0, {2}, rows));
  for (const auto& [key, value] : metadata) EXPECT_TRUE(writer->set_metadata(key, value));
  EXPECT_TRUE(writer->finish());
  return sink.take();
}

Bytes padded(std::string json, const std::string& data = kData) {
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return safetensors_file(json, data);
}

std::string names_of(const Bytes& file) {
  const MemorySource source(file);
  const auto reader = Reader::open(source);
  EXPECT_TRUE(reader) << reader.error().to_string();
  std::string names;
  for (const Record& record : reader->records()) {
    if (record.hidden) continue;
    names += record.name + (record.kind == RecordKind::kAlias ? "* " : " ");
  }
  return names;
}

TEST(SafetensorsTies, TheFirstNameIsKeptAndTheOthersGoIntoTheMetadata) {
  const std::string tensor = entry("a.w", "F32", "[2]", "[0,8]");
  EXPECT_TRUE(to_safetensors(tied_file()) ==
              padded(R"({"__metadata__":{"b.w":"a.w","c.w":"a.w"},)" + tensor + "}"));
  // A value of the user under such a key stays, and so does the tensor of that name.
  EXPECT_TRUE(to_safetensors(tied_file({{"c.w", "mine"}, {"k", "v"}})) ==
              padded(R"({"__metadata__":{"b.w":"a.w","c.w":"mine","k":"v"},)" + tensor + "," +
                         entry("c.w", "F32", "[2]", "[8,16]") + "}",
                     kData + kData));
}

// save_model writes them too, but nothing tells them from other metadata.
TEST(SafetensorsTies, NamesThatDoNotLookLikeATieAreMarked) {
  MemorySink sink;
  auto writer = Writer::create(sink);
  ASSERT_TRUE(writer);
  const std::uint64_t rows[] = {1};
  const std::string other = "abcdefgh";
  for (const auto& [name, data] : {std::pair("\"v\"", &kData), std::pair("a.x", &other)}) {
    ASSERT_TRUE(writer->add(name, TensorView{DType::kF32, {2}, std::as_bytes(std::span(*data))}));
  }
  ASSERT_TRUE(writer->add_alias("w", "\"v\"", 0, {2}, rows));
  ASSERT_TRUE(writer->add_alias("a.y", "a.x", 0, {2}, rows));
  ASSERT_TRUE(writer->finish());
  const Bytes file = to_safetensors(sink.bytes());
  const auto header = read_safetensors_header(MemorySource(file));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->metadata,
            (Metadata{{"a.y", "a.x"}, {"cfck.tied_names", R"(["w"])"}, {"w", "\"v\""}}));
  EXPECT_EQ(names_of(to_cfck(file)), "\"v\" a.x a.y* w* ");
  EXPECT_TRUE(to_safetensors(to_cfck(file)) == file);
}

TEST(SafetensorsTies, TheyComeBackAsAliasesAndTheFileAsItWas) {
  const Bytes file = safetensors_file(
      R"({ "__metadata__":{"z.w":"a.w","w":"a.w"},)" + entry("a.w", "F32", "[2]", "[0,8]") + "}",
      kData);
  const Bytes packed = to_cfck(file);
  EXPECT_EQ(names_of(packed), "a.w w* z.w* ");
  EXPECT_TRUE(to_safetensors(packed) == file);
  // A second round trip starts from a header that is new.
  EXPECT_EQ(names_of(to_cfck(to_safetensors(tied_file()))), "a.w b.w* c.w* ");
}

TEST(SafetensorsTies, MetadataThatTieNothing) {
  const std::string tensors =
      entry("a", "F32", "[2]", "[0,8]") + "," + entry("e", "F32", "[0]", "[8,8]");
  const std::string too_long = R"({")" + std::string(65536, 'x') + R"(":"a"})";
  for (const std::string metadata :
       {R"({"format":"pt"})", R"({"a":"a"})", R"({"a":"e"})", R"({"x":"e"})", R"({"x":"y"})",
        R"({"format":"pt","ss_output_name":"a"})", R"({"modelspec.title":"a"})",
        R"({"x":"a","cfck.tied_names":"x"})", R"({"x":"a","cfck.tied_names":"[[\"x\"]]"})",
        R"({"":"a"})", R"({"__metadata__":"a"})", R"({"x":"a "})", too_long.c_str()}) {
    const Bytes file =
        safetensors_file(R"({"__metadata__":)" + metadata + "," + tensors + "}", kData);
    const MemorySource source(file);
    const auto header = read_safetensors_header(source);
    ASSERT_TRUE(header) << metadata;
    EXPECT_TRUE(header->ties.empty()) << metadata;
    const Bytes packed = to_cfck(file);
    EXPECT_EQ(names_of(packed), "a e ") << metadata;
    EXPECT_TRUE(to_safetensors(packed) == file) << metadata;
  }
}

TEST(SafetensorsTies, ATensorThatIsADuplicateCanBeTied) {
  const Bytes file =
      safetensors_file(R"({"__metadata__":{"c.w":"b.w"},)" + entry("a", "F32", "[2]", "[0,8]") +
                           "," + entry("b.w", "F32", "[2]", "[8,16]") + "}",
                       kData + kData);
  const Bytes packed = to_cfck(file);
  EXPECT_TRUE(to_safetensors(packed) == file);
  const MemorySource source(packed);
  const auto reader = Reader::open(source);
  ASSERT_TRUE(reader);
  ASSERT_NE(reader->find("c.w"), nullptr);
  EXPECT_EQ(reader->find("c.w")->base, reader->find("b.w")->base);
}

TEST(SafetensorsTies, RulesThatTellTheNamesApartLeaveTheTieInTheMetadata) {
  std::string data(4 * 2048, '\0');
  for (std::size_t i = 0; i < 2048; ++i) {
    const float value = static_cast<float>((i * 2654435761U) % 1000) / 1000 - 0.5F;
    std::memcpy(data.data() + 4 * i, &value, 4);
  }
  const Bytes file = safetensors_file(
      R"({"__metadata__":{"b.w":"a.w"},)" + entry("a.w", "F32", "[32,64]", "[0,8192]") + "}", data);
  EncodeOptions options;
  options.max_abs_error = 1e-3;
  EXPECT_EQ(names_of(to_cfck(file, options)), "a.w b.w* ");
  EncodeRule rule;
  rule.pattern = "b.w";
  rule.options.codec = CodecChoice::kLossless;
  options.rules.push_back(rule);
  EXPECT_EQ(names_of(to_cfck(file, options)), "a.w ");
}

TEST(SafetensorsTies, HeadersOfStaleTiesAreNotUsed) {
  // The kept header ties "c" to "a", but in the file it is a tensor of its own.
  const std::string header =
      R"({ "__metadata__":{"c":"a"},)" + entry("a", "F32", "[2]", "[0,8]") + "}";
  MemorySink sink;
  auto writer = Writer::create(sink);
  ASSERT_TRUE(writer);
  const std::string other = "abcdefgh";
  ASSERT_TRUE(writer->add("a", TensorView{DType::kF32, {2}, std::as_bytes(std::span(kData))}));
  ASSERT_TRUE(writer->add("c", TensorView{DType::kF32, {2}, std::as_bytes(std::span(other))}));
  ASSERT_TRUE(writer->set_metadata("c", "a"));
  ASSERT_TRUE(writer->attach("safetensors.header", std::as_bytes(std::span(header))));
  ASSERT_TRUE(writer->finish());
  EXPECT_TRUE(to_safetensors(sink.bytes()) ==
              padded(R"({"__metadata__":{"c":"a"},)" + entry("a", "F32", "[2]", "[0,8]") + "," +
                         entry("c", "F32", "[2]", "[8,16]") + "}",
                     kData + other));
}

}  // namespace
}  // namespace cfck

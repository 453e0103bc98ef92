// The header of a safetensors file: we reject what safetensors 0.8 rejects, and read what it
// writes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/safetensors.hpp"
#include "tests/interop/safetensors/conversions.hpp"
#include "tests/interop/safetensors/safetensors_file.hpp"

namespace cfck {
namespace {

using test::entry;
using test::safetensors_file;
using test::to_cfck;
using test::to_safetensors;

Result<SafetensorsHeader> read(const std::vector<std::byte>& file) {
  return read_safetensors_header(MemorySource(file));
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{" + entry("a", dtype, shape, offsets) + "}";
}

struct Case {
  const char* what;
  std::string json;
  std::string data;
  ErrorCode code = ErrorCode::kCorrupt;
};

const std::string kGood = one("U8", "[1]", "[0,1]");

const Case kBroken[] = {
    {"empty header", "", ""},
    {"array", "[]", ""},
    {"null", "null", ""},
    {"byte order mark", "\xEF\xBB\xBF{}", ""},
    {"trailing text", "{}x", ""},
    {"trailing zero bytes", std::string("{}\0\0", 4), ""},
    {"text behind a zero byte", std::string("{}\0{}", 5), ""},
    {"zero byte in a string", std::string("{\"a\0b\":1}", 9), ""},
    {"comment", "{/*x*/}", ""},
    {"trailing comma", kGood.substr(0, kGood.size() - 1) + ",}", "x"},
    {"cut off", kGood.substr(0, kGood.size() - 1), "x"},
    {"bad UTF-8", "{\"\xFF\":{}}", ""},
    {"lone surrogate", R"({"\ud800":{}})", ""},
    {"control character", "{\"a\x01\":{}}", ""},
    {"duplicate tensor",
     "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}", "xy"},
    {"duplicate tensor, the last one with another shape",
     "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[2]", "[0,1]") + "}", "x"},
    {"duplicate tensor, escaped",
     "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("\\u0061", "U8", "[1]", "[1,2]") + "}",
     "xy"},
    {"duplicate metadata", R"({"__metadata__":{},"__metadata__":{}})", ""},
    {"duplicate field", R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
     "x"},
    {"missing dtype", R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x"},
    {"missing shape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x"},
    {"missing offsets", R"({"a":{"dtype":"U8","shape":[1]}})", "x"},
    {"metadata a number", R"({"__metadata__":1})", ""},
    {"metadata a list", R"({"__metadata__":[]})", ""},
    {"metadata with a number", R"({"__metadata__":{"a":1}})", ""},
    {"metadata with null", R"({"__metadata__":{"a":null}})", ""},
    {"metadata with an object", R"({"__metadata__":{"a":{}}})", ""},
    {"metadata with a list", R"({"__metadata__":{"a":[]}})", ""},
    {"tensor is null", R"({"a":null})", ""},
    {"tensor is a list of too few", R"({"a":["U8",[1]]})", "x"},
    {"tensor is a list of too many", R"({"a":["U8",[1],[0,1],null]})", "x"},
    {"tensor is a list in another order", R"({"a":[[1],"U8",[0,1]]})", "x"},
    {"tensor is a string", R"({"a":"U8"})", "x"},
    {"unknown dtype", one("Q8", "[1]", "[0,1]"), "x"},
    {"lower-case dtype", one("u8", "[1]", "[0,1]"), "x"},
    {"dtype null", R"({"a":{"dtype":null,"shape":[1],"data_offsets":[0,1]}})", "x"},
    {"dtype an object of two",
     R"({"a":{"dtype":{"U8":null,"I8":null},"shape":[1],"data_offsets":[0,1]}})", "x"},
    {"dtype an object of none", R"({"a":{"dtype":{},"shape":[1],"data_offsets":[0,1]}})", "x"},
    {"dtype an object with a value", R"({"a":{"dtype":{"U8":1},"shape":[1],"data_offsets":[0,1]}})",
     "x"},
    {"white space of no JSON before it", "\v{}", ""},
    {"white space alone", "   ", ""},
    {"dimension with a point", one("U8", "[1.0]", "[0,1]"), "x"},
    {"dimension with an exponent", one("U8", "[1e0]", "[0,1]"), "x"},
    {"negative dimension", one("U8", "[-1]", "[0,1]"), "x"},
    {"minus zero", one("U8", "[-0]", "[0,0]"), ""},
    {"dimension as text", one("U8", "[\"1\"]", "[0,1]"), "x"},
    {"dimension null", one("U8", "[null]", "[0,1]"), "x"},
    {"dimension a list", one("U8", "[[1]]", "[0,1]"), "x"},
    {"dimension above 64 bits", one("U8", "[18446744073709551616]", "[0,1]"), "x"},
    {"leading zero", one("U8", "[01]", "[0,1]"), "x"},
    {"shape a number", one("U8", "1", "[0,1]"), "x"},
    {"shape an object", one("U8", "{}", "[0,1]"), "x"},
    {"product overflows", one("U8", "[4294967296,4294967296]", "[0,0]"), ""},
    {"product overflows before a zero", one("U8", "[4294967296,4294967296,0]", "[0,0]"), ""},
    // safetensors accepts this one (docs/safetensors.md).
    {"product overflows behind a zero", one("U8", "[0,4294967296,4294967296]", "[0,0]"), "",
     ErrorCode::kLimitExceeded},
    {"bytes overflow", one("F64", "[2305843009213693952]", "[0,0]"), ""},
    {"three offsets", one("U8", "[1]", "[0,1,2]"), "x"},
    {"one offset", one("U8", "[1]", "[0]"), "x"},
    {"no offsets", one("U8", "[1]", "[]"), "x"},
    {"offsets an object", one("U8", "[1]", "{}"), "x"},
    {"offset with a point", one("U8", "[1]", "[0.0,1]"), "x"},
    {"negative offset", one("U8", "[1]", "[-1,0]"), "x"},
    {"begin behind end", one("U8", "[1]", "[1,0]"), "x"},
    {"huge begin", one("U8", "[1]", "[18446744073709551615,0]"), "x"},
    {"huge both", one("U8", "[0]", "[18446744073709551615,18446744073709551615]"), ""},
    {"gap at the start", one("U8", "[1]", "[1,2]"), "xy"},
    {"gap in the middle",
     "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "U8", "[1]", "[2,3]") + "}", "xyz"},
    {"overlap",
     "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[1,3]") + "}", "xyz"},
    {"same bytes twice",
     "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[0,2]") + "}", "xy"},
    {"too few bytes for the shape", one("U8", "[2]", "[0,1]"), "x"},
    {"too many bytes for the shape", one("F32", "[]", "[0,8]"), "12345678"},
    {"bytes after the last tensor", kGood, "xy"},
    {"bytes without a tensor", "{}", "x"},
    {"data cut off", one("U8", "[2]", "[0,2]"), "x", ErrorCode::kTruncated},
    {"4-bit tensor with half a byte", one("F4", "[1]", "[0,1]"), "x"},
    {"6-bit tensor with half a byte", one("F6_E2M3", "[3]", "[0,2]"), "xy"},
    {"ignored field nested too deep",
     R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"e":)" + std::string(126, '[') +
         std::string(126, ']') + "}}",
     "x"},
    {"number out of range in an ignored field",
     R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"e":1e999}})", "x"},
};

TEST(SafetensorsHeader, RejectsWhatSafetensorsRejects) {
  for (const Case& c : kBroken) {
    const auto header = read(safetensors_file(c.json, c.data));
    ASSERT_FALSE(header) << c.what;
    EXPECT_EQ(header.error().code, c.code) << c.what << ": " << header.error().to_string();
    EXPECT_FALSE(header.error().message.empty()) << c.what;
  }
}

TEST(SafetensorsHeader, AcceptsWhatSafetensorsAccepts) {
  const std::vector<Case> cases = {
      {"no tensors", "{}", ""},
      {"spaces behind", "{}      ", ""},
      {"newline behind", "{}\n", ""},
      {"spaces inside",
       "{ \"a\" :\t{\"dtype\" : \"U8\",\r\n \"shape\":[ 1 ] ,"
       "\"data_offsets\":[0 ,1]}}",
       "x"},
      {"metadata null", R"({"__metadata__":null})", ""},
      {"metadata last", "{" + entry("a", "U8", "[1]", "[0,1]") + R"(,"__metadata__":{"k":"v"}})",
       "x"},
      {"ignored field",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"e":{"dtype":[1.5,null,true,"x",-3]}}})",
       "x"},
      {"ignored field nested deep",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"e":)" + std::string(125, '[') +
           std::string(125, ']') + "}}",
       "x"},
      {"0-d", one("F32", "[]", "[0,4]"), "1234"},
      {"empty tensors everywhere",
       "{" + entry("a", "U8", "[0]", "[0,0]") + "," + entry("b", "U8", "[1]", "[0,1]") + "," +
           entry("c", "F64", "[3,0,2]", "[1,1]") + "}",
       "x"},
      {"order of names against order of offsets",
       "{" + entry("a", "U8", "[1]", "[1,2]") + "," + entry("b", "U8", "[1]", "[0,1]") + "}", "xy"},
      {"unaligned",
       "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "F32", "[1]", "[1,5]") + "}",
       "12345"},
      {"names with escapes", "{" + entry("a\\u0000\\n\\\"\x7f", "U8", "[1]", "[0,1]") + "}", "x"},
      {"empty name", "{" + entry("", "U8", "[1]", "[0,1]") + "}", "x"},
      {"white space before it", " \n\t\r" + kGood, "x"},
      {"more white space before it than is looked at first", std::string(600, ' ') + kGood, "x"},
      {"duplicate tensor",
       "{" + entry("a", "I8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[0,1]") + "}", "x"},
      {"duplicate key of metadata", R"({"__metadata__":{"a":"1","a":"2"}})", ""},
      {"tensor is a list", R"({"a":["U8",[1],[0,1]]})", "x"},
      {"dtype an object", R"({"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}})", "x"},
      {"dtype an object in a list", R"({"a":[{"U8":null},[1],[0,1]]})", "x"},
      {"4 bits", one("F4", "[2]", "[0,1]"), "x"},
      {"6 bits", one("F6_E3M2", "[4]", "[0,3]"), "xyz"},
  };
  for (const Case& c : cases) {
    const auto header = read(safetensors_file(c.json, c.data));
    ASSERT_TRUE(header) << c.what << ": " << header.error().to_string();
    EXPECT_EQ(header->json, c.json) << c.what;
    const auto file = safetensors_file(c.json, c.data);
    const auto format = TensorArchive::format_of(MemorySource(file));
    ASSERT_TRUE(format) << c.what;
    EXPECT_EQ(*format, "safetensors") << c.what;
    EXPECT_TRUE(to_safetensors(to_cfck(file)) == file) << c.what;
  }
}

TEST(SafetensorsHeader, OfTwoWithOneNameTheLastOneCounts) {
  const std::string json = R"({"__metadata__":{"k":"first","k":"last"},)" +
                           entry("a", "I8", "[1]", "[0,1]") + "," +
                           entry("\\u0061", "U8", "[1,1]", "[0,1]") + "}";
  const auto header = read(safetensors_file(json, "x"));
  ASSERT_TRUE(header) << header.error().to_string();
  ASSERT_EQ(header->entries.size(), 1U);
  EXPECT_EQ(header->entries[0].dtype, DType::kU8);
  EXPECT_EQ(header->entries[0].shape, (Shape{1, 1}));
  EXPECT_EQ(header->metadata, (Metadata{{"k", "last"}}));
}

TEST(SafetensorsHeader, ReadsEverythingItSays) {
  const std::string json = "{" + entry("w", "BF16", "[2,3]", "[4,16]") +
                           R"(,"__metadata__":{"format":"pt","é":"\n"},)" +
                           entry("b", "F32", "[1]", "[0,4]") + "} ";
  const auto header = read(safetensors_file(json, std::string(16, 'x')));
  ASSERT_TRUE(header) << header.error().to_string();
  ASSERT_EQ(header->entries.size(), 2U);
  EXPECT_EQ(header->entries[0].name, "b");
  EXPECT_EQ(header->entries[0].dtype, DType::kF32);
  EXPECT_EQ(header->entries[0].shape, Shape{1});
  EXPECT_EQ(header->entries[0].offset_bytes, 8 + json.size());
  EXPECT_EQ(header->entries[1].name, "w");
  EXPECT_EQ(header->entries[1].shape, (Shape{2, 3}));
  EXPECT_EQ(header->entries[1].offset_bytes, 8 + json.size() + 4);
  EXPECT_EQ(header->entries[1].n_bytes, 12U);
  EXPECT_EQ(header->metadata, (Metadata{{"format", "pt"}, {"é", "\n"}}));
}

TEST(SafetensorsHeader, ChecksTheLength) {
  const auto code_for = [](const std::vector<std::byte>& file) {
    const auto header = read(file);
    return header ? ErrorCode{} : header.error().code;
  };
  EXPECT_EQ(code_for(safetensors_file("{}", "", 3)), ErrorCode::kTruncated);
  EXPECT_EQ(code_for(safetensors_file("{}", "", 1)), ErrorCode::kCorrupt);
  EXPECT_EQ(code_for(safetensors_file("{}", "", 100'000'001)), ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_for(safetensors_file("{}", "", ~std::uint64_t{0})), ErrorCode::kLimitExceeded);
}

TEST(SafetensorsHeader, EveryPrefixOfAFileIsRejected) {
  const std::string json = "{" + entry("a", "U8", "[3]", "[0,3]") + "}";
  const auto file = safetensors_file(json, "xyz");
  ASSERT_TRUE(read(file));
  for (std::size_t n_bytes = 0; n_bytes < file.size(); ++n_bytes) {
    const auto header = read({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n_bytes)});
    ASSERT_FALSE(header) << n_bytes;
    EXPECT_EQ(header.error().code, ErrorCode::kTruncated) << n_bytes;
  }
}

TEST(SafetensorsHeader, ErrorsNameTheTensor) {
  const auto header = read(safetensors_file(one("Q8", "[1]", "[0,1]"), "x"));
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().record, "a");
  EXPECT_NE(header.error().message.find("Q8"), std::string::npos);
}

}  // namespace
}  // namespace cfck

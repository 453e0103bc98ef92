// HDF5 files that cfck writes.
#include <gtest/gtest.h>

#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "tests/hdf5/archive/made_files.hpp"

namespace cfck::test {
namespace {

std::unique_ptr<TensorArchive> opened(const std::vector<std::byte>& bytes) {
  auto archive = hdf5::open(std::make_unique<OwnedMemorySource>(bytes));
  EXPECT_TRUE(archive.has_value()) << archive.error().to_string();
  return archive ? std::move(*archive) : nullptr;
}

std::vector<std::byte> pattern(std::size_t n_bytes) {
  std::vector<std::byte> bytes(n_bytes);
  for (std::size_t i = 0; i < n_bytes; ++i) bytes[i] = static_cast<std::byte>(i * 37 % 251);
  return bytes;
}

TEST(Hdf5Writer, EveryDTypeThatHdf5HasComesBack) {
  const auto bytes = pattern(1000);
  MemorySink sink;
  auto writer = hdf5::create(sink);
  ASSERT_TRUE(writer.has_value());
  const DType kDTypes[] = {DType::kBool, DType::kU8,  DType::kI8,     DType::kI16,
                           DType::kU16,  DType::kF16, DType::kBF16,   DType::kI32,
                           DType::kU32,  DType::kF32, DType::kC64,    DType::kF64,
                           DType::kI64,  DType::kU64, DType::kF8E4M3, DType::kF8E5M2};
  for (const DType dtype : kDTypes) {
    const std::uint64_t elem_bytes = bits_per_element(dtype) / 8;
    const ByteView data = ByteView(bytes).first(15 * elem_bytes);
    ASSERT_TRUE(
        (*writer)->add("g/" + std::string(dtype_name(dtype)), TensorView{dtype, {3, 5}, data}));
  }
  ASSERT_TRUE((*writer)->add("scalar", TensorView{DType::kF32, {}, ByteView(bytes).first(4)}));
  ASSERT_TRUE((*writer)->add("none", TensorView{DType::kF32, {0, 3}, {}}));
  ASSERT_TRUE((*writer)->tie("tied", "scalar").has_value());
  ASSERT_TRUE((*writer)->set_metadata("key", "value"));
  const auto summary = (*writer)->finish();
  ASSERT_TRUE(summary.has_value()) << summary.error().to_string();
  EXPECT_EQ(summary->file_bytes, sink.bytes().size());
  EXPECT_EQ(summary->n_records, std::size(kDTypes) + 3);
  const auto archive = opened(sink.bytes());
  ASSERT_NE(archive, nullptr);
  EXPECT_EQ(archive->metadata(), (Metadata{{"key", "value"}}));
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(dtype_name(dtype));
    const auto tensor = archive->read("g/" + std::string(dtype_name(dtype)));
    ASSERT_TRUE(tensor.has_value()) << tensor.error().to_string();
    EXPECT_EQ(tensor->dtype(), dtype);
    EXPECT_EQ(tensor->shape(), (Shape{3, 5}));
    const ByteView read = tensor->bytes();
    EXPECT_TRUE(std::equal(read.begin(), read.end(), bytes.begin()));
  }
  EXPECT_EQ(archive->find("none")->shape, (Shape{0, 3}));
  EXPECT_EQ(archive->find("tied")->sharing, Sharing::kMemory);
}

TEST(Hdf5Writer, RefusesBeforeTheFirstByte) {
  const auto bytes = pattern(64);
  const auto refused = [&](std::string_view name, DType dtype, std::string_view also) {
    MemorySink sink;
    auto writer = hdf5::create(sink);
    const std::uint64_t n_elems = 64 * 8 / bits_per_element(dtype) / 8 * 8;
    const ByteView data = ByteView(bytes).first(n_elems * bits_per_element(dtype) / 8);
    EXPECT_TRUE((*writer)->add(name, TensorView{dtype, {n_elems}, data}));
    if (!also.empty()) {
      EXPECT_TRUE((*writer)->add(also, TensorView{dtype, {n_elems}, data}));
    }
    const auto summary = (*writer)->finish();
    EXPECT_TRUE(sink.bytes().empty());
    EXPECT_FALSE(summary.has_value()) << name;
    return summary ? Error() : summary.error();
  };
  const Error dtype = refused("w", DType::kF4, "");
  EXPECT_EQ(dtype.code, ErrorCode::kUnsupported);
  EXPECT_EQ(dtype.record, "w");
  EXPECT_NE(dtype.message.find("F4"), std::string::npos);
  EXPECT_EQ(refused("w", DType::kF8E8M0, "").code, ErrorCode::kUnsupported);
  for (const std::string_view name : {"", "/", "a//b", "a/", "./a", "..", "a/../b"}) {
    EXPECT_EQ(refused(name, DType::kF32, "").code, ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(refused(std::string_view("a\0b", 3), DType::kF32, "").code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("a", DType::kF32, "a/b").record, "a/b");
  EXPECT_EQ(refused("a/b", DType::kF32, "a").record, "a");
}

TEST(Hdf5Writer, KeptStructuresOfAnybodyAreChecked) {
  const auto bytes = pattern(12);
  const char* const kBad[] = {
      "",
      "{",
      "[]",
      R"({"version":2,"objects":[]})",
      R"({"version":1,"objects":[1]})",
      R"({"version":1,"objects":[{"what":"a"}]})",
      R"({"version":1,"objects":[{"group":"a"},{"group":"a"}]})",
      R"({"version":1,"objects":[{"group":"a/../b"}]})",
      R"({"version":1,"objects":[{"tensor":"w","type":{"class":"opaque","bytes":0,"tag":""}}]})",
      R"({"version":1,"objects":[{"value":"w2","shape":[9],"type":{"class":"string","padding":0},"text":["a"]}]})",
      R"({"version":1,"objects":[{"value":"v","shape":[4611686018427387904,8],"type":{"class":"integer","bytes":8},"data":""}]})",
      R"({"version":1,"objects":[{"value":"v","shape":[],"type":{"class":"integer","bytes":8},"data":"AAAA"}]})",
      R"({"version":1,"objects":[{"value":"v","shape":[],"type":{"class":"array","base":{"class":"integer","bytes":8},"shape":[99999999999]},"data":""}]})",
      R"({"version":1,"objects":[{"value":"v","shape":[],"type":{"class":"compound","bytes":8,"members":[["a",7,{"class":"integer","bytes":4}]]},"data":"AAAAAAAAAAA="}]})",
      R"({"version":1,"objects":[{"value":"v","shape":[],"type":{"class":"float","bytes":4,"bias":1,"bits":[99,99,99,99,99]},"data":"AAAAAA=="}]})",
  };
  for (const char* const text : kBad) {
    SCOPED_TRACE(text);
    MemorySink sink;
    auto writer = hdf5::create(sink);
    ASSERT_TRUE((*writer)->add("w", TensorView{DType::kF32, {3}, bytes}));
    const std::string_view view = text;
    ASSERT_TRUE((*writer)->attach("hdf5.structure", std::as_bytes(std::span(view))));
    const auto summary = (*writer)->finish();
    ASSERT_FALSE(summary.has_value());
    EXPECT_TRUE(sink.bytes().empty());
    EXPECT_FALSE(summary.error().message.empty());
  }
}

TEST(Hdf5Writer, TensorsAndMetadataMayChangeInBetween) {
  const auto original = opened(sample_file());
  ASSERT_NE(original, nullptr);
  const auto structure = original->attachment("hdf5.structure");
  ASSERT_TRUE(structure.has_value());
  const auto bytes = pattern(24);
  MemorySink sink;
  auto writer = hdf5::create(sink);
  ASSERT_TRUE((*writer)->attach("hdf5.structure", *structure));
  ASSERT_TRUE((*writer)->set_metadata("title", "another"));
  ASSERT_TRUE((*writer)->add("layers/plain", TensorView{DType::kI16, {12}, bytes}));
  ASSERT_TRUE((*writer)->add("layers/new/one", TensorView{DType::kF64, {3}, bytes}));
  const auto summary = (*writer)->finish();
  ASSERT_TRUE(summary.has_value()) << summary.error().to_string();
  const auto archive = opened(sink.bytes());
  ASSERT_NE(archive, nullptr);
  EXPECT_EQ(archive->metadata().at("title"), "another");
  EXPECT_EQ(archive->find("layers/plain")->dtype, DType::kI16);
  EXPECT_NE(archive->find("layers/new/one"), nullptr);
  EXPECT_EQ(archive->find("layers/packed"), nullptr);
  EXPECT_EQ(archive->find("big"), nullptr);
}

}  // namespace
}  // namespace cfck::test

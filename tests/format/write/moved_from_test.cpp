// Readers and writers that were moved from answer every call.
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

template <class T>
void expect_refused(const Result<T>& result) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find("was moved from"), std::string::npos)
      << result.error().message;
}

TEST(MovedFrom, ReaderIsEmptyAndRefuses) {
  const Bytes values = weights(1, 64);
  const Bytes bytes = write_file([&](Writer& writer) {
    expect_ok(writer.add("w", TensorView{DType::kF32, {8, 8}, values}));
    expect_ok(writer.set_metadata("key", "value"));
    expect_ok(writer.attach("attachment", values));
  });
  const MemorySource source(bytes);
  Reader reader = take(Reader::open(source));
  const Reader moved = std::move(reader);
  const Record& record = *moved.find("w");
  Bytes out(values.size());
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_TRUE(reader.records().empty());
  EXPECT_TRUE(reader.attachments().empty());
  EXPECT_TRUE(reader.metadata().empty());
  EXPECT_EQ(reader.find("w"), nullptr);
  EXPECT_EQ(reader.file_bytes() + reader.generation() + reader.dead_bytes(), 0u);
  EXPECT_EQ(reader.format_version(), "");
  EXPECT_EQ(reader.content_digest(), Digest{});
  const ReadRequest request{&record, out};
  const std::uint64_t starts[] = {0, 0};
  const std::uint64_t stops[] = {8, 8};
  expect_refused(reader.check_decoded_bytes(1));
  expect_refused(reader.read(record, out));
  expect_refused(reader.read_many(std::span(&request, 1)));
  expect_refused(reader.read_elements(record, 0, 64, out));
  expect_refused(reader.read_slice(record, starts, stops, out));
  expect_refused(reader.map(record));
  expect_refused(reader.attachment("attachment"));
  expect_refused(reader.verify(VerifyLevel::kDeep));
  MemorySink sink;
  expect_refused(write_safetensors(reader, sink));
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_TRUE(sink.bytes().empty());
  expect_ok(moved.read(record, out));
  EXPECT_EQ(out, values);
}

TEST(MovedFrom, ReaderCanBeAssignedTo) {
  const Bytes bytes = write_file([](Writer&) {});
  const MemorySource source(bytes);
  Reader reader = take(Reader::open(source));
  const Reader moved = std::move(reader);
  reader = take(Reader::open(source));
  EXPECT_EQ(reader.file_bytes(), bytes.size());
}

TEST(MovedFrom, WriterRefuses) {
  const Bytes values = weights(1, 64);
  MemorySink sink;
  Writer writer = take(Writer::create(sink));
  Writer moved = std::move(writer);
  const TensorView view{DType::kF32, {64}, values};
  const MemorySource source(values);
  const TensorSource from{DType::kF32, {64}, &source, 0};
  const std::uint64_t strides[] = {1};
  // NOLINTBEGIN(bugprone-use-after-move)
  expect_refused(writer.add("w", view));
  expect_refused(writer.add("w", from));
  expect_refused(writer.add("w", from, {}));
  expect_refused(writer.add_tensors({}));
  expect_refused(writer.add_alias("v", "w", 0, {64}, strides));
  expect_refused(writer.tie("v", "w"));
  expect_refused(writer.set_metadata("key", "value"));
  expect_refused(writer.attach("attachment", values));
  writer.set_progress({});
  expect_refused(writer.finish());
  Writer* const both[] = {&moved, &writer};
  expect_refused(finish_together(both));
  // NOLINTEND(bugprone-use-after-move)
  expect_ok(moved.add("w", view));
  EXPECT_EQ(take(moved.finish()).n_records, 1u);
}

}  // namespace
}  // namespace cfck::test

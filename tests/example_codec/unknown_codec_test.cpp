// The library without the example codecs reads the rest of a file that has records of them.
#include "tests/example_codec/example_file.hpp"

namespace cfck::test {
namespace {

TEST(UnknownCodec, OnlyItsRecordsAreUnsupported) {
  const OpenFile file(bytes_of(CFCK_EXAMPLE_FILE));
  ASSERT_EQ(codec_name(file.record("runs").codec), "unknown");
  for (const Record& record : file->records()) {
    Bytes values(take(n_bytes(record.dtype, record.shape)));
    const Result<void> read = file->read_elements(record, 0, record.n_elems, values);
    if (record.codec == kRunsId || record.codec == kRoundedId) {
      ASSERT_FALSE(read) << record.name;
      EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
      EXPECT_EQ(read.error().record, record.name);
    } else {
      expect_ok(read);
      EXPECT_EQ(values, ExampleTensors().weights);
    }
  }
}

TEST(UnknownCodec, IsNotFoundByItsName) {
  EXPECT_FALSE(codec_choice_from_name("runs"));
  EXPECT_FALSE(codec_choice_from_name("rounded"));
}

}  // namespace
}  // namespace cfck::test

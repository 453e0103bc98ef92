// Small files that claim to hold a lot: the limit is checked before memory is allocated.
#include "cfck/calibration.hpp"
#include "tests/malformed/small_files.hpp"

namespace cfck::test {
namespace {

constexpr std::uint64_t kSide = std::uint64_t{1} << 19;

// A calibration of one matrix whose records repeat one number as often as they please.
Bytes calibration_that_claims(const std::string& name, const Shape& shape, const Shape& claimed) {
  const float number = 1;
  const double sigma = 1;
  const Bytes bytes = write_file([&](Writer& writer) {
    const auto add = [&](const char* record, DType dtype, const auto& value) {
      expect_ok(writer.add(record, TensorView{dtype, {1}, std::as_bytes(std::span(&value, 1))}));
    };
    add("sigma", DType::kF64, sigma);
    add("log2_step", DType::kF64, sigma);
    add("number", DType::kF32, number);
    const Shape strides(shape.size());
    expect_ok(writer.add_alias(name, "number", 0, shape, strides));
    expect_ok(writer.set_metadata("format", "cfck.calibration"));
    expect_ok(writer.set_metadata("version", "1"));
    expect_ok(writer.set_metadata("tensors", R"([{"name": "w", "shape": [524288, 524288]}])"));
    expect_ok(writer.set_metadata("calibration", R"({"source": "batches"})"));
  });
  return changed(bytes, [&](FileParts& parts) {
    for (format::StoredRecord& stored : parts.index.records) {
      if (stored.record.name == name) stored.record.shape = claimed;
    }
  });
}

TEST(Claims, CalibrationAsksTheLimit) {
  const Bytes file = calibration_that_claims("second_moment/w", {1, 2, 2}, {1, kSide, kSide});
  ASSERT_LT(file.size(), 4096u);
  const auto opened = Calibration::open(std::make_unique<OwnedMemorySource>(file));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kLimitExceeded) << opened.error().to_string();
  EXPECT_EQ(opened.error().record, "second_moment/w");
}

TEST(Claims, CorrectedValuesAskTheLimit) {
  const Bytes file = calibration_that_claims("corrected/w", {2, 2}, {kSide, kSide});
  const auto calibration = take(Calibration::open(std::make_unique<OwnedMemorySource>(file)));
  const auto values = calibration->corrected_values(*calibration->find("w"));
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().code, ErrorCode::kLimitExceeded) << values.error().to_string();
}

TEST(Claims, ConversionAsksTheLimit) {
  const OpenFile file(calibration_that_claims("corrected/w", {2, 2}, {kSide, kSide}));
  MemorySink sink;
  const auto written = write_safetensors(file.reader(), sink, {}, 1);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kLimitExceeded) << written.error().to_string();
  EXPECT_TRUE(sink.bytes().empty());
}

TEST(Claims, ReaderTellsTheLimitBeforehand) {
  const OpenFile file(calibration_that_claims("corrected/w", {2, 2}, {kSide, kSide}));
  const std::uint64_t claimed = file.record("corrected/w").decoded_bytes;
  const auto refused = file.reader().check_decoded_bytes(claimed, "corrected/w");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(refused.error().record, "corrected/w");
  expect_ok(file.reader().check_decoded_bytes(4096));
}

}  // namespace
}  // namespace cfck::test

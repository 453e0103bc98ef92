// Writer::add_alias: views named by their base.
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

using Strides = std::vector<std::uint64_t>;

// A source of equal bytes that is not in memory.
class SlowSource final : public ByteSource {
 public:
  explicit SlowSource(const Bytes& bytes) : memory_(bytes) {}
  std::uint64_t size() const override { return memory_.size(); }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    return memory_.read_at(offset_bytes, out);
  }

 private:
  MemorySource memory_;
};

TEST(AddAlias, ViewsOfRecordsComeBackWhereverTheirBytesAre) {
  const Bytes values = weights(1, 400000);
  const SlowSource slow(values);
  const MemorySource fast(values);
  for (const ByteSource* source :
       {static_cast<const ByteSource*>(&slow), static_cast<const ByteSource*>(&fast)}) {
    const OpenFile file(write_file([&](Writer& writer) {
      expect_ok(writer.add("base", TensorSource{DType::kF32, {1000, 300}, source, 400000}));
      expect_ok(writer.add_alias("rows", "base", 600, {5, 300}, Strides{300, 1}));
      expect_ok(writer.add_alias("column", "base", 7, {1000}, Strides{300}));
      expect_ok(writer.add_alias("tied", "base", 0, {300000}, Strides{1}));
      expect_ok(writer.add_alias("of tied", "tied", 300, {300}, Strides{1}));
      expect_ok(writer.add_alias("of rows", "rows", 300, {300}, Strides{1}));
      expect_ok(writer.add_alias("none", "base", 0, {0, 3}, Strides{3, 1}));
    }));
    const Bytes base = file.tensor("base");
    EXPECT_EQ(base, Bytes(values.begin() + 400000, values.end()));
    EXPECT_EQ(file.tensor("rows"), Bytes(base.begin() + 2400, base.begin() + 2400 + 6000));
    EXPECT_EQ(file.tensor("tied"), base);
    EXPECT_EQ(file.tensor("of tied"), Bytes(base.begin() + 1200, base.begin() + 2400));
    EXPECT_EQ(file.tensor("of rows"), Bytes(base.begin() + 3600, base.begin() + 4800));
    for (const char* name : {"rows", "column", "tied", "of tied", "of rows"}) {
      EXPECT_EQ(file.record(name).kind, RecordKind::kAlias);
      EXPECT_EQ(file->records()[file.record(name).base].name, "base");
    }
    EXPECT_EQ(file.record("none").n_elems, 0U);
    expect_sound(file.reader());
  }
}

TEST(AddAlias, ABaseThatIsADuplicateIsTiedToItsAliasesOnly) {
  const Bytes values = weights(2, 3000);
  const OpenFile file(write_file([&](Writer& writer) {
    expect_ok(writer.add("first", TensorView{DType::kF32, {3000}, values}));
    expect_ok(writer.add("twin", TensorView{DType::kF32, {3000}, values}));
    expect_ok(writer.add_alias("part", "twin", 10, {20}, Strides{1}));
    expect_ok(writer.add_alias("more", "twin", 50, {20}, Strides{2}));
  }));
  EXPECT_EQ(file.record("twin").kind, RecordKind::kAlias);
  EXPECT_EQ(file.record("part").base, file.record("twin").base);
  EXPECT_EQ(file.record("more").base, file.record("twin").base);
  EXPECT_NE(file->records()[file.record("twin").base].name, "first");
  EXPECT_EQ(file.tensor("twin"), values);
  EXPECT_EQ(file.tensor("part"), Bytes(values.begin() + 40, values.begin() + 120));
  expect_sound(file.reader());
}

struct BadAlias {
  const char* what;
  const char* name;
  const char* base;
  std::uint64_t offset;
  Shape shape;
  Strides strides;
  ErrorCode code;
};

TEST(AddAlias, RefusesWhatLiesOutsideOfTheBase) {
  const Bytes values = weights(3, 100);
  const Bytes nibbles = noise(4, 50);
  const std::vector<BadAlias> cases = {
      {"no base", "v", "nobody", 0, {1}, {1}, ErrorCode::kNotFound},
      {"taken name", "base", "base", 0, {1}, {1}, ErrorCode::kInvalidArgument},
      {"one too many", "v", "base", 0, {101}, {1}, ErrorCode::kInvalidArgument},
      {"offset", "v", "base", 100, {1}, {1}, ErrorCode::kInvalidArgument},
      {"far offset", "v", "base", ~std::uint64_t{0}, {1}, {1}, ErrorCode::kInvalidArgument},
      {"strides", "v", "base", 0, {2}, {100}, ErrorCode::kInvalidArgument},
      {"number of strides", "v", "base", 0, {2}, {}, ErrorCode::kInvalidArgument},
      {"overflow", "v", "base", 0, {3}, {~std::uint64_t{0} / 2 + 1}, ErrorCode::kLimitExceeded},
      {"view with gaps", "v", "gaps", 0, {1}, {1}, ErrorCode::kInvalidArgument},
      {"half a byte", "v", "nibbles", 1, {2}, {1}, ErrorCode::kUnsupported},
      {"strided nibbles", "v", "nibbles", 0, {2}, {2}, ErrorCode::kUnsupported},
  };
  for (const BadAlias& bad : cases) {
    MemorySink sink;
    Writer writer = take(Writer::create(sink));
    expect_ok(writer.add("base", TensorView{DType::kF32, {100}, values}));
    expect_ok(writer.add("nibbles", TensorView{DType::kF4, {100}, nibbles}));
    expect_ok(writer.add_alias("gaps", "base", 0, {10}, Strides{5}));
    const Result<void> refused =
        writer.add_alias(bad.name, bad.base, bad.offset, bad.shape, bad.strides);
    ASSERT_FALSE(refused) << bad.what;
    EXPECT_EQ(refused.error().code, bad.code) << bad.what << ": " << refused.error().to_string();
  }
}

}  // namespace
}  // namespace cfck::test

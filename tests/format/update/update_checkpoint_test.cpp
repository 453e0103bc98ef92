// update() of files that save_checkpoint of the Python package wrote.
#include <string>

#include "cfck/update.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

constexpr std::string_view kSkeleton =
    R"({"format":"cfck.checkpoint","version":1,"containers":[)"
    R"({"dict":[["w",{"parameter":["model.w",true]}],["tensor","parameter"]]},)"
    R"({"list":[{"tensor":"ids"},{"array":"h\u0065ld"},{"parameter":["frozen",false]}]},)"
    R"({"tuple":[{"at":0},{"at":1},true,3]}],"root":{"at":2}})";

const Bytes kValues = weights(1, 100);

StridedTensor tensor(std::string name, DType dtype = DType::kF32) {
  return {std::move(name), dtype, {50}, {1}, kValues.data()};
}

// A tensor with other values.
StridedTensor apart(std::string name) {
  return {std::move(name), DType::kF32, {50}, {1}, kValues.data() + kValues.size() / 2};
}

class CheckpointUpdate : public ::testing::Test {
 protected:
  void save(std::string_view skeleton, std::vector<StridedTensor> tensors) {
    put_bytes(path_, write_file([&](Writer& writer) {
                expect_ok(writer.add_tensors(tensors));
                expect_ok(writer.attach("cfck.checkpoint", std::as_bytes(std::span(skeleton))));
              }));
  }

  void expect_refused(const Update& changes, const std::string& record, std::string_view why) {
    const Bytes before = bytes_of(path_);
    const auto refused = update(path_, changes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().record, record);
    EXPECT_NE(refused.error().message.find(why), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find("save_checkpoint"), std::string::npos);
    EXPECT_EQ(bytes_of(path_), before);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path("run.cfck");
  const std::vector<StridedTensor> all_ = {tensor("model.w"), tensor("ids"), tensor("held"),
                                           tensor("frozen")};
};

TEST_F(CheckpointUpdate, RefusesOtherNames) {
  save(kSkeleton, all_);
  expect_refused({{tensor("new")}, {}, {}}, "new", "would be new");
  expect_refused({{}, {"held"}, {}}, "held", "would be missing");
  expect_refused({{tensor("ids"), tensor("x")}, {"model.w"}, {}}, "x", "would be new");
}

TEST_F(CheckpointUpdate, RefusesIntegersForWhatRequiresAGradient) {
  save(kSkeleton, all_);
  for (const DType dtype : {DType::kBool, DType::kI32, DType::kU64}) {
    expect_refused({{tensor("model.w", dtype)}, {}, {}}, "model.w", "gradient");
  }
  take(update(path_, {{tensor("model.w", DType::kBF16)}, {}, {}}));
  take(update(path_, {{tensor("frozen", DType::kI32), tensor("held", DType::kBool)}, {}, {}}));
}

TEST_F(CheckpointUpdate, ReplacesValuesAndMetadata) {
  save(kSkeleton, all_);
  take(update(path_, {{tensor("ids", DType::kI32)}, {"ids"}, {{"step", "2"}}}));
  const OpenFile file(bytes_of(path_));
  EXPECT_EQ(file.record("ids").dtype, DType::kI32);
  EXPECT_EQ(file->metadata(), (Metadata{{"step", "2"}}));
  EXPECT_EQ(file->attachments().size(), 1U);
}

TEST_F(CheckpointUpdate, MendsWhatEarlierUpdatesBroke) {
  save(kSkeleton, {tensor("model.w"), tensor("ids"), tensor("frozen"), tensor("extra")});
  expect_refused({{tensor("model.w", DType::kI32)}, {"extra"}, {}}, "model.w", "gradient");
  take(update(path_, {{tensor("held")}, {"extra"}, {}}));
  expect_refused({{}, {"held"}, {}}, "held", "would be missing");
}

TEST_F(CheckpointUpdate, KeepsTheNamesOfASkeletonItCannotRead) {
  const std::string other = R"({"format":"cfck.checkpoint","version":2,"root":{"tensor":"a"}})";
  const std::string tag = R"({"version":1,"containers":[],"root":{"tensors":["a"]}})";
  for (const std::string& skeleton : {other, tag, std::string("{"), std::string(100, '[')}) {
    save(skeleton, {tensor("a"), apart("b")});
    expect_refused({{tensor("c")}, {}, {}}, "c", "would be new");
    expect_refused({{}, {"b"}, {}}, "b", "would be missing");
    take(update(path_, {{tensor("a", DType::kBF16)}, {}, {}}));
  }
}

// Which names the checkpoint takes for one tensor cannot be known.
TEST_F(CheckpointUpdate, KeepsTheTiesUnderASkeletonItCannotRead) {
  save(R"({"format":"cfck.checkpoint","version":2})", {tensor("a"), tensor("b"), apart("c")});
  expect_refused({{tensor("a", DType::kBF16)}, {}, {}}, "a", "all its names");
  expect_refused({{apart("a"), tensor("b"), apart("c")}, {}, {}}, "a", "all its names");
  take(update(path_, {{apart("a"), apart("b")}, {}, {}}));
}

TEST_F(CheckpointUpdate, TiesOfWhichTheSkeletonHasOneNameAreKept) {
  const std::string skeleton =
      R"({"format":"cfck.checkpoint","version":1,"containers":[],"root":{"tensor":"a"}})";
  save(skeleton, {tensor("a"), tensor("b")});
  expect_refused({{apart("a")}, {}, {}}, "b", "second name");
  expect_refused({{apart("b")}, {}, {}}, "b", "second name");
  take(update(path_, {{apart("a"), apart("b")}, {}, {}}));
}

TEST_F(CheckpointUpdate, AMissingNameIsNotFound) {
  save(kSkeleton, all_);
  const auto refused = update(path_, {{}, {"none"}, {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace cfck::test

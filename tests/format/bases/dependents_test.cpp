// Files that others are stored against are protected.
#include <filesystem>

#include "cfck/base.hpp"
#include "cfck/update.hpp"
#include "format/read/reader_access.hpp"
#include "tests/format/bases/stepped.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

// A chain of step0.cfck to step2.cfck in a folder, and step1b.cfck, which is stored against step0
// too.
class Dependents : public testing::Test {
 protected:
  Dependents() {
    for (std::uint64_t i = 1; i < 3; ++i) {
      steps_.push_back(new_tensors(steps_.back(), 20 * i));
    }
    save(path("step0.cfck"), steps_[0]);
    save(path("step1.cfck"), steps_[1], path("step0.cfck"));
    save(path("step2.cfck"), steps_[2], path("step1.cfck"));
    save(path("step1b.cfck"), steps_[2], path("step0.cfck"));
  }

  std::string path(const std::string& name) const { return folder_.path(name); }
  Names of(const std::string& name) const { return take(dependents_of(path(name))); }

  TemporaryFolder folder_;
  std::vector<Tensors> steps_ = {old_tensors()};
};

TEST_F(Dependents, AreTheFilesOfTheFolderThatNameIt) {
  EXPECT_EQ(of("step0.cfck"), (Names{"step1.cfck", "step1b.cfck"}));
  EXPECT_EQ(of("step1.cfck"), Names{"step2.cfck"});
  EXPECT_EQ(of("step2.cfck"), Names{});
  EXPECT_EQ(dependents_of(path("nowhere.cfck")).error().code, ErrorCode::kNotFound);
  fs::create_directory(path("elsewhere"));
  fs::copy_file(path("step0.cfck"), path("elsewhere/step0.cfck"));
  EXPECT_EQ(of("elsewhere/step0.cfck"), Names{});
}

TEST_F(Dependents, AreNamedBeforeTheirBaseIsReplaced) {
  const Result<void> refused = check_no_dependents(path("step0.cfck"), "wait");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExists);
  EXPECT_EQ(refused.error().message,
            "'step1.cfck' and 'step1b.cfck' are stored against '" + path("step0.cfck") +
                "', and cannot be read without its values; make them stand alone first (cfck "
                "compact), or wait");
  for (const char* name : {"step2b.cfck", "step2c.cfck", "step2d.cfck"}) {
    fs::copy_file(path("step2.cfck"), path(name));
  }
  const std::string many = check_no_dependents(path("step1.cfck")).error().message;
  EXPECT_NE(many.find("'step2.cfck', 'step2b.cfck', 'step2c.cfck' and 1 more are stored"),
            std::string::npos)
      << many;
  expect_ok(check_no_dependents(path("step2.cfck")));
  expect_ok(check_no_dependents(path("nowhere.cfck")));
}

TEST_F(Dependents, AreFoundFromTheFolderItself) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path(""));
  const Result<Names> names = dependents_of("step1.cfck");
  fs::current_path(before);
  EXPECT_EQ(take(names), Names{"step2.cfck"});
}

TEST_F(Dependents, NeedOneOfItsValues) {
  // Another file in the place of the base has nothing that they could lose.
  save(path("step1.cfck"), new_tensors(steps_[0], 77));
  EXPECT_EQ(of("step1.cfck"), Names{"step2.cfck"}) << "'same' is as it was";
  Tensors other = new_tensors(steps_[0], 77);
  other.erase("same");
  save(path("step1.cfck"), other);
  EXPECT_EQ(of("step1.cfck"), Names{});
  // The same digest under another shape is no use to them either.
  Tensors turned = steps_[0];
  for (auto& [name, tensor] : turned) {
    tensor.shape.push_back(1);
  }
  save(path("step0.cfck"), turned);
  EXPECT_EQ(of("step0.cfck"), Names{});
}

TEST_F(Dependents, OfADamagedFileCountUntilItIsRepaired) {
  Bytes torn = bytes_of(path("step0.cfck"));
  torn.resize(torn.size() + 500);
  put_bytes(path("step0.cfck"), torn);
  ASSERT_FALSE(Reader::open(path("step0.cfck")));
  EXPECT_EQ(of("step0.cfck"), (Names{"step1.cfck", "step1b.cfck"}));
}

TEST_F(Dependents, OthersThatCannotBeReadArePassedOver) {
  put_bytes(path("noise.cfck"), noise(3, 5000));
  put_bytes(path("empty.cfck"), {});
  fs::create_directory(path("folder.cfck"));
  fs::create_symlink("nowhere", path("dangling.cfck"));
  Bytes damaged = bytes_of(path("step1b.cfck"));
  const Reader reader = take(Reader::open(path("step1b.cfck")));
  damaged[ReaderAccess::tail(reader).index.offset_bytes + 40] ^= std::byte{1};
  put_bytes(path("step1b.cfck"), damaged);
  EXPECT_EQ(of("step0.cfck"), Names{"step1.cfck"});
}

TEST_F(Dependents, HaveTheEndingOfTheBaseOrThatOfTheFormat) {
  save(path("a.ckpt"), steps_[0]);
  save(path("b.ckpt"), steps_[1], path("a.ckpt"));
  save(path("c.cfck"), steps_[1], path("a.ckpt"));
  save(path("d.other"), steps_[1], path("a.ckpt"));
  EXPECT_EQ(of("a.ckpt"), (Names{"b.ckpt", "c.cfck"}));
}

TEST_F(Dependents, OfALinkAreThoseOfItsFile) {
  fs::create_symlink("step0.cfck", path("first.cfck"));
  save(path("by_link.cfck"), steps_[1], path("first.cfck"));
  const Names all = {"by_link.cfck", "step1.cfck", "step1b.cfck"};
  EXPECT_EQ(of("first.cfck"), all);
  EXPECT_EQ(of("step0.cfck"), all);
  fs::create_directory(path("elsewhere"));
  fs::create_symlink("../step1.cfck", path("elsewhere/latest.cfck"));
  EXPECT_EQ(of("elsewhere/latest.cfck"), Names{"step2.cfck"});
}

TEST_F(Dependents, AreNotLookedForInTheFolderOfADevice) {
  EXPECT_EQ(take(dependents_of("/dev/null")), Names{});
}

// The updates that are tried here change every value of a tensor, or remove it.
Update replacing(const std::string& name, const Tensors& tensors, const Bytes& values) {
  const Tensor& tensor = tensors.at(name);
  Update changes;
  const std::uint64_t columns = tensor.shape.back();
  changes.tensors = {{name, tensor.dtype, tensor.shape, {columns, 1}, values.data()}};
  return changes;
}

TEST_F(Dependents, AnUpdateDoesNotTakeTheirValues) {
  const Bytes values = noise(8, steps_[0].at("large").values.size());
  Update removing;
  removing.remove = {"same"};
  const Bytes before = bytes_of(path("step0.cfck"));
  for (const Update& changes : {replacing("large", steps_[0], values), removing}) {
    const auto refused = update(path("step0.cfck"), changes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kExists);
    EXPECT_NE(refused.error().message.find("'step1.cfck' and 'step1b.cfck' are stored against"),
              std::string::npos)
        << refused.error().message;
    EXPECT_NE(refused.error().message.find("cfck compact"), std::string::npos);
    EXPECT_EQ(bytes_of(path("step0.cfck")), before);
  }
  EXPECT_EQ(all_tensors(take(Reader::open(path("step2.cfck")))), values_of(steps_[2]));
  removing.force = true;
  take(update(path("step0.cfck"), removing));
  EXPECT_EQ(take(Reader::open(path("step1.cfck"))).check_base().error().code,
            ErrorCode::kMissingBase);
}

TEST_F(Dependents, WhatNoneOfThemNeedsIsUpdated) {
  Update changes = replacing("large", steps_[0], steps_[0].at("large").values);
  changes.tensors[0].name = "added";
  changes.remove = {"steps"};  // too small for a difference
  changes.metadata = {{"key", "value"}};
  take(update(path("step0.cfck"), changes));
  EXPECT_EQ(all_tensors(take(Reader::open(path("step2.cfck")))), values_of(steps_[2]));
  // The last of a chain is nobody's base.
  take(update(path("step2.cfck"), replacing("large", steps_[2], steps_[0].at("large").values)));
  // Neither is a base once the others stand alone.
  take(compact(path("step1.cfck")));
  take(compact(path("step1b.cfck")));
  take(update(path("step0.cfck"), replacing("large", steps_[0], steps_[1].at("large").values)));
  EXPECT_EQ(all_tensors(take(Reader::open(path("step1.cfck")))), values_of(steps_[1]));
}

TEST_F(Dependents, OutliveThatTheirBaseIsCompacted) {
  // A base that has dead bytes, and one that is stored against another itself.
  Update changes = replacing("large", steps_[0], steps_[0].at("large").values);
  changes.force = true;
  take(update(path("step0.cfck"), changes));
  const auto expect_all = [&](const char* when) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Reader reader = take(Reader::open(path("step" + std::to_string(i) + ".cfck")));
      EXPECT_EQ(all_tensors(reader), values_of(steps_[i])) << when << ", step " << i;
    }
    EXPECT_EQ(all_tensors(take(Reader::open(path("step1b.cfck")))), values_of(steps_[2])) << when;
  };
  expect_all("replaced by equal values");
  EXPECT_GT(take(compact(path("step0.cfck"))), 0U);
  expect_all("the first is compacted");
  take(compact(path("step1.cfck")));
  EXPECT_EQ(take(Reader::open(path("step2.cfck"))).chain_length(), 1U);
  expect_all("the middle stands alone");
  take(compact(path("step2.cfck")));
  take(compact(path("step1b.cfck")));
  expect_all("all stand alone");
}

TEST_F(Dependents, ChainsAreCounted) {
  const auto length_of = [&](const std::string& name) {
    return take(Reader::open(path(name))).chain_length();
  };
  EXPECT_EQ(length_of("step0.cfck"), 0U);
  EXPECT_EQ(length_of("step1.cfck"), 1U);
  EXPECT_EQ(length_of("step2.cfck"), 2U);
  EXPECT_EQ(take(open_base(path("step2.cfck")))->chain_length(), 2U);
  EXPECT_EQ(take(base_of_archive(take(TensorArchive::open(path("step2.cfck")))))->chain_length(),
            2U);
  EXPECT_EQ(base_of(steps_[0])->chain_length(), 0U);
  DecodeOptions in_memory;
  in_memory.base = base_of(steps_[1]);
  EXPECT_EQ(take(Reader::open(path("step2.cfck"), in_memory)).chain_length(), 1U);
  fs::remove(path("step0.cfck"));
  EXPECT_EQ(length_of("step1.cfck"), 0U);
}

}  // namespace
}  // namespace cfck::test

// Patches, applied to tensors in memory.
#include "cfck/patch.hpp"

#include "tests/codec/test_values.hpp"
#include "tests/format/bases/stepped.hpp"
#include "tests/support/changed_index.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

std::vector<PatchedTensor> targets_of(Tensors& tensors) {
  std::vector<PatchedTensor> targets;
  for (auto& [name, tensor] : tensors) {
    targets.push_back({name, tensor.dtype, tensor.shape, tensor.values});
  }
  return targets;
}

Result<ApplyReport> apply_to(const Bytes& patch, Tensors& tensors, DecodeOptions options = {},
                             const ReadProgress& progress = {}) {
  return apply_patch(MemorySource(patch), targets_of(tensors), std::move(options), progress);
}

// Applies the patch, which must fail and change nothing.
Error refused(const Bytes& patch, Tensors tensors, const ReadProgress& progress = {}) {
  const Tensors before = tensors;
  const Result<ApplyReport> report = apply_to(patch, tensors, {}, progress);
  EXPECT_EQ(values_of(tensors), values_of(before));
  EXPECT_FALSE(report);
  return report ? Error{} : report.error();
}

TEST(Patch, ChangesTensorsWhereTheyAre) {
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  const Bytes patch = file_of(now, base_of(old));
  for (const unsigned threads : {1U, 3U}) {
    Tensors tensors = old;
    const ApplyReport report = take(apply_to(patch, tensors, {.threads = threads}));
    EXPECT_EQ(values_of(tensors), values_of(now));
    EXPECT_EQ(report.changed, (std::vector<std::string>{"large", "middle", "small", "steps"}));
    // The tensors are others now.
    const Error again = refused(patch, tensors);
    EXPECT_EQ(again.code, ErrorCode::kMissingBase);
    EXPECT_EQ(again.record, "large");
  }
}

TEST(Patch, FilesThatStandAloneAreAppliedToo) {
  Tensors tensors = old_tensors();
  const Tensors now = new_tensors(tensors);
  const ApplyReport report = take(apply_to(file_of(now), tensors));
  EXPECT_EQ(values_of(tensors), values_of(now));
  EXPECT_EQ(report.changed, (std::vector<std::string>{"large", "middle", "small", "steps"}));
}

TEST(Patch, TensorThatChangedInBetweenIsNamed) {
  const Tensors old = old_tensors();
  const Bytes patch = file_of(new_tensors(old), base_of(old));
  for (const char* name : {"large", "middle", "same", "small"}) {
    Tensors tensors = old;
    tensors[name].values.back() ^= std::byte{0x40};
    const Error error = refused(patch, tensors);
    EXPECT_EQ(error.code, ErrorCode::kMissingBase);
    EXPECT_EQ(error.record, name);
  }
}

TEST(Patch, NamesShapesAndTypesMustAgree) {
  const Tensors old = old_tensors();
  const Bytes patch = file_of(new_tensors(old), base_of(old));
  Tensors tensors = old;
  tensors.erase("same");
  EXPECT_EQ(refused(patch, tensors).record, "same");
  tensors = old;
  tensors["another"] = tensors["small"];
  EXPECT_EQ(refused(patch, tensors).record, "another");
  tensors = old;
  tensors["large"].shape = {700, 1000};
  EXPECT_EQ(refused(patch, tensors).code, ErrorCode::kMissingBase);
  tensors = old;
  tensors["large"].dtype = DType::kF16;
  EXPECT_EQ(refused(patch, tensors).record, "large");
  tensors = old;
  tensors["large"].values.pop_back();
  EXPECT_EQ(refused(patch, tensors).code, ErrorCode::kInvalidArgument);
}

TEST(Patch, DamageChangesNothing) {
  const Tensors old = old_tensors();
  const Bytes patch = file_of(new_tensors(old), base_of(old));
  Random random(5);
  for (int i = 0; i < 60; ++i) {
    Bytes damaged = patch;
    damaged[random.below(damaged.size())] ^= static_cast<std::byte>(1 + random.below(255));
    EXPECT_NE(refused(damaged, old).code, ErrorCode::kInternal);
    damaged = patch;
    damaged.resize(random.below(damaged.size()));
    EXPECT_NE(refused(damaged, old).code, ErrorCode::kInternal);
  }
}

TEST(Patch, MayBeCancelledUntilEverythingIsProven) {
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  const Bytes patch = file_of(now, base_of(old));
  EXPECT_EQ(refused(patch, old, [](std::uint64_t, std::string_view) { return false; }).code,
            ErrorCode::kCancelled);
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : old) {
    total += tensor.values.size();
  }
  Tensors tensors = old;
  take(apply_to(patch, tensors, {}, [&](std::uint64_t done, std::string_view) {
    last = done;
    return true;
  }));
  EXPECT_EQ(last, total);
}

// Chunks are changed where they lie before all are proven: whatever ends it, they are put back.
TEST(Patch, ChangesArePutBackWhereverItEnds) {
  const Tensors old = old_tensors();
  const Tensors now = new_tensors(old);
  const Bytes patch = file_of(now, base_of(old));
  unsigned n_calls = 0;
  Tensors tensors = old;
  take(apply_to(patch, tensors, {}, [&](std::uint64_t, std::string_view) {
    ++n_calls;
    return true;
  }));
  for (unsigned last = 0; last < n_calls; ++last) {
    unsigned n = 0;
    const auto stop = [&](std::uint64_t, std::string_view) { return n++ != last; };
    EXPECT_EQ(refused(patch, old, stop).code, ErrorCode::kCancelled);
  }
  // When everything is proven.
  tensors = old;
  const auto report =
      apply_patch(MemorySource(patch), targets_of(tensors), {.threads = 3}, {},
                  [](const ApplyReport& changes) { return changes.changed.empty(); });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(values_of(tensors), values_of(old));
}

// What is noted of the values before has a limit; chunks behind it are decoded twice.
TEST(Patch, MoreChangesThanAreNotedComeBackToo) {
  Tensors old;
  old["all"] = {DType::kBF16, {20, 1 << 20}, {}};
  old["some"] = {DType::kBF16, {1 << 20}, {}};
  for (auto& [name, tensor] : old) {
    tensor.values = weights(3, n_bytes(tensor.dtype, tensor.shape).value() / 4);
  }
  Tensors now = old;
  now["all"].values = stepped(old["all"].values, 1, 1);
  now["some"].values = stepped(old["some"].values, 2, 100);
  const Bytes patch = file_of(now, base_of(old));
  for (const char* name : {"all", "some"}) {
    const Bytes wrong = with_changed_index(patch, [&](format::Index& index) {
      for (format::StoredRecord& stored : index.records) {
        stored.record.digest[0] ^= stored.record.name == name ? 1 : 0;
      }
    });
    Tensors tensors = old;
    const auto report = apply_to(wrong, tensors, {.threads = 2});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::kChecksum);
    EXPECT_EQ(report.error().record, name);
    EXPECT_TRUE(values_of(tensors) == values_of(old));
  }
  Tensors tensors = old;
  EXPECT_EQ(take(apply_to(patch, tensors)).changed, (std::vector<std::string>{"all", "some"}));
  EXPECT_TRUE(values_of(tensors) == values_of(now));
}

TEST(Patch, TiedTensorsAreWrittenOnce) {
  Bytes storage = stepped(weights(1, 60000), 1, 1);
  const Bytes before = storage;
  const Bytes after = stepped(storage, 3, 40);
  const auto tied = [](const Bytes& values) {
    return std::vector<StridedTensor>{
        {"head", DType::kBF16, {300, 400}, {400, 1}, values.data()},
        {"embedding", DType::kBF16, {300, 400}, {400, 1}, values.data()},
        {"rows", DType::kBF16, {10, 400}, {400, 1}, values.data() + 2 * 400 * 20}};
  };
  const std::vector<NamedTensor> base = {
      {"head", {DType::kBF16, {300, 400}, before}},
      {"embedding", {DType::kBF16, {300, 400}, before}},
      {"rows", {DType::kBF16, {10, 400}, ByteView(before).subspan(2 * 400 * 20, 2 * 400 * 10)}}};
  EncodeOptions options;
  options.base = take(base_in_memory(base));
  const Bytes patch =
      write_file([&](Writer& writer) { expect_ok(writer.add_tensors(tied(after))); }, options);
  const auto targets = [](Bytes& head, Bytes& embedding, MutableBytes rows) {
    return std::vector<PatchedTensor>{{"head", DType::kBF16, {300, 400}, head},
                                      {"embedding", DType::kBF16, {300, 400}, embedding},
                                      {"rows", DType::kBF16, {10, 400}, rows}};
  };
  // As in the patch, and each in memory of its own.
  take(apply_patch(
      MemorySource(patch),
      targets(storage, storage, MutableBytes(storage).subspan(2 * 400 * 20, 2 * 400 * 10))));
  EXPECT_EQ(storage, after);
  Bytes head = before;
  Bytes embedding = before;
  Bytes rows(before.begin() + 2 * 400 * 20, before.begin() + 2 * 400 * 30);
  take(apply_patch(MemorySource(patch), targets(head, embedding, rows)));
  EXPECT_EQ(head, after);
  EXPECT_EQ(embedding, after);
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), after.begin() + 2 * 400 * 20));
  // Memory that is shared otherwise than in the patch.
  Bytes other = before;
  const auto mixed = targets(other, other, MutableBytes(other).subspan(2 * 400 * 21, 2 * 400 * 10));
  EXPECT_EQ(apply_patch(MemorySource(patch), mixed).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(other, before);
}

// Tensors of 200 x 300 values, of which one is a part of another one in files, and their patch.
struct TiedVersions {
  Bytes before = stepped(weights(1, 30000), 1, 1);
  Bytes after = stepped(before, 3, 40);

  Bytes patch() const {
    const std::vector<NamedTensor> base = {{"all", {DType::kBF16, {200, 300}, before}}};
    EncodeOptions options;
    options.base = take(base_in_memory(base));
    return write_file(
        [&](Writer& writer) {
          expect_ok(writer.add_tensors(std::vector<StridedTensor>{
              {"all", DType::kBF16, {200, 300}, {300, 1}, after.data()},
              {"rows", DType::kBF16, {5, 300}, {300, 1}, after.data() + 600 * 7}}));
        },
        options);
  }
  Bytes rows_of(const Bytes& all) const {
    return Bytes(all.begin() + 600 * 7, all.begin() + 600 * 12);
  }
};

TEST(Patch, PartsInMemoryOfTheirOwnAreReportedWhereTheyAloneChange) {
  const TiedVersions versions;
  Bytes all = versions.after;
  Bytes rows(600 * 5);
  const Bytes alone = write_file([&](Writer& writer) {
    expect_ok(writer.add_tensors(std::vector<StridedTensor>{
        {"all", DType::kBF16, {200, 300}, {300, 1}, versions.after.data()},
        {"rows", DType::kBF16, {5, 300}, {300, 1}, versions.after.data() + 600 * 7}}));
  });
  const std::vector<PatchedTensor> targets = {{"all", DType::kBF16, {200, 300}, all},
                                              {"rows", DType::kBF16, {5, 300}, rows}};
  EXPECT_EQ(take(apply_patch(MemorySource(alone), targets)).changed,
            std::vector<std::string>{"rows"});
  EXPECT_EQ(rows, versions.rows_of(versions.after));
  EXPECT_TRUE(take(apply_patch(MemorySource(alone), targets)).changed.empty());
}

TEST(Patch, CopiesAreWrittenBeforeAllOthersAndMayBeRefused) {
  const TiedVersions versions;
  const Bytes patch = versions.patch();
  for (const bool all_is_copy : {false, true}) {
    for (const bool goes_on : {false, true}) {
      Bytes all = versions.before;
      Bytes rows = versions.rows_of(versions.before);
      const std::vector<PatchedTensor> targets = {
          {"all", DType::kBF16, {200, 300}, all, all_is_copy},
          {"rows", DType::kBF16, {5, 300}, rows, !all_is_copy}};
      std::vector<std::string> told;
      const auto report =
          apply_patch(MemorySource(patch), targets, {}, {}, [&](const ApplyReport& changes) {
            told = changes.changed;
            EXPECT_EQ(all, all_is_copy ? versions.after : versions.before);
            EXPECT_EQ(rows, versions.rows_of(all_is_copy ? versions.before : versions.after));
            return goes_on;
          });
      EXPECT_EQ(told, (std::vector<std::string>{"all", "rows"}));
      ASSERT_EQ(report.has_value(), goes_on);
      if (goes_on) {
        EXPECT_EQ(report->changed, told);
      } else {
        EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
      }
      EXPECT_EQ(all, goes_on || all_is_copy ? versions.after : versions.before);
      EXPECT_EQ(rows, versions.rows_of(goes_on || !all_is_copy ? versions.after : versions.before));
    }
  }
}

TEST(Patch, CopiesOfTiedTensorsAreWrittenOnceEach) {
  const Tensors old = old_tensors();
  Tensors tied_old = old;
  tied_old["twin"] = old.at("large");
  Tensors tied_now = new_tensors(old);
  tied_now["twin"] = tied_now["large"];
  const Bytes patch = file_of(tied_now, base_of(tied_old));
  for (const char* copy : {"large", "twin"}) {
    Tensors tensors = tied_old;
    std::vector<PatchedTensor> targets = targets_of(tensors);
    for (PatchedTensor& target : targets) {
      target.is_copy = target.name == copy;
    }
    take(apply_patch(MemorySource(patch), targets, {.threads = 3}));
    EXPECT_EQ(values_of(tensors), values_of(tied_now));
  }
}

TEST(Patch, StorageThatNoTensorHasIsNotDecoded) {
  const Tensors old = old_tensors();
  const Bytes patch = file_of(new_tensors(old));
  const Bytes with_hidden = with_changed_index(patch, [](format::Index& index) {
    for (format::StoredRecord& stored : index.records) {
      if (stored.record.name == "large") {
        stored.record.hidden = true;
        stored.record.name.clear();
        stored.record.digest = {};
      }
    }
  });
  Tensors tensors = old;
  tensors.erase("large");
  std::uint64_t last = 0;
  const auto report = take(apply_to(with_hidden, tensors, {}, [&](std::uint64_t done, auto) {
    last = done;
    return true;
  }));
  EXPECT_EQ(report.changed, (std::vector<std::string>{"middle", "small", "steps"}));
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) {
    total += tensor.values.size();
  }
  EXPECT_EQ(last, total);
}

// Every dtype, in chunks and packed, at addresses that no dtype would have.
TEST(Patch, TensorsMayBeginAnywhere) {
  Tensors old;
  for (const DType dtype : codec::kAllDTypes) {
    for (const std::uint64_t n_elems : {8, 1 << 16}) {
      Tensor tensor{dtype, {n_elems}, {}};
      const std::uint64_t n_bytes = cfck::n_bytes(dtype, tensor.shape).value();
      tensor.values = weights(n_elems, (n_bytes + 3) / 4);
      tensor.values.resize(n_bytes);
      if (dtype == DType::kBool) {
        for (std::byte& value : tensor.values) {
          value &= std::byte{1};
        }
      }
      old[std::string(dtype_name(dtype)) + std::to_string(n_elems)] = std::move(tensor);
    }
  }
  Tensors now = old;
  for (auto& [name, tensor] : now) {
    tensor.values = stepped(tensor.values, 4, 60);
  }
  const Bytes patch = file_of(now, base_of(old));
  for (const std::size_t offset : {0, 1, 3, 5}) {
    std::map<std::string, Bytes> memory;
    std::vector<PatchedTensor> targets;
    for (const auto& [name, tensor] : old) {
      Bytes& bytes = memory[name];
      bytes.resize(offset + tensor.values.size());
      std::copy(tensor.values.begin(), tensor.values.end(),
                bytes.begin() + static_cast<long>(offset));
      targets.push_back(
          {name, tensor.dtype, tensor.shape, MutableBytes(bytes).subspan(offset), offset == 5});
    }
    take(apply_patch(MemorySource(patch), targets));
    for (const PatchedTensor& target : targets) {
      EXPECT_TRUE(std::ranges::equal(target.data, now[target.name].values)) << target.name;
    }
  }
}

TEST(Patch, SharedMemoryThatThePatchDoesNotShareIsRefused) {
  Tensors old = old_tensors();
  old["twin"] = old["middle"];
  Tensors now = new_tensors(old);
  const Bytes patch = file_of(now, base_of(old));
  std::vector<PatchedTensor> targets = targets_of(old);
  for (PatchedTensor& target : targets) {
    if (target.name == "twin") {
      target.data = old["middle"].values;
    }
  }
  const Tensors before = old;
  const auto result = apply_patch(MemorySource(patch), targets);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(values_of(old), values_of(before));
}

}  // namespace
}  // namespace cfck::test

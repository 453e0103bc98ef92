// Appending generations, and compacting them away.
#include "cfck/update.hpp"

#include <algorithm>
#include <functional>
#include <list>
#include <set>

#include "format/container/container.hpp"
#include "format/read/reader_access.hpp"
#include "tests/support/forwarding_files.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {
namespace {

StridedTensor floats(std::string name, const Bytes& values) {
  return {std::move(name), DType::kF32, {values.size() / 4}, {1}, values.data()};
}

StridedTensor part_of(std::string name, const Bytes& values, std::size_t first, std::size_t n) {
  return {std::move(name), DType::kF32, {n}, {1}, values.data() + 4 * first};
}

void save(const std::string& path, const std::vector<StridedTensor>& tensors) {
  put_bytes(path, write_file([&](Writer& writer) {
              expect_ok(writer.add_tensors(tensors));
              expect_ok(writer.set_metadata("format", "pt"));
              expect_ok(writer.set_metadata("step", "1"));
              expect_ok(writer.attach("safetensors.header", noise(1, 50)));
              expect_ok(writer.attach("notes", noise(2, 60)));
            }));
}

const Record* base_of(const OpenFile& file, const std::string& name) {
  return &file->records()[file.record(name).base];
}

TEST(Update, AddsReplacesAndRemoves) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes a = weights(1, 3000);
  const Bytes b = weights(2, 200000);
  const Bytes c = noise(3, 400000);
  save(path, {floats("a", a), floats("b", b), floats("c", c)});
  const std::size_t old_bytes = bytes_of(path).size();

  Update changes;
  const Bytes b2 = weights(4, 100);
  changes.tensors = {floats("d", a), floats("b", b2)};
  changes.remove = {"c"};
  changes.metadata = {{"step", "2"}, {"new", "x"}};
  const WriteSummary summary = take(update(path, changes));
  EXPECT_EQ(summary.n_records, 3U);
  EXPECT_EQ(summary.decoded_bytes, 2 * a.size() + b2.size());

  OpenFile file(bytes_of(path));
  EXPECT_EQ(file.bytes().size(), summary.file_bytes);
  std::uint64_t stored_bytes = 0;
  for (const Record& record : file->records()) {
    stored_bytes += record.stored_bytes;
  }
  EXPECT_GT(stored_bytes, 0U);
  EXPECT_EQ(summary.stored_bytes, stored_bytes);
  EXPECT_EQ(file->generation(), 1U);
  EXPECT_GT(file->dead_bytes(), c.size());
  EXPECT_EQ(all_tensors(file.reader()),
            (std::map<std::string, Bytes>{{"a", a}, {"b", b2}, {"d", a}}));
  EXPECT_EQ(file->metadata(), (Metadata{{"format", "pt"}, {"new", "x"}, {"step", "2"}}));
  ASSERT_EQ(file->attachments().size(), 1U);
  EXPECT_EQ(take(file->attachment("notes")), noise(2, 60));
  expect_sound(file.reader());

  const std::uint64_t freed = take(compact(path));
  OpenFile compacted(bytes_of(path));
  EXPECT_EQ(compacted.bytes().size() + freed, summary.file_bytes);
  EXPECT_LT(compacted.bytes().size(), old_bytes);
  EXPECT_EQ(compacted->generation(), 0U);
  EXPECT_EQ(compacted->dead_bytes(), 0U);
  EXPECT_EQ(all_tensors(compacted.reader()), all_tensors(file.reader()));
  EXPECT_EQ(compacted->content_digest(), file->content_digest());
  EXPECT_EQ(compacted->metadata(), file->metadata());
  EXPECT_EQ(take(compacted->attachment("notes")), noise(2, 60));
  expect_sound(compacted.reader());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"model.cfck"});
}

TEST(Update, OldBytesAreNotTouched) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes a = weights(1, 300000);
  save(path, {floats("a", a)});
  const Bytes before = bytes_of(path);
  take(update(path, {{floats("b", a)}, {"a"}, {}}));
  const Bytes after = bytes_of(path);
  ASSERT_GT(after.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
}

TEST(Update, AliasesKeepTheirValuesWhenTheirBaseGoes) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes memory = weights(5, 5000);
  for (const bool replace : {false, true}) {
    save(path, {floats("base", memory), part_of("view", memory, 100, 50), floats("tied", memory)});
    const Bytes other = weights(6, 70);
    Update changes;
    if (replace) {
      changes.tensors = {floats("base", other)};
    } else {
      changes.remove = {"base"};
    }
    take(update(path, changes));
    OpenFile file(bytes_of(path));
    EXPECT_EQ(file.tensor("view"), Bytes(memory.begin() + 400, memory.begin() + 600));
    EXPECT_EQ(file.tensor("tied"), memory);
    EXPECT_TRUE(base_of(file, "view")->hidden);
    EXPECT_EQ(base_of(file, "view"), base_of(file, "tied"));
    if (replace) {
      EXPECT_EQ(file.tensor("base"), other);
    }
    expect_sound(file.reader());

    take(update(path, {{}, {"view"}, {}}));
    EXPECT_EQ(OpenFile(bytes_of(path)).tensor("tied"), memory);
    take(update(path, {{}, {"tied"}, {}}));
    OpenFile last(bytes_of(path));
    EXPECT_EQ(last->records().size(), replace ? 1U : 0U) << "the hidden record is left over";
    expect_sound(last.reader());
  }
}

TEST(Update, ADuplicateTakesOverWhenItsBaseGoes) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  for (const std::size_t n : {100U, 500000U}) {  // in a pack, and in chunks
    const Bytes values = weights(7, n);
    const Bytes same = values;
    const Bytes again = values;
    save(path, {floats("first", values), floats("second", same), floats("third", again)});
    {
      OpenFile file(bytes_of(path));
      EXPECT_EQ(file.record("second").kind, RecordKind::kDuplicate);
    }
    take(update(path, {{}, {"first"}, {}}));
    OpenFile file(bytes_of(path));
    EXPECT_EQ(file.record("second").kind, n == 100 ? RecordKind::kPacked : RecordKind::kChunked);
    EXPECT_EQ(file.record("third").kind, RecordKind::kDuplicate);
    EXPECT_EQ(base_of(file, "third")->name, "second");
    EXPECT_EQ(file.tensor("second"), values);
    EXPECT_EQ(file.tensor("third"), values);
    expect_sound(file.reader());
    take(compact(path));
    OpenFile compacted(bytes_of(path));
    EXPECT_EQ(compacted.tensor("third"), values);
    expect_sound(compacted.reader());
  }
}

TEST(Update, WithoutChangesItIsStillAGeneration) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes a = weights(1, 100);
  save(path, {floats("a", a)});
  for (std::uint64_t generation = 1; generation < 5; ++generation) {
    take(update(path, {}));
    OpenFile file(bytes_of(path));
    EXPECT_EQ(file->generation(), generation);
    EXPECT_EQ(file.tensor("a"), a);
    expect_sound(file.reader());
  }
}

TEST(Update, WhatCannotBeDoneLeavesTheFileAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes a = weights(1, 100000);
  save(path, {floats("a", a)});
  const Bytes before = bytes_of(path);
  const auto expect_refused = [&](const Update& changes, ErrorCode code) {
    const Result<WriteSummary> refused = update(path, changes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, code) << refused.error().to_string();
    EXPECT_EQ(bytes_of(path) == before, true);
  };
  expect_refused({{}, {"nobody"}, {}}, ErrorCode::kNotFound);
  expect_refused({{floats("b", a), floats("b", a)}, {}, {}}, ErrorCode::kInvalidArgument);
  expect_refused({{floats("b", a), floats("\xff", a)}, {}, {}}, ErrorCode::kInvalidArgument);
  expect_refused({{floats("b", a)}, {}, {{"k", "\xff"}}}, ErrorCode::kInvalidArgument);
  const Result<WriteSummary> missing = update(folder.path("nothing"), {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(compact(folder.path("nothing")));
  put_bytes(folder.path("text"), std::as_bytes(std::span("this is no cfck file")));
  EXPECT_FALSE(update(folder.path("text"), {}));
  EXPECT_FALSE(compact(folder.path("text")));
}

TEST(Update, ProgressCountsWhatIsAddedAndCanCancel) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes a = weights(1, 100000);
  const Bytes b = weights(2, 200000);
  save(path, {floats("a", a)});
  const Bytes before = bytes_of(path);
  std::uint64_t last = 0;
  const WriteProgress count = [&](std::uint64_t done, std::string_view name) {
    EXPECT_GE(done, last);
    EXPECT_TRUE(name == "b" || name == "c");
    last = done;
    return true;
  };
  const WriteProgress cancel = [](std::uint64_t, std::string_view name) { return name != "c"; };
  const Update changes{{floats("b", b), floats("c", a)}, {}, {}};
  const Result<WriteSummary> cancelled = update(path, changes, {}, {}, system_files(), cancel);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(cancelled.error().message, "cancelled");
  EXPECT_EQ(bytes_of(path) == before, true);
  take(update(path, changes, {}, {}, system_files(), count));
  EXPECT_EQ(last, a.size() + b.size());
  OpenFile file(bytes_of(path));
  EXPECT_EQ(file.tensor("b"), b);
  EXPECT_EQ(file.tensor("c"), a);
}

TEST(Update, OneWriterAtATime) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes a = weights(1, 100);
  save(path, {floats("a", a)});
  const Bytes before = bytes_of(path);
  const std::unique_ptr<File> other = take(system_files().open_read(path));
  expect_ok(other->lock());
  for (const Result<void>& refused : {[&]() -> Result<void> {
                                        CFCK_TRY(update(path, {}));
                                        return {};
                                      }(),
                                      [&]() -> Result<void> {
                                        CFCK_TRY(compact(path));
                                        return {};
                                      }()}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  }
  EXPECT_EQ(bytes_of(path), before);
  expect_ok(other->close());
  EXPECT_TRUE(update(path, {}));
  // A file that was replaced since it was opened must not be written to.
  const std::unique_ptr<File> old = take(system_files().open_read(path));
  EXPECT_TRUE(compact(path));
  const Result<void> stale = old->lock();
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, ErrorCode::kIo);
}

TEST(Compact, ANewFileComesOutAsItWas) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes memory = weights(8, 900000);
  const Bytes raw = noise(9, 3 << 20);
  std::vector<Bytes> small;
  for (std::uint64_t i = 0; i < 60; ++i) {
    small.push_back(weights(20 + i, 1 + 60 * i));
  }
  const Bytes before = write_file([&](Writer& writer) {
    for (std::size_t i = 0; i < small.size(); ++i) {
      expect_ok(writer.add("s" + std::to_string(i),
                           TensorView{DType::kF32, {small[i].size() / 4}, small[i]}));
      if (i % 20 == 10) {
        expect_ok(writer.add_tensors(
            std::vector{part_of("l" + std::to_string(i), memory, 0, 600000 + i),
                        part_of("r" + std::to_string(i), memory, 500000, 300000 + i)}));
        expect_ok(writer.add("raw" + std::to_string(i),
                             TensorView{DType::kU8, {raw.size() - i}, ByteView(raw).subspan(i)}));
      }
    }
    expect_ok(writer.add("empty", TensorView{DType::kI64, {0, 3}, {}}));
    expect_ok(writer.attach("notes", memory));
    expect_ok(writer.set_metadata("k", "v"));
  });
  put_bytes(path, before);
  EXPECT_EQ(take(compact(path)), 0U);
  EXPECT_EQ(bytes_of(path) == before, true);
}

TEST(Compact, ADamagedFileIsLeftAsItIs) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes a = weights(1, 300000);
  save(path, {floats("a", a)});
  Bytes damaged = bytes_of(path);
  damaged[5000] ^= std::byte{4};
  put_bytes(path, damaged);
  const Result<std::uint64_t> refused = compact(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kChecksum);
  EXPECT_EQ(refused.error().record, "a");
  EXPECT_EQ(bytes_of(path), damaged);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"model.cfck"});
}

// Does something once, when the folder gets a new file.
class FilesWithVisitor final : public ForwardingFiles {
 public:
  explicit FilesWithVisitor(std::function<void()> visit) : visit_(std::move(visit)) {}
  Result<std::unique_ptr<File>> create_exclusive(const std::string& path) override {
    visit_();
    return ForwardingFiles::create_exclusive(path);
  }

 private:
  const std::function<void()> visit_;
};

TEST(Compact, AFileSavedMeanwhileIsKept) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.cfck");
  const Bytes a = weights(1, 3000);
  const Bytes b = weights(2, 3000);
  save(path, {floats("a", a)});
  FilesWithVisitor files([&] {
    save(folder.path("other.cfck"), {floats("b", b)});
    expect_ok(system_files().rename(folder.path("other.cfck"), path));
  });
  const Result<std::uint64_t> refused = compact(path, {}, files);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  const OpenFile kept(bytes_of(path));
  EXPECT_EQ(all_tensors(kept.reader()), (std::map<std::string, Bytes>{{"b", b}}));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"model.cfck"});
}

// The expected content of the file, kept in a map while random changes are applied to it.
class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {}

  Update random_changes() {
    memory_.clear();
    Update changes;
    std::set<std::string> touched;
    for (std::uint64_t i = random_.below(4); i > 0; --i) {
      const std::string name = random_name();
      if (expected.contains(name) && touched.insert(name).second) {
        changes.remove.push_back(name);
        expected.erase(name);
      }
    }
    std::set<std::string> added;
    for (std::uint64_t i = random_.below(4); i > 0; --i) {
      add_some(changes, added);
    }
    return changes;
  }

  std::map<std::string, Bytes> expected;

 private:
  std::string random_name() { return "n" + std::to_string(random_.below(20)); }

  // One memory, and one to three tensors in it.
  void add_some(Update& changes, std::set<std::string>& added) {
    static const std::size_t kSizes[] = {1, 50, 5000, 30000};
    const std::size_t n = kSizes[random_.below(4)];
    // Few seeds, so that equal tensors occur.
    memory_.push_back(random_.below(2) == 0 ? weights(random_.below(3), n)
                                            : noise(random_.below(3), 4 * n));
    const Bytes& memory = memory_.back();
    for (std::uint64_t i = 1 + random_.below(3); i > 0; --i) {
      const std::string name = random_name();
      if (!added.insert(name).second) {
        continue;
      }
      const std::size_t first = random_.below(2) == 0 ? 0 : random_.below(n);
      const std::size_t length = first == 0 ? n : 1 + random_.below(n - first);
      changes.tensors.push_back(part_of(name, memory, first, length));
      expected[name] = Bytes(memory.begin() + static_cast<std::ptrdiff_t>(4 * first),
                             memory.begin() + static_cast<std::ptrdiff_t>(4 * (first + length)));
    }
  }

  Random random_;
  std::list<Bytes> memory_;
};

TEST(Update, RandomSequencesOfChangesMatchAModel) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const TemporaryFolder folder;
    const std::string path = folder.path("model.cfck");
    put_bytes(path, write_file([](Writer&) {}));
    Model model(seed);
    Random random(seed + 1000);
    for (int step = 0; step < 25; ++step) {
      const Update changes = model.random_changes();
      EncodeOptions options;
      options.chunk_elems = 2048;
      options.threads = 1 + static_cast<unsigned>(random.below(3));
      take(update(path, changes, options));
      OpenFile updated(bytes_of(path));
      ASSERT_EQ(all_tensors(updated.reader()) == model.expected, true)
          << "seed " << seed << " step " << step;
      expect_sound(updated.reader());
      if (random.below(5) == 0) {
        take(compact(path));
        const Bytes once = bytes_of(path);
        OpenFile compacted(once);
        ASSERT_EQ(all_tensors(compacted.reader()) == model.expected, true);
        expect_sound(compacted.reader());
        take(compact(path));
        EXPECT_EQ(bytes_of(path) == once, true) << "compacting twice changed the file";
      }
    }
  }
}

}  // namespace
}  // namespace cfck::test

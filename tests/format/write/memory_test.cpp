// Memory runs out at every allocation in turn: each call gives an error or succeeds, throws
// nothing, and leaves only the old file unchanged, or the complete new one.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "tests/interop/safetensors/safetensors_file.hpp"
#include "tests/support/failing_new.hpp"
#include "tests/support/measured_models.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/shortages.hpp"

namespace cfck::test {
namespace {

// A file that is replaced or changed: afterwards it is there alone, old or new.
struct TargetFile {
  TemporaryFolder folder;
  std::string path = folder.path("model.cfck");
  Bytes old;
  std::map<std::string, Bytes> expected;

  void restore() const { put_bytes(path, old); }
  void check(bool succeeded) const {
    EXPECT_EQ(folder.names(), std::vector<std::string>{"model.cfck"});
    const Bytes now = bytes_of(path);
    if (!succeeded) {
      EXPECT_EQ(now, old);
    } else if (now == old) {
      ADD_FAILURE() << "success, but nothing changed";
    } else {
      EXPECT_EQ(all_tensors(OpenFile(now).reader()).size(), expected.size());
    }
  }
};

struct Tensor {
  std::string name;
  TensorView view;
};

// Saves with everything that can be asked of a writer, to a file.
Result<void> save(const std::string& path, EncodeOptions options,
                  const std::vector<Tensor>& tensors, std::span<const StridedTensor> tied) {
  AtomicFile::Options create;
  create.sync = false;
  CFCK_TRY_ASSIGN(const std::unique_ptr<AtomicFile> file, AtomicFile::create(path, create));
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(*file, std::move(options)));
  for (const Tensor& tensor : tensors) {
    CFCK_TRY(writer.add(tensor.name, tensor.view));
  }
  CFCK_TRY(writer.add_tensors(tied));
  CFCK_TRY(writer.set_metadata("a key that is longer than a short string", "and its value"));
  CFCK_TRY(writer.attach("an attachment with a long name", tensors.front().view.data));
  CFCK_TRY_ASSIGN(const WriteSummary summary, writer.finish());
  return file->commit();
}

void expect_saves(const EncodeOptions& options, const std::vector<Named>& named,
                  std::uint64_t n_first) {
  std::vector<Tensor> tensors;
  TargetFile target;
  for (const Named& one : named) {
    tensors.push_back({one.name, TensorView{DType::kF32, one.shape, one.bytes}});
    target.expected[one.name] = one.bytes;
  }
  const Bytes memory = weights(9, 64);
  std::vector<StridedTensor> tied;
  for (const char* name : {"first of the tied tensors", "second of the tied tensors"}) {
    tied.push_back({name, DType::kF32, {64}, {1}, memory.data()});
    target.expected[name] = memory;
  }
  target.old = write_file([&](Writer& writer) {
    expect_ok(writer.add("old", TensorView{DType::kF32, {64}, memory}));
  });
  EncodeOptions copy;
  Operation operation;
  operation.prepare = [&] {
    target.restore();
    copy = options;
  };
  operation.run = [&] { return save(target.path, std::move(copy), tensors, tied); };
  operation.check = [&](bool succeeded) { target.check(succeeded); };
  expect_survives(operation, n_first);
}

std::vector<Named> small_tensors() {
  return {{"a tensor in several chunks", {96, 64}, weights(1, 96 * 64)},
          {"a small tensor", {8}, weights(2, 8)},
          {"a tensor like the first", {96, 64}, weights(1, 96 * 64)}};
}

EncodeOptions small_options(unsigned threads) {
  EncodeOptions options;
  options.threads = threads;
  options.chunk_elems = 1024;
  return options;
}

TEST(Memory, RunsOutInSave) { expect_saves(small_options(1), small_tensors(), 200); }

TEST(Memory, RunsOutInSaveWithThreads) { expect_saves(small_options(3), small_tensors(), 50); }

TEST(Memory, RunsOutInSaveWithinABound) {
  EncodeOptions options = small_options(2);
  options.max_rel_error = 1e-3;
  options.level = EncodeLevel::kArchive;
  expect_saves(options, small_tensors(), 30);
}

TEST(Memory, RunsOutInSaveToATarget) {
  EncodeOptions options = small_options(2);
  options.bits_per_weight = 4;
  options.rules.push_back({"a small*", {}});
  expect_saves(options, {{"matrix", {32, 64}, weights(3, 32 * 64)}}, 30);
}

TEST(Memory, RunsOutInSaveWithACalibration) {
  const std::vector<Measured> model = {measured(1, "linear", {32, 48})};
  EncodeOptions options = options_of(model);
  options.threads = 2;
  expect_saves(options, tensors_of(model), 30);
}

TEST(Memory, RunsOutWhenACalibrationIsOpened) {
  std::vector<Measured> model = {measured(1, "linear", {8, 16}), measured(2, "conv", {8, 4, 3, 3})};
  model[0].corrected.assign(8 * 16, 1.0f);
  const Bytes file = calibration_file(model);
  std::unique_ptr<ByteSource> source;
  Operation operation;
  operation.prepare = [&] { source = std::make_unique<OwnedMemorySource>(file); };
  operation.run = [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const auto calibration, Calibration::open(std::move(source)));
    const CalibratedSteps* const steps = calibration->find("linear");
    CFCK_TRY(calibration->second_moments(*steps));
    CFCK_TRY(calibration->corrected_values(*steps));
    return {};
  };
  expect_survives(operation);
}

Bytes file_with_everything(unsigned threads) {
  const std::vector<Named> tensors = small_tensors();
  return write_file(
      [&](Writer& writer) {
        for (const Named& one : tensors) {
          expect_ok(writer.add(one.name, TensorView{DType::kF32, one.shape, one.bytes}));
        }
        const std::uint64_t strides[] = {1, 64};
        expect_ok(writer.add_alias("a transposed view", tensors[0].name, 0, {64, 96}, strides));
        expect_ok(writer.set_metadata("a key that is longer than a short string", "value"));
        expect_ok(writer.attach("an attachment", tensors[0].bytes));
      },
      small_options(threads));
}

TEST(Memory, RunsOutInLoad) {
  TargetFile target;
  target.old = file_with_everything(1);
  target.restore();
  std::vector<Bytes> room(4);
  for (const ReadMode mode : {ReadMode::kPread, ReadMode::kMmap}) {
    Operation operation;
    operation.prepare = [&] { room.assign(4, Bytes(96 * 64 * 4)); };
    operation.run = [&]() -> Result<void> {
      CFCK_TRY_ASSIGN(const std::unique_ptr<ByteSource> source, open_file(target.path, mode));
      DecodeOptions options;
      options.threads = 3;
      CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*source, options));
      const std::string_view names[] = {"a tensor in several chunks", "a small tensor",
                                        "a tensor like the first", "a transposed view"};
      ReadRequest requests[4];
      for (std::size_t i = 0; i < 4; ++i) {
        const Record* const record = reader.find(names[i]);
        requests[i] = {record, MutableBytes(room[i]).first(record->decoded_bytes)};
      }
      CFCK_TRY(reader.read_many(requests));
      CFCK_TRY(reader.read_elements(*requests[3].record, 7, 100,
                                    MutableBytes(room[3]).first(std::size_t{400})));
      const std::uint64_t starts[] = {1, 2};
      const std::uint64_t stops[] = {5, 60};
      CFCK_TRY(reader.read_slice(*requests[0].record, starts, stops,
                                 MutableBytes(room[0]).first(std::size_t{4 * 58 * 4})));
      CFCK_TRY(reader.attachment("an attachment"));
      CFCK_TRY_ASSIGN(const VerifyReport report, reader.verify(VerifyLevel::kDeep));
      return report.problems.empty() ? Result<void>()
                                     : Error{ErrorCode::kCorrupt, "problems", {}, {}};
    };
    operation.check = [&](bool succeeded) {
      EXPECT_EQ(bytes_of(target.path), target.old);
      if (succeeded) {
        EXPECT_EQ(room[2], small_tensors()[2].bytes);
      }
    };
    expect_survives(operation);
  }
}

TEST(Memory, RunsOutInReadsIntoOwnedMemory) {
  TargetFile target;
  target.old = file_with_everything(1);
  target.restore();
  Operation operation;
  operation.prepare = [] {};
  operation.run = [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const Reader reader, Reader::open(target.path));
    CFCK_TRY_ASSIGN(const OwnedTensor tensor, reader.read("a tensor in several chunks"));
    CFCK_TRY_ASSIGN(const OwnedTensor view, reader.read(*reader.find("a transposed view")));
    Result<OwnedTensor> none = reader.read("a name that is not in the file at all");
    if (none.error().code == ErrorCode::kNotFound) return {};
    return std::move(none).error();
  };
  operation.check = [](bool) {};
  expect_survives(operation);
}

TEST(Memory, RunsOutInASinkInMemory) {
  const Bytes bytes = weights(1, 1000);
  MemorySink sink;
  run_out_of_memory(1, Shortage::kOnce);
  const Result<void> refused = sink.write(bytes);
  EXPECT_TRUE(memory_is_back());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  expect_ok(sink.write(bytes));
  EXPECT_EQ(sink.bytes(), bytes);
}

TEST(Memory, RunsOutInUpdate) {
  TargetFile target;
  target.old = file_with_everything(1);
  const Bytes added = weights(7, 64 * 64);
  Update changes;
  changes.tensors.push_back({"added by the update", DType::kF32, {64, 64}, {64, 1}, added.data()});
  changes.remove.push_back("a small tensor");
  changes.metadata["another key, longer than a short string"] = "value";
  target.expected = all_tensors(OpenFile(target.old).reader());
  EncodeOptions options;
  Operation operation;
  operation.prepare = [&] {
    target.restore();
    options = small_options(2);
  };
  operation.run = [&]() -> Result<void> {
    CFCK_TRY(update(target.path, changes, std::move(options)));
    return {};
  };
  operation.check = [&](bool succeeded) { target.check(succeeded); };
  expect_survives(operation);
}

TEST(Memory, RunsOutInCompactAndRepair) {
  TargetFile target;
  target.old = file_with_everything(1);
  target.restore();
  Update changes;
  changes.remove.push_back("a small tensor");
  take(update(target.path, changes, small_options(1)));
  target.old = bytes_of(target.path);
  target.expected = all_tensors(OpenFile(target.old).reader());
  Operation operation;
  operation.prepare = [&] { target.restore(); };
  operation.run = [&]() -> Result<void> {
    CFCK_TRY(compact(target.path));
    return {};
  };
  operation.check = [&](bool succeeded) { target.check(succeeded); };
  expect_survives(operation);

  const std::string copy = target.folder.path("copy.cfck");
  operation.prepare = [&] {
    target.restore();
    (void)::unlink(copy.c_str());
  };
  operation.run = [&]() -> Result<void> {
    CFCK_TRY(repair(target.path, copy));
    return {};
  };
  operation.check = [&](bool succeeded) {
    EXPECT_EQ(bytes_of(target.path), target.old);
    EXPECT_EQ(target.folder.names().size(), succeeded ? 2u : 1u);
  };
  expect_survives(operation);
}

TEST(Memory, RunsOutInTheSearchForDependents) {
  TemporaryFolder folder;
  const auto put = [&](const char* name, Bytes values, EncodeOptions options) {
    const TensorView view{DType::kBF16, {200, 300}, values};
    put_bytes(
        folder.path(name),
        write_file([&](Writer& writer) { expect_ok(writer.add("a matrix", view)); }, options));
  };
  Bytes values = weights(1, 200 * 150);
  const std::string base = folder.path("a file that is a base.cfck");
  put("a file that is a base.cfck", values, {});
  values[7] ^= std::byte{1};
  EncodeOptions options;
  options.base = take(open_base(base));
  put("a file with a long name.cfck", values, options);
  std::vector<std::string> names;
  Operation operation;
  operation.prepare = [&] { names.clear(); };
  operation.run = [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(names, dependents_of(base));
    return {};
  };
  operation.check = [&](bool succeeded) {
    EXPECT_EQ(names.size(), succeeded ? 1U : 0U) << "none is passed over";
  };
  expect_survives(operation);
}

Bytes safetensors_model() {
  const Bytes values = joined({weights(1, 96 * 64), weights(2, 8)});
  const std::string json = "{" + entry("a matrix", "F32", "[96,64]", "[0,24576]") + "," +
                           entry("a vector with a long name", "F32", "[8]", "[24576,24608]") + "}";
  return safetensors_file(
      json, std::string_view(reinterpret_cast<const char*>(values.data()), values.size()));
}

TEST(Memory, RunsOutInConversion) {
  TemporaryFolder folder;
  const Bytes model = safetensors_model();
  put_bytes(folder.path("model.safetensors"), model);
  const std::string paths[] = {folder.path("model.safetensors"), folder.path("model.cfck"),
                               folder.path("back.safetensors")};
  EncodeOptions options;
  Operation operation;
  operation.prepare = [&] {
    (void)::unlink(paths[1].c_str());
    (void)::unlink(paths[2].c_str());
    options = small_options(3);
  };
  AtomicFile::Options create;
  create.sync = false;
  operation.run = [&]() -> Result<void> {
    CFCK_TRY_ASSIGN(const auto source, open_file(paths[0]));
    CFCK_TRY_ASSIGN(const SafetensorsHeader header, read_safetensors_header(*source));
    CFCK_TRY_ASSIGN(const auto there, AtomicFile::create(paths[1], create));
    CFCK_TRY_ASSIGN(Writer writer, Writer::create(*there, std::move(options)));
    CFCK_TRY(add_safetensors(writer, *source, header));
    CFCK_TRY(writer.finish());
    CFCK_TRY(there->commit());
    CFCK_TRY_ASSIGN(const auto written, open_file(paths[1]));
    CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*written));
    CFCK_TRY_ASSIGN(const auto back, AtomicFile::create(paths[2], create));
    CFCK_TRY(write_safetensors(reader, *back, {}, 3));
    return back->commit();
  };
  operation.check = [&](bool succeeded) {
    const std::vector<std::string> names = folder.names();
    for (const std::string& name : names) {
      EXPECT_NE(name.front(), '.') << name;
    }
    EXPECT_EQ(names.front() == "back.safetensors", succeeded);
    if (succeeded) {
      EXPECT_EQ(bytes_of(paths[2]), model);
    }
  };
  expect_survives(operation);
}

// An attachment may be no header of this file, whatever it says.
TEST(Memory, HeaderOfOtherTensorsIsNotParsed) {
  std::string json = "{";
  for (int i = 0; i < 50'000; ++i) {
    json += entry("t" + std::to_string(i), "U8", "[]", "[0,0]") + ",";
  }
  json.back() = '}';
  const Bytes values = weights(1, 64);
  const OpenFile file(write_file([&](Writer& writer) {
    expect_ok(writer.add("w", TensorView{DType::kF32, {64}, values}));
    expect_ok(writer.attach("safetensors.header", std::as_bytes(std::span(json))));
  }));
  MemorySink sink;
  watch_memory();
  expect_ok(write_safetensors(file.reader(), sink, {}, 1));
  EXPECT_LT(peak_bytes(), json.size() * 3 / 2);
  const MemorySource written(sink.bytes());
  EXPECT_EQ(take(read_safetensors_header(written)).entries.front().name, "w");
}

constexpr int kDone = 0;
constexpr int kNoMemory = 7;
constexpr int kOtherError = 70;

// Runs `operation` in a process of its own with at most `max_bytes` of address space.
int run_below(std::uint64_t max_bytes, const std::function<Result<void>()>& operation) {
  const pid_t process = ::fork();
  if (process == 0) {
    const rlimit limit{max_bytes, max_bytes};
    ::setrlimit(RLIMIT_AS, &limit);
    const Result<void> result = operation();
    ::_exit(result                                           ? kDone
            : result.error().code == ErrorCode::kOutOfMemory ? kNoMemory
                                                             : kOtherError);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Memory, LimitsOfAProcessAreSurvived) {
  if (kHasSanitizer) GTEST_SKIP();
  const Bytes values = weights(1, std::size_t{3} << 18);
  const std::vector<Tensor> tensors = {
      {"a large tensor", TensorView{DType::kF32, {3, std::uint64_t{1} << 18}, values}}};
  TargetFile target;
  target.old = write_file([&](Writer& writer) {
    expect_ok(writer.add("old", TensorView{DType::kF32, {16384}, ByteView(values).first(65536)}));
  });
  target.expected["a large tensor"] = values;
  target.expected["old"] = values;
  EncodeOptions options = small_options(8);
  Update changes;
  changes.tensors.push_back(
      {"a large tensor", DType::kF32, {std::uint64_t{3} << 18}, {1}, values.data()});
  const std::function<Result<void>()> operations[] = {
      [&]() -> Result<void> { return save(target.path, options, tensors, {}); },
      [&]() -> Result<void> {
        CFCK_TRY(update(target.path, changes, options));
        return {};
      },
      [&]() -> Result<void> {
        CFCK_TRY_ASSIGN(const auto source, open_file(target.path));
        CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*source));
        CFCK_TRY(reader.verify(VerifyLevel::kDeep));
        return {};
      }};
  for (const auto& operation : operations) {
    for (std::uint64_t limit = 60; limit <= 110; ++limit) {
      target.restore();
      const int code = run_below(limit * 1'000'000, operation);
      ASSERT_TRUE(code == kDone || code == kNoMemory) << limit << " MB: " << code;
      ASSERT_EQ(target.folder.names(), std::vector<std::string>{"model.cfck"}) << limit << " MB";
      if (code == kNoMemory) {
        ASSERT_EQ(bytes_of(target.path), target.old) << limit << " MB";
      }
    }
  }
}

}  // namespace
}  // namespace cfck::test

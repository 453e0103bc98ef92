// Limits of the memory that a file may make the programs use, and operations that do not need it.
#include <gtest/gtest.h>

#include <cstring>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "cfck/cfck.hpp"
#include "format/container/container.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

// Writes a file of what `add` adds.
void write_cfck(const std::string& path, const std::function<void(Writer&)>& add) {
  auto file = AtomicFile::create(path, {});
  ASSERT_TRUE(file);
  auto writer = Writer::create(**file);
  ASSERT_TRUE(writer);
  add(*writer);
  ASSERT_TRUE(writer->finish());
  ASSERT_TRUE((*file)->commit());
}

TEST(Limits, AreNamedInErrorsAsTheyAreTyped) {
  const TemporaryFolder folder;
  const std::string path = folder / "m.cfck";
  const std::vector<float> values(4);
  write_cfck(path, [&](Writer& writer) {
    const ByteView bytes = std::as_bytes(std::span(values));
    EXPECT_TRUE(writer.add("w", TensorView{DType::kF32, {4}, bytes}));
    EXPECT_TRUE(writer.add("v", TensorView{DType::kF32, {2}, bytes.first(8)}));
    EXPECT_TRUE(writer.set_metadata("key", std::string(2000, 'x')));
  });
  for (const std::vector<std::string>& command : {std::vector<std::string>{"inspect", path},
                                                  {"verify", path},
                                                  {"digest", path},
                                                  {"stats", path},
                                                  {"bands", path},
                                                  {"diff", path, path},
                                                  {"extract", path, "w", "-o", folder / "w.npy"},
                                                  {"convert", path, folder / "m.safetensors"},
                                                  {"compact", path},
                                                  {"repair", path, "-o", folder / "r.cfck"}}) {
    for (const std::string limit : {"max_records=1", "max_metadata_bytes=1kB"}) {
      std::vector<std::string> limited = command;
      limited.insert(limited.end(), {"--limit", limit});
      const Outcome refused = run(limited);
      EXPECT_EQ(refused.code, 7) << command[0] << refused.err;
      const std::string advice = "raise the limit " + limit.substr(0, limit.find('='));
      EXPECT_NE(refused.err.find(advice), std::string::npos) << refused.err;
      // Options may stand before the files, of which some commands take several.
      limited.assign({command[0], "--limit", limit});
      limited.insert(limited.end(), command.begin() + 1, command.end());
      EXPECT_EQ(run(limited).code, 7) << command[0];
    }
    std::vector<std::string> raised = command;
    raised.insert(raised.end(), {"--limit", "max_records=2", "--limit=max_metadata_bytes=60MB"});
    EXPECT_NE(run(raised).code, 7) << command[0];
  }
}

TEST(Limits, OnlyKnownOnesCanBeSet) {
  for (const char* given : {"max_tensors=5", "max_records", "max_records=many", "=5", ""}) {
    const Outcome outcome = run({"inspect", "x.cfck", "--limit", given});
    EXPECT_EQ(outcome.code, 2) << given;
    EXPECT_NE(outcome.err.find("max_index_bytes, max_metadata_bytes"), std::string::npos)
        << outcome.err;
  }
}

// A record of four values, and an alias that repeats them along axes with a stride of 0. A writer
// would never finish such a file, so a dimension in the index is changed.
class Repeated : public ::testing::Test {
 protected:
  void make(const std::string& to_path, std::uint64_t n_times, const std::vector<float>& values) {
    write_cfck(to_path, [&](Writer& writer) {
      EXPECT_TRUE(writer.add("w", TensorView{DType::kF32, {4}, std::as_bytes(std::span(values))}));
      EXPECT_TRUE(writer.add_alias("many", "w", 0, {kMarked, 4}, std::vector<std::uint64_t>{0, 1}));
    });
    std::string bytes = read_file(to_path);
    const auto replace = [&](std::uint64_t from, std::uint64_t to) {
      const std::string_view before(reinterpret_cast<const char*>(&from), 8);
      const std::size_t at = bytes.rfind(before);
      ASSERT_NE(at, std::string::npos);
      bytes.replace(at, 8, reinterpret_cast<const char*>(&to), 8);
    };
    if (n_times != kMarked) replace(kMarked, n_times);
    // Corrects the hashes of index and tail.
    char* const tail = bytes.data() + bytes.size() - format::kTailBytes;
    const auto index = load<std::uint64_t>(reinterpret_cast<const std::byte*>(tail) + 80);
    const auto index_bytes = load<std::uint64_t>(reinterpret_cast<const std::byte*>(tail) + 88);
    const Digest digest = hash128(std::as_bytes(std::span(bytes)).subspan(index, index_bytes));
    std::memcpy(tail + 96, digest.data(), digest.size());
    const std::uint64_t own = hash64(std::as_bytes(std::span(tail, 120)));
    std::memcpy(tail + 120, &own, 8);
    write_file(to_path, bytes);
  }

  static constexpr std::uint64_t kMarked = 54'321;
  static constexpr std::uint64_t kEndless = std::uint64_t{1} << 47;
  const TemporaryFolder folder;
  const std::string path = folder / "m.cfck";
};

TEST_F(Repeated, StatisticsCountEachStoredValueOnce) {
  for (const std::uint64_t n_times : {kMarked, kEndless}) {
    make(path, n_times, {1, 2, 0, 5});
    const Outcome outcome = run({"stats", "--json", path, "many"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto record = outcome.json()["records"][0];
    EXPECT_EQ(record["n_elems"], 4 * n_times);
    EXPECT_EQ(record["n_counted"], 4);
    EXPECT_EQ(record["n_finite"], 4);
    EXPECT_EQ(record["n_zeros"], 1);
    EXPECT_EQ(record["mean"], 2);
    EXPECT_EQ(record["max"], 5);
    EXPECT_FALSE(run({"stats", "--json", path, "w"}).json()["records"][0].contains("n_counted"));
    const Outcome text = run({"stats", "--histograms", path, "many"});
    EXPECT_NE(text.out.find("each is counted once"), std::string::npos) << text.out;
  }
}

TEST_F(Repeated, DifferencesCountEachStoredValueOnce) {
  make(path, kEndless, {1, 2, 0, 5});
  make(folder / "same.cfck", kEndless, {1, 2, 0, 5});
  EXPECT_EQ(run({"diff", path, folder / "same.cfck"}).code, 0);
  const std::string small = folder / "small.cfck";
  make(small, kMarked, {1, 2, 0, 5});
  const std::string changed = folder / "changed.cfck";
  make(changed, kMarked, {1, 2, 0, 7});
  const Outcome outcome = run({"diff", "--json", small, changed});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const auto json = outcome.json();
  for (const auto& tensor : json["changed"]) {
    EXPECT_EQ(tensor["max_abs_error"], 2);
    EXPECT_EQ(tensor["rmse"], 1) << tensor["name"];
  }
}

TEST_F(Repeated, WhatNeedsAllElementsAsksTheLimitFirst) {
  make(path, kEndless, {1, 2, 0, 5});
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"verify", "--deep", path},
        {"extract", path, "many", "-o", folder / "m.npy"},
        {"convert", path, folder / "m.safetensors"}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 7) << command[0];
    EXPECT_NE(outcome.err.find("raise the limit max_decoded_bytes"), std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.err.find("repair"), std::string::npos) << "nothing is damaged";
  }
  EXPECT_EQ(folder.files(), std::vector<std::string>{"m.cfck"});
  for (const std::vector<std::string>& command : {std::vector<std::string>{"verify", path},
                                                  {"digest", path},
                                                  {"inspect", path},
                                                  {"bands", path},
                                                  {"compact", path},
                                                  {"extract", path, "w", "-o", folder / "w.npy"}}) {
    EXPECT_EQ(run(command).code, 0) << command[0];
  }
}

// Each of them may be read, but a file may have very many.
TEST_F(Repeated, ViewsAreCountedTogether) {
  const std::vector<float> values(20, 1.5F);
  const std::vector<std::uint64_t> sides(18, 2);
  const std::vector<std::uint64_t> strides(18, 1);
  write_cfck(path, [&](Writer& writer) {
    EXPECT_TRUE(writer.add("w", TensorView{DType::kF32, {20}, std::as_bytes(std::span(values))}));
    for (const char* name : {"a", "b", "c", "d"}) {
      EXPECT_TRUE(writer.add_alias(name, "w", 0, sides, strides));  // 1 MiB
    }
  });
  const Outcome refused = run({"stats", path, "--limit", "max_decoded_bytes=2MB"});
  EXPECT_EQ(refused.code, 7);
  EXPECT_NE(refused.err.find("read through views"), std::string::npos) << refused.err;
  EXPECT_EQ(run({"stats", path, "--limit", "max_decoded_bytes=40MB"}).code, 0);
}

// 320 MB of values, which neither a check nor a conversion holds at once.
TEST_F(Repeated, ElementsAreStreamed) {
  const std::vector<float> values(4, 1.5F);
  write_cfck(path, [&](Writer& writer) {
    EXPECT_TRUE(writer.add("w", TensorView{DType::kF32, {4}, std::as_bytes(std::span(values))}));
    EXPECT_TRUE(
        writer.add_alias("many", "w", 0, {20'000'000, 4}, std::vector<std::uint64_t>{0, 1}));
  });
  RunOptions options;
  if (!kHasSanitizer) options.max_memory_bytes = std::uint64_t{250} << 20;
  EXPECT_EQ(run({"verify", "--deep", path, "--threads", "1"}, options).code, 0);
}

// Valid safetensors files with tensors that a .cfck file cannot hold.
TEST(Limits, WhatTheFormatHasNoRoomForIsNoWrongUsage) {
  const TemporaryFolder folder;
  const std::string path = folder / "m.safetensors";
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  for (const auto& [model, message] : std::vector<std::pair<std::string, std::string>>{
           {model_of({{std::string(65'536, 'n'), "U8", "[1]", "x"}}), "65535 bytes at most"},
           {model_of({{"x", "U8", ones + "]", "x"}}), "64 dimensions at most"},
           {model_of({{"x", "U8", "[0,281474976710656]", ""}}), "below 2^48"},
           {model_of({{"x", "U8", "[0,4294967296,4294967296]", ""}}), "2^63 or more"}}) {
    write_file(path, model);
    const Outcome outcome = run({"convert", path});
    EXPECT_EQ(outcome.code, 7) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err.substr(0, 1000);
    EXPECT_LT(outcome.err.size(), 1000U);
  }
  write_file(path, model_of({{std::string(65'535, 'n'), "U8", "[1]", "x"}}));
  EXPECT_EQ(run({"convert", path}).code, 0);
}

}  // namespace
}  // namespace cfck::test

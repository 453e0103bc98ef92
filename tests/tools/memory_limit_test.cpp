// Programs that cannot have the memory they want: an error and a documented exit code, never a
// signal, and no file left over.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <set>
#include <span>

#include "cfck/cfck.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

constexpr std::uint64_t kMegabyte = 1'000'000;
constexpr int kLimitExceeded = 7;

struct Ended {
  int code = -1;  // 128 + n if a signal ended the program
  std::string err;
  std::uint64_t peak_bytes = 0;  // maximum memory at once
};

// Runs `cfck` with at most this many bytes of addresses, as after ulimit -v; 0: unlimited.
Ended run_below(std::uint64_t max_bytes, std::vector<std::string> arguments) {
  const TemporaryFolder output;
  const std::string err = output / "err";
  arguments.insert(arguments.begin(), "cfck");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string program = std::string(CFCK_PROGRAM_FOLDER) + "/cfck";
  const pid_t process = ::fork();
  if (process == 0) {
    const rlimit limit{max_bytes, max_bytes};
    if (max_bytes != 0) ::setrlimit(RLIMIT_AS, &limit);
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  EXPECT_EQ(::wait4(process, &status, 0, &used), process);
  Ended ended;
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.err = read_file(err);
  ended.peak_bytes = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
  return ended;
}

// Runs the program below each limit; `before` are the files of the folder if it fails, `after`
// those if it succeeds.
void sweep(const TemporaryFolder& folder, const std::vector<std::string>& arguments,
           const std::function<void()>& prepare, const std::vector<std::string>& before,
           const std::vector<std::string>& after, bool must_fail = false) {
  if (kHasSanitizer) GTEST_SKIP() << "sanitizers need more addresses";
  std::set<int> codes;
  for (std::uint64_t limit = 60; limit <= 110; ++limit) {
    prepare();
    const Ended outcome = run_below(limit * kMegabyte, arguments);
    codes.insert(outcome.code);
    ASSERT_TRUE(outcome.code == 0 || outcome.code == kLimitExceeded)
        << limit << " MB: exit code " << outcome.code << ", " << outcome.err;
    ASSERT_EQ(outcome.err.empty(), outcome.code == 0) << limit << " MB: " << outcome.err;
    ASSERT_EQ(folder.files(), outcome.code == 0 ? after : before) << limit << " MB";
  }
  EXPECT_TRUE(!must_fail || codes.contains(kLimitExceeded));
}

TEST(MemoryLimit, ConversionEndsWithAnError) {
  const TemporaryFolder folder;
  write_file(folder / "m.safetensors", one_tensor(std::uint64_t{3} << 20));
  sweep(
      folder, {"convert", folder / "m.safetensors", "--threads", "8"},
      [&] { std::remove((folder / "m.cfck").c_str()); }, {"m.safetensors"},
      {"m.cfck", "m.safetensors"}, true);
}

TEST(MemoryLimit, ConversionBackEndsWithAnError) {
  const TemporaryFolder folder;
  write_file(folder / "m.safetensors", one_tensor(std::uint64_t{3} << 20));
  ASSERT_EQ(run({"convert", folder / "m.safetensors"}).code, 0);
  const std::string back = folder / "back.safetensors";
  sweep(folder, {"convert", folder / "m.cfck", back, "--threads", "8"},
        [&] { std::remove(back.c_str()); }, {"m.cfck", "m.safetensors"},
        {"back.safetensors", "m.cfck", "m.safetensors"});
}

TEST(MemoryLimit, ReadingEndsWithAnError) {
  const TemporaryFolder folder;
  write_file(folder / "m.safetensors", one_tensor(std::uint64_t{3} << 20));
  ASSERT_EQ(run({"convert", folder / "m.safetensors"}).code, 0);
  const std::vector<std::string> files = {"m.cfck", "m.safetensors"};
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", folder / "m.cfck", "--json"},
      {"verify", "--deep", folder / "m.cfck", "--threads", "8"}};
  for (const auto& command : commands) {
    sweep(
        folder, command, [] {}, files, files);
  }
}

// Trials of codecs know the tensor by a name of their own.
TEST(MemoryLimit, ErrorsOfSpectraNameTheTensor) {
  if (kHasSanitizer) GTEST_SKIP() << "sanitizers need more addresses";
  const TemporaryFolder folder;
  std::mt19937 random(1);
  std::string bytes;
  for (int i = 0; i < 1024 * 2048; ++i) {
    const float value = static_cast<float>(random() % 20001) * 1e-5F - 0.1F;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  write_file(folder / "m.safetensors", model_of({{"weights", "F32", "[1024,2048]", bytes}}));
  unsigned n_named = 0;
  for (std::uint64_t limit = 60; limit <= 120; limit += 4) {
    const Ended outcome = run_below(limit * kMegabyte, {"spectrum", folder / "m.safetensors"});
    n_named += outcome.err.find("'weights'") != std::string::npos ? 1 : 0;
    ASSERT_EQ(outcome.err.find("'tensor'"), std::string::npos) << outcome.err;
  }
  EXPECT_GT(n_named, 0U);
}

// A shard may claim that its folder's index was far larger than the index there is.
TEST(MemoryLimit, HugeOldIndexIsNotParsed) {
  const TemporaryFolder folder;
  std::string index = "{\"weight_map\":{";
  for (int i = 0; i < 300'000; ++i) {
    index += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"s\"";
  }
  index += "}}";
  const float values[4] = {};
  MemorySink sink;
  Result<Writer> writer = Writer::create(sink);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add("w", TensorView{DType::kF32, {4}, std::as_bytes(std::span(values))}));
  ASSERT_TRUE(writer->attach("safetensors.index", std::as_bytes(std::span(index))));
  ASSERT_TRUE(writer->finish());
  write_file(folder / "m/model-1.cfck",
             {reinterpret_cast<const char*>(sink.bytes().data()), sink.bytes().size()});
  write_file(folder / "m/model.cfck.index.json", R"({"weight_map":{"w":"model-1.cfck"}})");
  const Ended outcome = run_below(0, {"convert", folder / "m", folder / "back", "--threads", "1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  if (!kHasSanitizer) {
    EXPECT_LT(outcome.peak_bytes, 40 * kMegabyte);
  }
  const auto written =
      nlohmann::json::parse(read_file(folder / "back/model.safetensors.index.json"));
  EXPECT_EQ(written["weight_map"]["w"], "model-1.safetensors");
}

}  // namespace
}  // namespace cfck::test

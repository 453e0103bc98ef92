// `-`: standard input and output in place of files.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

class StandardStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(model, weights_model());
    fs::create_directory(folder / "tmp");
    ASSERT_EQ(run({"convert", model, file}).code, 0);
    environment = {"TMPDIR=" + (folder / "tmp")};
  }
  // Nothing temporary is left.
  void TearDown() override { EXPECT_TRUE(fs::is_empty(folder / "tmp")); }

  RunOptions from(const std::string& path) const {
    RunOptions options;
    options.stdin_path = path;
    options.environment = environment;
    return options;
  }
  // Runs in a shell, where cfck is the program. Returns the exit code.
  int shell(const std::string& command) const {
    const std::string whole = "cd " + folder.path() + "; TMPDIR=tmp; export TMPDIR; cfck() { " +
                              CFCK_PROGRAM_FOLDER + "/cfck \"$@\"; }; " + command;
    const int status = std::system(whole.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  TemporaryFolder folder;
  std::string model = folder / "m.safetensors";
  std::string file = folder / "m.cfck";
  std::vector<std::string> environment;
};

// The error names the folder that is full, and nothing is left in it.
TEST_F(StandardStreams, NoRoomForStandardInput) {
  RunOptions options = from(model);
  options.max_file_bytes = 1000;
  const Outcome outcome = run({"convert", "-", folder / "out.cfck"}, options);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("cannot keep standard input in '" + (folder / "tmp") + "'; "),
            std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(folder / "out.cfck"));
}

TEST_F(StandardStreams, ConvertFromOneToTheOther) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"convert", "-", "-"}, {"convert", "-"}, {"convert", "-q", "-"}}) {
    const Outcome there = run(arguments, from(model));
    ASSERT_EQ(there.code, 0) << there.err;
    EXPECT_TRUE(there.out == read_file(file));
    const bool quiet = arguments[1] == "-q";
    EXPECT_EQ(there.err.find("- -> - (cfck file): "), quiet ? std::string::npos : 0) << there.err;
    EXPECT_EQ(there.err.empty(), quiet);
  }
  const Outcome back = run({"convert", "-", "-", "--verify"}, from(file));
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_TRUE(back.out == weights_model());
  const Outcome named = run({"convert", file, "-"}, from("/dev/null"));
  EXPECT_TRUE(named.out == weights_model());
  EXPECT_EQ(shell("cat m.safetensors | cfck convert -q - | cfck convert -q - | "
                  "cmp - m.safetensors"),
            0);
}

TEST_F(StandardStreams, ReportsNameTheStream) {
  const Outcome to_file = run({"convert", "--json", "-", folder / "new"}, from(model));
  ASSERT_EQ(to_file.code, 0) << to_file.err;
  EXPECT_EQ(to_file.json()["input"], "-");
  EXPECT_EQ(to_file.json()["files"][0]["input"], "-");
  EXPECT_EQ(to_file.json()["records"].size(), 6U);
  const Outcome dry = run({"convert", "--dry-run", "-"}, from(model));
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_EQ(dry.out, "");
  EXPECT_NE(dry.err.find("nothing was written"), std::string::npos) << dry.err;
}

// An incomplete or wrong file never reaches who reads the output.
TEST_F(StandardStreams, NothingIsWrittenAfterAnError) {
  write_file(folder / "torn", read_file(file).substr(0, 20000));
  const Outcome torn = run({"convert", "-", "-"}, from(folder / "torn"));
  EXPECT_EQ(torn.code, 4);
  EXPECT_EQ(torn.out, "");
  EXPECT_NE(torn.err.find("-"), std::string::npos);
  EXPECT_EQ(torn.err.find(folder / "tmp"), std::string::npos) << torn.err;
  std::string changed = read_file(file);
  changed[5000] = static_cast<char>(changed[5000] ^ 1);
  write_file(folder / "changed", changed);
  const Outcome damaged = run({"convert", "-", "-"}, from(folder / "changed"));
  EXPECT_EQ(damaged.code, 5);
  EXPECT_EQ(damaged.out, "");
  EXPECT_EQ(run({"convert", "-", "-"}, from("/dev/null")).code, 4);
}

TEST_F(StandardStreams, APipeThatClosesEarly) {
  write_file(folder / "large.safetensors", one_tensor(300000));
  ASSERT_EQ(run({"convert", folder / "large.safetensors"}).code, 0);
  EXPECT_EQ(shell("{ cfck convert -q large.cfck - 2>err; echo $? >code; } | head -c 9 >/dev/null"),
            0);
  EXPECT_EQ(read_file(folder / "code"), "141\n");
  EXPECT_EQ(read_file(folder / "err"), "");
  EXPECT_EQ(
      shell("{ cfck extract large.cfck w -o - 2>err; echo $? >code; } | head -c 9 >/dev/null"), 0);
  EXPECT_EQ(read_file(folder / "code"), "141\n");
  EXPECT_EQ(read_file(folder / "err"), "");
}

TEST_F(StandardStreams, AFullDiskBehindTheOutput) {
  RunOptions full = from(model);
  full.stdout_path = "/dev/full";
  const Outcome outcome = run({"convert", "-", "-"}, full);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("cannot write to standard output"), std::string::npos) << outcome.err;
}

TEST_F(StandardStreams, CommandsThatRead) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"inspect"},
                                                  {"inspect", "--json"},
                                                  {"verify"},
                                                  {"verify", "--deep", "--json"},
                                                  {"digest"},
                                                  {"digest", "--json"}}) {
    std::vector<std::string> by_name = command;
    by_name.push_back("m.cfck");
    RunOptions in_folder;
    in_folder.folder = folder.path();
    std::string expected = run(by_name, in_folder).out;
    for (std::size_t at = expected.find("m.cfck"); at != std::string::npos;
         at = expected.find("m.cfck")) {
      expected.replace(at, 6, "-");
    }
    std::vector<std::string> by_stream = command;
    by_stream.push_back("-");
    const Outcome outcome = run(by_stream, from(file));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, expected);
  }
  EXPECT_EQ(run({"stats", "-", "a.weight"}, from(file)).out, run({"stats", file, "a.weight"}).out);
  EXPECT_EQ(run({"stats", file, "--ref", "-"}, from(model)).code, 0);
  EXPECT_EQ(run({"diff", "-", model}, from(file)).code, 0);
  EXPECT_EQ(run({"diff", model, "-"}, from(file)).code, 0);
  EXPECT_EQ(run({"extract", "-", "ids", "-o", "-"}, from(file)).out,
            run({"extract", file, "ids", "-o", "-"}).out);
  EXPECT_EQ(run({"repair", "-", "-o", folder / "repaired"}, from(file)).code, 0);
  EXPECT_EQ(run({"verify", "--deep", folder / "repaired"}).code, 0);
}

TEST_F(StandardStreams, MisuseIsRefused) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& why) {
    const Outcome outcome = run(arguments, from(model));
    EXPECT_EQ(outcome.code, 2) << why;
    EXPECT_EQ(outcome.out.find("CFCK"), std::string::npos);
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
  };
  refused({"diff", "-", "-"}, "can be read only once");
  refused({"inspect", "-", "-"}, "can be read only once");
  refused({"convert", "--json", "-"}, "leave out --json");
  refused({"convert", "-", "--output-dir", folder / "out"}, "has no name");
  refused({"convert", folder.path(), "-"}, "a folder cannot be written");
  RunOptions terminal = from(model);
  terminal.terminal = true;
  const Outcome shown = run({"convert", "-", "-"}, terminal);
  EXPECT_EQ(shown.code, 2);
  EXPECT_NE(shown.out.find("standard output is a terminal"), std::string::npos) << shown.out;
}

// Reading a stream that never ends stops at a signal.
TEST_F(StandardStreams, AnInterruptWhileReading) {
  EXPECT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(shell("sleep 60 >pipe & other=$!; " + std::string(CFCK_PROGRAM_FOLDER) +
                  "/cfck convert - out.cfck <pipe 2>err & "
                  "while [ -z \"$(ls tmp)\" ]; do sleep 0.01; done; "
                  "kill -TERM $!; wait $!; code=$?; kill $other; exit $code"),
            128 + SIGTERM);
  EXPECT_FALSE(fs::exists(folder / "out.cfck"));
}

}  // namespace
}  // namespace cfck::test

// cfck convert with several inputs.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/tools/convert/model_folders.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;
using Arguments = std::vector<std::string>;

class ConvertMany : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder / "a.safetensors", small_model());
    write_file(folder / "b.safetensors", weights_model());
    write_file(folder / "sub/c.safetensors", one_tensor(70000));
    here.folder = folder.path();
  }
  Outcome convert(Arguments arguments) const {
    arguments.insert(arguments.begin(), "convert");
    return run(arguments, here);
  }
  // The lines of a report.
  static std::vector<nlohmann::json> lines_of(const Outcome& outcome) {
    std::vector<nlohmann::json> lines;
    std::istringstream text(outcome.out);
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  // The names below out/.
  Names outputs() const {
    Names names;
    for (const std::string& name : folder.files()) {
      if (name.starts_with("out/")) names.push_back(name.substr(4));
    }
    return names;
  }

  TemporaryFolder folder;
  RunOptions here;
};

TEST_F(ConvertMany, IntoAFolder) {
  for (const std::string jobs : {"1", "3", "64"}) {
    const Outcome outcome = convert({"a.safetensors", "b.safetensors", "sub/c.safetensors",
                                     "--output-dir", "out", "--jobs", jobs});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outputs(), (Names{"a.cfck", "b.cfck", "c.cfck"}));
    // Reports come in the order of the command line.
    const std::size_t a = outcome.out.find("a.safetensors -> out/a.cfck");
    const std::size_t c = outcome.out.find("sub/c.safetensors -> out/c.cfck");
    EXPECT_LT(a, c);
    EXPECT_NE(c, std::string::npos);
    EXPECT_NE(outcome.out.find("3 of 3 inputs converted"), std::string::npos);
    ASSERT_EQ(run({"convert", folder / "b.safetensors", folder / "alone.cfck", "-f"}).code, 0);
    EXPECT_TRUE(read_file(folder / "out/b.cfck") == read_file(folder / "alone.cfck"));
    EXPECT_EQ(convert({"out/a.cfck", "out/b.cfck", "--output-dir", "out/back"}).code, 0);
    EXPECT_TRUE(read_file(folder / "out/back/a.safetensors") == small_model());
    EXPECT_TRUE(read_file(folder / "out/back/b.safetensors") == weights_model());
    fs::remove_all(folder / "out");
  }
}

TEST_F(ConvertMany, FoldersToo) {
  write_file(folder / "llama/model.safetensors", small_model());
  write_file(folder / "llama/config.json", "{}");
  const Outcome outcome = convert({"llama/", "a.safetensors", "--output-dir", "out", "-j2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outputs(), (Names{"a.cfck", "llama-cfck/config.json", "llama-cfck/model.cfck"}));
}

TEST_F(ConvertMany, AnErrorDoesNotKeepTheOthersFromBeingConverted) {
  write_file(folder / "bad.safetensors", "bad");
  const Arguments inputs = {"a.safetensors", "bad.safetensors", "none.safetensors",
                            "b.safetensors"};
  for (const char* jobs : {"1", "4"}) {
    Arguments arguments = inputs;
    arguments.insert(arguments.end(), {"--output-dir", "out", "--json", "-j", jobs});
    const Outcome outcome = convert(arguments);
    EXPECT_EQ(outcome.code, 4);  // the worst
    EXPECT_EQ(outputs(), (Names{"a.cfck", "b.cfck"}));
    const auto lines = lines_of(outcome);
    ASSERT_EQ(lines.size(), 5U) << outcome.out;
    EXPECT_EQ(lines[0]["input"], "a.safetensors");
    EXPECT_EQ(lines[1]["file"], "bad.safetensors");
    EXPECT_EQ(lines[2]["error"]["code"], "not_found");
    EXPECT_EQ(lines[3]["output"], "out/b.cfck");
    EXPECT_EQ(lines[4]["n_inputs"], 4);
    EXPECT_EQ(lines[4]["n_converted"], 2);
    EXPECT_EQ(lines[4]["failed"][1]["input"], "none.safetensors");
    EXPECT_EQ(lines[4]["failed"][1]["exit_code"], 3);
    // The list of what failed is the last thing that is said.
    EXPECT_TRUE(
        outcome.err.ends_with("2 of 4 inputs not converted:\n"
                              "  bad.safetensors\n"
                              "  none.safetensors\n"))
        << outcome.err;
    fs::remove_all(folder / "out");
  }
  // A folder that was made for nothing is removed.
  EXPECT_EQ(convert({"bad.safetensors", "--output-dir", "new"}).code, 4);
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST_F(ConvertMany, WhatExistsIsKept) {
  write_file(folder / "out/a.cfck", "mine");
  const Outcome kept = convert({"a.safetensors", "b.safetensors", "--output-dir", "out"});
  EXPECT_EQ(kept.code, 8);
  EXPECT_EQ(read_file(folder / "out/a.cfck"), "mine");
  EXPECT_TRUE(fs::exists(folder / "out/b.cfck"));
  EXPECT_EQ(convert({"a.safetensors", "b.safetensors", "--output-dir", "out", "--dry-run"}).code,
            0);
  EXPECT_EQ(convert({"a.safetensors", "b.safetensors", "--output-dir", "out", "-f"}).code, 0);
  EXPECT_NE(read_file(folder / "out/a.cfck"), "mine");
  EXPECT_EQ(convert({"a.safetensors", "--output-dir", "new", "--dry-run"}).code, 0);
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST_F(ConvertMany, NoTwoInputsHaveOneOutput) {
  write_file(folder / "sub/a.safetensors", one_tensor(100));
  const Outcome outcome =
      convert({"a.safetensors", "sub/a.safetensors", "--output-dir", "out", "-f"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("that of 'a.safetensors' too"), std::string::npos) << outcome.err;
  ASSERT_EQ(run({"convert", folder / "out/a.cfck", folder / "back"}).code, 0);
  EXPECT_TRUE(read_file(folder / "back") == small_model());
  // Nor is an output another input.
  ASSERT_EQ(convert({"a.safetensors"}).code, 0);
  const Outcome circle = convert({"a.cfck", "a.safetensors", "--output-dir", ".", "-f"});
  EXPECT_EQ(circle.code, 2);
  EXPECT_NE(circle.err.find("is to be converted too"), std::string::npos) << circle.err;
  EXPECT_TRUE(read_file(folder / "a.safetensors") == small_model());
}

TEST_F(ConvertMany, ListsOfInputs) {
  write_file(folder / "list", "a.safetensors\r\n\nsub/c.safetensors");
  EXPECT_EQ(convert({"--files-from", "list", "--output-dir", "out"}).code, 0);
  EXPECT_EQ(outputs(), (Names{"a.cfck", "c.cfck"}));
  // Without a folder the outputs are beside the inputs.
  EXPECT_EQ(convert({"--files-from", "list"}).code, 0);
  EXPECT_TRUE(fs::exists(folder / "sub/c.cfck"));
  // Paths that no list of lines can have, from standard input.
  write_file(folder / "line\nbreak '$(x)'.safetensors", small_model());
  write_file(folder / "nul", std::string("line\nbreak '$(x)'.safetensors\0b.safetensors\0", 43));
  RunOptions piped = here;
  piped.stdin_path = folder / "nul";
  fs::remove_all(folder / "out");
  const Outcome outcome = run({"convert", "--files-from", "-", "--output-dir", "out"}, piped);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outputs(), (Names{"b.cfck", "line\nbreak '$(x)'.cfck"}));
  write_file(folder / "empty", "\n\n");
  EXPECT_EQ(convert({"--files-from", "empty"}).code, 2);
  EXPECT_EQ(convert({"--files-from", "missing"}).code, 3);
  EXPECT_EQ(convert({"--files-from", "sub"}).code, 3);
}

TEST_F(ConvertMany, WhatIsThereIsSkipped) {
  const Arguments both = {"a.safetensors", "b.safetensors", "--output-dir", "out"};
  Arguments again = both;
  again.insert(again.end(), {"--skip-existing", "--json"});
  ASSERT_EQ(convert({"a.safetensors", "--output-dir", "out"}).code, 0);
  const Outcome outcome = convert(again);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto lines = lines_of(outcome);
  ASSERT_EQ(lines.size(), 3U) << outcome.out;
  EXPECT_EQ(lines[0]["status"], "skipped");
  EXPECT_EQ(lines[0]["output"], "out/a.cfck");
  EXPECT_EQ(lines[1]["status"], "converted");
  EXPECT_EQ(lines[2]["n_converted"], 1);
  EXPECT_EQ(lines[2]["n_skipped"], 1);
  // An input that is newer than its output is converted again.
  fs::last_write_time(folder / "a.safetensors",
                      fs::last_write_time(folder / "out/a.cfck") + std::chrono::seconds(5));
  Arguments newer = both;
  newer.push_back("--newer");
  const Outcome renewed = convert(newer);
  EXPECT_EQ(renewed.code, 0) << renewed.err;
  EXPECT_NE(renewed.out.find("1 of 2 inputs converted"), std::string::npos) << renewed.out;
  EXPECT_NE(renewed.out.find("1 skipped"), std::string::npos) << renewed.out;
  // One input alone.
  ASSERT_EQ(convert({"b.safetensors", "-o", "alone.cfck"}).code, 0);
  EXPECT_EQ(convert({"b.safetensors", "-o", "alone.cfck"}).code, 8);
  EXPECT_EQ(convert({"b.safetensors", "-o", "alone.cfck", "--skip-existing"}).code, 0);
}

// A folder that is called like an output is not one, and nothing is written into it.
TEST_F(ConvertMany, AFolderIsNoOutputOfAFile) {
  fs::create_directories(folder / "out/a.cfck");
  fs::last_write_time(folder / "out/a.cfck",
                      fs::last_write_time(folder / "a.safetensors") - std::chrono::hours(1));
  for (const char* option : {"--skip-existing", "--newer"}) {
    const Outcome outcome = convert({"a.safetensors", "--output-dir", "out", option});
    EXPECT_EQ(outcome.code, 8) << outcome.err;
    EXPECT_NE(outcome.err.find("'out/a.cfck' exists already"), std::string::npos) << outcome.err;
    EXPECT_TRUE(fs::is_empty(folder / "out/a.cfck")) << option;
  }
}

TEST_F(ConvertMany, FoldersOfInputsAreKept) {
  write_file(folder / "x/m.safetensors", small_model());
  write_file(folder / "y/z/m.safetensors", small_model());
  const Outcome outcome = convert(
      {"x/m.safetensors", "./y/z/m.safetensors", "none/n.npz", "--output-dir", "out", "--parents"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_EQ(outputs(), (Names{"x/m.cfck", "y/z/m.cfck"}));
  EXPECT_FALSE(fs::exists(folder / "out/none"));
  here.folder = folder / "x";
  const Outcome outside = convert({"../a.safetensors", "--output-dir", "out", "--parents"});
  here.folder = folder.path();
  EXPECT_EQ(outside.code, 2);
  EXPECT_NE(outside.err.find("leads out of the current folder"), std::string::npos) << outside.err;
  EXPECT_EQ(convert({"x/m.safetensors", "--parents"}).code, 2);
}

// Success and failure have one shape.
TEST_F(ConvertMany, ReportsHaveOneShape) {
  write_file(folder / "bad.safetensors", "bad");
  const auto good = convert({"a.safetensors", "--json"}).json();
  const auto bad = convert({"bad.safetensors", "--json"}).json();
  for (const char* key : {"schema_version", "file", "input", "output", "status", "error"}) {
    EXPECT_TRUE(good.contains(key)) << key;
    EXPECT_TRUE(bad.contains(key)) << key;
  }
  EXPECT_TRUE(good["error"].is_null());
  EXPECT_EQ(bad["status"], "failed");
  EXPECT_EQ(bad["error"]["code"], "corrupt");
}

TEST_F(ConvertMany, WrongUsage) {
  const Outcome outcome = convert({"a.safetensors", "b.safetensors", "sub/c.safetensors"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("3 inputs need --output-dir"), std::string::npos) << outcome.err;
  EXPECT_EQ(convert({"--output-dir", "out"}).code, 2);
  EXPECT_EQ(convert({"a.safetensors", "--output-dir", "out", "--jobs", "0"}).code, 2);
  EXPECT_EQ(convert({"a.safetensors", "--output-dir", "b.safetensors"}).code, 3);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST_F(ConvertMany, AnInterruptSaysHowManyWereConverted) {
  Arguments arguments = {"--output-dir", "out", "--level", "archive", "--threads", "1"};
  for (int i = 0; i < 20; ++i) {
    const std::string name = "big" + std::to_string(i) + ".safetensors";
    write_file(folder / name, one_tensor(400000));
    arguments.push_back(name);
  }
  RunOptions options = here;
  bool sent = false;
  options.meanwhile = [&](int process) {
    if (sent || !fs::exists(folder / "out/big0.cfck")) return;
    sent = true;
    ::kill(process, SIGINT);
  };
  arguments.insert(arguments.begin(), "convert");
  const Outcome outcome = run(arguments, options);
  EXPECT_EQ(outcome.code, 128 + SIGINT);
  EXPECT_NE(outcome.err.find("of 20 inputs were converted"), std::string::npos) << outcome.err;
  const Names names = outputs();
  EXPECT_LT(names.size(), 20U);
  for (const std::string& name : names) {  // complete, none half
    EXPECT_TRUE(name.ends_with(".cfck")) << name;
    EXPECT_EQ(run({"verify", folder / ("out/" + name)}).code, 0);
  }
}

// Messages name the options that help, and the time is said once.
TEST_F(ConvertMany, MessagesNameTheOptionsThatHelp) {
  const Arguments both = {"a.safetensors", "b.safetensors", "--output-dir", "out"};
  const Outcome first = convert(both);
  ASSERT_EQ(first.code, 0) << first.err;
  const std::size_t done = first.out.find("done in ");
  ASSERT_NE(done, std::string::npos) << first.out;
  EXPECT_EQ(first.out.find("done in ", done + 1), std::string::npos) << first.out;
  const Outcome again = convert(both);
  EXPECT_EQ(again.code, 8);
  EXPECT_NE(again.err.find("--skip-existing skips inputs whose output exists, and --newer"),
            std::string::npos)
      << again.err;
  Arguments newer = both;
  newer.push_back("--newer");
  const Outcome skipped = convert(newer);
  EXPECT_NE(skipped.out.find("skipped, the output is not older"), std::string::npos) << skipped.out;
  write_file(folder / "sub/a.safetensors", one_tensor(8));
  const Outcome same = convert({"a.safetensors", "sub/a.safetensors", "--output-dir", "two"});
  EXPECT_EQ(same.code, 2);
  EXPECT_NE(same.err.find("with --parents"), std::string::npos) << same.err;
  const Outcome one = convert({"b.safetensors", "--output-dir", "three"});
  EXPECT_NE(one.out.find("1 of 1 input converted"), std::string::npos) << one.out;
}

// A folder to which a file was added is not passed over in silence.
TEST_F(ConvertMany, SkippedFoldersMayLackFiles) {
  write_file(folder / "m/model.safetensors", one_tensor(8));
  ASSERT_EQ(convert({"m", "--output-dir", "out"}).code, 0);
  const Outcome whole = convert({"m", "--output-dir", "out", "--skip-existing"});
  EXPECT_EQ(whole.code, 0);
  EXPECT_EQ(whole.err, "");
  write_file(folder / "m/extra/model.safetensors", one_tensor(9));
  write_file(folder / "m/config.json", "{}");
  const fs::file_time_type old = fs::last_write_time(folder / "m/model.safetensors");
  fs::last_write_time(folder / "m/extra/model.safetensors", old);
  fs::last_write_time(folder / "m/config.json", old);
  const Outcome skipped =
      convert({"m", "--output-dir", "out", "--skip-existing", "--bits-per-weight", "20"});
  EXPECT_EQ(skipped.code, 0);
  EXPECT_NE(skipped.err.find("lacks 2 files of the conversion of 'm': 'extra/model.cfck', "
                             "'config.json'; convert the folder again"),
            std::string::npos)
      << skipped.err;
  // Without a target, which applies to all files together, the files are added.
  const std::string before = read_file(folder / "out/m-cfck/model.cfck");
  const auto written = fs::last_write_time(folder / "out/m-cfck/model.cfck");
  write_file(folder / "m/model.safetensors", one_tensor(10));
  const Outcome added = convert({"m", "--output-dir", "out", "--skip-existing"});
  EXPECT_EQ(added.code, 0) << added.err;
  EXPECT_NE(added.out.find("only what 'out/m-cfck' lacked was converted: 2 files"),
            std::string::npos)
      << added.out;
  EXPECT_TRUE(fs::exists(folder / "out/m-cfck/config.json"));
  EXPECT_TRUE(fs::exists(folder / "out/m-cfck/extra/model.cfck"));
  EXPECT_EQ(read_file(folder / "out/m-cfck/model.cfck"), before);
  EXPECT_EQ(fs::last_write_time(folder / "out/m-cfck/model.cfck"), written);
  EXPECT_NE(convert({"m", "--output-dir", "out", "--skip-existing"}).out.find("skipped"),
            std::string::npos);
  fs::remove_all(folder / "out/m-cfck/extra");
  fs::last_write_time(folder / "m/model.safetensors", old);
  const Outcome newer = convert({"m", "--output-dir", "out", "--newer"});
  EXPECT_EQ(newer.code, 0) << newer.err;
  EXPECT_TRUE(fs::exists(folder / "out/m-cfck/extra/model.cfck"));
  EXPECT_EQ(read_file(folder / "out/m-cfck/model.cfck"), before);
}

// In a folder --newer converts the files that are newer than in the output, and no others.
TEST_F(ConvertMany, NewerIsDecidedForEachFile) {
  make_model(folder / "m/shards");
  write_file(folder / "m/model.safetensors", one_tensor(8));
  write_file(folder / "m/extra/model.safetensors", one_tensor(9));
  ASSERT_EQ(convert({"m", "out"}).code, 0);
  write_file(folder / "out/mine.txt", "mine");
  const auto age = [&](const std::string& name, std::chrono::seconds seconds) {
    fs::last_write_time(folder / name, fs::last_write_time(folder / name) + seconds);
  };
  for (const std::string& name : outputs()) age("out/" + name, std::chrono::hours(-1));
  for (const auto& entry : fs::recursive_directory_iterator(folder / "m")) {
    fs::last_write_time(entry.path(), entry.last_write_time() - std::chrono::hours(2));
  }
  const auto times = [&] {
    std::map<std::string, fs::file_time_type> all;
    for (const std::string& name : outputs()) {
      all[name] = fs::last_write_time(folder / ("out/" + name));
    }
    return all;
  };
  // Returns the names of the outputs that the call has written.
  const auto written = [&](Arguments options, const char* status) {
    const auto before = times();
    options.insert(options.begin(), {"m", "out", "--newer"});
    const Outcome outcome = convert(options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(status), std::string::npos) << outcome.out;
    Names names;
    for (const auto& [name, time] : times()) {
      const auto found = before.find(name);
      if (found == before.end() || found->second != time) names.push_back(name);
    }
    EXPECT_EQ(convert({"m", "out", "--newer"}).out.find("converted:"), std::string::npos);
    return names;
  };
  EXPECT_EQ(written({}, "skipped, the output is not older"), Names());
  write_file(folder / "m/extra/model.safetensors", one_tensor(11));
  write_file(folder / "m/shards/config.json", "{\"hidden_size\": 33}");
  EXPECT_EQ(written({}, "only what 'out' lacked, or had older, was converted: 2 files"),
            (Names{"extra/model.cfck", "shards/config.json"}));
  EXPECT_EQ(read_file(folder / "out/shards/config.json"), "{\"hidden_size\": 33}");
  EXPECT_EQ(read_file(folder / "out/mine.txt"), "mine");
  // A shard is converted alone while its index stays as it is, with what the first one attaches.
  write_file(folder / "m/shards/model-00002-of-00002.safetensors", shard("b.w", 5));
  EXPECT_EQ(written({"--rule", "a.w: codec=raw"}, "1 file"),
            Names{"shards/model-00002-of-00002.cfck"});
  EXPECT_EQ(run({"verify", folder / "out"}).code, 0);
  EXPECT_EQ(convert({"out", "back"}).code, 0);
  EXPECT_EQ(read_file(folder / "back/shards/model.safetensors.index.json"), kIndex);
  EXPECT_EQ(read_file(folder / "back/shards/model-00002-of-00002.safetensors"), shard("b.w", 5));
  // A new index, and targets, which apply to all files together, are for all files.
  age("m/shards/model.safetensors.index.json", std::chrono::hours(3));
  EXPECT_GE(written({}, "m -> out").size(), 5U);
  age("m/model.safetensors", std::chrono::hours(3));
  EXPECT_GE(written({"--bits-per-weight", "20"}, "m -> out").size(), 5U);
}

}  // namespace
}  // namespace cfck::test

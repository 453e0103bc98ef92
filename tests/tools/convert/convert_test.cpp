// cfck convert with single files.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>

#include "cfck/reader.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

RunOptions convert_program() {
  RunOptions options;
  options.program = "cfck-convert";
  return options;
}

Outcome convert(std::vector<std::string> arguments) { return run(arguments, convert_program()); }

using Names = std::vector<std::string>;

TEST(Convert, ThereAndBackIsTheSameFile) {
  const TemporaryFolder folder;
  for (const std::string& model : {small_model(), one_tensor(300000), with_header("{}"),
                                   with_header("{\"__metadata__\":\t{\"a\":\"b\"}}  \n")}) {
    write_file(folder / "model.safetensors", model);
    ASSERT_EQ(convert({folder / "model.safetensors", folder / "m.cfck", "--force"}).code, 0);
    ASSERT_EQ(convert({folder / "m.cfck", folder / "back", "--force"}).code, 0);
    EXPECT_TRUE(read_file(folder / "back") == model);
  }
}

TEST(Convert, TheOutputIsNamedAfterTheInput) {
  const TemporaryFolder folder;
  write_file(folder / "model.safetensors", small_model());
  ASSERT_EQ(convert({folder / "model.safetensors"}).code, 0);
  EXPECT_EQ(folder.files(), (Names{"model.cfck", "model.safetensors"}));
  fs::remove(folder / "model.safetensors");
  ASSERT_EQ(convert({folder / "model.cfck"}).code, 0);
  EXPECT_TRUE(read_file(folder / "model.safetensors") == small_model());

  write_file(folder / "sub/odd.name", small_model());
  ASSERT_EQ(convert({folder / "sub/odd.name"}).code, 0);
  EXPECT_TRUE(fs::exists(folder / "sub/odd.name.cfck"));
  // A folder as output takes the file under its own name.
  fs::create_directory(folder / "out");
  ASSERT_EQ(convert({folder / "model.safetensors", folder / "out"}).code, 0);
  EXPECT_TRUE(fs::exists(folder / "out/model.cfck"));
}

TEST(Convert, ContentDecidesTheDirection) {
  const TemporaryFolder folder;
  write_file(folder / "wrong.cfck", small_model());
  ASSERT_EQ(convert({folder / "wrong.cfck", folder / "plain"}).code, 0);
  EXPECT_EQ(read_file(folder / "plain").substr(0, 4), "\x5C\x2A\x4D\x18");
  fs::rename(folder / "plain", folder / "wrong.safetensors");
  ASSERT_EQ(convert({folder / "wrong.safetensors", folder / "right"}).code, 0);
  EXPECT_TRUE(read_file(folder / "right") == small_model());
}

// .cfck files are converted to safetensors: a second .cfck name is a mistake.
TEST(Convert, TheSuffixOfTheInputsFormatIsRefusedForTheOutput) {
  const TemporaryFolder folder;
  write_file(folder / "in.safetensors", small_model());
  ASSERT_EQ(convert({folder / "in.safetensors"}).code, 0);
  const Outcome twice = convert({folder / "in.cfck", folder / "out.cfck"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("is to be a safetensors file"), std::string::npos) << twice.err;
  EXPECT_EQ(convert({folder / "in.safetensors", folder / "out.safetensors"}).code, 2);
  EXPECT_EQ(folder.files(), (Names{"in.cfck", "in.safetensors"}));
}

TEST(Convert, SuffixesOfOtherFormatsAreRefused) {
  const TemporaryFolder folder;
  write_file(folder / "in.safetensors", small_model());
  write_file(folder / "too.safetensors", small_model());
  for (const char* name : {"out.pt", "out.bin", "out.gguf"}) {
    const Outcome outcome = convert({folder / "in.safetensors", folder / name});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("name OUT .cfck, "), std::string::npos) << outcome.err;
  }
  const Outcome two = convert({folder / "in.safetensors", folder / "too.safetensors"});
  EXPECT_NE(two.err.find("--output-dir FOLDER"), std::string::npos) << two.err;
  const Outcome nowhere = convert({folder / "in.safetensors", folder / "no/out.cfck"});
  EXPECT_EQ(nowhere.err.find("cfck-tmp"), std::string::npos) << nowhere.err;
  EXPECT_NE(nowhere.err.find("there is no folder '"), std::string::npos) << nowhere.err;
  EXPECT_EQ(folder.files(), (Names{"in.safetensors", "too.safetensors"}));
}

TEST(Convert, WhatExistsIsNotReplacedUnlessForced) {
  const TemporaryFolder folder;
  write_file(folder / "model.safetensors", small_model());
  write_file(folder / "model.cfck", "precious");
  const Outcome refused = convert({folder / "model.safetensors"});
  EXPECT_EQ(refused.code, 8);
  EXPECT_EQ(convert({folder / "model.safetensors", "--json"}).json()["error"]["code"], "exists");
  EXPECT_NE(refused.err.find("--force"), std::string::npos) << refused.err;
  EXPECT_EQ(read_file(folder / "model.cfck"), "precious");
  EXPECT_EQ(convert({folder / "model.safetensors", "--dry-run"}).code, 0);
  EXPECT_EQ(read_file(folder / "model.cfck"), "precious");
  EXPECT_EQ(convert({folder / "model.safetensors", "--force"}).code, 0);
  EXPECT_NE(read_file(folder / "model.cfck"), "precious");
  EXPECT_EQ(folder.files(), (Names{"model.cfck", "model.safetensors"}));
}

TEST(Convert, TheInputIsNeverTheOutput) {
  const TemporaryFolder folder;
  write_file(folder / "a", small_model());
  fs::create_symlink(folder / "a", folder / "link");
  fs::create_hard_link(folder / "a", folder / "hard");
  for (const char* out : {"a", "./a", "link", "hard"}) {
    const Outcome outcome = convert({folder / "a", folder / out, "--force"});
    EXPECT_EQ(outcome.code, 2) << out;
    EXPECT_NE(outcome.err.find("the same"), std::string::npos) << outcome.err;
  }
  EXPECT_TRUE(read_file(folder / "a") == small_model());
}

TEST(Convert, ALinkAsOutputIsFollowed) {
  const TemporaryFolder folder;
  write_file(folder / "in", small_model());
  write_file(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  ASSERT_EQ(convert({folder / "in", folder / "link", "--force"}).code, 0);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_NE(read_file(folder / "target"), "old");
}

TEST(Convert, EntropyStagesAndLevels) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(600000));
  for (const std::string entropy : {"zstd", "rans"}) {
    for (const std::string level : {"fast", "default", "archive"}) {
      const Outcome outcome = convert({folder / "in", folder / "out", "-f", "--json", "--verify",
                                       "--entropy", entropy, "--level", level});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const auto report = outcome.json();
      EXPECT_EQ(report["entropy"], entropy);
      EXPECT_EQ(report["level"], level);
      if (level != "archive") {  // which takes the shorter
        EXPECT_EQ(report["records"][0]["entropy"], entropy);
      }
      ASSERT_EQ(convert({folder / "out", folder / "back", "-f"}).code, 0);
      EXPECT_TRUE(read_file(folder / "back") == one_tensor(600000));
    }
  }
  const auto back = convert({folder / "out", folder / "back", "-f", "--json"}).json();
  EXPECT_FALSE(back.contains("entropy") || back.contains("level"));
}

TEST(Convert, ValuesPerChunk) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(600000));
  const std::map<std::string, std::uint64_t> counts = {
      {"262144", 3}, {"65536", 10}, {"600000", 1}, {"4294967295", 1}};
  for (const auto& [chunk_elems, n_chunks] : counts) {
    const Outcome outcome =
        convert({folder / "in", folder / "out", "-f", "--verify", "--chunk-elems", chunk_elems});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    auto reader = Reader::open(folder / "out");
    ASSERT_TRUE(reader) << reader.error().message;
    EXPECT_EQ(reader->records()[0].n_chunks, n_chunks);
  }
  for (const char* wrong : {"0", "-1", "4294967296", "1.5", "many"}) {
    EXPECT_EQ(convert({folder / "in", folder / "x", "--chunk-elems", wrong}).code, 2) << wrong;
  }
}

// Converting back has no use for them; an error is better than ignoring them.
// Options and a second .cfck name say that the tensors are to be encoded anew.
TEST(Convert, ACfckFileCanBeEncodedAnew) {
  const TemporaryFolder folder;
  write_file(folder / "in.safetensors", weights_model());
  ASSERT_EQ(convert({folder / "in.safetensors"}).code, 0);
  const Outcome small =
      convert({folder / "in.cfck", folder / "small.cfck", "--max-abs-error", "1e-2", "--verify"});
  ASSERT_EQ(small.code, 0) << small.err;
  EXPECT_LT(fs::file_size(folder / "small.cfck"), fs::file_size(folder / "in.cfck"));
  EXPECT_EQ(run({"stats", "-q", folder / "small.cfck", "--ref", folder / "in.safetensors"}).code,
            0);
  // Errors add up, which is said.
  const Outcome again =
      convert({folder / "small.cfck", folder / "smaller.cfck", "--max-abs-error", "5e-2"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("lossy tensors already"), std::string::npos) << again.err;
  ASSERT_EQ(convert({folder / "in.cfck", "--level", "fast", "--output-dir", folder / "fast"}).code,
            0);
  EXPECT_TRUE(fs::exists(folder / "fast/in.cfck"));
}

TEST(Convert, OptionsOfEncodingAreRefusedOnTheWayBack) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(600));
  ASSERT_EQ(convert({folder / "in", folder / "in.cfck"}).code, 0);
  fs::create_directory(folder / "cfck");
  fs::copy(folder / "in.cfck", folder / "cfck/m.cfck");
  const std::vector<std::vector<std::string>> given = {
      {"--entropy", "rans"}, {"--level", "default"}, {"--chunk-elems", "9"}, {"--codec", "auto"}};
  for (const std::vector<std::string>& option : given) {
    for (const char* from : {"in.cfck", "cfck"}) {
      std::vector<std::string> arguments = option;
      arguments.insert(arguments.end(), {folder / from, folder / "back"});
      const Outcome outcome = convert(arguments);
      EXPECT_EQ(outcome.code, 2) << option[0];
      EXPECT_NE(outcome.err.find(option[0] + ": only for conversion to .cfck"), std::string::npos)
          << outcome.err;
      EXPECT_FALSE(fs::exists(folder / "back"));
    }
  }
  const Outcome two = convert({folder / "in.cfck", folder / "back", "--level=fast", "--codec=raw"});
  EXPECT_NE(two.err.find("--codec, --level: only for conversion"), std::string::npos) << two.err;
  EXPECT_EQ(convert({folder / "in.cfck", folder / "back", "--threads", "1", "--verify"}).code, 0);
}

TEST(Convert, CodecsAndThreads) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(600000));
  for (const char* codec : {"auto", "raw", "lossless"}) {
    std::string first;
    for (const char* threads : {"1", "2", "3"}) {
      const std::string out = folder / (std::string(codec) + threads);
      ASSERT_EQ(convert({folder / "in", out, "--codec", codec, "--threads", threads}).code, 0);
      if (first.empty()) first = read_file(out);
      EXPECT_TRUE(read_file(out) == first) << codec << threads;
      ASSERT_EQ(convert({out, folder / "back", "-f", "--threads", threads}).code, 0);
      EXPECT_TRUE(read_file(folder / "back") == one_tensor(600000));
    }
  }
  EXPECT_GT(fs::file_size(folder / "raw1"), 2400000U);
  EXPECT_LT(fs::file_size(folder / "lossless1"), 2300000U);
  EXPECT_LE(fs::file_size(folder / "auto1"), fs::file_size(folder / "lossless1"));
}

TEST(Convert, VerifyBothWays) {
  const TemporaryFolder folder;
  write_file(folder / "in", small_model());
  const Outcome there = convert({folder / "in", folder / "c", "--verify"});
  EXPECT_EQ(there.code, 0);
  EXPECT_NE(there.out.find("verified"), std::string::npos) << there.out;
  EXPECT_EQ(convert({folder / "c", folder / "back", "--verify"}).code, 0);
  EXPECT_TRUE(read_file(folder / "back") == small_model());
}

TEST(Convert, ADryRunWritesNothingAndKnowsTheSize) {
  const TemporaryFolder folder;
  write_file(folder / "in.safetensors", one_tensor(100000));
  const Outcome dry = convert({folder / "in.safetensors", "--dry-run", "--json"});
  ASSERT_EQ(dry.code, 0);
  EXPECT_EQ(folder.files(), Names{"in.safetensors"});
  EXPECT_TRUE(dry.json()["dry_run"]);
  ASSERT_EQ(convert({folder / "in.safetensors"}).code, 0);
  EXPECT_EQ(dry.json()["output_bytes"], fs::file_size(folder / "in.cfck"));
  // What exists is not touched.
  const std::string before = read_file(folder / "in.cfck");
  EXPECT_EQ(convert({folder / "in.safetensors", "--dry-run", "--codec=raw"}).code, 0);
  EXPECT_TRUE(read_file(folder / "in.cfck") == before);
  fs::remove(folder / "in.safetensors");
  const Outcome back = convert({folder / "in.cfck", "--dry-run", "--json"});
  ASSERT_EQ(back.code, 0);
  EXPECT_EQ(back.json()["output_bytes"], one_tensor(100000).size());
  EXPECT_EQ(folder.files(), Names{"in.cfck"});
  EXPECT_EQ(convert({folder / "in.cfck", "--dry-run", "--verify"}).code, 2);
}

TEST(Convert, JsonSaysEverything) {
  const TemporaryFolder folder;
  write_file(folder / "in.safetensors", small_model());
  const Outcome outcome = convert({folder / "in.safetensors", "--json", "--verify"});
  ASSERT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  const auto json = outcome.json();
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["input"], folder / "in.safetensors");
  EXPECT_EQ(json["output"], folder / "in.cfck");
  EXPECT_EQ(json["to"], "cfck");
  EXPECT_TRUE(json["verified"]);
  EXPECT_FALSE(json["dry_run"]);
  EXPECT_EQ(json["n_records"], 5);
  EXPECT_EQ(json["n_elems"], 4065);
  EXPECT_EQ(json["decoded_bytes"], 16514);
  EXPECT_EQ(json["input_bytes"], small_model().size());
  EXPECT_EQ(json["file_bytes"], fs::file_size(folder / "in.cfck"));
  EXPECT_EQ(json["files"].size(), 1U);
  EXPECT_EQ(json["records"].size(), 5U);
  EXPECT_GT(json["bits_per_weight"].get<double>(), 0);
}

TEST(Convert, QuietAndPipedOutput) {
  const TemporaryFolder folder;
  write_file(folder / "in", small_model());
  const Outcome quiet = convert({folder / "in", folder / "a", "--quiet"});
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.out + quiet.err, "");
  const Outcome piped = convert({folder / "in", folder / "b"});
  EXPECT_EQ(piped.code, 0);
  EXPECT_EQ(piped.err, "");
  EXPECT_EQ(piped.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(piped.out.find('\r'), std::string::npos);
  EXPECT_NE(piped.out.find("ratio"), std::string::npos);
}

TEST(Convert, ATerminalGetsAProgressBar) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(3000000));
  RunOptions options = convert_program();
  options.terminal = true;
  const Outcome outcome = run({folder / "in", folder / "out", "--threads", "1"}, options);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find('%'), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("B/s"), std::string::npos);
  EXPECT_NE(outcome.out.find("ratio"), std::string::npos);
  const Outcome quiet = run({folder / "in", folder / "out", "-f", "-q"}, options);
  EXPECT_EQ(quiet.out, "");
}

TEST(Convert, ForeignFilesEndWithTheWayToConvertThem) {
  const TemporaryFolder folder;
  const auto expect_hint = [&](const std::string& name, std::string_view bytes,
                               const std::string& hint) {
    write_file(folder / name, bytes);
    const Outcome outcome = convert({folder / name});
    EXPECT_EQ(outcome.code, 6) << name;
    EXPECT_NE(outcome.err.find(hint), std::string::npos) << outcome.err;
    const Outcome shown = run({"inspect", folder / name});
    EXPECT_EQ(shown.code, 6) << name;
  };
  const std::string pickle("\x80\x02}q\0.", 6);
  const std::string gguf("GGUF\x03\0\0\0", 8);
  expect_hint("b.bin", pickle, "a pickle of another program");
  expect_hint("c.ckpt", std::string("\x80\x04\x95", 3), "cfck.torch.save_file");
  expect_hint("d.gguf", gguf, "gguf.GGUFReader");
  expect_hint("h.safetensors", "version https://git-lfs.github.com/spec/v1\noid", "git lfs pull");
  expect_hint("i.gz", "\x1f\x8b\x08", "unpack");
  // The name of the file cannot escape from the Python text.
  write_file(folder / "q\"+x.gguf", gguf);
  EXPECT_NE(convert({folder / "q\"+x.gguf"}).err.find("q\\\"+x.gguf"), std::string::npos);
  // Bytes that are not UTF-8 appear as Python decodes them in names of files.
  write_file(folder / "u\xff\xc3\xa4\n.gguf", gguf);
  const std::string odd = convert({folder / "u\xff\xc3\xa4\n.gguf"}).err;
  EXPECT_NE(odd.find("/u\\udcff\xc3\xa4\\n.gguf\""), std::string::npos) << odd;
}

TEST(Convert, WarnsOfFilesWithoutTensors) {
  const TemporaryFolder folder;
  write_file(folder / "none.safetensors", with_header("{}"));
  const Outcome there = convert({folder / "none.safetensors"});
  EXPECT_EQ(there.code, 0);
  EXPECT_NE(there.err.find("warning: '" + (folder / "none.safetensors") + "' has no tensors"),
            std::string::npos)
      << there.err;
  const Outcome back = convert({folder / "none.cfck", folder / "back"});
  EXPECT_EQ(back.code, 0);
  EXPECT_NE(back.err.find("warning:"), std::string::npos);
  EXPECT_EQ(convert({folder / "none.cfck", folder / "back", "-f", "-q"}).err, "");
  write_file(folder / "some.safetensors", small_model());
  EXPECT_EQ(convert({folder / "some.safetensors"}).err, "");
}

TEST(Convert, BadInputsHaveTheirExitCodes) {
  const TemporaryFolder folder;
  const auto code_of = [&](std::string_view bytes) {
    write_file(folder / "in", bytes);
    const Outcome outcome = convert({folder / "in", folder / "out"});
    EXPECT_FALSE(fs::exists(folder / "out"));
    EXPECT_FALSE(outcome.err.empty());
    EXPECT_EQ(folder.files(), Names{"in"});
    return outcome.code;
  };
  EXPECT_EQ(code_of(""), 4);
  EXPECT_EQ(code_of("hello, world"), 4);
  EXPECT_EQ(code_of(small_model().substr(0, 1000)), 4);
  EXPECT_EQ(code_of(small_model() + "x"), 4);
  std::string huge = small_model();
  huge[7] = 1;
  EXPECT_EQ(code_of(huge), 7);
  EXPECT_EQ(code_of("\x5C\x2A\x4D\x18"), 4);
  EXPECT_EQ(convert({folder / "none", folder / "out"}).code, 3);
  EXPECT_EQ(convert({}).code, 2);
  EXPECT_EQ(convert({"--codec", "zip", "a", "b"}).code, 2);
  EXPECT_EQ(convert({"--threads", "-1", "a", "b"}).code, 2);
}

TEST(Convert, DamageIsNoticedOnTheWayBack) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(50000));
  ASSERT_EQ(convert({folder / "in", folder / "c"}).code, 0);
  std::string bytes = read_file(folder / "c");
  bytes[5000] = static_cast<char>(bytes[5000] ^ 1);
  write_file(folder / "c", bytes);
  const Outcome outcome = convert({folder / "c", folder / "back", "--json"});
  EXPECT_EQ(outcome.code, 5);
  EXPECT_EQ(outcome.json()["schema_version"], 1);
  EXPECT_EQ(outcome.json()["error"]["code"], "checksum");
  EXPECT_EQ(outcome.json()["error"]["record"], "w");
  EXPECT_TRUE(outcome.json()["error"]["byte_offset"].is_number());
  EXPECT_EQ(folder.files(), (Names{"c", "in"}));
}

TEST(Convert, AFullDiskLeavesNothingBehind) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(1000000));
  write_file(folder / "out", "old");
  RunOptions options = convert_program();
  options.max_file_bytes = 1500000;
  const Outcome outcome = run({folder / "in", folder / "out", "--force"}, options);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(read_file(folder / "out"), "old");
  EXPECT_EQ(folder.files(), (Names{"in", "out"}));
}

TEST(Convert, AFolderThatCannotBeWrittenTo) {
  const TemporaryFolder folder;
  write_file(folder / "in", small_model());
  EXPECT_EQ(convert({folder / "in", folder / "none/out"}).code, 3);
  EXPECT_EQ(convert({folder / "in", "/dev/null"}).code, 2);
  EXPECT_EQ(convert({folder / "in", "/proc/out"}).code, 3);  // not even for root
  if (::geteuid() == 0) return;
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(convert({folder / "in", folder / "closed/out"}).code, 3);
}

TEST(Convert, AnInterruptRemovesWhatWasHalfWritten) {
  for (const int number : {SIGINT, SIGTERM}) {
    const TemporaryFolder folder;
    write_file(folder / "in", one_tensor(12000000));
    RunOptions options = convert_program();
    bool sent = false;
    options.meanwhile = [&](int process) {
      if (sent || folder.files().size() < 2) return;
      ::kill(process, number);
      sent = true;
    };
    const Outcome outcome = run({folder / "in", folder / "out", "--threads", "1"}, options);
    EXPECT_EQ(outcome.code, 128 + number) << outcome.out << outcome.err;
    EXPECT_EQ(folder.files(), Names{"in"});
  }
}

// Overwrites some bytes of the temporary file, or of `path`, while it runs.
auto tamper(const TemporaryFolder& folder, const std::string& path = {}) {
  return [&folder, path](int) {
    for (const std::string& name : folder.files()) {
      const bool is_temporary = name.find("cfck-tmp") != std::string::npos;
      if (path.empty() && is_temporary) {
        std::error_code gone;
        if (fs::file_size(folder / name, gone) < 100000 || gone) continue;
      }
      if (!is_temporary) continue;
      std::fstream file(path.empty() ? folder / name : path,
                        std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(1000);
      file << "changed";
    }
  };
}

TEST(Convert, VerifyNoticesADiskThatLies) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(4000000));
  RunOptions options = convert_program();
  options.meanwhile = tamper(folder);
  const Outcome there = run({folder / "in", folder / "out", "--verify", "--threads", "1"}, options);
  EXPECT_EQ(there.code, 5) << there.out << there.err;
  EXPECT_EQ(folder.files(), Names{"in"});
  ASSERT_EQ(convert({folder / "in", folder / "c"}).code, 0);
  const Outcome back = run({folder / "c", folder / "out", "--verify", "--threads", "1"}, options);
  EXPECT_EQ(back.code, 5) << back.out << back.err;
  EXPECT_EQ(folder.files(), (Names{"c", "in"}));
}

TEST(Convert, AFileThatChangesWhileItIsRead) {
  const TemporaryFolder folder;
  write_file(folder / "in", one_tensor(4000000));
  RunOptions options = convert_program();
  options.meanwhile = tamper(folder, folder / "in");
  const Outcome outcome = run({folder / "in", folder / "out", "--threads", "1"}, options);
  EXPECT_EQ(outcome.code, 3) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("changed while it was read"), std::string::npos) << outcome.err;
  EXPECT_EQ(folder.files(), Names{"in"});
}

}  // namespace
}  // namespace cfck::test

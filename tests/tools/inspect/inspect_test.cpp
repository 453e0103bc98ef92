// cfck inspect, verify, digest, compact, repair.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include "cfck/update.hpp"
#include "cfck/version.hpp"
#include "format/container/container.hpp"
#include "tests/support/changed_index.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

class Inspect : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder / "model.safetensors", small_model());
    ASSERT_EQ(run({"convert", folder / "model.safetensors"}).code, 0);
    file = folder / "model.cfck";
  }

  TemporaryFolder folder;
  std::string file;
};

std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(Inspect, ShowsEveryTensor) {
  RunOptions options;
  options.program = "cfck-inspect";
  for (const auto& arguments : {std::vector<std::string>{file}, {"show", file}}) {
    const Outcome outcome = run(arguments, options);
    ASSERT_EQ(outcome.code, 0);
    for (const char* word : {"layer.weight", "F32",     "[40,50]",     "duplicate of layer.weight",
                             "ids",          "I64",     "[1,64]",      "empty",
                             "BF16",         "[0,7]",   "scale",       "F16",
                             "[]",           "8000",    "5 tensors",   "never updated",
                             "format = pt",  "cfck 0.", "bits/weight", "ratio"}) {
      EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
    }
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
    EXPECT_EQ(outcome.err, "");
  }
  EXPECT_EQ(run({"inspect", file}).out, run({"show", file}).out);
}

TEST_F(Inspect, JsonHasEveryField) {
  const auto json = run({"inspect", "--json", file}).json();
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["file"], file);
  EXPECT_EQ(json["format"], "cfck");
  EXPECT_EQ(json["format_version"], "0." + std::to_string(kFormatMinor));
  EXPECT_EQ(json["generation"], 0);
  EXPECT_EQ(json["dead_bytes"], 0);
  EXPECT_EQ(json["file_bytes"], fs::file_size(file));
  EXPECT_EQ(json["n_records"], 5);
  EXPECT_EQ(json["n_elems"], 4065);
  EXPECT_EQ(json["decoded_bytes"], 16514);
  EXPECT_EQ(json["metadata"]["format"], "pt");
  std::uint64_t stored_bytes = 0;
  for (const auto& record : json["records"]) {
    for (const char* key : {"name", "dtype", "shape", "codec", "entropy", "n_elems",
                            "decoded_bytes", "stored_bytes", "bits_per_weight", "kind", "digest"}) {
      EXPECT_TRUE(record.contains(key)) << key;
    }
    EXPECT_EQ(record["digest"].get<std::string>().size(), 32U);
    stored_bytes += record["stored_bytes"].get<std::uint64_t>();
  }
  EXPECT_EQ(json["stored_bytes"], stored_bytes);
  EXPECT_DOUBLE_EQ(json["bits_per_weight"], 8.0 * static_cast<double>(stored_bytes) / 4065);
  const auto& twin = json["records"][1];
  EXPECT_EQ(twin["name"], "layer.twin");
  EXPECT_EQ(twin["kind"], "duplicate");
  EXPECT_EQ(twin["shares_with"], "layer.weight");
  EXPECT_EQ(twin["stored_bytes"], 0);
  EXPECT_EQ(json["records"][3]["bits_per_weight"], 0);
}

TEST_F(Inspect, ShowsSafetensorsToo) {
  const std::string plain = folder / "model.safetensors";
  const auto json = run({"inspect", "--json", plain}).json();
  EXPECT_EQ(json["format"], "safetensors");
  EXPECT_EQ(json["n_records"], 5);
  EXPECT_EQ(json["decoded_bytes"], json["stored_bytes"]);
  EXPECT_EQ(json["file_bytes"], small_model().size());
  EXPECT_NE(run({"inspect", plain}).out.find("layer.twin"), std::string::npos);
}

// Long names are shortened in the middle on terminals, and nowhere else.
TEST_F(Inspect, TablesFitTheTerminal) {
  const std::string name = "encoder." + std::string(200, 'x') + ".\u00e9nd.weight";
  const std::string model = folder / "long.safetensors";
  write_file(model, model_of({{name, "F32", "[64,64]", bytes_of(weights(4096, 1, 1))},
                              {"twin", "F32", "[64,64]", bytes_of(weights(4096, 1, 1))}}));
  ASSERT_EQ(run({"convert", model}).code, 0);
  for (const std::size_t columns : {80U, 120U, 400U}) {
    RunOptions terminal;
    terminal.terminal = true;
    terminal.environment = {"COLUMNS=" + std::to_string(columns)};
    const std::string text = run({"inspect", "--color=never", folder / "long.cfck"}, terminal).out;
    std::istringstream lines(text.substr(text.find("name ")));
    std::size_t longest = 0;
    for (std::string line; std::getline(lines, line);) {
      line.erase(std::min(line.size(), line.find('\r')));
      const auto n_bytes =
          std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      longest = std::max(longest, static_cast<std::size_t>(n_bytes));
    }
    EXPECT_LE(longest, columns == 400 ? 1000 : columns) << text;
    EXPECT_EQ(text.find(name) != std::string::npos, columns == 400) << text;
    EXPECT_NE(text.find("eight  "), std::string::npos) << text;  // the end of the name
  }
  RunOptions piped;
  piped.environment = {"COLUMNS=80"};
  EXPECT_NE(run({"inspect", folder / "long.cfck"}, piped).out.find(name), std::string::npos);
  EXPECT_EQ(run({"inspect", "--json", folder / "long.cfck"}, piped).json()["records"][0]["name"],
            name);
}

TEST_F(Inspect, ColumnsGoBeforeNamesAreShortened) {
  const std::string name = "model.layers.0.self_attention.query_proj.weight";
  const std::string model = folder / "usual.safetensors";
  write_file(model, model_of({{name, "F32", "[64,64]", bytes_of(weights(4096, 1, 1))}}));
  ASSERT_EQ(run({"convert", model}).code, 0);
  RunOptions terminal;
  terminal.terminal = true;
  terminal.environment = {"COLUMNS=80"};
  const std::string text = run({"inspect", "--color=never", folder / "usual.cfck"}, terminal).out;
  const std::string table = text.substr(text.find("name "));
  EXPECT_NE(table.find(name), std::string::npos) << text;
  EXPECT_NE(table.find("bits/weight"), std::string::npos) << text;
  EXPECT_EQ(table.find("ratio"), std::string::npos) << text;
  EXPECT_NE(table.find("columns do not fit the terminal"), std::string::npos) << text;
  terminal.environment = {"COLUMNS=200"};
  const std::string wide = run({"inspect", "--color=never", folder / "usual.cfck"}, terminal).out;
  EXPECT_NE(wide.find("ratio"), std::string::npos) << wide;
  EXPECT_EQ(wide.find("do not fit"), std::string::npos) << wide;
}

TEST_F(Inspect, SortsAndFilters) {
  const auto names = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"inspect", "--json", file});
    const auto json = run(arguments).json();
    std::string text;
    for (const auto& record : json["records"]) text += record["name"].get<std::string>() + " ";
    return text;
  };
  EXPECT_EQ(names({}), "layer.weight layer.twin ids empty scale ");
  EXPECT_EQ(names({"--sort", "name"}), "empty ids layer.twin layer.weight scale ");
  EXPECT_EQ(names({"--sort", "elems"}), "layer.weight layer.twin ids scale empty ");
  EXPECT_EQ(names({"--sort", "stored"}).substr(0, 13), "layer.weight ");
  EXPECT_EQ(names({"--sort", "dtype"}), "empty scale layer.weight layer.twin ids ");
  EXPECT_EQ(names({"--filter", "layer.*"}), "layer.weight layer.twin ");
  EXPECT_EQ(names({"--filter", "ids", "--filter", "s?ale"}), "ids scale ");
  EXPECT_EQ(names({"--filter", "none"}), "");
  EXPECT_EQ(run({"inspect", "--sort", "color", file}).code, 2);
  const auto json = run({"inspect", "--json", "--filter", "layer.*", file}).json();
  EXPECT_EQ(json["selected"]["n_records"], 2);
  EXPECT_EQ(json["n_records"], 5);
  EXPECT_NE(run({"inspect", "--filter", "layer.*", file}).out.find("selected"), std::string::npos);
}

TEST_F(Inspect, SeveralFilesAndOneThatFails) {
  const Outcome outcome = run({"inspect", "--json", file, folder / "none", file});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(line_count(outcome.out), 3U);
  EXPECT_NE(outcome.err.find("none"), std::string::npos);
  EXPECT_EQ(run({"inspect", file, file}).code, 0);
  EXPECT_EQ(run({"inspect"}).code, 2);
}

TEST_F(Inspect, ColoursOnlyWhereTheyAreWanted) {
  RunOptions terminal;
  terminal.terminal = true;
  EXPECT_NE(run({"inspect", file}, terminal).out.find("\x1b[1m"), std::string::npos);
  EXPECT_EQ(run({"inspect", "--color", "never", file}, terminal).out.find('\x1b'),
            std::string::npos);
  EXPECT_NE(run({"inspect", "--color", "always", file}).out.find("\x1b[1m"), std::string::npos);
  terminal.environment = {"NO_COLOR=1"};
  EXPECT_EQ(run({"inspect", file}, terminal).out.find('\x1b'), std::string::npos);
  terminal.environment = {"TERM=dumb"};
  EXPECT_EQ(run({"inspect", file}, terminal).out.find('\x1b'), std::string::npos);
}

TEST_F(Inspect, NamesCannotControlTheTerminal) {
  const std::string evil = R"(\u001b]0;owned\u0007\u009b31m\r\n\u202e\u007f)";
  write_file(folder / "evil.safetensors",
             with_header("{\"__metadata__\":{\"k" + evil + "\":\"v" + evil + "\"},\"" + evil +
                             R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                         "x"));
  ASSERT_EQ(run({"convert", folder / "evil.safetensors"}).code, 0);
  for (const char* name : {"evil.safetensors", "evil.cfck"}) {
    for (const auto& arguments : {std::vector<std::string>{"inspect", folder / name},
                                  {"inspect", "--json", folder / name},
                                  {"digest", "-v", folder / name}}) {
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.code, 0);
      for (const char* bad : {"\x1b", "\x07", "\xc2\x9b", "\r", "\xe2\x80\xae"}) {
        EXPECT_EQ(outcome.out.find(bad), std::string::npos) << arguments[0] << name;
      }
    }
  }
  // Errors contain names, too.
  const std::string tensor = "{\"" + evil + "\":{\"dtype\":\"";
  for (const std::string& header :
       {tensor + evil + R"(","shape":[1],"data_offsets":[0,1]}})",
        tensor + R"(U8","shape":[2],"data_offsets":[0,1]}})",
        "{\"__metadata__\":{\"" + evil + "\":1}}",
        "{\"__metadata__\":{\"" + evil + "\":\"\",\"" + evil + "\":\"\"}}"}) {
    write_file(folder / "evil", with_header(header, "x"));
    for (const auto& arguments : {std::vector<std::string>{"inspect", folder / "evil"},
                                  {"inspect", "--json", folder / "evil"}}) {
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.code, 4);
      EXPECT_EQ(line_count(outcome.err), 1U) << outcome.err;
      for (const char* bad : {"\x1b", "\x07", "\xc2\x9b", "\r", "\xe2\x80\xae"}) {
        EXPECT_EQ((outcome.err + outcome.out).find(bad), std::string::npos) << outcome.err;
      }
    }
  }
  const auto json = run({"inspect", "--json", folder / "evil.cfck"}).json();
  EXPECT_EQ(json["records"][0]["name"],
            "\x1b]0;owned\x07\xc2\x9b"
            "31m\r\n\xe2\x80\xae\x7f");
  EXPECT_EQ(line_count(run({"inspect", "--json", folder / "evil.cfck"}).out), 1U);
}

// Rewrites the index, with `change` applied to it.
template <class Change>
void change_index(const std::string& path, const Change& change) {
  const std::string bytes = read_file(path);
  const auto changed = test::with_changed_index(std::as_bytes(std::span(bytes)), change);
  write_file(path, std::string(reinterpret_cast<const char*>(changed.data()), changed.size()));
}

TEST_F(Inspect, RecordsOfTheFutureAreListed) {
  change_index(file, [](format::Index& index) {
    index.records[2].record.codec = static_cast<CodecId>(77);
    index.records[4].record.dtype = static_cast<DType>(99);
  });
  const Outcome outcome = run({"inspect", file});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("unknown(77)"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("UNKNOWN(99)"), std::string::npos);
  EXPECT_EQ(run({"convert", file, folder / "back"}).code, 6);
}

TEST_F(Inspect, VerifyFindsDamage) {
  const Outcome good = run({"verify", file});
  EXPECT_EQ(good.code, 0);
  EXPECT_NE(good.out.find("ok"), std::string::npos);
  const auto json = run({"verify", "--deep", "--json", file}).json();
  EXPECT_TRUE(json["ok"]);
  EXPECT_EQ(json["level"], "deep");
  EXPECT_EQ(json["problems"].size(), 0U);
  RunOptions inspect;
  inspect.program = "cfck-inspect";
  EXPECT_EQ(run({"verify", "--deep", file}, inspect).code, 0);
  EXPECT_EQ(run({"verify", "--quiet", file}).out, "");

  std::string bytes = read_file(file);
  bytes[200] = static_cast<char>(bytes[200] ^ 4);
  write_file(file, bytes);
  const Outcome bad = run({"verify", file});
  EXPECT_EQ(bad.code, 5);
  EXPECT_NE(bad.err.find("cfck repair"), std::string::npos) << bad.err;
  const Outcome bad_json = run({"verify", "--json", file});
  EXPECT_EQ(bad_json.code, 5);
  EXPECT_FALSE(bad_json.json()["ok"]);
  EXPECT_EQ(bad_json.json()["problems"][0]["code"], "checksum");
  EXPECT_EQ(run({"verify", folder / "model.safetensors"}).code, 6);
  EXPECT_EQ(run({"verify", folder / "none"}).code, 3);
}

TEST_F(Inspect, WrongDigestsAreFoundByDecoding) {
  change_index(file, [](format::Index& index) { index.records[2].record.digest[3] ^= 1; });
  EXPECT_EQ(run({"verify", file}).code, 0);
  EXPECT_EQ(run({"verify", "--deep", file}).code, 5);
}

TEST_F(Inspect, DigestsDoNotDependOnTheFormat) {
  ASSERT_EQ(
      run({"convert", folder / "model.safetensors", folder / "raw.cfck", "--codec", "raw"}).code,
      0);
  const Outcome outcome = run({"digest", folder / "model.safetensors", file, folder / "raw.cfck"});
  ASSERT_EQ(outcome.code, 0);
  ASSERT_EQ(line_count(outcome.out), 3U);
  const std::string first = outcome.out.substr(0, 32);
  std::size_t count = 0;
  for (std::size_t at = 0; (at = outcome.out.find(first, at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 3U) << outcome.out;
  EXPECT_EQ(line_count(run({"digest", "-v", file}).out), 6U);
  const auto json = run({"digest", "--json", file}).json();
  EXPECT_EQ(json["digest"], first);
  EXPECT_EQ(json["records"].size(), 5U);
  // One bit of one tensor differs.
  std::string changed = small_model();
  changed.back() = static_cast<char>(changed.back() ^ 1);
  write_file(folder / "changed", changed);
  EXPECT_NE(run({"digest", folder / "changed"}).out.substr(0, 32), first);
  // A file with a tensor of several leaves.
  write_file(folder / "large", one_tensor(300001));
  ASSERT_EQ(run({"convert", folder / "large"}).code, 0);
  const std::string both = run({"digest", folder / "large", folder / "large.cfck"}).out;
  EXPECT_EQ(both.substr(0, 32), both.substr(both.find('\n') + 1, 32));
}

TEST_F(Inspect, CompactFreesWhatAnUpdateLeft) {
  const std::string bytes = noise(40000, 9);
  Update changes;
  changes.tensors.push_back({"layer.weight",
                             DType::kF32,
                             {100, 100},
                             {100, 1},
                             reinterpret_cast<const std::byte*>(bytes.data())});
  ASSERT_TRUE(update(file, changes));
  const auto before = run({"inspect", "--json", file}).json();
  EXPECT_EQ(before["generation"], 1);
  EXPECT_GT(before["dead_bytes"].get<std::uint64_t>(), 0U);
  EXPECT_NE(run({"inspect", file}).out.find("unused"), std::string::npos);
  const std::uint64_t old_bytes = fs::file_size(file);
  const Outcome outcome = run({"compact", "--json", file});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["freed_bytes"], old_bytes - fs::file_size(file));
  EXPECT_EQ(run({"inspect", "--json", file}).json()["generation"], 0);
  EXPECT_EQ(run({"verify", "--deep", file}).code, 0);
  EXPECT_EQ(run({"compact", folder / "model.safetensors"}).code, 6);
}

TEST_F(Inspect, RepairSavesWhatIsWhole) {
  const std::string whole = read_file(file);
  write_file(folder / "torn", whole + std::string(1000, 'x'));
  EXPECT_EQ(run({"inspect", folder / "torn"}).code, 4);
  const Outcome outcome = run({"repair", folder / "torn", "-o", folder / "new", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["end_bytes"], whole.size());
  EXPECT_EQ(outcome.json()["n_records"], 5);
  EXPECT_EQ(run({"digest", folder / "new"}).out.substr(0, 32),
            run({"digest", file}).out.substr(0, 32));
  EXPECT_EQ(run({"repair", folder / "torn", "-o", folder / "new"}).code, 8);
  EXPECT_EQ(run({"repair", folder / "torn", "-o", folder / "torn"}).code, 8);
  EXPECT_EQ(run({"repair", folder / "torn"}).code, 2);
  // Damage is inside a tensor: it is lost, the rest is not.
  std::string damaged = whole;
  damaged[200] = static_cast<char>(damaged[200] ^ 4);
  write_file(folder / "damaged", damaged);
  const Outcome lost = run({"repair", folder / "damaged", "-o", folder / "rest"});
  EXPECT_EQ(lost.code, 1);
  EXPECT_NE(lost.err.find("lost"), std::string::npos);
  EXPECT_EQ(run({"verify", "--deep", folder / "rest"}).code, 0);
}

TEST_F(Inspect, RepairSaysWhatComesFromAnOlderGeneration) {
  const auto old_bytes = fs::file_size(file);
  const std::vector<std::byte> values(70000, std::byte{7});
  Update changes;
  changes.tensors = {{"ids", DType::kU8, {70000}, {1}, values.data()}};
  EncodeOptions raw;
  raw.codec = CodecChoice::kRaw;
  ASSERT_TRUE(update(file, changes, raw));
  std::string damaged = read_file(file);
  damaged[old_bytes + 1000] = 8;
  write_file(folder / "damaged", damaged);
  const Outcome json = run({"repair", folder / "damaged", "-o", folder / "a", "--json"});
  EXPECT_EQ(json.code, 1) << json.err;
  EXPECT_EQ(json.json()["older"], (nlohmann::json{{{"name", "ids"}, {"generation", 0}}}));
  EXPECT_EQ(json.json()["lost"], nlohmann::json::array());
  const Outcome text = run({"repair", folder / "damaged", "-o", folder / "b"});
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.err.find("taken from generation 0 instead: ids"), std::string::npos) << text.err;
  EXPECT_EQ(run({"verify", "--deep", folder / "b"}).code, 0);
}

TEST_F(Inspect, OutputThatCannotBeWritten) {
  RunOptions full;
  full.stdout_path = "/dev/full";
  const Outcome outcome = run({"inspect", file}, full);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("standard output"), std::string::npos);
}

TEST_F(Inspect, ABrokenPipeEndsQuietly) {
  std::string json = "{";
  for (int i = 0; i < 20000; ++i) {
    if (i > 0) json += ",";
    json += "\"tensor.with.a.long.name." + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  write_file(folder / "many.safetensors", with_header(json + "}"));
  const std::string command = std::string(CFCK_PROGRAM_FOLDER) + "/cfck inspect " +
                              (folder / "many.safetensors") + " 2>" + (folder / "err") +
                              " | head -n 1 >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_file(folder / "err"), "");
}

TEST_F(Inspect, ANameOfATensorNeedsFilter) {
  write_file(folder / "one.safetensors", one_tensor(8));
  const Outcome outcome = run({"inspect", folder / "one.safetensors", "w"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("give --filter w"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("1 tensor, "), std::string::npos) << outcome.out;
}

TEST_F(Inspect, FilesWithoutSuffixSayTheirFormat) {
  write_file(folder / "one.safetensors", one_tensor(8));
  const Outcome made = run({"convert", folder / "one.safetensors", folder / "a1"});
  EXPECT_NE(made.out.find("a1 (cfck file): "), std::string::npos) << made.out;
  const Outcome named = run({"convert", folder / "one.safetensors", folder / "a1.cfck"});
  EXPECT_EQ(named.out.find("cfck file"), std::string::npos) << named.out;
}

TEST_F(Inspect, SmallFilesMayBeLarger) {
  write_file(folder / "one.safetensors", one_tensor(8));
  ASSERT_EQ(run({"convert", folder / "one.safetensors", folder / "one.cfck"}).code, 0);
  for (const std::string format : {"md", "html"}) {
    const Outcome page = run({"report", folder / "one.cfck", "-o", "-", "--format", format});
    EXPECT_NE(page.out.find("larger"), std::string::npos) << page.out;
    EXPECT_EQ(page.out.find("\u00d7 smaller"), std::string::npos) << page.out;
  }
  ASSERT_EQ(run({"convert", folder / "one.cfck", folder / "one.npy"}).code, 0);
  const Outcome other = run({"verify", folder / "one.npy"});
  EXPECT_NE(other.err.find("an npy file has no checksums"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace cfck::test

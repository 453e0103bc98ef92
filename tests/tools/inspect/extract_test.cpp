// cfck extract.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

// A .npy file by the format's description, as numpy.save writes it.
std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() % 256);
  bytes += static_cast<char>(header.size() / 256);
  return bytes + header + data;
}

class Extract : public ::testing::Test {
 protected:
  void SetUp() override {
    plain = folder / "model.safetensors";
    file = folder / "model.cfck";
    write_file(plain, small_model());
    ASSERT_EQ(run({"convert", plain}).code, 0);
    output = folder / "x.npy";
  }

  // Extracts from a file with one tensor, as safetensors and as .cfck.
  Outcome extract_one(const std::string& dtype, const std::string& shape, const std::string& data) {
    write_file(folder / "one.safetensors",
               with_header(R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape +
                               R"(,"data_offsets":[0,)" + std::to_string(data.size()) + "]}}",
                           data));
    EXPECT_EQ(run({"convert", "-f", folder / "one.safetensors"}).code, 0);
    const Outcome outcome = run({"extract", "-f", folder / "one.cfck", "x", "-o", output});
    if (outcome.code == 0) {
      EXPECT_EQ(run({"extract", folder / "one.safetensors", "x", "-o", "-"}).out,
                read_file(output));
    }
    return outcome;
  }

  TemporaryFolder folder;
  std::string plain;
  std::string file;
  std::string output;
};

TEST_F(Extract, WritesWhatNumpyReads) {
  RunOptions inspect;
  inspect.program = "cfck-inspect";
  const std::string model = small_model();
  const std::string weight = model.substr(model.size() - 514 - 16000, 8000);
  for (const std::string& input : {file, plain, folder.path()}) {
    if (input == folder.path()) std::filesystem::remove(file);
    const Outcome outcome = run({"extract", "-f", input, "layer.twin", "-o", output}, inspect);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(read_file(output), npy("<f4", "(40, 50)", weight));
  }
}

TEST_F(Extract, EveryDType) {
  const std::string data = noise(24, 3);
  const std::pair<const char*, const char*> known[] = {
      {"I8", "|i1"},  {"U8", "|u1"},  {"I16", "<i2"}, {"U16", "<u2"},
      {"F16", "<f2"}, {"I32", "<i4"}, {"U32", "<u4"}, {"F32", "<f4"},
      {"C64", "<c8"}, {"F64", "<f8"}, {"I64", "<i8"}, {"U64", "<u8"}};
  for (const auto& [dtype, type] : known) {
    const std::string count = std::to_string(24 / (type[2] - '0'));
    const Outcome outcome = extract_one(dtype, "[" + count + "]", data);
    ASSERT_EQ(outcome.code, 0) << dtype << outcome.err;
    EXPECT_EQ(outcome.err, "") << dtype;
    EXPECT_EQ(read_file(output), npy(type, "(" + count + ",)", data)) << dtype;
  }
  ASSERT_EQ(extract_one("BOOL", "[2,1,2]", std::string("\1\0\0\1", 4)).code, 0);
  EXPECT_EQ(read_file(output), npy("|b1", "(2, 1, 2)", std::string("\1\0\0\1", 4)));
  for (const char* dtype :
       {"BF16", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    const bool wide = std::string(dtype) == "BF16";
    const Outcome outcome = extract_one(dtype, wide ? "[12]" : "[24]", data);
    ASSERT_EQ(outcome.code, 0) << dtype << outcome.err;
    EXPECT_EQ(read_file(output), npy(wide ? "<u2" : "|u1", wide ? "(12,)" : "(24,)", data));
    EXPECT_NE(outcome.err.find(std::string("no dtype ") + dtype), std::string::npos);
    EXPECT_NE(outcome.err.find(wide ? "16 bits" : "8 bits"), std::string::npos);
  }
  for (const char* dtype : {"F4", "F6_E2M3", "F6_E3M2"}) {
    const Outcome outcome = extract_one(dtype, std::string(dtype) == "F4" ? "[48]" : "[32]", data);
    EXPECT_EQ(outcome.code, 6) << dtype;
    EXPECT_NE(outcome.err.find("numpy has no equivalent of dtype"), std::string::npos)
        << outcome.err;
  }
}

TEST_F(Extract, EmptyAndZeroDimensional) {
  ASSERT_EQ(run({"extract", file, "scale", "-o", output}).code, 0);
  EXPECT_EQ(read_file(output), npy("<f2", "()", "\x01\x3C"));
  ASSERT_EQ(run({"extract", "-f", file, "empty", "-o", output}).code, 0);
  EXPECT_EQ(read_file(output), npy("<u2", "(0, 7)", ""));
}

TEST_F(Extract, LargerThanOnePiece) {
  const std::string model = one_tensor(5'000'003);
  write_file(folder / "large.safetensors", model);
  ASSERT_EQ(run({"convert", folder / "large.safetensors"}).code, 0);
  ASSERT_EQ(run({"extract", folder / "large.cfck", "w", "-o", output}).code, 0);
  const std::string written = read_file(output);
  EXPECT_TRUE(written == npy("<f4", "(5000003,)", model.substr(model.size() - 20'000'012)));
  RunOptions full;
  full.stdout_path = "/dev/full";
  EXPECT_EQ(run({"extract", folder / "large.cfck", "w", "-o", "-"}, full).code, 3);
  RunOptions disk;
  disk.max_file_bytes = 1'000'000;
  EXPECT_EQ(run({"extract", "-f", folder / "large.cfck", "w", "-o", output}, disk).code, 3);
  EXPECT_TRUE(read_file(output) == written);
  EXPECT_EQ(folder.files().size(), 5U);
}

TEST_F(Extract, HeadersAbove64KiBHaveVersionTwo) {
  std::string shape = "[1";
  for (int i = 1; i < 30000; ++i) shape += ",1";
  write_file(
      folder / "deep",
      with_header(R"({"x":{"dtype":"U8","shape":)" + shape + R"(],"data_offsets":[0,1]}})", "x"));
  ASSERT_EQ(run({"extract", folder / "deep", "x", "-o", output}).code, 0);
  const std::string bytes = read_file(output);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x02\x00", 8));
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  EXPECT_EQ(byte(8) + 256U * byte(9) + 65536U * byte(10), bytes.size() - 12 - 1);
  EXPECT_EQ((bytes.size() - 1) % 64, 0U);
  EXPECT_EQ(bytes.substr(bytes.size() - 2), "\nx");
}

TEST_F(Extract, WrongNamesSayWhichAreNear) {
  const Outcome outcome = run({"extract", file, "layer.wieght", "-o", output});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("no tensor 'layer.wieght'; did you mean 'layer.weight'"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(run({"extract", file, "twin", "-o", output}).err.find("'layer.twin'?"),
            std::string::npos);
  EXPECT_NE(run({"extract", file, "zzzzzzzz", "-o", output}).err.find("lists the names"),
            std::string::npos);
  EXPECT_EQ(run({"extract", file, "\x1b[31m", "-o", output}).err.find('\x1b'), std::string::npos);
  EXPECT_EQ(run({"extract", "--json", file, "x", "-o", output}).json()["error"]["code"],
            "not_found");
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST_F(Extract, OutputsThatAreRefused) {
  const Outcome none = run({"extract", file, "../../scale"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("cfck extract " + file + " ../../scale -o"), std::string::npos);
  write_file(output, "mine");
  const Outcome taken = run({"extract", file, "scale", "-o", output});
  EXPECT_EQ(taken.code, 8);
  EXPECT_NE(taken.err.find("--force"), std::string::npos);
  EXPECT_EQ(read_file(output), "mine");
  EXPECT_EQ(run({"extract", "--force", file, "scale", "-o", output}).code, 0);
  const std::string before = read_file(file);
  EXPECT_EQ(run({"extract", "--force", file, "scale", "-o", file}).code, 2);
  EXPECT_TRUE(read_file(file) == before);
  EXPECT_EQ(run({"extract", file, "scale", "-o", folder.path()}).code, 2);
  EXPECT_EQ(run({"extract", file, "scale", "-o", folder / "no/x.npy"}).code, 3);
  EXPECT_EQ(run({"extract", "--json", file, "scale", "-o", "-"}).code, 2);
  RunOptions terminal;
  terminal.terminal = true;
  const Outcome shown = run({"extract", file, "scale", "-o", "-"}, terminal);
  EXPECT_EQ(shown.code, 2);
  EXPECT_EQ(shown.out.find("NUMPY"), std::string::npos);
  const auto json = run({"extract", "-f", "--json", file, "scale", "-o", output}).json();
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["dtype"], "F16");
  EXPECT_EQ(json["output_bytes"], 130);
}

TEST_F(Extract, DamagedFiles) {
  const std::string whole = read_file(file);
  write_file(folder / "short.cfck", whole.substr(0, whole.size() - 1));
  EXPECT_EQ(run({"extract", folder / "short.cfck", "scale", "-o", output}).code, 4);
  std::string damaged = whole;
  damaged[200] = static_cast<char>(damaged[200] ^ 4);
  write_file(folder / "damaged.cfck", damaged);
  EXPECT_EQ(run({"extract", folder / "damaged.cfck", "layer.weight", "-o", output}).code, 5);
  EXPECT_EQ(run({"extract", folder / "none", "scale", "-o", output}).code, 3);
  EXPECT_FALSE(std::filesystem::exists(output));
}

}  // namespace
}  // namespace cfck::test

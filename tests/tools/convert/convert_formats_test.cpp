// cfck convert with files of other programs.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/interop/pytorch/pytorch_files.hpp"
#include "tests/tools/program.hpp"

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

constexpr int kUsage = 2;
constexpr int kDamaged = 4;
constexpr int kUnreadable = 6;

Outcome convert(std::vector<std::string> arguments) {
  RunOptions options;
  options.program = "cfck-convert";
  return run(arguments, options);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string two_floats_model(const std::string& metadata = {}) {
  return model_of({{"a.weight", "F32", "[64,64]", bytes_of(weights(4096, 1, 1))},
                   {"ids", "I32", "[3]", bytes_of(std::vector<std::int32_t>{1, 2, 3})}},
                  metadata);
}

// An .npz file of that model.
std::string npz_in(const TemporaryFolder& folder) {
  write_file(folder / "model.safetensors", two_floats_model());
  EXPECT_EQ(convert({folder / "model.safetensors", folder / "z.npz"}).code, 0);
  return folder / "z.npz";
}

std::string matrix() { return tensor(storage("0", 12), 0, 3, 4, 4, 1); }

// {"w": tensor}, and {"w": tensor, "epoch": 3}.
std::string plain_pt() { return pytorch_file(dict_of(matrix())); }
std::string checkpoint_pt() {
  return pytorch_file("\x80\x02}" + text("w") + matrix() + "s" + text("epoch") + integer(3) + "s.");
}

TEST(ConvertFormats, AFormatIsWrittenAgainAsWhatItIs) {
  const TemporaryFolder folder;
  const std::string z = npz_in(folder);
  const Outcome again = convert({z, folder / "out.npz"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(read_file(folder / "out.npz") == read_file(z));
  // Not itself, and what exists stays.
  EXPECT_EQ(convert({z, z, "--force"}).code, kUsage);
  EXPECT_TRUE(has(convert({z, folder / "out.npz"}).err, "--force"));
}

TEST(ConvertFormats, WhatCannotBeWrittenIsSaidWithWhatCan) {
  const TemporaryFolder folder;
  write_file(folder / "ck.pt", plain_pt());
  const std::string z = npz_in(folder);
  for (const char* name : {"x.pt", "x.pth", "x.bin", "x.ckpt", "x.gguf", "x.onnx"}) {
    for (const std::string& input : {folder / "ck.pt", z, folder / "model.safetensors"}) {
      const Outcome refused = convert({input, folder / name});
      EXPECT_EQ(refused.code, kUsage);
      EXPECT_TRUE(has(refused.err, fs::path(name).extension().string() + " files")) << refused.err;
      EXPECT_TRUE(has(refused.err, ".cfck, .safetensors, .h5, .keras, .npy or .npz"))
          << refused.err;
    }
  }
  write_file(folder / "two.pt", plain_pt());
  EXPECT_TRUE(has(convert({folder / "ck.pt", folder / "two.pt"}).err, "--output-dir"));
  const Outcome options = convert({z, folder / "o.npz", "--codec", "lossless"});
  EXPECT_EQ(options.code, kUsage);
  EXPECT_TRUE(has(options.err, "--codec: only for conversion to .cfck, not to npz")) << options.err;
}

TEST(ConvertFormats, FilesOfPyTorchHavePatchesButAreNotReplaced) {
  const TemporaryFolder folder;
  write_file(folder / "model.pt", plain_pt());
  const std::string patch = folder / "update.cfck";
  ASSERT_EQ(run({"patch", folder / "model.pt", folder / "model.pt", "-o", patch}).code, 0);
  const Outcome replaced = run({"apply", "--in-place", folder / "model.pt", patch});
  EXPECT_EQ(replaced.code, kUsage);
  EXPECT_TRUE(has(replaced.err, "which cfck does not write")) << replaced.err;
  EXPECT_TRUE(read_file(folder / "model.pt") == plain_pt());
}

TEST(ConvertFormats, FiguresOfCompressionAreForCfckFilesOnly) {
  const TemporaryFolder folder;
  const std::string z = npz_in(folder);
  EXPECT_FALSE(has(convert({z, folder / "out.safetensors"}).out, "ratio"));
  EXPECT_TRUE(has(convert({z, folder / "out.cfck"}).out, "(ratio "));
  // Nothing is compressed on the way back.
  EXPECT_FALSE(has(convert({folder / "out.cfck", folder / "back.npz"}).out, "ratio"));
}

TEST(ConvertFormats, ContentsThatAFormatCannotHoldAreNamed) {
  const TemporaryFolder folder;
  write_file(folder / "ck.pt", checkpoint_pt());
  write_file(folder / "plain.pt", plain_pt());
  for (const char* to : {"a.safetensors", "a.npz"}) {
    const Outcome lossy = convert({folder / "ck.pt", folder / to, "--json"});
    EXPECT_EQ(lossy.code, 0) << lossy.err;
    EXPECT_TRUE(has(lossy.err, "warning: '" + (folder / "ck.pt") + "' is a checkpoint: "))
        << lossy.err;
    EXPECT_EQ(lossy.json()["missing"].size(), 1U);
    EXPECT_EQ(convert({folder / "plain.pt", folder / to, "--force"}).err, "");
  }
  EXPECT_EQ(convert({folder / "ck.pt", folder / "ck.cfck"}).err, "");
  EXPECT_TRUE(has(convert({folder / "ck.cfck", folder / "b.npz"}).err, "is a checkpoint"));
  EXPECT_EQ(convert({folder / "plain.pt", folder / "plain.cfck"}).err, "");
  EXPECT_EQ(convert({folder / "plain.cfck", folder / "c.npz"}).err, "");

  write_file(folder / "m.safetensors", two_floats_model(R"("format":"pt","author":"me")"));
  const Outcome metadata = convert({folder / "m.safetensors", folder / "m.npz"});
  EXPECT_TRUE(has(metadata.err, "without it: 1 entry of metadata; keep the input")) << metadata.err;
}

TEST(ConvertFormats, FilesThatOnlyTheirSuffixMakesOneOfAFormat) {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& name, std::string_view content) {
    write_file(folder / name, content);
    const Outcome refused = convert({folder / name});
    EXPECT_EQ(refused.code, kDamaged) << name;
    return refused.err;
  };
  std::string error = error_of("notes.pt", "Dear diary,\ntoday\n");
  EXPECT_TRUE(has(error,
                  "this is not a PyTorch file, though it is called one: it seems to be text "
                  "('Dear diary,"))
      << error;
  error = error_of("page.npz", "<!DOCTYPE html><html><head>");
  EXPECT_TRUE(has(error, "this is not an npz file")) << error;
  EXPECT_TRUE(has(error, "a web page")) << error;
  error = error_of("gone.pt", std::string(5000, '\0'));
  EXPECT_TRUE(has(error, "zero bytes only")) << error;
  // Damaged files are called damaged all the same.
  error = error_of("cut.npz", read_file(npz_in(folder)).substr(0, 5000));
  EXPECT_TRUE(has(error, "no directory at its end")) << error;
}

TEST(ConvertFormats, OnlyCfckFilesAreRepaired) {
  const TemporaryFolder folder;
  npz_in(folder);
  write_file(folder / "sd.pt", plain_pt());
  write_file(folder / "old.pt", "\x80\x02\x8a\x0a" + noise(500, 1));
  for (const char* name : {"sd.pt", "old.pt", "z.npz", "model.safetensors"}) {
    const Outcome refused = run({"repair", folder / name, "-o", folder / "z.cfck"});
    EXPECT_EQ(refused.code, kUnreadable) << name;
    EXPECT_TRUE(has(refused.err, "only .cfck files can be repaired")) << refused.err;
    EXPECT_FALSE(fs::exists(folder / "z.cfck"));
  }
}

TEST(ConvertFormats, VerifyComparesTensorsWhereBytesAreNotKept) {
  const TemporaryFolder folder;
  const std::string z = npz_in(folder);
  write_file(folder / "ck.pt", checkpoint_pt());
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{z, folder / "z.cfck"},
                                             {z, folder / "again.npz"},
                                             {z, folder / "z.safetensors"},
                                             {z, folder / "bound.cfck", "--max-abs-error", "1e-2"},
                                             {z, folder / "target.cfck", "--bits-per-weight", "4"},
                                             {folder / "ck.pt", folder / "ck.cfck"},
                                             {folder / "ck.pt", folder / "ck.npz"},
                                             {folder / "z.cfck", folder / "back.npz"}}) {
    std::vector<std::string> verified = arguments;
    verified.emplace_back("--verify");
    const Outcome done = convert(verified);
    EXPECT_EQ(done.code, 0) << arguments[1] << ": " << done.err;
    EXPECT_TRUE(has(done.out, "verified and done")) << arguments[1];
  }
  // The checksums of the input come first.
  std::string damaged = read_file(z);
  const std::size_t at = damaged.find(bytes_of(weights(1, 1, 1)));
  ASSERT_NE(at, std::string::npos);
  damaged[at] ^= 1;
  write_file(folder / "damaged.npz", damaged);
  EXPECT_EQ(convert({folder / "damaged.npz", folder / "d.cfck"}).code, 0);
  const Outcome refused = convert({folder / "damaged.npz", folder / "e.cfck", "--verify"});
  EXPECT_NE(refused.code, 0);
  EXPECT_TRUE(has(refused.err, "CRC-32")) << refused.err;
  EXPECT_FALSE(fs::exists(folder / "e.cfck"));
}

TEST(ConvertFormats, FoldersWithOneFileOfPyTorch) {
  const TemporaryFolder folder;
  write_file(folder / "model/pytorch_model.bin", plain_pt());
  write_file(folder / "model/config.json", "{}");
  const Outcome shown = run({"inspect", "show", folder / "model"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  const Outcome converted = convert({folder / "model"});
  EXPECT_EQ(converted.code, 0) << converted.err;
}

// Files beside a model are converted without loss where they have tensors; copies have their sizes.
TEST(ConvertFormats, FoldersWithTrainingState) {
  const TemporaryFolder folder;
  write_file(folder / "run/model.safetensors", weights_model());
  write_file(folder / "run/optimizer.pt", plain_pt());
  write_file(folder / "run/training_args.bin", "not a file of tensors");
  write_file(folder / "run/trainer_state.json", "{}");
  const Outcome made = convert({folder / "run", "--verify", "--max-abs-error", "1e-2"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "trainer_state.json (2 B), training_args.bin (21 B)")) << made.out;
  EXPECT_TRUE(has(made.err, "1 file of training state converted, without loss")) << made.err;
  EXPECT_FALSE(fs::exists(folder / "run-cfck/optimizer.pt"));
  EXPECT_EQ(run({"diff", folder / "run/optimizer.pt", folder / "run-cfck/optimizer.cfck"}).code, 0);
  const Outcome verified = run({"verify", folder / "run-cfck"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_TRUE(has(verified.out, "2 ok, 0 damaged")) << verified.out;
  // The folder can be written again, and the way back keeps the state as it is.
  ASSERT_EQ(convert({folder / "run", "-f"}).code, 0);
  ASSERT_EQ(convert({folder / "run-cfck", folder / "back"}).code, 0);
  EXPECT_EQ(read_file(folder / "back/model.safetensors"), weights_model());
  EXPECT_EQ(read_file(folder / "back/optimizer.cfck"),
            read_file(folder / "run-cfck/optimizer.cfck"));
  EXPECT_FALSE(fs::exists(folder / "back/optimizer.safetensors"));
  // So do shards, in either format.
  for (const char* out : {"shards/model.cfck", "others/model.safetensors"}) {
    const Outcome shards = convert({folder / "run-cfck", folder / out, "--max-shard-size", "1GB"});
    ASSERT_EQ(shards.code, 0) << shards.err;
    EXPECT_EQ(shards.err, "");
    EXPECT_EQ(read_file((fs::path(folder / out).parent_path() / "optimizer.cfck").string()),
              read_file(folder / "run-cfck/optimizer.cfck"));
  }
}

// Files of PyTorch without a model beside them are checkpoints, each by itself.
TEST(ConvertFormats, FoldersOfCheckpoints) {
  const TemporaryFolder folder;
  write_file(folder / "job/checkpoints/last.ckpt", plain_pt());
  write_file(folder / "job/checkpoints/epoch=1.ckpt", plain_pt());
  write_file(folder / "job/broken.ckpt", "not a file of tensors");
  write_file(folder / "job/hparams.yaml", "width: 2");
  const Outcome shown = run({"inspect", "show", folder / "job/checkpoints"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, folder / "job/checkpoints/last.ckpt")) << shown.out;
  const Outcome made = convert({folder / "job", "--verify"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "broken.ckpt (21 B), hparams.yaml (8 B)")) << made.out;
  for (const std::string name : {"last", "epoch=1"}) {
    EXPECT_EQ(run({"diff", folder / ("job/checkpoints/" + name + ".ckpt"),
                   folder / ("job-cfck/checkpoints/" + name + ".cfck")})
                  .code,
              0);
  }
  EXPECT_EQ(run({"verify", folder / "job-cfck/checkpoints"}).code, 0);
  EXPECT_EQ(convert({folder / "job"}).code, 8);
  EXPECT_EQ(convert({folder / "job", "-f"}).code, 0);
  write_file(folder / "job/checkpoints/last.pt", plain_pt());
  const Outcome twice = convert({folder / "job", "-f"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_TRUE(has(twice.err, "'checkpoints/last.cfck' would be written twice")) << twice.err;
}

TEST(ConvertFormats, FoldersWithoutACheckpointThatCanBeRead) {
  const TemporaryFolder folder;
  write_file(folder / "job/optimizer.pt", "not a file of tensors");
  write_file(folder / "job/config.json", "{}");
  const Outcome refused = convert({folder / "job"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_TRUE(has(refused.err, "one by one: '" + (folder / "job/optimizer.pt") + "'"))
      << refused.err;
  EXPECT_FALSE(fs::exists(folder / "job-cfck"));
}

}  // namespace
}  // namespace cfck::test

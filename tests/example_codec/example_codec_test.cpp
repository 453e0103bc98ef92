// A codec of one folder and one line of the registry does everything that a built-in codec does.
#include "tests/example_codec/example_file.hpp"
#include "tests/example_codec/runs/runs_codec.hpp"

namespace cfck::test {
namespace {

using codec::ChunkInfo;
using codec::EncodedChunk;
using codec::Scratch;

TEST(ExampleCodec, HasItsNameAndIsChosenByIt) {
  EXPECT_EQ(codec_name(kRunsId), "runs");
  EXPECT_EQ(codec_choice_from_name("runs"), codec_choice(kRunsId));
  EXPECT_EQ(codec_choice_from_name("spectral"), CodecChoice::kSpectral);
  EXPECT_EQ(codec_choice_names().back(), "rounded");
}

TEST(ExampleCodec, FilesComeBackAndVerify) {
  const ExampleTensors tensors;
  const OpenFile file(example_file());
  EXPECT_EQ(file.record("runs").codec, kRunsId);
  EXPECT_EQ(file.record("many runs").codec, kRunsId);
  EXPECT_EQ(file.record("weights").codec, CodecId::kLossless);
  EXPECT_LT(file.record("many runs").stored_bytes, tensors.many_runs.size() / 10);
  EXPECT_EQ(file.tensor("runs"), tensors.runs);
  EXPECT_EQ(file.tensor("weights"), tensors.weights);
  EXPECT_EQ(file.tensor("many runs"), tensors.many_runs);
  const VerifyReport report = take(file->verify(VerifyLevel::kDeep));
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.n_records, 4u);
}

TEST(ExampleCodec, NoPayloadIsLongerThanTheValuesAndAByte) {
  Scratch scratch;
  for (const Bytes& values :
       {noise(5, 1), noise(6, 999), constant(4, 2), joined({noise(7, 50), constant(1, 9)})}) {
    ChunkInfo info{DType::kU8, EntropyId::kZstd, ScanId::kStorageOrder, values.size()};
    EncodedChunk chunk;
    expect_ok(codec::find_encoder(kRunsId)->encode(info, values, scratch, chunk));
    EXPECT_LE(chunk.payload.size(), values.size() + 1);
    Bytes decoded(values.size());
    expect_ok(codec::find_decoder(kRunsId)->decode(info, chunk.payload, scratch, decoded));
    EXPECT_EQ(decoded, values);
    EXPECT_EQ(take(codec::find_decoder(kRunsId)->body_bytes(info, chunk.payload)),
              chunk.payload.size());
  }
}

// Every prefix is an error, and every changed byte an error or other values.
TEST(ExampleCodec, DamagedPayloads) {
  Scratch scratch;
  const Bytes values = joined({constant(1, 300), noise(8, 10), constant(0, 200)});
  const ChunkInfo info{DType::kU8, EntropyId::kZstd, ScanId::kStorageOrder, values.size()};
  EncodedChunk chunk;
  expect_ok(codec::find_encoder(kRunsId)->encode(info, values, scratch, chunk));
  const codec::Decoder& decoder = *codec::find_decoder(kRunsId);
  Bytes decoded(values.size());
  for (std::size_t n = 0; n < chunk.payload.size(); ++n) {
    const auto cut = decoder.decode(info, ByteView(chunk.payload).first(n), scratch, decoded);
    ASSERT_FALSE(cut);
    EXPECT_TRUE(cut.error().code == ErrorCode::kTruncated ||
                cut.error().code == ErrorCode::kCorrupt);
  }
  for (std::size_t i = 0; i < chunk.payload.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      Bytes damaged = chunk.payload;
      damaged[i] ^= static_cast<std::byte>(1u << bit);
      const auto done = decoder.decode(info, damaged, scratch, decoded);
      EXPECT_TRUE(!done || decoded != values);
    }
  }
}

}  // namespace
}  // namespace cfck::test

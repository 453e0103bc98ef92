// A lossy codec of one folder and one line of the registry is chosen by options, and its steps
// reach targets, as those of a built-in codec do.
#include <cmath>
#include <cstring>

#include "codec/lossy.hpp"
#include "tests/example_codec/example_file.hpp"

namespace cfck::test {
namespace {

constexpr std::uint64_t kRows = 256;
constexpr std::uint64_t kColumns = 100;

EncodeOptions rounded_options() {
  EncodeOptions options;
  options.codec = codec_choice(kRoundedId);
  options.chunk_elems = 4096;  // several chunks, and so no tensor of one pack
  return options;
}

// Adds two matrices that are alike and one that no codec may round.
Bytes matrices(const EncodeOptions& options) {
  static const Bytes a = weights(1, kRows * kColumns);
  static const Bytes b = weights(2, kRows * kColumns);
  static const Bytes integers = constant(3, kRows * kColumns);
  return write_file(
      [](Writer& writer) {
        expect_ok(writer.add("a", TensorView{DType::kF32, {kRows, kColumns}, a}));
        expect_ok(writer.add("b", TensorView{DType::kF32, {kRows, kColumns}, b}));
        expect_ok(writer.add("integers", TensorView{DType::kU8, {kRows, kColumns}, integers}));
      },
      options);
}

std::vector<float> floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

double nmse(const Bytes& original, const Bytes& decoded) {
  const std::vector<float> from = floats(original);
  const std::vector<float> to = floats(decoded);
  double errors = 0;
  double squares = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    errors += std::pow(double{from[i]} - to[i], 2);
    squares += std::pow(double{from[i]}, 2);
  }
  return errors / squares;
}

void expect_rounded(const OpenFile& file, const std::string& name, TargetKind kind) {
  const Record& record = file.record(name);
  EXPECT_EQ(record.codec, kRoundedId);
  ASSERT_TRUE(record.error && record.error->quality) << name;
  EXPECT_EQ(record.error->quality->target.kind, kind);
  EXPECT_EQ(record.error->bound.kind, BoundKind::kNone);
  for (const Error& problem : take(file->verify(VerifyLevel::kDeep)).problems) {
    ADD_FAILURE() << problem.to_string();
  }
}

TEST(ExampleTarget, AnErrorIsKept) {
  EncodeOptions options = rounded_options();
  options.nmse = 1e-4;
  const OpenFile file(matrices(options));
  expect_rounded(file, "a", TargetKind::kNmse);
  expect_rounded(file, "b", TargetKind::kNmse);
  EXPECT_EQ(file.record("integers").codec, CodecId::kLossless);
  const double reached = nmse(joined({weights(1, kRows * kColumns), weights(2, kRows * kColumns)}),
                              joined({file.tensor("a"), file.tensor("b")}));
  EXPECT_LE(reached, 1e-4);
  EXPECT_GT(reached, 0.98e-4);
}

TEST(ExampleTarget, ARuleHasOneOfItsOwn) {
  EncodeOptions options;
  options.chunk_elems = 4096;
  EncodeRule rule{"b", {}};
  rule.options.codec = codec_choice(kRoundedId);
  rule.options.nmse = 1e-3;
  options.rules.push_back(rule);
  const OpenFile file(matrices(options));
  EXPECT_EQ(file.record("a").codec, CodecId::kLossless);
  expect_rounded(file, "b", TargetKind::kNmse);
  EXPECT_LE(nmse(weights(2, kRows * kColumns), file.tensor("b")), 1e-3);
  EXPECT_GT(nmse(weights(2, kRows * kColumns), file.tensor("b")), 0.98e-3);
}

TEST(ExampleTarget, BitsAreKept) {
  EncodeOptions options = rounded_options();
  options.bits_per_weight = 5;
  const OpenFile file(matrices(options));
  expect_rounded(file, "a", TargetKind::kBitsPerWeight);
  const double bytes =
      static_cast<double>(file.record("a").stored_bytes + file.record("b").stored_bytes);
  EXPECT_LE(8 * bytes, 5.0 * 2 * kRows * kColumns);
  EXPECT_GT(8 * bytes, 4.9 * 2 * kRows * kColumns);
}

TEST(ExampleTarget, SizesAreKept) {
  EncodeOptions options = rounded_options();
  options.size = 40000;
  const OpenFile file(matrices(options));
  expect_rounded(file, "a", TargetKind::kSize);
  EXPECT_LE(file.bytes().size(), 40000u);
  EXPECT_GT(file.bytes().size(), 39000u);
}

TEST(ExampleTarget, WhatTheCodecDoesNotTakeIsRefused) {
  const auto refused = [](EncodeOptions options) {
    MemorySink sink;
    const auto writer = Writer::create(sink, std::move(options));
    return writer ? std::string() : writer.error().message;
  };
  EncodeOptions options = rounded_options();
  EXPECT_NE(refused(options).find("codec rounded needs a target"), std::string::npos);
  options.nmse = 1e-3;
  EXPECT_EQ(refused(options), "");
  options.max_abs_error = 1e-3;
  EXPECT_NE(refused(options).find("takes no maximum error"), std::string::npos);
  options.max_abs_error.reset();
  options.codec = codec_choice(kRunsId);
  EXPECT_NE(refused(options).find("leave out the codec"), std::string::npos);
}

// Every prefix is an error, and no damage reads or writes where it must not.
TEST(ExampleTarget, DamagedPayloads) {
  codec::Scratch scratch;
  const Bytes values = weights(5, 300);
  codec::LossyRecord record;
  record.shape = {300};
  record.chunk_elems = 300;
  const codec::LossyEncoder& encoder = *codec::find_lossy_encoder(kRoundedId);
  codec::LossyOptions asked;
  asked.is_named = true;
  asked.target = Target{TargetKind::kNmse, false, 0.1};
  record.request = take(encoder.request_of(asked))->with_step(0.01);
  const codec::LossyDecision decision = take(encoder.plan(record, {}, scratch));
  codec::EncodedChunk chunk;
  codec::ErrorTotals errors;
  Bytes promised(values.size());
  expect_ok(decision.plan->encode(0, values, scratch, promised, chunk, errors));
  const codec::ChunkInfo info{DType::kF32, EntropyId::kZstd, ScanId::kStorageOrder, 300};
  const codec::Decoder& decoder = *codec::find_decoder(kRoundedId);
  Bytes decoded(values.size());
  expect_ok(decoder.decode(info, chunk.payload, scratch, decoded));
  EXPECT_EQ(decoded, promised);
  EXPECT_NE(decoded, values);
  EXPECT_EQ(take(decoder.body_bytes(info, chunk.payload)), chunk.payload.size());
  for (std::size_t n = 0; n < chunk.payload.size(); ++n) {
    ASSERT_FALSE(decoder.decode(info, ByteView(chunk.payload).first(n), scratch, decoded));
  }
  for (std::size_t i = 0; i < 8 * chunk.payload.size(); ++i) {
    Bytes damaged = chunk.payload;
    damaged[i / 8] ^= static_cast<std::byte>(1u << i % 8);
    const auto done = decoder.decode(info, damaged, scratch, decoded);
    EXPECT_TRUE(done || done.error().code == ErrorCode::kCorrupt ||
                done.error().code == ErrorCode::kTruncated);
  }
}

}  // namespace
}  // namespace cfck::test

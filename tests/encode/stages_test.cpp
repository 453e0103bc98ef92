// Entropy stages and levels: which a writer takes, measures and records.
#include <algorithm>
#include <cmath>

#include "codec/codec.hpp"
#include "format/container/container.hpp"
#include "tests/support/bounded_tensors.hpp"

namespace cfck::test {
namespace {

constexpr EncodeLevel kLevels[] = {EncodeLevel::kFast, EncodeLevel::kDefault,
                                   EncodeLevel::kArchive};
constexpr EntropyId kStages[] = {EntropyId::kZstd, EntropyId::kRans};
constexpr std::size_t kChunk = 4096;

// The bytes of a record that the lossless codec encodes in chunks of kChunk.
std::uint64_t lossless_bytes(const Named& tensor, EntropyId entropy, EncodeLevel level) {
  const std::size_t value_bytes = bits_per_element(tensor.dtype) / 8;
  codec::Scratch scratch;
  codec::EncodedChunk encoded;
  std::uint64_t total = 0;
  for (std::size_t first = 0; first < tensor.bytes.size(); first += kChunk * value_bytes) {
    const ByteView values =
        ByteView(tensor.bytes)
            .subspan(first, std::min(kChunk * value_bytes, tensor.bytes.size() - first));
    codec::ChunkInfo info;
    info.dtype = tensor.dtype;
    info.entropy = entropy;
    info.n_elems = values.size() / value_bytes;
    info.level = level;
    expect_ok(codec::find_encoder(CodecId::kLossless)->encode(info, values, scratch, encoded));
    const bool is_packed = tensor.bytes.size() <= kChunk * value_bytes &&
                           encoded.payload.size() <= format::kMaxPackedPayloadBytes;
    total += encoded.payload.size() + (is_packed ? 0 : format::kFrameHeaderBytes);
  }
  return total;
}

// Floats of one chunk, short and long, and of several; such that a stage can win or lose,
// and such that only raw wins.
std::vector<Named> floats() {
  std::vector<Named> tensors;
  std::uint64_t seed = 1;
  for (const std::size_t n : {1, 2, 40, 200, 1000, 4096, 4097, 40000, 200000}) {
    const std::string length = std::to_string(n);
    tensors.push_back({"bell " + length, {n}, bytes_from(bell(++seed, n, 0.02))});
    tensors.push_back({"half " + length, {n}, noise(++seed, 2 * n), DType::kF16});
    Bytes few = weights(++seed, n);
    for (std::size_t i = 0; i < few.size(); ++i) {
      few[i] = i % 4 == 3 ? few[i] & std::byte{0x83} : i % 4 == 2 ? few[i] : std::byte{0};
    }
    tensors.push_back({"few " + length, {n}, few});
    tensors.push_back({"same " + length, {n}, constant(0x3c, 2 * n), DType::kBF16});
    Bytes cut = bytes_from(bell(++seed, (n + 1) / 2, 1));
    cut.resize(2 * n);
    tensors.push_back({"bf16 " + length, {n}, cut, DType::kBF16});
  }
  return tensors;
}

EncodeOptions options_of(EntropyId entropy, EncodeLevel level) {
  EncodeOptions options;
  options.entropy = entropy;
  options.level = level;
  options.chunk_elems = kChunk;
  return options;
}

TEST(Stages, AWriterRefusesWhatCannotBeWritten) {
  MemorySink sink;
  const auto refusal = [&](const EncodeOptions& options) {
    const Result<Writer> writer = Writer::create(sink, options);
    EXPECT_FALSE(writer);
    return writer ? Error{} : writer.error();
  };
  for (const int id : {0, 3, 255}) {
    const Error error = refusal(options_of(static_cast<EntropyId>(id), EncodeLevel::kDefault));
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message.find("entropy stage " + std::to_string(id)), std::string::npos);
  }
  const Error error = refusal(options_of(kDefaultEntropy, static_cast<EncodeLevel>(3)));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("level 3"), std::string::npos);
  EXPECT_TRUE(sink.take().empty());
}

TEST(Stages, EveryTensorComesBackFromEveryLevel) {
  std::vector<Named> tensors = floats();
  tensors.push_back({"integers", {10000}, constant(1, 40000), DType::kI32});
  tensors.push_back({"bytes", {10000}, weights(3, 2500), DType::kU8});
  for (const EntropyId entropy : kStages) {
    for (const EncodeLevel level : kLevels) {
      for (const CodecChoice codec : {CodecChoice::kAuto, CodecChoice::kLossless}) {
        EncodeOptions options = options_of(entropy, level);
        options.codec = codec;
        const OpenFile file(write_all(tensors, options).file);
        expect_sound(file.reader());
        for (const Named& tensor : tensors) {
          EXPECT_EQ(file.tensor(tensor.name), tensor.bytes) << tensor.name;
          const Record& record = file.record(tensor.name);
          EXPECT_TRUE(record.codec == CodecId::kRaw
                          ? record.entropy == EntropyId::kNone
                          : record.entropy == EntropyId::kZstd || record.entropy == entropy)
              << tensor.name;
        }
        EXPECT_EQ(file.record("integers").entropy, EntropyId::kZstd);
        if (level != EncodeLevel::kArchive) {
          EXPECT_EQ(file.record("bell 200000").entropy, entropy);
        }
      }
    }
  }
}

// Expects the stage of a record, from the bytes that each of them needs.
EntropyId expected_stage(const Named& tensor, EntropyId wanted, EncodeLevel level) {
  const bool is_single = tensor.shape[0] <= kChunk;
  Named first = tensor;
  first.bytes.resize(std::min(tensor.bytes.size(), kChunk * bits_per_element(tensor.dtype) / 8));
  const bool says_little = lossless_bytes(first, EntropyId::kRans, level) < kChunk / 4;
  const bool weighs = level == EncodeLevel::kArchive ||
                      (level == EncodeLevel::kDefault && (is_single || says_little));
  return wanted == EntropyId::kRans && weighs &&
                 lossless_bytes(tensor, EntropyId::kZstd, level) <
                     lossless_bytes(tensor, EntropyId::kRans, level)
             ? EntropyId::kZstd
             : wanted;
}

TEST(Stages, TheSmallerIsKeptAndNamed) {
  std::vector<Named> tensors = floats();
  std::size_t n_exchanged = 0;
  for (const EntropyId entropy : kStages) {
    for (const EncodeLevel level : kLevels) {
      for (const CodecChoice codec : {CodecChoice::kAuto, CodecChoice::kLossless}) {
        EncodeOptions options = options_of(entropy, level);
        options.codec = codec;
        const OpenFile file(write_all(tensors, options).file);
        for (const Named& tensor : tensors) {
          const Record& record = file.record(tensor.name);
          const EntropyId stage = expected_stage(tensor, entropy, level);
          const std::uint64_t lossless = lossless_bytes(tensor, stage, level);
          n_exchanged += stage == entropy ? 0 : 1;
          if (record.codec == CodecId::kRaw) {
            EXPECT_EQ(codec, CodecChoice::kAuto);
            EXPECT_LE(record.stored_bytes, lossless + format::kRawAlignment) << tensor.name;
            continue;
          }
          EXPECT_EQ(record.entropy, stage) << tensor.name;
          EXPECT_EQ(record.stored_bytes, lossless) << tensor.name;
          EXPECT_TRUE(codec == CodecChoice::kLossless || lossless < tensor.bytes.size() + 12)
              << tensor.name;
        }
      }
    }
  }
  EXPECT_GT(n_exchanged, 0U);
}

TEST(Stages, LongRecordsOfOneChunkAreTriedTwiceByArchiveOnly) {
  for (const std::size_t n : {32768, 32769}) {
    Random random(n);
    std::vector<float> even(n);
    for (float& value : even) {
      value = static_cast<float>(random.next() >> 40) * 0x1p-24F;
    }
    const Named tensor{"even", {n}, bytes_from(even)};
    const auto stage = [&](EncodeLevel level) {
      EncodeOptions options = options_of(EntropyId::kRans, level);
      options.chunk_elems = 0;
      return OpenFile(write_all({tensor}, options).file).record("even").entropy;
    };
    EXPECT_EQ(stage(EncodeLevel::kFast), EntropyId::kRans);
    EXPECT_EQ(stage(EncodeLevel::kDefault), n == 32768 ? EntropyId::kZstd : EntropyId::kRans);
    EXPECT_EQ(stage(EncodeLevel::kArchive), EntropyId::kZstd);
  }
}

// Signs are all that such values have, and one symbol: zstd needs a few bytes less.
TEST(Stages, LongRecordsOfFewBitsAreTriedTwice) {
  for (const std::size_t n : {40000, 300000}) {
    Random random(n);
    std::vector<float> signs(n);
    for (float& value : signs) {
      value = (random.next() >> 63) == 0 ? -1.0F : 1.0F;
    }
    const Named tensor{"signs", {n}, bytes_from(signs)};
    const auto record = [&](EncodeLevel level) {
      EncodeOptions options = options_of(EntropyId::kRans, level);
      options.chunk_elems = 0;
      return OpenFile(write_all({tensor}, options).file).record("signs");
    };
    EXPECT_EQ(record(EncodeLevel::kFast).entropy, EntropyId::kRans);
    EXPECT_EQ(record(EncodeLevel::kDefault).entropy, EntropyId::kZstd);
    EXPECT_EQ(record(EncodeLevel::kDefault).stored_bytes,
              record(EncodeLevel::kArchive).stored_bytes);
  }
}

TEST(Stages, ThreadsChangeNothing) {
  std::vector<Named> tensors = floats();
  std::vector<std::uint64_t> lengths;
  for (const EntropyId entropy : kStages) {
    for (const EncodeLevel level : kLevels) {
      EncodeOptions options = options_of(entropy, level);
      options.threads = 1;
      const Bytes file = write_all(tensors, options).file;
      lengths.push_back(file.size());
      for (const unsigned threads : {2U, 5U}) {
        options.threads = threads;
        EXPECT_EQ(write_all(tensors, options).file, file);
      }
    }
  }
  // With rans, archive has what default has, and more to choose from.
  ASSERT_EQ(lengths.size(), 6U);
  EXPECT_LE(lengths[5], lengths[4]);
  EXPECT_LE(lengths[5], lengths[2]);
}

TEST(Stages, BoundsHoldOnEveryLevel) {
  const std::vector<float> values = bell(7, 40000, 0.05);
  double squares = 0;
  for (const double value : values) squares += value * value;
  const double rms = std::sqrt(squares / 40000);
  const std::vector<Named> tensors = {
      {"one chunk", {40, 100}, bytes_from({values.begin(), values.begin() + 4000})},
      {"several", {400, 100}, bytes_from(values)}};
  for (const EntropyId entropy : kStages) {
    std::uint64_t default_bytes = 0;
    for (const EncodeLevel level : kLevels) {
      EncodeOptions options = options_of(entropy, level);
      options.max_abs_error = 1e-4;
      const Written written = write_all(tensors, options);
      if (level == EncodeLevel::kArchive) {
        EXPECT_LE(written.summary.stored_bytes, default_bytes);
      }
      default_bytes = written.summary.stored_bytes;
      ASSERT_EQ(written.summary.lossy.size(), 2U);
      EXPECT_NEAR(written.summary.lossy[1].rms, rms, 1e-9 * rms);
      const OpenFile file(written.file);
      expect_sound(file.reader());
      for (const Named& tensor : tensors) {
        const std::vector<float> of = values_of<float>(tensor.bytes);
        const std::vector<float> back = values_of<float>(file.tensor(tensor.name));
        double largest = 0;
        for (std::size_t i = 0; i < of.size(); ++i) {
          largest = std::max(largest, std::abs(double{of[i]} - double{back[i]}));
        }
        EXPECT_LE(largest, 1e-4) << tensor.name;
        EXPECT_EQ(file.record(tensor.name).error->max_abs_error, largest) << tensor.name;
        EXPECT_LT(file.record(tensor.name).stored_bytes, tensor.bytes.size() / 2);
      }
    }
  }
}

// The lanes of rans cost a short tensor more than a bound saves; zstd has none.
TEST(Stages, WhatOneStageKeepsLosslessAnotherMayNot) {
  const Named tensor{"scales", {32}, bytes_from(bell(9, 32, 0.1))};
  const auto stored = [&](EntropyId entropy, EncodeLevel level) {
    EncodeOptions options = options_of(entropy, level);
    TensorOptions coarse;
    coarse.max_abs_error = 1e-2;
    options.rules.push_back({"scales", coarse});
    const Written written = write_all({tensor}, options);
    EXPECT_EQ(written.summary.lossy.size() + written.summary.kept_lossless.size(), 1U);
    return OpenFile(written.file).record("scales").stored_bytes;
  };
  const std::uint64_t by_zstd = stored(EntropyId::kZstd, EncodeLevel::kDefault);
  EXPECT_LT(by_zstd, tensor.bytes.size() * 3 / 4);
  EXPECT_LE(stored(EntropyId::kRans, EncodeLevel::kDefault), by_zstd);
  EXPECT_LE(stored(EntropyId::kRans, EncodeLevel::kArchive), by_zstd);
}

TEST(Stages, ACallerMayCancelWhileTheyAreWeighed) {
  const Named tensor{"w", {200000}, weights(5, 200000)};
  for (const EntropyId entropy : kStages) {
    for (const int calls : {1, 3, 60}) {
      MemorySink sink;
      EncodeOptions options = options_of(entropy, EncodeLevel::kArchive);
      options.threads = 1;
      Writer writer = take(Writer::create(sink, options));
      int n = 0;
      writer.set_progress([&](std::uint64_t, std::string_view) { return ++n < calls; });
      Result<void> written =
          writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes});
      if (written) {
        const Result<WriteSummary> finished = writer.finish();
        if (finished) {
          EXPECT_LT(n, calls);
          continue;
        }
        written = finished.error();
      }
      EXPECT_EQ(written.error().message, "cancelled");
      EXPECT_EQ(n, calls);
    }
  }
}

}  // namespace
}  // namespace cfck::test

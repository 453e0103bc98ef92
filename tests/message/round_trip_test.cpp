// A message gives back what went into it, in no more bytes than promised.
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/message/messages.hpp"
#include "tests/support/cpu_forms.hpp"

namespace cfck::test {
namespace {

std::string hex(ByteView bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {DType::kF32, shape, bytes};
}

double value_at(const Tensor& tensor, ByteView bytes, std::size_t i) {
  if (tensor.dtype == DType::kF64) {
    double value;
    std::memcpy(&value, bytes.data() + 8 * i, 8);
    return value;
  }
  float value = 0;
  if (tensor.dtype == DType::kF32) {
    std::memcpy(&value, bytes.data() + 4 * i, 4);
  } else {  // BF16
    std::memcpy(reinterpret_cast<char*>(&value) + 2, bytes.data() + 2 * i, 2);
  }
  return value;
}

TEST(Message, TheExampleOfTheSpecification) {
  const Tensor tensor = floats({3}, {1, 2, 3});
  EXPECT_EQ(hex(encode(tensor)),
            "cf02120000010000030000000000000000"
            "00803f00000040000040403c2bf39922e04814");
}

TEST(Message, EveryDtypeAndPattern) {
  MessageWorkspace workspace;
  for (const DType dtype : codec::kAllDTypes) {
    for (const Pattern pattern : codec::kAllPatterns) {
      for (const std::uint64_t n : {8u, 64u, 1000u, 40000u}) {
        SCOPED_TRACE(codec::describe(dtype, pattern, n));
        for (const EntropyId entropy : codec::kAllStages) {
          const Tensor tensor(dtype, {n}, pattern);
          MessageOptions options;
          options.entropy = entropy;
          const Bytes message = encode(tensor, options, workspace);
          EXPECT_LE(message.size(), tensor.bytes.size() + 24);
          const MessageInfo info = message_info(message).value();
          EXPECT_EQ(info.dtype, dtype);
          EXPECT_EQ(info.shape, tensor.shape);
          EXPECT_EQ(info.n_elems, n);
          EXPECT_TRUE(decode(message, workspace) == tensor.bytes);
        }
      }
    }
  }
}

TEST(Message, Shapes) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 0, 5}, Shape{2, 3, 4, 5},
                             Shape{64, 8, 3, 3}, Shape(64, 1)}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kBool}) {
      for (const auto& bound : {std::optional<double>(), std::optional<double>(1e-3)}) {
        if (bound && (dtype == DType::kI64 || dtype == DType::kBool)) {
          continue;
        }
        const Tensor tensor(dtype, shape, Pattern::kGaussian);
        MessageOptions options;
        options.max_abs_error = bound;
        const Bytes message = encode(tensor, options);
        const MessageInfo info = message_info(message).value();
        EXPECT_EQ(info.shape, shape);
        EXPECT_EQ(info.n_bytes, tensor.bytes.size());
        EXPECT_LE(message.size(), 16 + 8 * shape.size() + tensor.bytes.size());
        const Bytes back = decode(message);
        if (!bound) {
          EXPECT_TRUE(back == tensor.bytes);
        }
        if (tensor.bytes.empty()) {
          EXPECT_EQ(message.size(), 16 + 8 * shape.size());
          EXPECT_EQ(info.codec, CodecId::kRaw);
        }
      }
    }
  }
}

TEST(Message, WhatSavesNothingIsRaw) {
  MessageOptions options;
  for (const CodecChoice codec : {CodecChoice::kAuto, CodecChoice::kRaw, CodecChoice::kLossless}) {
    options.codec = codec;
    for (const std::uint32_t chunk_elems : {0u, 512u}) {
      options.chunk_elems = chunk_elems;
      const Tensor tensor(DType::kU8, {5, 1000}, Pattern::kRandomBits);
      const Bytes message = encode(tensor, options);
      EXPECT_EQ(message_info(message).value().codec, CodecId::kRaw);
      EXPECT_EQ(message.size(), 16 + 16 + 5000U);
      EXPECT_TRUE(decode(message) == tensor.bytes);
    }
  }
}

// Decoded values are those of the steps, so that they do not change when they are encoded again.
TEST(Message, LearnedSteps) {
  MessageWorkspace workspace;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const Shape& shape : {Shape{64, 48}, Shape{16, 8, 3, 3}, Shape{3000}}) {
      for (const std::uint32_t chunk_elems : {0u, 500u}) {
        const Tensor tensor(dtype, shape, Pattern::kGaussian);
        MessageOptions options;
        options.chunk_elems = chunk_elems;
        options.learned_steps = LearnedSteps{.step = 0x1p-6};
        const Bytes message = encode(tensor, options, workspace);
        const MessageInfo info = message_info(message).value();
        EXPECT_EQ(info.codec, CodecId::kSpectral);
        EXPECT_EQ(info.has_chunks, chunk_elems != 0);
        EXPECT_LT(message.size(), tensor.bytes.size() / 2);
        const Bytes values = decode(message, workspace);
        const Bytes again = encode(Tensor(dtype, shape, values), options, workspace);
        EXPECT_TRUE(decode(again, workspace) == values);
      }
    }
  }
}

TEST(Message, LearnedStepsOfAnyValues) {
  MessageWorkspace workspace;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const Pattern pattern : codec::kAllPatterns) {
      for (const double step : {0x1p-40, 0.01, 0x1p40}) {
        SCOPED_TRACE(codec::describe(dtype, pattern, 2000));
        const Tensor tensor(dtype, {40, 50}, pattern);
        MessageOptions options;
        options.learned_steps = LearnedSteps{.step = step, .block = {4, 8}};
        const Bytes message = encode(tensor, options, workspace);
        EXPECT_LE(message.size(), tensor.bytes.size() + 32);
        EXPECT_EQ(decode(message, workspace).size(), tensor.bytes.size());
      }
    }
  }
}

TEST(Message, SeveralChunks) {
  MessageWorkspace workspace;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32, DType::kF4, DType::kF64}) {
    for (const Pattern pattern : {Pattern::kGaussian, Pattern::kSpecials, Pattern::kZeros}) {
      const Tensor tensor(dtype, {50, 200}, pattern);
      MessageOptions options;
      options.chunk_elems = 1600;
      for (const EncodeLevel level :
           {EncodeLevel::kFast, EncodeLevel::kDefault, EncodeLevel::kArchive}) {
        options.level = level;
        const Bytes message = encode(tensor, options, workspace);
        const MessageInfo info = message_info(message).value();
        EXPECT_EQ(info.has_chunks, info.codec != CodecId::kRaw);
        EXPECT_LE(message.size(), 32 + tensor.bytes.size());
        EXPECT_TRUE(decode(message, workspace) == tensor.bytes)
            << codec::describe(dtype, pattern, 10000);
      }
    }
  }
}

TEST(Message, LongTensorsHaveChunksByThemselves) {
  const Tensor tensor(DType::kBF16, {600000}, Pattern::kGaussian);
  const Bytes message = encode(tensor);
  EXPECT_TRUE(message_info(message).value().has_chunks);
  EXPECT_LT(message.size(), tensor.bytes.size());
  EXPECT_TRUE(decode(message) == tensor.bytes);
}

TEST(Message, NoChunkIsLongerThanDecodersTake) {
  const Tensor tensor(DType::kF32, {(1u << 24) + 8}, Pattern::kZeros);
  MessageOptions options;
  options.chunk_elems = UINT32_MAX;
  const Bytes message = encode(tensor, options);
  EXPECT_TRUE(message_info(message).value().has_chunks);
  EXPECT_LT(message.size(), 100U);
  EXPECT_TRUE(decode(message) == tensor.bytes);
  options.codec = CodecChoice::kRaw;
  const Bytes raw = encode(tensor, options);
  EXPECT_FALSE(message_info(raw).value().has_chunks);
  EXPECT_EQ(raw.size(), tensor.bytes.size() + 24);
  EXPECT_TRUE(decode(raw) == tensor.bytes);
}

class MessageBounds : public testing::TestWithParam<DType> {};

TEST_P(MessageBounds, AreKept) {
  const Tensor tensor(GetParam(), {40, 250}, Pattern::kGaussian);
  double smallest = INFINITY;
  double largest = -INFINITY;
  for (std::size_t i = 0; i < 10000; ++i) {
    smallest = std::min(smallest, value_at(tensor, tensor.bytes, i));
    largest = std::max(largest, value_at(tensor, tensor.bytes, i));
  }
  for (const std::uint32_t chunk_elems : {0u, 1000u}) {
    for (const bool is_relative : {false, true}) {
      for (const double share : {1e-1, 1e-2, 1e-3}) {
        const double bound = share * (largest - smallest);
        MessageOptions options;
        options.chunk_elems = chunk_elems;
        (is_relative ? options.max_rel_error : options.max_abs_error) = is_relative ? share : bound;
        const Bytes message = encode(tensor, options);
        EXPECT_LT(message.size(), encode(tensor).size());
        const Bytes back = decode(message);
        double worst = 0;
        for (std::size_t i = 0; i < 10000; ++i) {
          worst = std::max(worst,
                           std::abs(value_at(tensor, tensor.bytes, i) - value_at(tensor, back, i)));
        }
        EXPECT_LE(worst, bound);
        EXPECT_GT(worst, bound / 3);
        EXPECT_EQ(message_info(message).value().codec, CodecId::kDirect);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, MessageBounds,
                         testing::Values(DType::kF64, DType::kF32, DType::kBF16),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

TEST(Message, BoundsOfRowsAndSpecialValues) {
  for (const std::uint32_t chunk_elems : {0u, 500u}) {
    Tensor tensor(DType::kF32, {20, 100}, Pattern::kGaussian);
    const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-45f};
    std::memcpy(tensor.bytes.data() + 400, special, sizeof(special));
    MessageOptions options;
    options.chunk_elems = chunk_elems;
    options.max_sigma_error = 0.1;
    options.per_row = true;
    const Bytes back = decode(encode(tensor, options));
    EXPECT_TRUE(std::memcmp(back.data() + 400, special, 3 * sizeof(float)) == 0);
  }
}

TEST(Message, SameBytesOnEveryCpuLevelAndWithUsedMemory) {
  MessageWorkspace used;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32}) {
    for (const Pattern pattern : {Pattern::kGaussian, Pattern::kSparse, Pattern::kSpecials}) {
      for (const std::uint32_t chunk_elems : {0u, 800u}) {
        const Tensor tensor(dtype, {30, 100}, pattern);
        MessageOptions options;
        options.chunk_elems = chunk_elems;
        for (const bool is_lossy : {false, true}) {
          if (is_lossy && dtype == DType::kI32) {
            continue;
          }
          options.max_abs_error = is_lossy ? std::optional<double>(0.01) : std::nullopt;
          const Bytes expected = encode(tensor, options);
          const Bytes values = decode(expected);
          for (const CpuForm& form : cpu_forms()) {
            const UseCpuForm use(form);
            EXPECT_TRUE(encode(tensor, options, used) == expected);
            EXPECT_TRUE(decode(expected, used) == values);
          }
        }
      }
    }
  }
}

TEST(Message, ThreadsShareOptionsOnly) {
  const MessageOptions options;
  const Tensor tensor(DType::kF32, {3000}, Pattern::kGaussian);
  const Bytes expected = encode(tensor, options);
  std::vector<std::thread> threads;
  std::vector<int> n_right(4);
  for (int& right : n_right) {
    threads.emplace_back([&] {
      MessageWorkspace workspace;
      for (int i = 0; i < 20; ++i) {
        const Bytes message = encode(tensor, options, workspace);
        right += message == expected && decode(message, workspace) == tensor.bytes;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(n_right, std::vector<int>(4, 20));
}

}  // namespace
}  // namespace cfck::test

// Messages that a device makes of tensors in its memory, against those of the host: the same bytes.
#include "cfck/message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/simt/encode/device_writer.hpp"

namespace cfck::test {
namespace {

Bytes on_host(const NamedTensor& tensor, const MessageOptions& options) {
  Bytes bytes(take(max_message_bytes(options, tensor.dtype, tensor.shape)));
  MessageWorkspace workspace;
  const auto n_bytes =
      encode_message({tensor.dtype, tensor.shape, tensor.values}, options, bytes, workspace);
  bytes.resize(take(n_bytes));
  return bytes;
}

// An encoder with its memory, for messages of one shape.
class MessageOnDevice {
 public:
  MessageOnDevice(const NamedTensor& tensor, const MessageOptions& options,
                  const cuda::EncodeLimits& limits = {})
      : MessageOnDevice(take(cuda::Encoder::plan(options, tensor.dtype, tensor.shape, 0, limits)),
                        take(max_message_bytes(options, tensor.dtype, tensor.shape))) {}

  Result<Bytes> encode(const NamedTensor& tensor) {
    const DeviceMemory values(tensor.values);
    CFCK_TRY(enqueue(values));
    CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, encoder_.finish());
    Bytes message = out_.values();
    message.resize(n_bytes);
    return message;
  }
  Result<void> enqueue(const DeviceMemory& values) {
    const auto address = reinterpret_cast<std::uintptr_t>(staging_.data());
    std::byte* const staging = staging_.data() + (256 - address % 256) % 256;
    return encoder_.enqueue(values.bytes().data(), out_.bytes().data(), workspace_.bytes().data(),
                            {staging, encoder_.staging_bytes()}, {0, nullptr});
  }
  cuda::Encoder& encoder() { return encoder_; }
  const DeviceMemory& out() const { return out_; }

 private:
  MessageOnDevice(cuda::Encoder encoder, std::uint64_t most_bytes)
      : out_(most_bytes),
        workspace_(encoder.workspace_bytes()),
        staging_(encoder.staging_bytes() + 256),
        encoder_(std::move(encoder)) {}

  DeviceMemory out_;
  DeviceMemory workspace_;
  Bytes staging_;
  cuda::Encoder encoder_;  // goes first: it waits for what uses the memory
};

// Returns whether the device has made it.
bool expect_same(const NamedTensor& tensor, const MessageOptions& options) {
  SCOPED_TRACE(tensor.name);
  MessageOnDevice message(tensor, options);
  const Bytes found = take(message.encode(tensor));
  EXPECT_TRUE(found == on_host(tensor, options));
  return message.encoder().summary().device_bytes != 0;
}

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kC64, DType::kBF16, DType::kF16};

TEST(DeviceEncodeMessage, IsThatOfTheHost) {
  using codec::Pattern;
  MessageOptions options;
  options.chunk_elems = 1 << 12;
  unsigned seed = 1;
  for (const DType dtype : kFloats) {
    for (const Pattern pattern : codec::kAllPatterns) {
      const NamedTensor tensor =
          make_tensor(codec::pattern_name(pattern), dtype, {3, 3001}, pattern, seed++);
      const bool is_made = expect_same(tensor, options);
      EXPECT_TRUE(is_made || (pattern != Pattern::kGaussian && pattern != Pattern::kPositive));
    }
  }
  for (const DType dtype : {DType::kI32, DType::kF8E4M3, DType::kBool}) {
    EXPECT_FALSE(expect_same(make_tensor("", dtype, {9000}, Pattern::kGaussian, 1), options));
  }
}

TEST(DeviceEncodeMessage, OfOneChunk) {
  for (const DType dtype : kFloats) {
    for (const std::uint64_t n : {1, 100, 32768, 32769, 50000}) {
      const NamedTensor tensor =
          make_tensor(std::to_string(n), dtype, {n}, codec::Pattern::kGaussian, n);
      EXPECT_EQ(expect_same(tensor, {}), n > 32768);
      MessageOptions fast;
      fast.level = EncodeLevel::kFast;
      expect_same(tensor, fast);
    }
    expect_same(make_tensor("noise", dtype, {40000}, codec::Pattern::kRandomBits, 3), {});
    expect_same(make_tensor("constant", dtype, {40000}, codec::Pattern::kConstant, 3), {});
  }
  expect_same(make_tensor("empty", DType::kF32, {0, 3}, codec::Pattern::kGaussian, 1), {});
  expect_same(make_tensor("scalar", DType::kF32, {}, codec::Pattern::kGaussian, 1), {});
}

TEST(DeviceEncodeMessage, WithOtherOptions) {
  const NamedTensor tensor = make_tensor("", DType::kF32, {50, 1000}, codec::Pattern::kGaussian, 1);
  EXPECT_FALSE(expect_same(tensor, {.codec = CodecChoice::kRaw}));
  EXPECT_FALSE(expect_same(tensor, {.codec = CodecChoice::kRows}));
  EXPECT_TRUE(expect_same(tensor, {.codec = CodecChoice::kLossless}));
  EXPECT_FALSE(expect_same(tensor, {.entropy = EntropyId::kZstd}));
  EXPECT_FALSE(expect_same(tensor, {.level = EncodeLevel::kArchive}));
}

TEST(DeviceEncodeMessage, WithAnError) {
  using codec::Pattern;
  unsigned seed = 1;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    for (const Shape& shape : {Shape{3, 20011}, Shape{50, 800}, Shape{400}}) {
      const NamedTensor tensor = make_tensor("", dtype, shape, Pattern::kGaussian, seed++);
      const bool is_long = tensor.values.size() > 4000;
      for (MessageOptions options :
           {MessageOptions{.max_abs_error = 0.02}, MessageOptions{.max_rel_error = 2e-3},
            MessageOptions{.max_sigma_error = 0.03}}) {
        options.chunk_elems = 1 << 15;
        EXPECT_EQ(expect_same(tensor, options), is_long);
        options.per_row = !options.max_abs_error;
        EXPECT_EQ(expect_same(tensor, options), is_long);
      }
      EXPECT_EQ(expect_same(tensor, {.max_abs_error = 1e-18}), is_long);
      expect_same(tensor, {.codec = CodecChoice::kDirect, .max_abs_error = 0.5});
    }
    for (const Pattern pattern : codec::kAllPatterns) {
      expect_same(make_tensor("", dtype, {2, 20000}, pattern, seed++), {.max_rel_error = 1e-3});
    }
    expect_same(make_tensor("", dtype, {64, 64, 3, 3}, Pattern::kGaussian, seed++),
                {.max_sigma_error = 0.1});
  }
}

// Values that do not get shorter must not be written behind the memory for the message.
TEST(DeviceEncodeMessage, OfValuesThatHardlyShrink) {
  MessageOptions options;
  options.chunk_elems = 256;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (unsigned n_other = 0; n_other < 100; n_other += 19) {
      NamedTensor tensor = make_tensor("", dtype, {2000}, codec::Pattern::kRandomBits, n_other);
      const NamedTensor other = make_tensor("", dtype, {2000}, codec::Pattern::kGaussian, 1);
      const std::size_t n_bytes = tensor.values.size() * n_other / 100 / 16 * 16;
      std::copy_n(other.values.begin(), n_bytes, tensor.values.begin());
      expect_same(tensor, options);
    }
  }
}

TEST(DeviceEncodeMessage, OneAfterAnother) {
  const auto values = [](unsigned seed, codec::Pattern pattern) {
    return make_tensor("", DType::kBF16, {60000}, pattern, seed);
  };
  MessageOptions options;
  options.chunk_elems = 1 << 14;
  MessageOnDevice message(values(1, codec::Pattern::kGaussian), options);
  for (unsigned i = 0; i < 4; ++i) {
    const NamedTensor tensor =
        values(i, i == 2 ? codec::Pattern::kSparse : codec::Pattern::kGaussian);
    EXPECT_TRUE(take(message.encode(tensor)) == on_host(tensor, options));
  }
  EXPECT_EQ(message.encoder().summary().device_bytes, 3u * 120000);
  EXPECT_EQ(message.encoder().summary().host_bytes, 120000u);
}

// Messages of many tensors, of all dtypes and sizes, made at once.
class ManyOnDevice {
 public:
  explicit ManyOnDevice(const std::vector<NamedTensor>& tensors, const MessageOptions& options = {})
      : encoder_(plan(tensors, options)),
        out_(encoder_.out_bytes()),
        workspace_(encoder_.workspace_bytes()),
        staging_(encoder_.staging_bytes() + 256) {}

  Result<std::vector<Bytes>> encode(const std::vector<NamedTensor>& tensors) {
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    std::vector<const void*> values;
    for (const NamedTensor& tensor : tensors) {
      memory.push_back(std::make_unique<DeviceMemory>(tensor.values));
      values.push_back(memory.back()->bytes().data());
    }
    const auto address = reinterpret_cast<std::uintptr_t>(staging_.data());
    std::byte* const staging = staging_.data() + (256 - address % 256) % 256;
    CFCK_TRY(encoder_.enqueue(values, out_.bytes().data(), workspace_.bytes().data(),
                              {staging, encoder_.staging_bytes()}, {0, nullptr}));
    CFCK_TRY_ASSIGN(const std::vector<std::uint64_t> lengths, encoder_.finish_all());
    const Bytes all = out_.values();
    std::vector<Bytes> messages;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(encoder_.offset_of(i));
      messages.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(lengths[i]));
    }
    return messages;
  }
  cuda::Encoder& encoder() { return encoder_; }

 private:
  static cuda::Encoder plan(const std::vector<NamedTensor>& tensors,
                            const MessageOptions& options) {
    std::vector<cuda::MessageTensor> planned;
    for (const NamedTensor& tensor : tensors) {
      planned.push_back({tensor.dtype, tensor.shape});
    }
    return take(cuda::Encoder::plan(options, planned, 0));
  }

  cuda::Encoder encoder_;
  DeviceMemory out_;
  DeviceMemory workspace_;
  Bytes staging_;
};

TEST(DeviceEncodeMessage, OfManyTensorsAtOnce) {
  using codec::Pattern;
  std::vector<NamedTensor> tensors;
  unsigned seed = 1;
  for (const std::uint64_t n : {40000, 0, 33000, 3, 300000}) {
    for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64, DType::kI32, DType::kBF16}) {
      const Pattern pattern = seed % 7 == 0 ? Pattern::kSparse : Pattern::kGaussian;
      tensors.push_back(make_tensor(std::to_string(seed), dtype, {n}, pattern, seed));
      ++seed;
    }
  }
  ManyOnDevice many(tensors);
  for (unsigned turn = 0; turn < 2; ++turn) {
    const std::vector<Bytes> messages = take(many.encode(tensors));
    ASSERT_EQ(messages.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(messages[i] == on_host(tensors[i], {})) << tensors[i].name;
    }
  }
  EXPECT_GT(many.encoder().summary().device_bytes, 2u << 22);
  EXPECT_GT(many.encoder().summary().host_bytes, 2u << 20);
}

// Some are stored with an error, and some, of other kernels, without: F16 gets no shorter with this
// one, which only the values tell.
TEST(DeviceEncodeMessage, OfManyTensorsWithAnError) {
  std::vector<NamedTensor> tensors;
  std::uint64_t n_bytes = 0;
  for (unsigned seed = 1; seed < 9; ++seed) {
    tensors.push_back(make_tensor(std::to_string(seed), seed % 3 == 0 ? DType::kF32 : DType::kF16,
                                  {2, 40000 + seed}, codec::Pattern::kGaussian, seed));
    n_bytes += tensors.back().values.size();
  }
  const MessageOptions options{.max_abs_error = 1e-5};
  ManyOnDevice many(tensors, options);
  const std::vector<Bytes> messages = take(many.encode(tensors));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(messages[i] == on_host(tensors[i], options)) << tensors[i].name;
  }
  EXPECT_EQ(many.encoder().summary().device_bytes, n_bytes);
}

TEST(DeviceEncodeMessage, OfNoTensors) {
  ManyOnDevice none({});
  EXPECT_TRUE(take(none.encode({})).empty());
}

TEST(DeviceEncodeMessage, RefusesWrongCalls) {
  const NamedTensor tensor = make_tensor("", DType::kF32, {40000}, codec::Pattern::kGaussian, 1);
  const DeviceMemory values(tensor.values);  // is there as long as the encoder waits for it
  MessageOnDevice message(tensor, {});
  EXPECT_EQ(message.encoder().finish().error().code, ErrorCode::kInvalidArgument);
  expect_ok(message.enqueue(values));
  EXPECT_EQ(message.enqueue(values).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(message.encoder().finish());
  EXPECT_EQ(message.enqueue(message.out()).error().code, ErrorCode::kInvalidArgument);
  expect_ok(message.enqueue(values));  // and is not finished
  const std::vector<NamedTensor> two = {tensor, tensor};
  ManyOnDevice many(two);
  EXPECT_EQ(many.encode({tensor}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(cuda::Encoder::plan({.max_abs_error = 1}, DType::kI32, {5}, 0).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(EmulatedEncode, AMessageIsWaitedForWhenItIsWanted) {
  const NamedTensor tensor = make_tensor("", DType::kBF16, {100000}, codec::Pattern::kGaussian, 1);
  MessageOptions options;
  options.chunk_elems = 1 << 14;
  MessageOnDevice message(tensor, options);
  EXPECT_TRUE(message.encode(tensor));
  const DeviceMemory values(tensor.values);
  const FakeSettings settings("devices=1 capability=90");
  expect_ok(message.enqueue(values));
  EXPECT_EQ(fake_calls("EventSynchronize") + fake_calls("StreamSynchronize"), 0);
  EXPECT_TRUE(message.encoder().finish());
  EXPECT_GT(fake_calls("EventSynchronize"), 0);
}

}  // namespace
}  // namespace cfck::test

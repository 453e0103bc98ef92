// Functions of the driver that fail while a device encodes for a writer, each at every call: the
// writer says so, everything is given back, and the next file is none the worse for it.
#include <gtest/gtest.h>

#include <string>

#include "tests/simt/encode/device_writer.hpp"

namespace cfck::test {
namespace {

std::vector<NamedTensor> some_tensors() {
  std::vector<NamedTensor> tensors;
  for (unsigned i = 0; i < 3; ++i) {
    tensors.push_back(make_tensor(std::to_string(i), i == 1 ? DType::kF32 : DType::kBF16, {5000},
                                  codec::Pattern::kGaussian, i));
  }
  tensors.push_back(make_tensor("i32", DType::kI32, {3000}, codec::Pattern::kGaussian, 20));
  return tensors;
}

EncodeOptions in_chunks() {
  EncodeOptions options;
  options.chunk_elems = 1 << 11;
  options.threads = 2;
  return options;
}

class EmulatedEncodeFailures : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedEncodeFailures, EverythingIsGivenBack) {
  // A pass has some of the chunks.
  constexpr cuda::EncodeLimits kLimits{.pass_bytes = 1, .scratch_bytes = 1 << 20};
  const std::string function = GetParam();
  const std::vector<NamedTensor> tensors = some_tensors();
  const OnDevice on_device(tensors);
  const Bytes expected = write_on_host(tensors, in_chunks());
  const auto write = [&] { return write_on_device(tensors, in_chunks(), kLimits); };
  EXPECT_TRUE(write().bytes == expected);
  const FakeCounts before = fake_counts();
  int n_calls = 0;
  {
    Encoding encoding(kLimits);
    const FakeSettings settings("devices=1");  // as it is; calls are counted from here on
    expect_ok(write_on_device(tensors, on_device, encoding, in_chunks()).result);
    n_calls = fake_calls(function);
  }
  EXPECT_GT(n_calls, 0);
  for (int call = 1; call <= n_calls; call += 1 + call / 5) {
    for (const std::string error : {"719", "2"}) {
      const std::string words = function + ":" + std::to_string(call) + ":" + error;
      {
        Encoding encoding(kLimits);
        const FakeSettings settings("fail=" + words);
        const WrittenOnDevice failed = write_on_device(tensors, on_device, encoding, in_chunks());
        ASSERT_FALSE(failed.result) << words;
        EXPECT_EQ(failed.result.error().code,
                  error == "2" ? ErrorCode::kOutOfMemory : ErrorCode::kIo)
            << words << ": " << failed.result.error().to_string();
      }
      EXPECT_EQ(fake_counts().allocations, before.allocations) << words;
      const WrittenOnDevice written = write();
      expect_ok(written.result);
      ASSERT_TRUE(written.bytes == expected) << words;
      EXPECT_LE(fake_counts().streams, before.streams) << words;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, EmulatedEncodeFailures,
                         testing::Values("CtxPushCurrent", "LaunchKernel", "MemcpyHtoDAsync",
                                         "MemcpyDtoHAsync", "EventRecord", "EventSynchronize",
                                         "StreamWaitEvent"),
                         [](const auto& chosen) { return std::string(chosen.param); });

// Waiting for the device takes its time, whatever it waits for.
TEST(EmulatedEncode, WaitsAConstantNumberOfTimes) {
  const auto waits = [](std::size_t n_tensors) {
    std::vector<NamedTensor> tensors;
    for (std::size_t i = 0; i < n_tensors; ++i) {
      tensors.push_back(
          make_tensor(std::to_string(i), DType::kBF16, {33000}, codec::Pattern::kGaussian, i));
    }
    const FakeSettings settings("devices=1 multiprocessors=" + std::to_string(n_tensors));
    expect_ok(write_on_device(tensors, {}, {}).result);
    return fake_calls("EventSynchronize") + fake_calls("StreamSynchronize");
  };
  (void)waits(4);  // the device keeps its tables
  const int of_few = waits(5);
  EXPECT_LE(of_few, 8);
  EXPECT_EQ(waits(60), of_few);
}

}  // namespace
}  // namespace cfck::test

// Functions of the driver that fail, each at every call: the load says so, everything is given
// back, and the next load is none the worse for it.
#include <gtest/gtest.h>

#include <string>

#include "tests/simt/fake_device.hpp"

namespace cfck::test {
namespace {

// All of the first calls, then fewer and fewer of them.
int after(int call) { return call < 12 ? call + 1 : call + 1 + call / 5; }

struct FailureCase {
  const char* function;
  bool may_be_ignored;  // of what is given back
};

std::ostream& operator<<(std::ostream& out, const FailureCase& failure) {
  return out << failure.function;
}

class EmulatedFailures : public testing::TestWithParam<std::tuple<FailureCase, FileIn>> {
 protected:
  // A chunk or two in each part.
  static Bytes make_file() {
    EncodeOptions options;
    options.chunk_elems = 1024;
    options.entropy = EntropyId::kRans;
    const Bytes floats = weights(1, 6000);
    const Bytes raw = noise(2, 12000);
    const Bytes integers = constant(5, 8000);
    return write_file(
        [&](Writer& writer) {
          expect_ok(writer.add("f32", TensorView{DType::kF32, {60, 100}, floats}));
          expect_ok(writer.add("raw", TensorView{DType::kF32, {3000}, raw},
                               {.codec = CodecChoice::kRaw}));
          expect_ok(writer.add("i32", TensorView{DType::kI32, {2000}, integers}));
          expect_ok(writer.add("direct", TensorView{DType::kF32, {60, 100}, floats},
                               {.max_abs_error = 1e-3}));
          expect_ok(
              writer.add_alias("turned", "f32", 0, {100, 60}, std::vector<std::uint64_t>{1, 100}));
        },
        options);
  }
  static DeviceLoadResult load(const Reader& reader) { return load_all(reader, {.part_bytes = 1}); }
};

TEST_P(EmulatedFailures, EverythingIsGivenBack) {
  const auto& [failure, place] = GetParam();
  const std::string function = failure.function;
  const PlacedFile file(make_file(), place);
  const Reader reader = take(file.open({.threads = 3}));
  const auto expected = all_tensors(reader);
  expect_ok(load(reader).result);
  const FakeCounts before = fake_counts();
  int n_calls = 0;
  {
    const FakeSettings settings("devices=1");  // as it is; calls are counted from here on
    expect_ok(load(reader).result);
    n_calls = fake_calls(function);
  }
  EXPECT_GT(n_calls, 0);
  for (int call = 1; call <= n_calls; call = after(call)) {
    for (const std::string error : {"719", "2"}) {
      const std::string words = function + ":" + std::to_string(call) + ":" + error;
      {
        const FakeSettings settings("fail=" + words);
        const DeviceLoadResult failed = load(reader);
        const bool was_called = fake_calls(function) >= call;
        ASSERT_TRUE(failed.result ? failure.may_be_ignored || !was_called : was_called) << words;
        if (!failed.result) {
          EXPECT_EQ(failed.result.error().code,
                    error == "2" ? ErrorCode::kOutOfMemory : ErrorCode::kIo)
              << words << ": " << failed.result.error().to_string();
        }
      }
      EXPECT_EQ(fake_counts().allocations, before.allocations) << words;
      const DeviceLoadResult loaded = load(reader);
      ASSERT_TRUE(loaded.result) << words << ": " << loaded.result.error().to_string();
      EXPECT_EQ(loaded.tensors, expected) << words;
      EXPECT_LE(fake_counts().streams, before.streams) << words;
      EXPECT_LE(fake_counts().events, before.events + 8) << words;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Functions, EmulatedFailures,
    testing::Combine(
        testing::Values(FailureCase{"CtxPushCurrent", true}, FailureCase{"CtxPopCurrent", true},
                        FailureCase{"LaunchKernel", false}, FailureCase{"MemcpyHtoDAsync", false},
                        FailureCase{"MemcpyDtoHAsync", false}, FailureCase{"EventRecord", false},
                        FailureCase{"EventSynchronize", false},
                        FailureCase{"StreamWaitEvent", false},
                        FailureCase{"PointerGetAttribute", false}),
        testing::Values(FileIn::kHostMemory, FileIn::kDeviceMemory)),
    [](const auto& chosen) {
      return std::string(std::get<0>(chosen.param).function) +
             (std::get<1>(chosen.param) == FileIn::kHostMemory ? "OfTheHost" : "OfTheDevice");
    });

// What a device keeps is made when a load finds none: in a process of its own.
TEST(EmulatedFirstLoad, WhatTheDriverCannotMakeOrSay) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto load = [](const char* function) {
    const Bytes values = weights(1, 3000);  // the writer reads them until it finishes
    EncodeOptions options;
    options.chunk_elems = 1024;
    options.entropy = EntropyId::kRans;
    const Bytes bytes = write_file(
        [&](Writer& writer) {
          expect_ok(writer.add("a", TensorView{DType::kF32, {3000}, values}));
        },
        options);
    const PlacedFile file(bytes, FileIn::kHostMemory);
    const Reader reader = take(file.open());
    for (int call = 1;; ++call) {
      const FakeSettings settings(std::string("fail=") + function + ":" + std::to_string(call) +
                                  ":2");
      const DeviceLoadResult loaded = load_all(reader);
      if (loaded.result) {
        std::fprintf(stderr, "loaded at %d\n", call);
        break;
      }
      EXPECT_EQ(loaded.result.error().code, ErrorCode::kOutOfMemory);
      // The next load takes what has not failed.
      EXPECT_LE(fake_counts().streams, 4);
      EXPECT_LE(fake_counts().events, 8);
      EXPECT_LE(fake_counts().allocations, 1);  // the tables
    }
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  };
  const testing::ExitedWithCode done(0);
  EXPECT_EXIT(load("StreamCreate"), done, "loaded at [4-9]");
  EXPECT_EXIT(load("EventCreate"), done, "loaded at [3-9]");
  EXPECT_EXIT(load("OccupancyMaxActiveBlocksPerMultiprocessor"), done, "loaded at 2");
}

}  // namespace
}  // namespace cfck::test

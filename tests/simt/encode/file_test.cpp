// Files of tensors in the memory of a device, which encodes their chunks, against files of equal
// tensors in the memory of the host: the same bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/simt/encode/device_writer.hpp"

namespace cfck::test {
namespace {

cuda::EncodeSummary expect_same(const std::vector<NamedTensor>& tensors,
                                const EncodeOptions& options,
                                const cuda::EncodeLimits& limits = kSmallPasses,
                                bool looks = true) {
  const Bytes expected = write_on_host(tensors, options);
  const WrittenOnDevice found = write_on_device(tensors, options, limits, looks);
  expect_ok(found.result);
  EXPECT_EQ(found.bytes.size(), expected.size());
  EXPECT_TRUE(found.bytes == expected);
  return found.summary;
}

// Everything that decides who encodes a chunk.
std::vector<NamedTensor> all_kinds() {
  using codec::Pattern;
  std::vector<NamedTensor> tensors;
  unsigned seed = 1;
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16, DType::kF64, DType::kC64,
                            DType::kI32, DType::kF8E4M3}) {
    const std::string name(dtype_name(dtype));
    for (const Pattern pattern : {Pattern::kGaussian, Pattern::kConstant, Pattern::kZeroGroups,
                                  Pattern::kCleanBits, Pattern::kRandomBits}) {
      tensors.push_back(make_tensor(name + " " + std::string(codec::pattern_name(pattern)), dtype,
                                    {3, 11003}, pattern, seed++));
    }
    tensors.push_back(make_tensor(name + " small", dtype, {17}, Pattern::kGaussian, seed++));
    tensors.push_back(make_tensor(name + " scalar", dtype, {}, Pattern::kGaussian, seed++));
    tensors.push_back(make_tensor(name + " empty", dtype, {0, 5}, Pattern::kGaussian, seed++));
  }
  tensors.push_back(tensors.front());
  tensors.back().name = "a copy";
  NamedTensor rows = make_tensor("rows", DType::kF32, {400, 100}, Pattern::kGaussian, seed++);
  for (std::size_t row = 40; row < 400; ++row) {
    std::copy_n(rows.values.begin() + static_cast<std::ptrdiff_t>(row % 40 * 400), 400,
                rows.values.begin() + static_cast<std::ptrdiff_t>(row * 400));
  }
  tensors.push_back(rows);
  return tensors;
}

TEST(DeviceEncodeFile, IsThatOfTheHost) {
  const std::vector<NamedTensor> tensors = all_kinds();
  EncodeOptions options;
  options.chunk_elems = 1 << 14;
  const cuda::EncodeSummary summary = expect_same(tensors, options);
  EXPECT_GT(summary.device_bytes, 1u << 20);
  EXPECT_GT(summary.host_bytes, 1u << 20);
  options.threads = 1;
  EXPECT_EQ(expect_same(tensors, options, kSmallPasses, false).device_bytes, summary.device_bytes);
}

TEST(DeviceEncodeFile, OfOneChunkEach) {
  std::vector<NamedTensor> tensors;
  unsigned seed = 100;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const std::uint64_t n : {32768, 32769, 60001}) {
      tensors.push_back(make_tensor(std::string(dtype_name(dtype)) + std::to_string(n), dtype, {n},
                                    codec::Pattern::kGaussian, seed++));
    }
    tensors.push_back(make_tensor(std::string(dtype_name(dtype)) + " bits", dtype, {40000},
                                  codec::Pattern::kRandomBits, seed++));
  }
  const cuda::EncodeSummary summary = expect_same(tensors, {}, {});
  EXPECT_EQ(summary.device_bytes, (32769u + 60001u) * 6);
}

TEST(DeviceEncodeFile, WithOtherOptions) {
  const std::vector<NamedTensor> tensors = all_kinds();
  EncodeOptions options;
  options.chunk_elems = 1 << 14;
  options.level = EncodeLevel::kFast;
  EXPECT_GT(expect_same(tensors, options).device_bytes, 1u << 20);
  options.level = EncodeLevel::kArchive;
  EXPECT_EQ(expect_same(tensors, options).device_bytes, 0u);
  options.level = EncodeLevel::kDefault;
  options.entropy = EntropyId::kZstd;
  EXPECT_EQ(expect_same(tensors, options).device_bytes, 0u);
  options.entropy = kDefaultEntropy;
  options.rules = {{"F32*", {.max_abs_error = 1e-3}}};
  EXPECT_GT(expect_same(tensors, options).device_bytes, 1u << 19);
}

// Limits under which few chunks of 2^15 values fit a pass, with what is decoded of them.
constexpr cuda::EncodeLimits kLossyPasses{.pass_bytes = std::size_t{1} << 20,
                                          .scratch_bytes = std::size_t{16} << 20};

// Tensors that codec direct stores, of one chunk and of several, with everything that decides who
// encodes them.
std::vector<NamedTensor> lossy_kinds() {
  using codec::Pattern;
  std::vector<NamedTensor> tensors;
  unsigned seed = 1;
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16, DType::kF64}) {
    const std::string name(dtype_name(dtype));
    for (const Pattern pattern : {Pattern::kGaussian, Pattern::kPositive, Pattern::kSpecials,
                                  Pattern::kConstant, Pattern::kSparse, Pattern::kWideRange}) {
      tensors.push_back(make_tensor(name + " " + std::string(codec::pattern_name(pattern)), dtype,
                                    {7, 9001}, pattern, seed++));
    }
    tensors.push_back(make_tensor(name + " chunk", dtype, {33, 1000}, Pattern::kGaussian, seed++));
    tensors.push_back(make_tensor(name + " short", dtype, {600}, Pattern::kGaussian, seed++));
    // Its second chunk is left to the host, and so are the leaves that it has a part in.
    NamedTensor mixed = make_tensor(name + " mixed", dtype, {13, 9001}, Pattern::kGaussian, seed++);
    std::fill_n(mixed.values.begin() + static_cast<std::ptrdiff_t>(mixed.values.size() / 3),
                mixed.values.size() / 20, std::byte{0});
    tensors.push_back(mixed);
    tensors.push_back(
        make_tensor(name + " kernels", dtype, {64, 64, 3, 3}, Pattern::kGaussian, seed++));
  }
  return tensors;
}

TEST(DeviceEncodeFile, WithAnError) {
  const std::vector<NamedTensor> tensors = lossy_kinds();
  const auto options_with = [](const TensorOptions& asked) {
    EncodeOptions options;
    options.chunk_elems = 1 << 15;
    options.rules = {{"*", asked}};
    return options;
  };
  const EncodeOptions all[] = {
      options_with({.max_abs_error = 0.02}),
      options_with({.max_rel_error = 1e-3}),
      options_with({.max_sigma_error = 0.03}),
      options_with({.max_sigma_error = 0.03, .per_row = true}),
      options_with({.codec = CodecChoice::kDirect, .max_abs_error = 1e-4}),
  };
  for (const EncodeOptions& options : all) {
    const cuda::EncodeSummary summary = expect_same(tensors, options, kLossyPasses);
    EXPECT_GT(summary.device_bytes, 1u << 19);
    EXPECT_GT(summary.host_bytes, 1u << 19);
  }
}

TEST(DeviceEncodeFile, WithAnErrorForSome) {
  std::vector<NamedTensor> tensors;
  for (unsigned i = 0; i < 12; ++i) {
    tensors.push_back(make_tensor((i % 3 == 0 ? "exact " : "w ") + std::to_string(i), DType::kF32,
                                  {2, 40000 + i}, codec::Pattern::kGaussian, i));
  }
  EncodeOptions options;
  options.chunk_elems = 1 << 15;
  options.rules = {{"exact*", {.codec = CodecChoice::kLossless}}, {"*", {.max_rel_error = 1e-3}}};
  EXPECT_EQ(expect_same(tensors, options, kLossyPasses).host_bytes, 0u);
}

// A bound as fine as this makes nothing shorter, so that nothing is lost.
TEST(DeviceEncodeFile, WithAnErrorThatSavesNothing) {
  std::vector<NamedTensor> tensors;
  unsigned seed = 1;
  std::uint64_t n_bytes = 0;
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16, DType::kF64}) {
    for (const Shape& shape : {Shape{5, 8000}, Shape{7, 20001}}) {
      const bool is_fine = seed % 4 != 0;
      tensors.push_back(make_tensor((is_fine ? "fine " : "coarse ") + std::to_string(seed), dtype,
                                    shape, codec::Pattern::kGaussian, seed));
      n_bytes += tensors.back().values.size();
      ++seed;
    }
  }
  EncodeOptions options;
  options.chunk_elems = 1 << 16;
  options.rules = {{"fine*", {.max_abs_error = 1e-18}}, {"*", {.max_abs_error = 0.01}}};
  EXPECT_EQ(expect_same(tensors, options, kLossyPasses).device_bytes, n_bytes);
}

// Views of the memory of others, and a tensor of the host among those of the device.
class Sharing {
 public:
  // The tensors, with memory of the device that has copies where it is given.
  std::vector<StridedTensor> tensors(const std::byte* shared, const std::byte* own,
                                     Device device) const {
    std::vector<StridedTensor> all;
    const auto add = [&](const char* name, DType dtype, Shape shape, const std::byte* data,
                         Device place) {
      StridedTensor& tensor = all.emplace_back();
      tensor.name = name;
      tensor.dtype = dtype;
      tensor.strides = std::vector<std::uint64_t>(shape.size(), 1);
      if (shape.size() == 2) {
        tensor.strides[0] = shape[1];
      }
      tensor.shape = std::move(shape);
      tensor.data = data;
      tensor.device = place;
    };
    constexpr std::size_t kRows = 30;
    add("rows", DType::kBF16, {20, 400}, shared + 2 * 400 * kRows, device);
    add("other", DType::kF32, {200, 500}, own, device);
    add("whole", DType::kBF16, {300, 400}, shared, device);
    add("host", DType::kF32, {50, 700}, host.values.data(), {});
    add("again", DType::kBF16, {120000}, shared, device);
    return all;
  }

  const NamedTensor whole =
      make_tensor("whole", DType::kBF16, {300, 400}, codec::Pattern::kGaussian, 7);
  const NamedTensor other =
      make_tensor("other", DType::kF32, {200, 500}, codec::Pattern::kGaussian, 8);
  const NamedTensor host =
      make_tensor("host", DType::kF32, {50, 700}, codec::Pattern::kGaussian, 9);
};

TEST(DeviceEncodeFile, OfTensorsThatShareMemory) {
  const Sharing sharing;
  const Bytes expected = write_file([&](Writer& writer) {
    expect_ok(writer.add_tensors(
        sharing.tensors(sharing.whole.values.data(), sharing.other.values.data(), {})));
  });
  const DeviceMemory memory(sharing.whole.values);
  const DeviceMemory other_memory(sharing.other.values);
  std::vector<StridedTensor> tensors =
      sharing.tensors(memory.bytes().data(), other_memory.bytes().data(), {DeviceKind::kCuda, 0});
  std::vector<std::unique_ptr<cuda::DeviceSource>> sources;
  std::vector<TensorSource> looked_at;
  for (StridedTensor& tensor : tensors) {
    if (tensor.device != Device()) {
      sources.push_back(take(
          cuda::DeviceSource::open(0, tensor.data, take(n_bytes(tensor.dtype, tensor.shape)))));
      tensor.source = sources.back().get();
      looked_at.push_back({tensor.dtype, tensor.shape, tensor.source, 0});
    }
  }
  Encoding encoding({});
  const Bytes found = write_file([&](Writer& writer) {
    expect_ok(encoding.start(writer));
    expect_ok(encoding->look_at(looked_at));
    expect_ok(writer.add_tensors(tensors));
  });
  EXPECT_TRUE(found == expected);
  EXPECT_EQ(encoding->summary().device_bytes,
            sharing.whole.values.size() + sharing.other.values.size());
}

TEST(DeviceEncodeFile, OfOneTensorWithSeveralErrors) {
  const NamedTensor tensor = make_tensor("", DType::kF32, {400, 200}, codec::Pattern::kGaussian, 3);
  const TensorOptions all[] = {
      {.max_rel_error = 1e-3, .per_row = true},
      {.max_sigma_error = 0.01, .per_row = true},
      {.max_rel_error = 1e-3},
      {.max_rel_error = 1e-2},
      {.max_sigma_error = 0.01},
      {.max_abs_error = 1e-3},
  };
  const auto write = [&](const ByteSource& source, Encoding* encoding) {
    return write_file([&](Writer& writer) {
      if (encoding != nullptr) {
        expect_ok(encoding->start(writer));
      }
      for (const TensorOptions& options : all) {
        const auto number = std::to_string(&options - all);
        expect_ok(writer.add(number, {tensor.dtype, tensor.shape, &source, 0}, options));
      }
    });
  };
  const DeviceMemory memory(tensor.values);
  const auto on_device =
      take(cuda::DeviceSource::open(0, memory.bytes().data(), tensor.values.size()));
  Encoding encoding({});
  EXPECT_TRUE(write(*on_device, &encoding) == write(MemorySource(tensor.values), nullptr));
  EXPECT_EQ(encoding->summary().device_bytes, std::size(all) * tensor.values.size());
}

TEST(DeviceEncodeFile, ByTwoThreadsAtOnce) {
  std::vector<NamedTensor> tensors;
  for (unsigned i = 0; i < 6; ++i) {
    tensors.push_back(
        make_tensor(std::to_string(i), DType::kBF16, {60, 1000}, codec::Pattern::kGaussian, i));
  }
  const Bytes expected = write_on_host(tensors, {});
  WrittenOnDevice other;
  std::thread thread([&] { other = write_on_device(tensors, {}, kSmallPasses); });
  const WrittenOnDevice own = write_on_device(tensors, {}, kSmallPasses);
  thread.join();
  EXPECT_TRUE(own.bytes == expected);
  EXPECT_TRUE(other.bytes == expected);
}

TEST(DeviceEncodeFile, IsCancelled) {
  const std::vector<NamedTensor> tensors = all_kinds();
  EncodeOptions options;
  options.chunk_elems = 1 << 14;
  for (const int last : {0, 1, 5, 30}) {
    int n = 0;
    const WrittenOnDevice cancelled =
        write_on_device(tensors, options, kSmallPasses, true,
                        [&](std::uint64_t, std::string_view) { return n++ < last; });
    ASSERT_FALSE(cancelled.result);
    EXPECT_EQ(cancelled.result.error().code, ErrorCode::kCancelled);
  }
}

TEST(DeviceEncodeFile, RefusesWrongCalls) {
  const NamedTensor tensor = make_tensor("a", DType::kF32, {40000}, codec::Pattern::kGaussian, 1);
  const OnDevice on_device({tensor});
  MemorySink sink;
  Writer writer = take(Writer::create(sink));
  auto device = take(cuda::WriterDevice::open(0, kSmallPasses));
  EXPECT_EQ(device.look_at(on_device.all()).error().code, ErrorCode::kInvalidArgument);
  DeviceMemory workspace(device.workspace_bytes());
  Bytes staging(device.staging_bytes() + 512);
  const auto address = reinterpret_cast<std::uintptr_t>(staging.data());
  std::byte* const aligned = staging.data() + (256 - address % 256) % 256;
  const auto start = [&](void* memory, MutableBytes host, cuda::Stream stream) {
    const auto started = device.encode_for(writer, memory, host, stream);
    return started ? "ok" : started.error().message;
  };
  void* const memory = workspace.bytes().data();
  const MutableBytes all(aligned, device.staging_bytes());
  EXPECT_THAT(start(memory, all.first(1000), {}), ::testing::HasSubstr("staging memory has 1000"));
  EXPECT_THAT(start(memory, {aligned + 1, all.size()}, {}), ::testing::HasSubstr("256"));
  EXPECT_THAT(start(memory, all, {1, nullptr}), ::testing::HasSubstr("cuda:1"));
  EXPECT_EQ(start(memory, all, {}), "ok");
  EXPECT_THAT(start(memory, all, {}), ::testing::HasSubstr("already"));
  expect_ok(writer.add("a", on_device.all()[0]));
  auto later = take(cuda::WriterDevice::open(0, kSmallPasses));
  for (unsigned i = 0; i < 2; ++i) {
    EXPECT_THAT(later.encode_for(writer, memory, all, {}).error().message,
                ::testing::HasSubstr("before the device"));
  }
}

TEST(DeviceEncodeFile, HasLimitsThatDoNotOverflow) {
  for (const cuda::EncodeLimits& limits :
       {cuda::EncodeLimits{SIZE_MAX, SIZE_MAX}, {.scratch_bytes = SIZE_MAX}, {SIZE_MAX, 0}}) {
    const auto device = take(cuda::WriterDevice::open(0, limits));
    EXPECT_GT(device.workspace_bytes(), std::size_t{1} << 40);
  }
}

}  // namespace
}  // namespace cfck::test

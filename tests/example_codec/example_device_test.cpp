// A codec that a test adds is decoded on a device by a kernel of its own: a folder, a line of the
// registry, and a line of the list of kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "tests/example_codec/example_file.hpp"
#include "tests/simt/fake_device.hpp"

namespace cfck::test {
namespace {

constexpr std::uint64_t kRows = 300;
constexpr std::uint64_t kColumns = 71;

// Values of one density: the bytes of fine indices do not compress.
Bytes uniform(std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(kRows * kColumns);
  for (float& value : values) {
    value = static_cast<float>(random.below(1 << 24)) * 0x1p-23F - 1;
  }
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Two tensors in chunks, one whose indices are plain and one in whose frames the host finds them,
// beside one of a codec of the library.
Bytes file_in_chunks(std::uint32_t chunk_elems) {
  EncodeOptions options;
  options.chunk_elems = chunk_elems;
  for (const auto& [name, nmse] : {std::pair("plain", 4e-10), std::pair("frames", 1e-3)}) {
    EncodeRule rule{name, {}};
    rule.options.codec = codec_choice(kRoundedId);
    rule.options.nmse = nmse;
    options.rules.push_back(rule);
  }
  const Bytes plain = uniform(1);
  const Bytes frames = weights(2, kRows * kColumns);
  const Bytes lossless = weights(3, kRows * kColumns);
  return write_file(
      [&](Writer& writer) {
        expect_ok(writer.add("plain", TensorView{DType::kF32, {kRows, kColumns}, plain}));
        expect_ok(writer.add("frames", TensorView{DType::kF32, {kRows, kColumns}, frames}));
        expect_ok(writer.add("lossless", TensorView{DType::kF32, {kRows, kColumns}, lossless}));
      },
      options);
}

// Many small chunks are decoded by a warp each, few large ones by a team each.
class ExampleDevice : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ExampleDevice, TheKernelGivesWhatTheHostDoes) {
  const PlacedFile file(file_in_chunks(GetParam()), FileIn::kHostMemory);
  const Reader reader = take(file.open());
  EXPECT_EQ(reader.find("plain")->codec, kRoundedId);
  EXPECT_EQ(reader.find("frames")->codec, kRoundedId);
  const DeviceLoadResult loaded = load_all(reader);
  expect_ok(loaded.result);
  const auto on_host = all_tensors(reader);
  for (const auto& [name, bytes] : loaded.tensors) {
    EXPECT_EQ(bytes, on_host.at(name)) << name;
  }
  EXPECT_GE(loaded.summary.device_bytes, on_host.at("plain").size());
  EXPECT_GE(loaded.summary.host_bytes, on_host.at("frames").size());
}

INSTANTIATE_TEST_SUITE_P(Chunks, ExampleDevice, testing::Values(512, 21300));

}  // namespace
}  // namespace cfck::test

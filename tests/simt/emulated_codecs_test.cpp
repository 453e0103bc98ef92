// The kernels of a device, on the emulator, with every row of the table of codecs that has some:
// values of the CPU's decoder, and the same payloads refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/simt/decode_chunks.hpp"

namespace cfck::codec {
namespace {

std::vector<CodecCase> device_cases() {
  std::vector<CodecCase> cases;
  for (const CodecCase& one : all_codec_cases()) {
    const bool has_kernels =
        one.row->codec == CodecId::kLossless || one.row->codec == CodecId::kDirect;
    const bool has_dtype = std::find(std::begin(kDeviceDTypes), std::end(kDeviceDTypes),
                                     one.dtype) != std::end(kDeviceDTypes);
    if (has_kernels && has_dtype && one.entropy == EntropyId::kRans) {
      cases.push_back(one);
    }
  }
  return cases;
}

class EmulatedCodecs : public ::testing::TestWithParam<CodecCase> {
 protected:
  // Calls `action(coded, chunk)` for every chunk that has a kernel.
  template <class Action>
  void each_chunk(Action&& action) {
    for (const Pattern pattern : row_patterns(*GetParam().row)) {
      for (const Shape& shape : row_shapes()) {
        std::uint64_t n_elems = 1;
        for (const std::uint64_t length : shape) {
          n_elems *= length;
        }
        const auto values = make_values(GetParam().dtype, pattern, n_elems);
        const CodedTensor coded = code_tensor(GetParam(), shape, values, scratch_);
        for (std::size_t chunk = 0; chunk < coded.chunks.size(); ++chunk) {
          if (has_device_kernel(coded.codec, coded.info_of(chunk), coded.chunks[chunk].payload)) {
            SCOPED_TRACE(describe(GetParam().dtype, pattern, n_elems));
            action(coded, chunk);
            n_compared_ += 1;
          }
        }
      }
    }
  }

  // A test that compared nothing shows nothing.
  void TearDown() override { EXPECT_GT(n_compared_, 0u) << "no chunk had a kernel"; }

  Scratch scratch_;
  unsigned n_compared_ = 0;
};

TEST_P(EmulatedCodecs, ValuesAreThoseOfTheCpu) {
  unsigned turn = 0;
  each_chunk([&](const CodedTensor& coded, std::size_t chunk) {
    simt::Launch launch;
    launch.order = static_cast<simt::LaneOrder>(turn++ % 3);
    launch.seed = turn;
    std::vector<std::byte> expected(coded.n_bytes(chunk));
    const ChunkInfo info = coded.info_of(chunk);
    ASSERT_TRUE(
        find_decoder(coded.codec)->decode(info, coded.chunks[chunk].payload, scratch_, expected));
    const auto decoded =
        decode_emulated(coded.codec, info, coded.chunks[chunk].payload, launch, turn % 2 == 0);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, expected);
  });
}

TEST_P(EmulatedCodecs, RefusesWhatTheCpuRefuses) {
  Random random(3);
  each_chunk([&](const CodedTensor& coded, std::size_t chunk) {
    const ChunkInfo info = coded.info_of(chunk);
    for (unsigned i = 0; i < 6; ++i) {
      std::vector<std::byte> payload = coded.chunks[chunk].payload;
      if (i == 5) {
        payload.resize(random.next() % payload.size());
      } else {
        const std::size_t span =
            i % 2 == 0 ? std::min<std::size_t>(payload.size(), 40) : payload.size();
        payload[random.next() % span] ^= static_cast<std::byte>(1u << random.next() % 8);
      }
      if (!has_device_kernel(coded.codec, info, payload)) {
        continue;
      }
      std::vector<std::byte> expected(coded.n_bytes(chunk));
      const bool is_valid =
          bool(find_decoder(coded.codec)->decode(info, payload, scratch_, expected));
      const auto decoded = decode_emulated(coded.codec, info, payload);
      ASSERT_EQ(decoded.has_value(), is_valid) << "damage " << i;
      if (is_valid) {
        EXPECT_EQ(*decoded, expected) << "damage " << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Emulated, EmulatedCodecs, ::testing::ValuesIn(device_cases()),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace cfck::codec

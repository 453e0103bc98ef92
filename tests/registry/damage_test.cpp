// Damaged payloads give an error or some values, never more than that, and the same at every CPU
// level. Payloads end where memory ends, so that reading behind them shows.
#include <gtest/gtest.h>

#include "tests/codec/test_values.hpp"
#include "tests/registry/codec_rows.hpp"
#include "tests/support/cpu_forms.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::codec {
namespace {

using test::CpuForm;
using test::GuardedBytes;
using test::UseCpuForm;

class CodecDamage : public testing::TestWithParam<CodecCase> {
 protected:
  // Whether the payload decodes in place of the first chunk.
  bool decodes(const CodedTensor& coded, ByteView payload) {
    const GuardedBytes copy(payload);
    const Decoder* const decoder = find_decoder(coded.codec);
    const ChunkInfo info = coded.info_of(0);
    (void)decoder->body_bytes(info, copy.bytes());
    std::vector<std::byte> expected;
    Result<void> first;
    bool is_first = true;
    for (const CpuForm& form : forms_) {
      const UseCpuForm use(form);
      std::vector<std::byte> values(coded.n_bytes(0), std::byte{0xa5});
      Result<void> done = decoder->decode(info, copy.bytes(), scratch_, values);
      if (is_first) {
        expected = std::move(values);
        first = std::move(done);
        is_first = false;
      } else {
        expect_same(first, expected, done, values);
      }
    }
    if (!first) {
      EXPECT_FALSE(first.error().message.empty());
      EXPECT_LE(first.error().byte_offset.value_or(0), payload.size());
    }
    return first.has_value();
  }

  static void expect_same(const Result<void>& first, const std::vector<std::byte>& expected,
                          const Result<void>& done, const std::vector<std::byte>& values) {
    ASSERT_EQ(first.has_value(), done.has_value());
    if (done) {
      EXPECT_TRUE(values == expected);
    } else {
      EXPECT_EQ(done.error().code, first.error().code);
      EXPECT_EQ(done.error().byte_offset, first.error().byte_offset);
    }
  }

  // Calls `action` with tensors of one chunk.
  template <class Action>
  void each_tensor(Action&& action) {
    for (const Shape& shape : {Shape{40}, Shape{7, 5, 3, 3}, Shape{9, 25}}) {
      std::uint64_t n = 1;
      for (const std::uint64_t length : shape) {
        n *= length;
      }
      for (const Pattern pattern :
           {Pattern::kGaussian, Pattern::kSpecials, Pattern::kSparse, Pattern::kRepeating}) {
        SCOPED_TRACE(describe(GetParam().dtype, pattern, n));
        action(code_tensor(GetParam(), shape, make_values(GetParam().dtype, pattern, n), scratch_));
      }
    }
  }

  const std::vector<CpuForm> forms_ = test::cpu_forms();
  Scratch scratch_;
};

TEST_P(CodecDamage, EveryPrefixIsAnError) {
  each_tensor([&](const CodedTensor& coded) {
    const ByteView payload = coded.chunks[0].payload;
    for (std::size_t n = 0; n < payload.size(); ++n) {
      ASSERT_FALSE(decodes(coded, payload.first(n))) << n << " bytes";
    }
  });
}

TEST_P(CodecDamage, BytesBehindTheEndAreAnError) {
  each_tensor([&](const CodedTensor& coded) {
    std::vector<std::byte> payload = coded.chunks[0].payload;
    EXPECT_TRUE(decodes(coded, payload));
    payload.push_back(std::byte{0});
    EXPECT_FALSE(decodes(coded, payload));
  });
}

TEST_P(CodecDamage, FlippedBitsGiveAnErrorOrSomeValues) {
  Random random(1);
  each_tensor([&](const CodedTensor& coded) {
    std::vector<std::byte> payload = coded.chunks[0].payload;
    const std::size_t n_bits = 8 * payload.size();
    // Headers bit by bit, then some of the rest.
    for (std::size_t bit = 0; bit < n_bits; bit += bit < 160 ? 1 : 1 + random.next() % 97) {
      const auto flip = static_cast<std::byte>(1u << (bit % 8));
      payload[bit / 8] ^= flip;
      (void)decodes(coded, payload);
      payload[bit / 8] ^= flip;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Registry, CodecDamage, testing::ValuesIn(all_codec_cases()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace cfck::codec

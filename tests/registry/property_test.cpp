// Promises that every codec keeps, whatever the values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/codec/direct/direct_cases.hpp"
#include "tests/codec/exact_number.hpp"
#include "tests/registry/codec_rows.hpp"

namespace cfck::codec {
namespace {

class CodecProperty : public testing::TestWithParam<CodecCase> {
 protected:
  // Calls `action` with every shape and pattern of values.
  template <class Action>
  void each_tensor(Action&& action) {
    for (const Shape& shape : row_shapes()) {
      std::uint64_t n = 1;
      for (const std::uint64_t length : shape) {
        n *= length;
      }
      for (const Pattern pattern : row_patterns(*GetParam().row)) {
        SCOPED_TRACE(describe(GetParam().dtype, pattern, n));
        action(shape, make_values(GetParam().dtype, pattern, n));
      }
    }
  }

  Scratch scratch_;
};

TEST_P(CodecProperty, DecodingGivesWhatTheEncoderSaid) {
  each_tensor([&](const Shape& shape, const std::vector<std::byte>& values) {
    const CodedTensor coded = code_tensor(GetParam(), shape, values, scratch_);
    EXPECT_TRUE(decode_tensor(coded, scratch_) == coded.promised);
  });
}

// Lossless codecs give every bit; lossy ones finite values within the bound, compared in exact
// arithmetic, and NaN and infinities bit for bit.
TEST_P(CodecProperty, ErrorsAreAsPromised) {
  const CodecCase& one = GetParam();
  each_tensor([&](const Shape& shape, const std::vector<std::byte>& values) {
    const CodedTensor coded = code_tensor(one, shape, values, scratch_);
    if (one.row->is_lossless() || find_lossy_encoder(coded.codec) == nullptr) {
      EXPECT_TRUE(coded.promised == values);
      return;
    }
    const std::size_t width = bits_per_element(one.dtype) / 8;
    for (std::size_t at = 0; at < values.size(); at += width) {
      const double before = double_of(one.dtype, values.data() + at);
      const double after = double_of(one.dtype, coded.promised.data() + at);
      if (!std::isfinite(before)) {
        ASSERT_EQ(std::memcmp(values.data() + at, coded.promised.data() + at, width), 0);
      } else {
        ASSERT_TRUE(std::isfinite(after));
        ASSERT_TRUE(!one.row->max_abs_error ||
                    exactly_within(before, after, *one.row->max_abs_error))
            << before << " " << after;
      }
    }
  });
}

// Neither what was coded before nor the address of the values matters: a view into a file need not
// be aligned, neither need the memory of the caller.
TEST_P(CodecProperty, BytesDependOnValuesAlone) {
  each_tensor([&](const Shape& shape, const std::vector<std::byte>& values) {
    Scratch fresh;
    const CodedTensor coded = code_tensor(GetParam(), shape, values, fresh);
    std::vector<std::byte> moved(values.size() + 1);
    std::copy(values.begin(), values.end(), moved.begin() + 1);
    EXPECT_TRUE(code_tensor(GetParam(), shape, ByteView(moved).subspan(1), scratch_) == coded);
    decode_tensor(coded, scratch_, MutableBytes(moved).subspan(1));
    EXPECT_TRUE(std::ranges::equal(coded.promised, ByteView(moved).subspan(1)));
  });
}

TEST(CodecRows, EveryCodecOfTheRegistryHasOne) {
  for (const std::string_view name : codec_choice_names().subspan(2)) {
    EXPECT_TRUE(std::ranges::any_of(codec_rows(), [&](const CodecRow& row) {
      return codec_name(row.codec) == name;
    })) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, CodecProperty, testing::ValuesIn(all_codec_cases()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace cfck::codec

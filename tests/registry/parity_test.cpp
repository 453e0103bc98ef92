// Every form of the kernels writes the same bytes and reads the same values as the baseline.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/codec/test_values.hpp"
#include "tests/registry/codec_rows.hpp"
#include "tests/support/cpu_forms.hpp"

namespace cfck::codec {
namespace {

using test::CpuForm;
using test::UseCpuForm;

class CodecParity : public testing::TestWithParam<std::tuple<CodecCase, CpuForm>> {};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CodecParity);  // the baseline may be all there is

TEST_P(CodecParity, SameBytesAndValues) {
  const auto& [one, form] = GetParam();
  Scratch scratch;
  for (const Shape& shape : row_shapes()) {
    std::uint64_t n = 1;
    for (const std::uint64_t length : shape) {
      n *= length;
    }
    for (const Pattern pattern : row_patterns(*one.row)) {
      SCOPED_TRACE(describe(one.dtype, pattern, n));
      const std::vector<std::byte> values = make_values(one.dtype, pattern, n);
      CodedTensor expected;
      {
        const UseCpuForm baseline(test::kCpuForms[0]);
        expected = code_tensor(one, shape, values, scratch);
      }
      const UseCpuForm other(form);
      EXPECT_TRUE(code_tensor(one, shape, values, scratch) == expected);
      EXPECT_TRUE(decode_tensor(expected, scratch) == expected.promised);
    }
  }
}

// The forms that are compared with the baseline.
std::vector<CpuForm> faster_forms() {
  std::vector<CpuForm> forms = test::cpu_forms();
  forms.erase(forms.begin());
  return forms;
}

INSTANTIATE_TEST_SUITE_P(Registry, CodecParity,
                         testing::Combine(testing::ValuesIn(all_codec_cases()),
                                          testing::ValuesIn(faster_forms())),
                         [](const auto& test) {
                           return name_of(std::get<0>(test.param)) + "_" +
                                  std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace cfck::codec

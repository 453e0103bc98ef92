// The kernels of the direct codec, on the emulator: every form of its chunks, with parameters
// inline and in the preamble, whole tensors and parts of them, intact and damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "codec/direct/chunk/header.hpp"
#include "tests/codec/direct/direct_cases.hpp"
#include "tests/simt/decode_chunks.hpp"

namespace cfck::codec {
namespace {

constexpr double kBound = 1e-3;

struct Form {
  DType dtype;
  bool has_prediction;
  bool has_field;
  bool has_row_steps;
  bool has_zeros;  // so that there is a mask
};

std::string name_of(const Form& form) {
  return std::string(dtype_name(form.dtype)) + (form.has_prediction ? "_prediction" : "") +
         (form.has_field ? "_field" : "") + (form.has_row_steps ? "_rows" : "") +
         (form.has_zeros ? "_mask" : "");
}

std::vector<Form> all_forms() {
  std::vector<Form> forms;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    for (unsigned i = 0; i < 16; ++i) {
      forms.push_back({dtype, (i & 1) != 0, (i & 2) != 0, (i & 4) != 0, (i & 8) != 0});
    }
  }
  return forms;
}

DirectParameters parameters_of(const Form& form, const DirectGeometry& geometry) {
  Random random(3);
  const auto numbers = [&](std::uint64_t n, int base, unsigned range) {
    std::vector<std::int16_t> result;
    for (std::uint64_t i = 0; i < n; ++i) {
      result.push_back(static_cast<std::int16_t>(base + static_cast<int>(random.next() % range)));
    }
    return result;
  };
  DirectParameters parameters;
  if (form.has_row_steps) {
    for (std::uint64_t row = 0; row < geometry.rows; ++row) {
      parameters.row_steps.push_back(*row_step_of(kBound * (1 + 0.25 * (row % 5))));
    }
  } else {
    parameters.step = *step_of(kBound);
  }
  if (form.has_prediction) {
    parameters.coefficients = numbers(n_coefficients(geometry.kernel_size), -50, 101);
  }
  if (form.has_field) {
    parameters.field = {numbers(geometry.kernel_size, 20, 9), numbers(geometry.rows, 10, 9),
                        numbers(geometry.columns, 10, 9)};
  }
  return parameters;
}

// A chunk of a tensor, encoded; `info` refers to the other members.
struct Sample {
  Shape shape = {64, 30, 3, 3};
  bool has_specials = true;
  bool has_wide_group = false;  // which alone has raw bits
  DirectParameters parameters;
  std::vector<std::byte> preamble;
  std::vector<double> row_bounds;
  std::vector<std::byte> payload;
  ChunkInfo info;
};

void set_specials(const Form& form, std::vector<std::byte>& values) {
  const std::size_t value_bytes = bits_per_element(form.dtype) / 8;
  Random random(11);
  for (std::size_t i = 0; i < values.size(); i += value_bytes) {
    const std::uint64_t draw = random.next() >> 32;
    if (form.has_zeros && draw % 4 != 0) {
      std::memset(&values[i], 0, value_bytes);
    } else if (draw % 97 == 0) {
      const double special = draw % 2 == 0 ? std::numeric_limits<double>::infinity() : 1e30;
      put_double(form.dtype, special, &values[i]);
    } else if (draw % 101 == 0) {
      put_double(form.dtype, draw % 2 == 0 ? 3000 : -2.5, &values[i]);
    }
  }
}

void encode(const Form& form, std::uint64_t first, std::uint64_t n, Spread spread, double scale,
            Sample& sample) {
  const DirectGeometry geometry = *direct_geometry(sample.shape);
  sample.parameters = parameters_of(form, geometry);
  auto values = make_spread(form.dtype, spread, n, scale, first + n);
  if (sample.has_specials) {
    set_specials(form, values);
  }
  if (sample.has_wide_group) {
    const std::size_t value_bytes = bits_per_element(form.dtype) / 8;
    Random random(4);
    for (std::size_t i = 3 * kGroupSize; i < 4 * kGroupSize; ++i) {
      const auto steps = static_cast<double>(random.next() % 200) - 100;
      put_double(form.dtype, steps * kBound, &values[i * value_bytes]);
    }
  }
  const DirectChunkInfo direct{form.dtype, EntropyId::kRans,  sample.shape, first,
                               n,          &sample.parameters};
  const bool is_inline = n == geometry.n_values() || (first % 2 == 0 && !form.has_field);
  if (form.has_row_steps) {
    for (std::uint64_t row = 0; row < geometry.rows; ++row) {
      sample.row_bounds.push_back(kBound * (1 + 0.25 * (row % 5)));
    }
  }
  if (!is_inline) {
    append_parameters(sample.parameters, sample.preamble);
  }
  std::vector<std::byte> decoded(values.size());
  Scratch scratch;
  DirectChunk chunk;
  const auto done = encode_direct(direct, sample.parameters,
                                  is_inline ? ParameterPlace::kInline : ParameterPlace::kPreamble,
                                  {kBound, sample.row_bounds}, values, scratch, decoded, chunk);
  ASSERT_TRUE(done) << done.error().message;
  sample.payload = chunk.encoded.payload;
  sample.info = {
      form.dtype, EntropyId::kRans, ScanId::kStorageOrder, n, sample.preamble, sample.shape, first};
}

class EmulatedDirect : public ::testing::TestWithParam<Form> {
 protected:
  // Decodes with both, and compares values and refusals.
  void expect_same(const Sample& sample, ByteView payload, const simt::Launch& launch,
                   bool is_odd) {
    if (!has_device_kernel(CodecId::kDirect, sample.info, payload)) {
      return;
    }
    std::vector<std::byte> expected(sample.info.n_elems * bits_per_element(GetParam().dtype) / 8);
    const bool is_valid =
        bool(find_decoder(CodecId::kDirect)->decode(sample.info, payload, scratch_, expected));
    const auto decoded = decode_emulated(CodecId::kDirect, sample.info, payload, launch, is_odd);
    const auto by_team =
        decode_by_team(CodecId::kDirect, sample.info, payload, launch.order, is_odd);
    n_compared_ += 1;
    ASSERT_EQ(decoded.has_value(), is_valid);
    ASSERT_EQ(by_team.has_value(), is_valid);
    if (is_valid) {
      EXPECT_EQ(*decoded, expected);
      EXPECT_EQ(*by_team, expected);
    }
  }

  void expect_same_refusals(const Sample& sample, unsigned n_trials) {
    Random random(5);
    for (unsigned i = 0; i < n_trials; ++i) {
      SCOPED_TRACE("damage " + std::to_string(i));
      std::vector<std::byte> payload = sample.payload;
      if (i % 10 == 9) {
        payload.resize(random.next() % payload.size());
      } else {
        const std::size_t span =
            i % 2 == 0 ? std::min<std::size_t>(payload.size(), 60) : payload.size();
        payload[random.next() % span] ^= static_cast<std::byte>(1u << random.next() % 8);
      }
      expect_same(sample, payload, {}, i % 2 == 0);
    }
  }

  // The payload is what the form says, with escapes and exact values.
  void expect_form(const Sample& sample) {
    ASSERT_EQ(sample.payload[0], std::byte{kDirectInline});
    const DirectChunkInfo direct{GetParam().dtype,    EntropyId::kRans, sample.shape, 0,
                                 sample.info.n_elems, nullptr};
    const auto header = parse_direct_header(direct, *direct_geometry(sample.shape), sample.payload);
    ASSERT_TRUE(header);
    EXPECT_EQ((header->flags & kDirectMask) != 0, GetParam().has_zeros);
    EXPECT_EQ(!header->parameters->field.empty(), GetParam().has_field);
    EXPECT_EQ(!header->parameters->coefficients.empty(), GetParam().has_prediction);
    EXPECT_EQ(!header->parameters->row_steps.empty(), GetParam().has_row_steps);
    EXPECT_GT(header->segments[0].n_exact, 0u);
    EXPECT_GT(header->segments[0].n_escapes, header->segments[0].n_exact);
  }

  // A test that compared nothing shows nothing.
  void TearDown() override { EXPECT_GT(n_compared_, 0u) << "no payload had a kernel"; }

  Scratch scratch_;
  unsigned n_compared_ = 0;
};

TEST_P(EmulatedDirect, ValuesAreThoseOfTheCpu) {
  unsigned turn = 0;
  const std::uint64_t copies_before = simt::copies();
  for (const std::uint64_t first : {0u, 5u, 2700u}) {
    for (const std::uint64_t n : {1u, 4u, 127u, 903u, 9001u, 17280u}) {
      for (const Spread spread : {Spread::kLaplace, Spread::kHeavy}) {
        if (first + n > 17280) {
          continue;
        }
        SCOPED_TRACE(std::to_string(first) + "+" + std::to_string(n));
        Sample sample;
        encode(GetParam(), first, n, spread, 0.02, sample);
        simt::Launch launch;
        launch.order = static_cast<simt::LaneOrder>(turn++ % 3);
        expect_same(sample, sample.payload, launch, turn % 2 == 0);
      }
    }
  }
  const Form& form = GetParam();
  if (!form.has_zeros && !form.has_field && !form.has_prediction && !form.has_row_steps) {
    EXPECT_GT(simt::copies(), copies_before);  // long runs
  }
}

// Four lane sets, and many low bits.
TEST_P(EmulatedDirect, LargeChunksAreThoseOfTheCpu) {
  for (const double scale : {0.004, 900.0}) {
    Sample sample;
    sample.shape = {160, 27, 3, 3};
    encode(GetParam(), 0, 160 * 27 * 9, Spread::kGaussian, scale, sample);
    if (scale < 1) {
      expect_form(sample);
    }
    expect_same(sample, sample.payload, {}, true);
  }
}

TEST_P(EmulatedDirect, RefusesWhatTheCpuRefuses) {
  // The shortest chunk that is not stored as it is.
  for (const std::uint64_t n : {900u, 4000u, 17280u}) {
    for (const Spread spread : {Spread::kHeavy, Spread::kLaplace, Spread::kGaussian}) {
      Sample sample;
      encode(GetParam(), 0, n, spread, 0.02, sample);
      if (!has_device_kernel(CodecId::kDirect, sample.info, sample.payload)) continue;
      expect_same_refusals(sample, 30);
      return;
    }
  }
}

TEST_P(EmulatedDirect, RefusesWhatTheCpuRefusesOfManyValues) {
  Sample sample;
  sample.shape = {160, 27, 3, 3};
  encode(GetParam(), 0, 160 * 27 * 9, Spread::kGaussian, 0.02, sample);
  expect_same_refusals(sample, 6);
}

INSTANTIATE_TEST_SUITE_P(Emulated, EmulatedDirect, ::testing::ValuesIn(all_forms()),
                         [](const auto& one) { return name_of(one.param); });

// Forms whose chunks may have segments, each with escapes and exact values of its own.
class EmulatedDirectSegments : public EmulatedDirect {};

TEST_P(EmulatedDirectSegments, ValuesAreThoseOfTheCpu) {
  Sample sample;
  sample.shape = {1040, 128};
  encode(GetParam(), 0, 1040 * 128, Spread::kGaussian, 0.02, sample);
  const DirectChunkInfo direct{GetParam().dtype,    EntropyId::kRans, sample.shape, 0,
                               sample.info.n_elems, nullptr};
  const auto header = parse_direct_header(direct, *direct_geometry(sample.shape), sample.payload);
  ASSERT_TRUE(header);
  ASSERT_GE(header->n_segments, 2u);
  for (unsigned i = 0; i < header->n_segments; ++i) {
    EXPECT_GT(header->segments[i].n_exact, 0u);
    EXPECT_GT(header->segments[i].n_escapes, header->segments[i].n_exact);
  }
  expect_same(sample, sample.payload, {}, true);
  expect_same_refusals(sample, 8);
}

// Each warp of a team copies the raw bits of all groups but those of the tail.
TEST_P(EmulatedDirectSegments, TeamsCopyInBulk) {
  Sample sample;
  sample.shape = {512, 128};
  encode(GetParam(), 0, 512 * 128, Spread::kGaussian, 0.02, sample);
  for (unsigned order = 0; order < 3; ++order) {
    const std::uint64_t copies_before = simt::copies();
    std::vector<std::byte> expected(sample.info.n_elems * bits_per_element(GetParam().dtype) / 8);
    ASSERT_TRUE(
        find_decoder(CodecId::kDirect)->decode(sample.info, sample.payload, scratch_, expected));
    EXPECT_EQ(decode_by_team(CodecId::kDirect, sample.info, sample.payload,
                             static_cast<simt::LaneOrder>(order), order == 1),
              expected);
    // A copy is for up to 32 groups. Rows with steps of their own are decoded group by group.
    EXPECT_EQ(simt::copies() - copies_before > 4 * 512 / 32, !GetParam().has_row_steps);
    ++n_compared_;
  }
  expect_same_refusals(sample, 12);
}

// The lanes carry all raw bits there are, so that every group is decoded twice.
TEST_P(EmulatedDirectSegments, LongTailsAreThoseOfTheCpu) {
  Sample sample;
  sample.shape = {2080, 128};
  sample.has_specials = false;
  sample.has_wide_group = true;
  encode(GetParam(), 0, 2080 * 128, Spread::kGaussian, 0.004, sample);
  const DirectChunkInfo direct{GetParam().dtype,    EntropyId::kRans, sample.shape, 0,
                               sample.info.n_elems, nullptr};
  const auto header = parse_direct_header(direct, *direct_geometry(sample.shape), sample.payload);
  ASSERT_TRUE(header);
  ASSERT_EQ(header->n_segments, 2u);
  EXPECT_EQ(header->segments[0].raw_bytes, 0u);
  for (unsigned order = 0; order < 3; ++order) {
    simt::Launch launch;
    launch.order = static_cast<simt::LaneOrder>(order);
    expect_same(sample, sample.payload, launch, order == 1);
  }
}

std::vector<Form> forms_with_segments() {
  std::vector<Form> forms;
  std::ranges::copy_if(all_forms(), std::back_inserter(forms), [](const Form& form) {
    return !form.has_zeros && !form.has_field && !form.has_prediction;
  });
  return forms;
}

INSTANTIATE_TEST_SUITE_P(Emulated, EmulatedDirectSegments,
                         ::testing::ValuesIn(forms_with_segments()),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace cfck::codec

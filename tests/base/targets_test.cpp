// Targets as options: how they are written, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/numbers/decibels.hpp"
#include "cfck/options.hpp"

namespace cfck {
namespace {

TEST(Targets, DecibelsAreRatios) {
  for (double decibels = -400; decibels <= 400; decibels += 0.37) {
    const double exact = std::pow(10.0, decibels / 10);
    EXPECT_NEAR(ratio_of_decibels(decibels) / exact, 1, 1e-13) << decibels;
  }
  EXPECT_EQ(ratio_of_decibels(0), 1);
  EXPECT_EQ(ratio_of_decibels(-1e9), 0);
  EXPECT_EQ(ratio_of_decibels(1e9), std::numeric_limits<double>::infinity());
}

TEST(Targets, NmseIsRatioOrDecibels) {
  EXPECT_EQ(*parse_nmse("0.01"), 0.01);
  EXPECT_NEAR(*parse_nmse("-20dB"), 0.01, 1e-15);
  EXPECT_NEAR(*parse_nmse("-20 dB"), 0.01, 1e-15);
  EXPECT_NEAR(*parse_nmse("-0.5db"), 0.8912509381337456, 1e-13);
  for (const char* wrong : {"", "dB", "20dB", "0dB", "0", "1", "-0.01", "1.5", "nan", "inf",
                            "0.01x", "-20 dBm", "-1e9dB", " 0.01", "0,01"}) {
    const auto parsed = parse_nmse(wrong);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(std::string("'") + wrong + "'"), std::string::npos);
  }
}

TEST(Targets, PsnrIsDecibels) {
  EXPECT_EQ(*parse_psnr("40"), 40);
  EXPECT_EQ(*parse_psnr("40dB"), 40);
  EXPECT_EQ(*parse_psnr("40.5 dB"), 40.5);
  for (const char* wrong : {"", "-40", "0", "40B", "inf", "dB"}) {
    EXPECT_FALSE(parse_psnr(wrong)) << wrong;
  }
}

TEST(Targets, SizesHaveUnits) {
  EXPECT_EQ(*parse_size("1"), 1u);
  EXPECT_EQ(*parse_size("1000B"), 1000u);
  EXPECT_EQ(*parse_size("60MB"), 60000000u);
  EXPECT_EQ(*parse_size("60 MB"), 60000000u);
  EXPECT_EQ(*parse_size("60MiB"), 60u << 20);
  EXPECT_EQ(*parse_size("1.5kB"), 1500u);
  EXPECT_EQ(*parse_size("1.5KiB"), 1536u);
  EXPECT_EQ(*parse_size("2GB"), 2000000000u);
  EXPECT_EQ(*parse_size("1TiB"), std::uint64_t{1} << 40);
  EXPECT_EQ(*parse_size("1e6"), 1000000u);
  // Units in upper or lower case.
  EXPECT_EQ(*parse_size("60mb"), 60000000u);
  EXPECT_EQ(*parse_size("60Mb"), 60000000u);
  EXPECT_EQ(*parse_size("60mib"), 60u << 20);
  EXPECT_EQ(*parse_size("60MIB"), 60u << 20);
  EXPECT_EQ(*parse_size("2gb"), 2000000000u);
  EXPECT_EQ(*parse_size("3KB"), 3000u);
  EXPECT_EQ(*parse_size("7b"), 7u);
  for (const char* wrong :
       {"", "0", "0.5", "-1", "60M", "60m", "60XB", "60ib", "1e30", "nan", "60MBs", "MB"}) {
    EXPECT_FALSE(parse_size(wrong)) << wrong;
  }
}

TEST(Targets, OneTargetWithCodecSpectralOrNone) {
  const auto refused = [](const auto& options) {
    const auto target = error_target(options);
    return target ? std::string("accepted") : target.error().message;
  };
  TensorOptions options;
  EXPECT_FALSE(*error_target(options));
  options.nmse = 0.01;
  EXPECT_EQ(**error_target(options), (Target{TargetKind::kNmse, false, 0.01}));
  options.codec = CodecChoice::kSpectral;
  EXPECT_TRUE(*error_target(options));
  options.psnr = 40;
  EXPECT_NE(refused(options).find("give only one of"), std::string::npos);
  options.nmse.reset();
  EXPECT_EQ(**error_target(options), (Target{TargetKind::kPsnr, false, 40}));
  for (const CodecChoice codec :
       {CodecChoice::kRaw, CodecChoice::kLossless, CodecChoice::kDirect}) {
    options.codec = codec;
    EXPECT_NE(refused(options).find("codec spectral"), std::string::npos);
  }
  options = {.codec = CodecChoice::kSpectral};
  EXPECT_NE(refused(options).find("needs a quality, a target"), std::string::npos);
  options.max_abs_error = 1e-3;
  EXPECT_FALSE(*error_target(options));
  EXPECT_TRUE(error_bound(options)->has_value());

  EncodeOptions file;
  file.size = 1000;
  EXPECT_EQ(**error_target(file), (Target{TargetKind::kSize, true, 1000}));
  file.bits_per_weight = 3;
  EXPECT_NE(refused(file).find("give only one of"), std::string::npos);
  file.size.reset();
  EXPECT_EQ(**error_target(file), (Target{TargetKind::kBitsPerWeight, true, 3}));
}

TEST(Targets, ImpossibleValuesAndCompanions) {
  for (const double wrong : {0.0, -1.0, 1.0, 2.0, std::nan(""), HUGE_VAL}) {
    EXPECT_FALSE(error_target(TensorOptions{.nmse = wrong})) << wrong;
  }
  for (const double wrong : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_FALSE(error_target(TensorOptions{.psnr = wrong})) << wrong;
    EXPECT_FALSE(error_target(TensorOptions{.bits_per_weight = wrong})) << wrong;
  }
  EncodeOptions empty;
  empty.size = 0;
  EXPECT_FALSE(error_target(empty));
  for (const unsigned states : {0u, 2u, 3u, 5u, 16u}) {
    EXPECT_FALSE(error_target(TensorOptions{.nmse = 0.01, .trellis_states = states}));
  }
  for (const unsigned states : {1u, 4u, 8u, 64u}) {
    EXPECT_TRUE(error_target(TensorOptions{.nmse = 0.01, .trellis_states = states}));
  }
  using Block = std::vector<std::uint8_t>;
  for (const Block& wrong : {Block{0}, Block{65}, Block{8, 0}, Block{64, 64, 2}}) {
    EXPECT_FALSE(error_target(TensorOptions{.nmse = 0.01, .block = wrong}));
  }
  for (const Block& right : {Block{1}, Block{64, 64}, Block{2, 2, 2, 8, 8, 8}}) {
    EXPECT_TRUE(error_target(TensorOptions{.nmse = 0.01, .block = right}));
  }
  EXPECT_TRUE(error_bound(TensorOptions{.max_abs_error = 1e-3, .nmse = 0.01}));
  EXPECT_FALSE(error_bound(TensorOptions{.max_rel_error = 1e-3, .nmse = 0.01}));
  EXPECT_FALSE(error_bound(TensorOptions{.max_sigma_error = 1e-3, .psnr = 40}));
  EXPECT_FALSE(
      error_bound(TensorOptions{.codec = CodecChoice::kSpectral, .max_sigma_error = 1e-3}));
  EncodeOptions file;
  file.size = 1000;
  file.max_sigma_error = 1e-3;
  EXPECT_FALSE(error_target(file));
}

TEST(Targets, Names) {
  EXPECT_EQ(target_kind_name(TargetKind::kBitsPerWeight), "bits_per_weight");
  EXPECT_EQ(target_kind_name(static_cast<TargetKind>(9)), "unknown");
  EXPECT_EQ(bound_kind_name(BoundKind::kNone), "none");
  EXPECT_EQ(codec_choice_from_name("spectral"), CodecChoice::kSpectral);
  EXPECT_EQ(codec_name(CodecId::kSpectral), "spectral");
}

}  // namespace
}  // namespace cfck

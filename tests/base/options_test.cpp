// Options as aggregates: designated initialisers, and no member of TensorOptions forgotten.
#include "cfck/options.hpp"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

namespace cfck::test {
namespace {

// All members of TensorOptions. It does not compile where their number is another: then
// EncodeOptions and its conversions lack one too.
auto members_of(const TensorOptions& options) {
  const auto& [codec, max_abs, max_rel, max_sigma, per_row, nmse, psnr, bits, states, steps, block,
               quality] = options;
  return std::tie(codec, max_abs, max_rel, max_sigma, per_row, nmse, psnr, bits, states, steps,
                  block, quality);
}

TensorOptions unlike_the_default() {
  return {.codec = CodecChoice::kSpectral,
          .max_abs_error = 1,
          .max_rel_error = 2,
          .max_sigma_error = 3,
          .per_row = true,
          .nmse = 4,
          .psnr = 5,
          .bits_per_weight = 6,
          .trellis_states = 7,
          .steps = StepPreset::kPrior,
          .block = {8, 8},
          .quality = Quality::kSmall};
}

template <std::size_t... I>
bool all_differ(const TensorOptions& one, const TensorOptions& other, std::index_sequence<I...>) {
  const auto members = members_of(one);
  const auto others = members_of(other);
  return (!(std::get<I>(members) == std::get<I>(others)) && ...);
}

TEST(Options, EncodeOptionsHaveEveryMemberOfTensorOptions) {
  const TensorOptions plain = unlike_the_default();
  const TensorOptions defaults;
  constexpr std::size_t kMembers = std::tuple_size_v<decltype(members_of(plain))>;
  EXPECT_TRUE(all_differ(plain, defaults, std::make_index_sequence<kMembers>()));
  EncodeOptions options;
  EXPECT_EQ(options.tensor_options(), TensorOptions());
  options.set_tensor_options(plain);
  EXPECT_EQ(options.tensor_options(), plain);
  EXPECT_EQ(static_cast<TensorOptions>(options), plain);
}

TEST(Options, HaveDesignatedInitialisers) {
  const EncodeOptions options{.max_abs_error = 1e-3, .threads = 2, .level = EncodeLevel::kFast};
  EXPECT_EQ(options.tensor_options(), TensorOptions{.max_abs_error = 1e-3});
  EXPECT_EQ(options.threads, 2u);
  EXPECT_EQ(options.level, EncodeLevel::kFast);
  EXPECT_EQ(error_bound(options)->value().value, 1e-3);
  const DecodeOptions decode{.threads = 1, .limits = {.max_records = 3}};
  EXPECT_EQ(decode.limits.max_records, 3u);
}

TEST(Options, QualitiesHaveNames) {
  ASSERT_EQ(quality_names().size(), 4u);
  for (const std::string_view name : quality_names()) {
    const std::optional<Quality> quality = quality_from_name(name);
    ASSERT_TRUE(quality.has_value()) << name;
    EXPECT_EQ(quality_name(*quality), name);
  }
  EXPECT_EQ(quality_from_name("best"), std::nullopt);
  EXPECT_EQ(quality_name(static_cast<Quality>(9)), "unknown");
}

TEST(Options, QualitiesAreRefusedBesideWhatContradictsThem) {
  const auto message = [](TensorOptions options) {
    options.quality = Quality::kHigh;
    const auto target = error_target(options);
    return target ? std::string() : target.error().message;
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.max_abs_error = 0.1}), "");
  EXPECT_EQ(message({.codec = CodecChoice::kSpectral}), "");
  EXPECT_NE(message({.bits_per_weight = 3}).find("either quality or bits_per_weight"),
            std::string::npos);
  EXPECT_NE(message({.max_rel_error = 0.1}).find("max_rel_error cannot"), std::string::npos);
  EXPECT_NE(message({.max_sigma_error = 0.1}).find("max_sigma_error cannot"), std::string::npos);
  EXPECT_NE(message({.codec = CodecChoice::kDirect}).find("needs codec spectral"),
            std::string::npos);
  EXPECT_NE(message({.codec = CodecChoice::kLossless}).find("needs codec spectral"),
            std::string::npos);
  EXPECT_NE(message({.steps = StepPreset::kFlat}).find("steps flat"), std::string::npos);
  EXPECT_NE(message({.steps = StepPreset::kPrior}).find("steps prior"), std::string::npos);
  EXPECT_EQ(message({.steps = StepPreset::kModel}), "");
  TensorOptions unknown{.quality = static_cast<Quality>(9)};
  EXPECT_FALSE(error_target(unknown));
}

}  // namespace
}  // namespace cfck::test

#include "cfck/tensor.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cfck/options.hpp"
#include "cfck/version.hpp"

namespace cfck {
namespace {

constexpr std::uint64_t kBig = std::uint64_t{1} << 40;

TEST(DType, NamesAndSizesMatch) {
  std::set<std::string_view> names;
  for (int value = 1; value <= 22; ++value) {
    const auto dtype = static_cast<DType>(value);
    names.insert(dtype_name(dtype));
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    EXPECT_NE(bits_per_element(dtype), 0U);
  }
  EXPECT_EQ(names.size(), 22U);
  EXPECT_EQ(bits_per_element(DType::kF4), 4U);
  EXPECT_EQ(bits_per_element(DType::kF6E3M2), 6U);
  EXPECT_EQ(bits_per_element(DType::kBF16), 16U);
  EXPECT_EQ(bits_per_element(DType::kC64), 64U);
}

TEST(DType, KnowsWhatItDoesNotKnow) {
  for (const int value : {0, 23, 255}) {
    EXPECT_EQ(bits_per_element(static_cast<DType>(value)), 0U);
    EXPECT_EQ(dtype_name(static_cast<DType>(value)), "UNKNOWN");
  }
  EXPECT_FALSE(dtype_from_name("UNKNOWN"));
  EXPECT_FALSE(dtype_from_name("f32"));
}

TEST(Tensor, CountsElements) {
  EXPECT_EQ(n_elems({}).value(), 1U);
  EXPECT_EQ(n_elems({0}).value(), 0U);
  EXPECT_EQ(n_elems({3, 4, 5}).value(), 60U);
  EXPECT_EQ(n_elems({(std::uint64_t{1} << 62), 1}).value(), std::uint64_t{1} << 62);
  EXPECT_EQ(n_elems({kBig, kBig}).error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(n_elems({std::uint64_t{1} << 63}).error().code, ErrorCode::kLimitExceeded);
}

TEST(Tensor, ZeroDoesNotHideAnOverflow) {
  EXPECT_EQ(n_elems({0, kBig, kBig}).error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(n_elems({kBig, kBig, 0}).error().code, ErrorCode::kLimitExceeded);
}

TEST(Tensor, CountsBytes) {
  EXPECT_EQ(n_bytes(DType::kF32, {3, 4}).value(), 48U);
  EXPECT_EQ(n_bytes(DType::kF64, {0}).value(), 0U);
  EXPECT_EQ(n_bytes(DType::kF4, {6}).value(), 3U);
  EXPECT_EQ(n_bytes(DType::kF6E2M3, {4}).value(), 3U);
  EXPECT_EQ(n_bytes(DType::kF4, {3}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(n_bytes(DType::kF6E3M2, {6}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(n_bytes(static_cast<DType>(99), {1}).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(n_bytes(DType::kF64, {std::uint64_t{1} << 60}).error().code, ErrorCode::kLimitExceeded);
}

TEST(Options, NamesOfCodecs) {
  EXPECT_EQ(codec_name(CodecId::kRaw), "raw");
  EXPECT_EQ(codec_name(CodecId::kLossless), "lossless");
  EXPECT_EQ(codec_name(static_cast<CodecId>(77)), "unknown");
  EXPECT_EQ(entropy_name(EntropyId::kNone), "none");
  EXPECT_EQ(entropy_name(EntropyId::kZstd), "zstd");
  EXPECT_EQ(entropy_name(EntropyId::kRans), "rans");
  EXPECT_EQ(entropy_name(static_cast<EntropyId>(77)), "unknown");
  EXPECT_EQ(codec_choice_from_name("auto"), CodecChoice::kAuto);
  EXPECT_EQ(codec_choice_from_name("raw"), CodecChoice::kRaw);
  EXPECT_EQ(codec_choice_from_name("lossless"), CodecChoice::kLossless);
  EXPECT_FALSE(codec_choice_from_name("Lossless"));
  std::vector<std::string_view> names;
  for (const std::string_view name : codec_choice_names()) {
    EXPECT_TRUE(codec_choice_from_name(name)) << name;
    names.push_back(name);
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"auto", "raw", "lossless", "direct", "spectral",
                                                  "rows"}));
}

TEST(Options, NamesOfEntropyStagesAndLevels) {
  for (const EntropyId id : {EntropyId::kZstd, EntropyId::kRans}) {
    EXPECT_EQ(entropy_choice_from_name(entropy_name(id)), id);
  }
  for (const char* name : {"none", "unknown", "", "Zstd", "rans "}) {
    EXPECT_FALSE(entropy_choice_from_name(name)) << name;
  }
  EXPECT_EQ(encode_level_name(EncodeLevel::kFast), "fast");
  EXPECT_EQ(encode_level_name(EncodeLevel::kDefault), "default");
  EXPECT_EQ(encode_level_name(EncodeLevel::kArchive), "archive");
  EXPECT_EQ(encode_level_name(static_cast<EncodeLevel>(3)), "unknown");
  for (const EncodeLevel level :
       {EncodeLevel::kFast, EncodeLevel::kDefault, EncodeLevel::kArchive}) {
    EXPECT_EQ(encode_level_from_name(encode_level_name(level)), level);
  }
  for (const char* name : {"unknown", "", "Fast", "best"}) {
    EXPECT_FALSE(encode_level_from_name(name)) << name;
  }
}

TEST(Version, HasThreeNumbers) {
  EXPECT_EQ(std::string(library_version()), std::to_string(CFCK_VERSION_MAJOR) + "." +
                                                std::to_string(CFCK_VERSION_MINOR) + "." +
                                                std::to_string(CFCK_VERSION_PATCH));
}

}  // namespace
}  // namespace cfck

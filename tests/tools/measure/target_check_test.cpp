// Whether targets are met, from sums over values.
#include "tools/measure/target_check.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace cfck::tools {
namespace {

// 1000 values from -1 to 1, all of them off by `error`.
TargetTotals totals_with(double error) {
  TargetTotals totals;
  for (int i = 0; i < 1000; ++i) {
    const double x = i % 2 == 0 ? 1 : -1;
    totals.add_value(x, x + error);
  }
  totals.n_elems = 1000;
  totals.stored_bytes = 375;
  totals.file_bytes = 1000;
  return totals;
}

Target whole(TargetKind kind, double value) { return {kind, true, value}; }

TEST(TargetCheck, EachKindIsKeptFromItsSide) {
  const TargetTotals totals = totals_with(0.125);  // nmse 2^-6, psnr 10 log10(4 * 2^6)
  const double psnr = 10 * std::log10(256);
  const struct {
    TargetKind kind;
    double kept;
    double broken;
  } cases[] = {{TargetKind::kNmse, 0x1p-6, 0x1p-6 * 0.999999},
               {TargetKind::kPsnr, psnr - 1e-9, psnr + 1e-6},
               {TargetKind::kBitsPerWeight, 3, 2.999999},
               {TargetKind::kSize, 1000, 999}};
  for (const auto& c : cases) {
    EXPECT_TRUE(check_target(whole(c.kind, c.kept), totals)) << target_kind_name(c.kind);
    const Result<void> broken = check_target(whole(c.kind, c.broken), totals, "w");
    ASSERT_FALSE(broken) << target_kind_name(c.kind);
    EXPECT_EQ(broken.error().code, ErrorCode::kChecksum);
    EXPECT_EQ(broken.error().record, "w");
    EXPECT_NE(broken.error().message.find(target_kind_name(c.kind)), std::string::npos);
  }
  EXPECT_TRUE(check_target({}, totals));
}

TEST(TargetCheck, SumsOfSeveralFiles) {
  TargetTotals all = totals_with(0.125);
  all.add(totals_with(0));
  EXPECT_TRUE(check_target(whole(TargetKind::kNmse, 0x1p-7), all));
  EXPECT_FALSE(check_target(whole(TargetKind::kNmse, 0x1p-7 * 0.999), all));
  EXPECT_TRUE(check_target(whole(TargetKind::kBitsPerWeight, 3), all));
  EXPECT_TRUE(check_target(whole(TargetKind::kSize, 2000), all));
  EXPECT_FALSE(check_target(whole(TargetKind::kSize, 1999), all));
}

TEST(TargetCheck, NothingIsNeverTooMuch) {
  const TargetTotals none;
  for (const TargetKind kind :
       {TargetKind::kNmse, TargetKind::kPsnr, TargetKind::kBitsPerWeight, TargetKind::kSize}) {
    EXPECT_TRUE(check_target(whole(kind, 0.01), none));
    EXPECT_TRUE(kind == TargetKind::kBitsPerWeight || kind == TargetKind::kSize ||
                check_target(whole(kind, 0.01), totals_with(0)));
  }
}

}  // namespace
}  // namespace cfck::tools

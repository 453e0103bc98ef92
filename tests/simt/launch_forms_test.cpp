// Which form of a kernel is started for so many items, and with how many blocks and warps.
#include <gtest/gtest.h>

#include "cuda/host/kernels.hpp"

namespace cfck::cuda {
namespace {

constexpr unsigned kMultiprocessors = 132;

const KernelForms& forms_of(device::Kernel kernel) {
  return kKernelForms[static_cast<unsigned>(kernel)];
}

TEST(LaunchForms, ItemsThatFitAtOnceGetATeamEach) {
  for (const auto& [kernel, blocks] : {std::pair{device::Kernel::kDecodeLosslessBf16, 4U},
                                       std::pair{device::Kernel::kDecodeDirectF32, 4U}}) {
    const KernelForms& forms = forms_of(kernel);
    ASSERT_EQ(forms.each_block.blocks, blocks);
    for (const unsigned n_fitting : {1U, 2U, blocks, 8U}) {
      const unsigned most = std::min(n_fitting, blocks) * kMultiprocessors;
      for (const unsigned n_items : {1U, most}) {
        const FormLaunch few = form_for_items(forms, n_items, kMultiprocessors, n_fitting);
        EXPECT_EQ(few.form, &forms.each_block) << n_items;
        EXPECT_EQ(few.n_blocks, n_items);
        EXPECT_EQ(few.warps_per_block, kWarpsOfTeam);
      }
      EXPECT_EQ(form_for_items(forms, most + 1, kMultiprocessors, n_fitting).form,
                &forms.each_warp);
    }
    // Where no team fits, as where the driver says so of code that it cannot start.
    EXPECT_EQ(form_for_items(forms, 1, kMultiprocessors, 0).form, &forms.each_warp);
  }
}

TEST(LaunchForms, WarpsAreSpreadOverTheMultiprocessors) {
  const KernelForms& forms = forms_of(device::Kernel::kDecodeLosslessF32);
  const FormLaunch some = form_for_items(forms, 200, kMultiprocessors, 1);
  EXPECT_EQ(some.form, &forms.each_warp);
  EXPECT_EQ(some.warps_per_block, 2U);
  EXPECT_EQ(some.n_blocks, 100U);
  const FormLaunch many = form_for_items(forms, 1'000'000, kMultiprocessors, 4);
  EXPECT_EQ(many.warps_per_block, kLosslessWarpsPerBlock);
  EXPECT_EQ(many.n_blocks, kMultiprocessors * kLosslessBlocks);
}

TEST(LaunchForms, KernelsOfOneFormHaveThat) {
  const KernelForms& hashes = forms_of(device::Kernel::kHashExtents);
  const KernelForms& copies = forms_of(device::Kernel::kCopyBytes);
  for (const unsigned n_items : {1U, 100'000U}) {
    EXPECT_FALSE(may_have_blocks_each(hashes, n_items, kMultiprocessors));
    EXPECT_FALSE(may_have_blocks_each(copies, n_items, kMultiprocessors));
    EXPECT_EQ(form_for_items(hashes, n_items, kMultiprocessors, 0).form, &hashes.each_warp);
    EXPECT_EQ(form_for_items(copies, n_items, kMultiprocessors, 0).form, &copies.each_block);
  }
}

TEST(LaunchForms, OnlyFewItemsAskTheDevice) {
  const KernelForms& forms = forms_of(device::Kernel::kDecodeLosslessF64);
  EXPECT_TRUE(may_have_blocks_each(forms, 4 * kMultiprocessors, kMultiprocessors));
  EXPECT_FALSE(may_have_blocks_each(forms, 4 * kMultiprocessors + 1, kMultiprocessors));
}

}  // namespace
}  // namespace cfck::cuda

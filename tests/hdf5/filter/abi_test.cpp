// The plug-in's own declarations against those of an installed HDF5.
#include "hdf5/filter/abi.hpp"

#include <H5PLextern.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

namespace cfck::hdf5 {
namespace {

// Function pointers differ in the names of their integer types only: each member is compared by
// its place and size.
#define CFCK_SAME_PLACE(member)                                                   \
  static_assert(offsetof(FilterClass, member) == offsetof(H5Z_class2_t, member)); \
  static_assert(sizeof(FilterClass::member) == sizeof(H5Z_class2_t::member))

static_assert(std::is_signed_v<hid_t> && sizeof(hid_t) == sizeof(Id));
static_assert(sizeof(herr_t) == sizeof(int) && sizeof(htri_t) == sizeof(int));
static_assert(sizeof(FilterClass) == sizeof(H5Z_class2_t));
CFCK_SAME_PLACE(version);
CFCK_SAME_PLACE(id);
CFCK_SAME_PLACE(encoder_present);
CFCK_SAME_PLACE(decoder_present);
CFCK_SAME_PLACE(name);
CFCK_SAME_PLACE(can_apply);
CFCK_SAME_PLACE(set_local);
CFCK_SAME_PLACE(filter);
#undef CFCK_SAME_PLACE

TEST(Hdf5FilterAbi, ConstantsAreThoseOfHdf5) {
  EXPECT_EQ(kFilterClassVersion, H5Z_CLASS_T_VERS);
  EXPECT_EQ(kPluginTypeFilter, static_cast<int>(H5PL_TYPE_FILTER));
  EXPECT_EQ(kFlagReverse, static_cast<unsigned>(H5Z_FLAG_REVERSE));
  EXPECT_EQ(kFirstTestingFilter, H5Z_FILTER_RESERVED);
}

}  // namespace
}  // namespace cfck::hdf5

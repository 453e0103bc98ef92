// Planes by vectors are those of plain loops, with one thread and with 32 lanes.
#include <gtest/gtest.h>

#include <cstring>

#include "spectral/kernels/byte_planes.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::spectral {
namespace {

TEST(SpectralPlanes, BytePlanesAgreeWithPlainPlanes) {
  Random random(11);
  for (unsigned n_planes = 1; n_planes <= 8; ++n_planes) {
    std::uint8_t bytes[kGroupSize];
    for (auto& byte : bytes) {
      byte = static_cast<std::uint8_t>((random.next() >> 56) & ((1u << n_planes) - 1));
    }
    std::uint8_t planes[8 * kPlaneBytes];
    pack_byte_planes(bytes, n_planes, planes);
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      std::uint8_t expected[2][kPlaneBytes];
      pack_plane<std::uint8_t, SerialLanes>(bytes, n_planes - 1 - plane, expected[0]);
      pack_plane<std::uint8_t, EmulatedLanes>(bytes, n_planes - 1 - plane, expected[1]);
      EXPECT_EQ(std::memcmp(planes + plane * kPlaneBytes, expected[0], kPlaneBytes), 0);
      EXPECT_EQ(std::memcmp(expected[0], expected[1], kPlaneBytes), 0);
    }
    std::uint8_t back[kGroupSize];
    unpack_byte_planes(planes, n_planes, back);
    EXPECT_EQ(std::memcmp(back, bytes, sizeof(bytes)), 0);
  }
}

}  // namespace
}  // namespace cfck::spectral

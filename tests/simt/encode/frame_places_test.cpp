// Frames of a device one behind the other, whoever knows first where its own begins.
#include "cuda/kernels/frame_places.cuh"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/simt/emulator.hpp"

namespace cfck::test {
namespace {

using codec::DeviceFramePlace;

struct Nothing {};

// Frames of different lengths, the first of which begins at `begin`.
struct Frames {
  explicit Frames(std::size_t n, std::uint64_t begin) : lengths(n), begins(n, begin) {
    for (std::size_t i = 0; i < n; ++i) {
      lengths[i] = i % 5 == 3 ? 0 : (std::uint64_t{i} << 33) + 7 * i;
    }
    std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), begin);
  }

  // Before the last of them is done these are known: the lengths of all others, and where the first
  // and every step-th one begin.
  std::vector<DeviceFramePlace> known(std::size_t step) const {
    std::vector<DeviceFramePlace> places(lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      places[i].length = i + 1 < lengths.size() ? lengths[i] + 1 : 0;
      places[i].begin = i == 0 || (i % step == 0 && i + 1 < lengths.size()) ? begins[i] + 1 : 0;
    }
    return places;
  }

  std::vector<std::uint64_t> lengths;
  std::vector<std::uint64_t> begins;
};

TEST(EmulatedEncodePlaces, ALookBackEndsWhereAFrameKnows) {
  for (const std::size_t n : {1, 2, 31, 32, 33, 34, 63, 64, 65, 66, 97, 200}) {
    for (const std::size_t step : {1, 2, 30, 31, 32, 33, 64, 1000}) {
      const Frames frames(n, 12345);
      std::vector<DeviceFramePlace> places = frames.known(step);
      const auto item = static_cast<std::uint32_t>(n - 1);
      std::uint64_t found = 0;
      simt::emulate<Nothing>({}, [&](Nothing&) {
        found = cuda::take_place(places.data(), item, frames.lengths[item]);
      });
      EXPECT_EQ(found, frames.begins[item]);
      EXPECT_EQ(places[item].begin, frames.begins[item] + 1);
      EXPECT_EQ(places[item].length, frames.lengths[item] + 1);
    }
  }
}

// Each warp takes the place of a frame, in an order in which most have to wait.
TEST(EmulatedEncodePlaces, FramesWaitForLengths) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const std::size_t n = 15;
    const std::size_t n_before = 3 * seed;
    const Frames frames(n_before + n, 0);
    std::vector<DeviceFramePlace> places(n_before + n);
    for (std::size_t i = 0; i < n_before; ++i) {
      places[i] = {i == 0 ? 1u : 0u, frames.lengths[i] + 1};
    }
    std::vector<std::uint64_t> found(n_before + n);
    simt::Launch launch;
    launch.warps_per_block = n;
    launch.order = simt::LaneOrder::kShuffled;
    launch.seed = seed;
    simt::emulate<Nothing>(launch, [&](Nothing&) {
      const auto item = static_cast<std::uint32_t>(n_before + n - 1 - simt::warp_of_block());
      found[item] = cuda::take_place(places.data(), item, frames.lengths[item]);
    });
    for (std::size_t i = n_before; i < n_before + n; ++i) {
      EXPECT_EQ(found[i], frames.begins[i]);
      EXPECT_EQ(places[i].begin, frames.begins[i] + 1);
    }
  }
}

}  // namespace
}  // namespace cfck::test

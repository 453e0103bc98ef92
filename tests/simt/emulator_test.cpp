#include "tests/simt/emulator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/simt/warp.cuh"
#include "codec/indices/low_bits.hpp"
#include "codec/symboliser/device/raw_bits_device.cuh"

namespace cfck::simt {
namespace {

constexpr LaneOrder kOrders[] = {LaneOrder::kAscending, LaneOrder::kDescending,
                                 LaneOrder::kShuffled};

struct Slots {
  std::uint32_t of[64];
};

TEST(Emulator, ExchangesValuesInAnyOrder) {
  for (const LaneOrder order : kOrders) {
    std::array<std::uint32_t, 32> from_next{};
    std::array<std::uint32_t, 32> votes{};
    std::array<std::uint32_t, 32> mirrored{};
    emulate(Launch{1, 1, order}, 0, [&](void*) {
      const unsigned me = lane();
      from_next[me] = shuffle(100 + me, me + 1);
      votes[me] = ballot(me % 3 == 0);
      mirrored[me] = shuffle_xor(me, 31);
    });
    for (unsigned i = 0; i < 32; ++i) {
      EXPECT_EQ(from_next[i], 100 + (i + 1) % 32);
      EXPECT_EQ(votes[i], 0x49249249u);
      EXPECT_EQ(mirrored[i], 31 - i);
    }
  }
}

TEST(Emulator, BlocksHaveWarpsThatShareMemory) {
  for (const LaneOrder order : kOrders) {
    std::vector<std::uint32_t> sums(3);
    emulate<Slots>(Launch{3, 2, order}, [&](Slots& slots) {
      const unsigned me = warp_of_block() * kWarpLanes + lane();
      slots.of[me] = me + block();
      sync_block();
      if (me == 0) {
        for (const std::uint32_t slot : slots.of) {
          sums[block()] += slot;
        }
      }
    });
    EXPECT_EQ(sums, (std::vector<std::uint32_t>{2016, 2080, 2144}));
  }
}

// Warps that share memory without a barrier between them would be seen to do so.
TEST(Emulator, ShuffledWarpsTakeTurns) {
  for (const LaneOrder order : kOrders) {
    std::vector<unsigned> turns;
    emulate(Launch{1, 3, order}, 0, [&](void*) {
      for (unsigned i = 0; i < 500; ++i) {
        if (lane() == 0) {
          turns.push_back(warp_of_block());
        }
        sync_warp();
      }
      sync_block();
    });
    ASSERT_EQ(turns.size(), 1500U);
    unsigned n_changes = 0;
    for (std::size_t i = 1; i < turns.size(); ++i) {
      n_changes += turns[i] != turns[i - 1] ? 1 : 0;
    }
    if (order == LaneOrder::kShuffled) {
      EXPECT_GT(n_changes, 20U);
    } else {
      EXPECT_EQ(n_changes, 2U);
    }
  }
}

TEST(Emulator, AtomicsCountEveryLane) {
  std::uint32_t count = 0;
  std::uint32_t bits = 0;
  emulate(Launch{2, 4, LaneOrder::kShuffled}, 0, [&](void*) {
    atomic_add(&count, 2);
    atomic_or(&bits, 1u << lane());
  });
  EXPECT_EQ(count, 2u * 2 * 4 * 32);
  EXPECT_EQ(bits, kAllLanes);
}

TEST(Emulator, WordsEndWhereTheirBytesEnd) {
  const std::vector<std::uint8_t> bytes = {1, 2, 3, 4, 5};
  EXPECT_EQ(load_word(bytes.data(), bytes.data() + 5), 0x04030201u);
  EXPECT_EQ(load_word(bytes.data() + 3, bytes.data() + 5) & 0xffff, 0x0504u);
}

TEST(Emulator, LanesLoadTheBitsOfTheirNeighbours) {
  for (unsigned n_bits = 1; n_bits <= 25; ++n_bits) {
    for (const unsigned n : {codec::kGroupSize, codec::kGroupSize - 1, 33u, 1u}) {
      SCOPED_TRACE(std::to_string(n_bits) + " bits of " + std::to_string(n));
      std::uint32_t values[codec::kGroupSize] = {};
      for (unsigned i = 0; i < n; ++i) {
        values[i] = (0x9e3779b9u * (i + 1) ^ 0x85ebca6bu >> (i % 32)) & ((1u << n_bits) - 1);
      }
      // A byte later than at a multiple of four, and no longer than the bits.
      std::vector<std::byte> bytes(1 + codec::packed_bytes(n_bits, n));
      codec::write_low_bits(values, n_bits, n, bytes.data() + 1);
      const auto* const from = reinterpret_cast<const std::uint8_t*>(bytes.data()) + 1;
      std::array<std::uint32_t, codec::kGroupSize> found{};
      emulate(Launch{}, 0, [&](void*) {
        std::uint32_t numbers[codec::kLaneValues] = {};
        const std::uint8_t* const end = codec::add_bits_of_group(from, n_bits, 2, n, numbers);
        EXPECT_EQ(end, from + codec::packed_bytes(n_bits, n));
        for (unsigned t = 0; t < codec::kLaneValues; ++t) {
          found[codec::place_in_group(n == codec::kGroupSize, t, lane())] = numbers[t];
        }
      });
      for (unsigned i = 0; i < codec::kGroupSize; ++i) {
        EXPECT_EQ(found[i], values[i] << 2) << i;
      }
    }
  }
}

TEST(Emulator, MarkedValuesAreNumberedInTheirOrder) {
  for (const bool is_whole : {false, true}) {
    std::array<bool, codec::kGroupSize> is_marked{};
    for (unsigned i = 0; i < codec::kGroupSize; ++i) {
      is_marked[i] = i * i % 7 < 3;
    }
    std::array<std::uint32_t, codec::kGroupSize> numbers{};
    emulate(Launch{}, 0, [&](void*) {
      std::uint32_t marks = 0;
      for (unsigned t = 0; t < codec::kLaneValues; ++t) {
        marks |= (is_marked[codec::place_in_group(is_whole, t, lane())] ? 1u : 0u) << t;
      }
      const std::uint32_t n =
          codec::each_marked(is_whole, marks, [&](unsigned t, std::uint32_t number) {
            numbers[codec::place_in_group(is_whole, t, lane())] = number;
          });
      EXPECT_EQ(n, std::count(is_marked.begin(), is_marked.end(), true));
    });
    std::uint32_t n = 0;
    for (unsigned i = 0; i < codec::kGroupSize; ++i) {
      if (is_marked[i]) {
        EXPECT_EQ(numbers[i], n++) << i;
      }
    }
  }
}

using EmulatorDeathTest = ::testing::Test;

TEST(EmulatorDeathTest, StopsWhereLanesMeetAtDifferentPlaces) {
  EXPECT_DEATH(emulate(Launch{}, 0,
                       [](void*) {
                         if (lane() < 7) {
                           sync_warp();
                         } else {
                           (void)ballot(true);
                         }
                       }),
               "lanes meet at different places");
}

TEST(EmulatorDeathTest, StopsWhereALaneIsDoneWhileOthersWait) {
  EXPECT_DEATH(emulate(Launch{}, 0,
                       [](void*) {
                         if (lane() != 3) {
                           sync_warp();
                         }
                       }),
               "lanes do not meet");
}

TEST(EmulatorDeathTest, StopsWhereAWarpIsMissingAtABarrier) {
  EXPECT_DEATH(emulate(Launch{1, 2}, 0,
                       [](void*) {
                         if (warp_of_block() == 0) {
                           sync_block();
                         }
                       }),
               "lanes do not meet");
}

TEST(EmulatorDeathTest, StopsWhereSharedMemoryIsLoadedAsIfItWereGlobal) {
  EXPECT_DEATH(
      emulate(Launch{}, 16,
              [](void* shared) { (void)load_byte(static_cast<const std::uint8_t*>(shared) + 15); }),
      "lane 0 loads shared memory");
}

}  // namespace
}  // namespace cfck::simt

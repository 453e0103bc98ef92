// The words of lane sets for long runs of steps. Half of a ring is filled while the other half is
// used, with words that were asked for one refill before: a warp never waits for the memory where
// it needs them, and nothing is moved.
#pragma once

#include "codec/entropy/rans/device.cuh"

namespace cfck::codec {

// The words of a set in shared memory: two halves of 64 words, and the first 32 of them once more,
// since a step takes up to 32 from any place without a look at the end.
struct StreamRing {
  static constexpr unsigned kHalfWords = 2 * simt::kWarpLanes;
  static constexpr unsigned kWords = 2 * kHalfWords + simt::kWarpLanes;
  union {
    std::uint16_t words[kWords];
    std::uint32_t pairs[kWords / 2];
  };
};

template <unsigned n_sets>
class WordStream {
  static constexpr unsigned kHalfWords = StreamRing::kHalfWords;
  static constexpr std::uint32_t kHalfBytes = 2 * kHalfWords;

 public:
  // Takes over from the rings of `lanes`, whose states it changes, until close(). `rings` are
  // n_sets.
  CFCK_DEVICE WordStream(DeviceLanes<n_sets>& lanes, StreamRing* rings)
      : lanes_(lanes), rings_(rings) {
    std::uint32_t from[n_sets];
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      from[set] = next_byte(lanes, set);
    }
    simt::sync_warp();
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      put(set, 0, take(ask(set, from[set]), from[set]));
      put(set, kHalfWords, take(ask(set, from[set] + kHalfBytes), from[set] + kHalfBytes));
      next_[set] = from[set] + 2 * kHalfBytes;
      coming_[set] = ask(set, next_[set]);
      at_[set] = 0;
      limit_[set] = kHalfWords;
    }
    simt::sync_warp();
  }

  // Fills the halves that are used up. Called before a step of each set.
  CFCK_DEVICE void refill() {
    bool is_low = false;
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      is_low = is_low || at_[set] >= limit_[set];
    }
    if (!is_low) {
      return;
    }
    simt::sync_warp();  // whoever still reads the words of the last step
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      if (at_[set] >= limit_[set]) {
        const bool is_first = limit_[set] == kHalfWords;
        put(set, is_first ? 0 : kHalfWords, take(coming_[set], next_[set]));
        at_[set] -= is_first ? 0 : 2 * kHalfWords;
        limit_[set] = is_first ? 2 * kHalfWords : kHalfWords;
        next_[set] += kHalfBytes;
        coming_[set] = ask(set, next_[set]);
      }
    }
    simt::sync_warp();
  }

  // decode_step() for a step in which every lane is active. Requires: refill() since the last step
  // of the set.
  CFCK_DEVICE std::uint32_t step(unsigned set, const DeviceTable& table,
                                 bool /*is_active*/ = true) {
    const std::uint32_t state = lanes_.state[set];
    const std::uint32_t bucket = state >> kRansBucketBits & (kRansSymbols - 1);
    const std::uint32_t own = table.own[bucket];
    const std::uint32_t other = table.alias[bucket];
    const bool is_alias = is_alias_slot(state, own);
    const std::uint32_t next = next_device_state(state, is_alias ? other : own);
    const bool takes = next < kRansLowest;
    const std::uint32_t votes = simt::ballot(takes);
    const std::uint32_t place = at_[set] + simt::popcount(votes & simt::lanes_below());
    const std::uint32_t word = rings_[set].words[place];
    at_[set] += simt::popcount(votes);
    lanes_.state[set] = takes ? next << 16 | word : next;
    return is_alias ? other >> kDeviceSymbolShift : bucket;
  }

  // A step of each set with the same table; `symbols` has room for a symbol of each. What the sets
  // read from shared memory they ask for one after another, and wait for together. Requires:
  // refill() since the last step of any set.
  CFCK_DEVICE void step_all(const DeviceTable& table, std::uint32_t* symbols) {
    std::uint32_t own[n_sets];
    std::uint32_t other[n_sets];
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      symbols[set] = lanes_.state[set] >> kRansBucketBits & (kRansSymbols - 1);
      own[set] = table.own[symbols[set]];
      other[set] = table.alias[symbols[set]];
    }
    std::uint32_t votes[n_sets];
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      const std::uint32_t state = lanes_.state[set];
      const bool is_alias = is_alias_slot(state, own[set]);
      symbols[set] = is_alias ? other[set] >> kDeviceSymbolShift : symbols[set];
      lanes_.state[set] = next_device_state(state, is_alias ? other[set] : own[set]);
      votes[set] = simt::ballot(lanes_.state[set] < kRansLowest);
    }
    std::uint32_t words[n_sets];
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      const std::uint32_t place = at_[set] + simt::popcount(votes[set] & simt::lanes_below());
      words[set] = rings_[set].words[place];
      at_[set] += simt::popcount(votes[set]);
    }
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      // The word goes below the state where there was a vote for it. A condition would be a
      // predicate, for which the assembler puts the sets one after another again: each has to wait
      // for its word before the next may vote. States are below 2^31.
      const std::uint32_t takes = (lanes_.state[set] - kRansLowest) >> 31;
      const std::uint32_t digits = 0x3210u - takes * (0x3210u - 0x1054u);
      lanes_.state[set] = simt::pick_bytes(lanes_.state[set], words[set], digits);
    }
  }

  // Lets the rings of the lanes go on from here.
  CFCK_DEVICE void close() {
    LanesMark<n_sets> mark;
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      mark.state[set] = lanes_.state[set];
      // `limit` ends the half in use, after which the ring has another one.
      const std::uint32_t left = limit_[set] + kHalfWords - at_[set];
      mark.next[set] = next_[set] - 2 * left;
    }
    go_back(lanes_, mark);
  }

 private:
  CFCK_DEVICE simt::PendingWord ask(unsigned set, std::uint32_t from) const {
    const std::uint32_t of_lane = from + 4 * simt::lane();
    const std::uint32_t end = lanes_.rings[set].end;
    const std::uint8_t* const data = lanes_.section.data;
    return of_lane < end ? simt::ask_word(data + of_lane, data + end) : simt::PendingWord{};
  }
  CFCK_DEVICE std::uint32_t take(const simt::PendingWord& word, std::uint32_t from) const {
    return simt::take(word, lanes_.section.data + from + 4 * simt::lane());
  }
  CFCK_DEVICE void put(unsigned set, unsigned first, std::uint32_t pair) {
    std::uint32_t* const pairs = rings_[set].pairs + simt::lane();
    pairs[first / 2] = pair;
    if (first == 0 && simt::lane() < simt::kWarpLanes / 2) {
      pairs[(kHalfWords + kHalfWords) / 2] = pair;  // behind both halves
    }
  }

  DeviceLanes<n_sets>& lanes_;
  StreamRing* const rings_;
  std::uint32_t at_[n_sets];     // the next word, in the ring
  std::uint32_t limit_[n_sets];  // where the half in use ends
  std::uint32_t next_[n_sets];   // the byte of the section that `coming` begins with
  simt::PendingWord coming_[n_sets];
};

}  // namespace cfck::codec

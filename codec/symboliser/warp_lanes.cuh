// The lane policy of a CUDA warp: each thread has four elements of a group. All 32
// threads of the warp take part in every call.
#pragma once

#include "codec/symboliser/lanes.hpp"

namespace cfck::codec {

struct WarpLanes {
  template <class Value>
  struct Reg {
    Value values[kGroupSize / kLanes];
    __device__ Value& operator[](unsigned i) { return values[i / kLanes]; }
  };

  template <class Body>
  __device__ static void each(Body&& body) {
    for (unsigned i = lane(); i < kGroupSize; i += kLanes) {
      body(i);
    }
    __syncwarp();
  }

  template <class Value, class Body>
  __device__ static Value reduce_or(Body&& body) {
    return reduce<Value>(body, [](Value a, Value b) { return static_cast<Value>(a | b); });
  }

  template <class Value, class Body>
  __device__ static Value reduce_max(Body&& body) {
    return reduce<Value>(body, [](Value a, Value b) { return a > b ? a : b; });
  }

  template <class Value, class Body>
  __device__ static Value reduce_sum(Body&& body) {
    return reduce<Value>(body, [](Value a, Value b) { return static_cast<Value>(a + b); });
  }

  template <class Body>
  __device__ static void ballot(std::uint32_t words[kGroupSize / 32], Body&& body) {
    for (unsigned w = 0; w < kGroupSize / 32; ++w) {
      words[w] = __ballot_sync(kAllLanes, body(32 * w + lane()));
    }
  }

  __device__ static unsigned lane() { return threadIdx.x % kLanes; }

 private:
  static constexpr unsigned kAllLanes = 0xffffffffu;

  template <class Value, class Body, class Combine>
  __device__ static Value reduce(Body&& body, Combine&& combine) {
    Value result = 0;
    for (unsigned i = lane(); i < kGroupSize; i += kLanes) {
      result = combine(result, static_cast<Value>(body(i)));
    }
    for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) {
      // Shuffles move 32 or 64 bits.
      using Wide = std::conditional_t<sizeof(Value) == 8, unsigned long long, unsigned>;
      const auto other = __shfl_xor_sync(kAllLanes, static_cast<Wide>(result), distance);
      result = combine(result, static_cast<Value>(other));
    }
    return result;
  }
};

}  // namespace cfck::codec

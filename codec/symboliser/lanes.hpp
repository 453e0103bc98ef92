// Lane policies: how a kernel walks over the 128 values of a group.
//
// A kernel is a template over one of these. Element i belongs to lane i mod 32.
// Reductions are of integers only, so that their order does not matter.
#pragma once

#include <cstdint>

#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr unsigned kLanes = 32;

// A single thread does everything, in plain loops that compilers vectorise.
struct SerialLanes {
  // One value for each element of a group.
  template <class Value>
  struct Reg {
    Value values[kGroupSize];
    CFCK_HD Value& operator[](unsigned i) { return values[i]; }
  };

  template <class Body>
  CFCK_HD static void each(Body&& body) {
    for (unsigned i = 0; i < kGroupSize; ++i) {
      body(i);
    }
  }

  template <class Value, class Body>
  CFCK_HD static Value reduce_or(Body&& body) {
    Value result = 0;
    for (unsigned i = 0; i < kGroupSize; ++i) {
      result = static_cast<Value>(result | body(i));
    }
    return result;
  }

  template <class Value, class Body>
  CFCK_HD static Value reduce_max(Body&& body) {
    Value result = 0;
    for (unsigned i = 0; i < kGroupSize; ++i) {
      const Value value = body(i);
      result = value > result ? value : result;
    }
    return result;
  }

  template <class Value, class Body>
  CFCK_HD static Value reduce_sum(Body&& body) {
    Value result = 0;
    for (unsigned i = 0; i < kGroupSize; ++i) {
      result = static_cast<Value>(result + body(i));
    }
    return result;
  }

  // Bit b of word w says whether body(32 * w + b) holds.
  template <class Body>
  CFCK_HD static void ballot(std::uint32_t words[kGroupSize / 32], Body&& body) {
    for (unsigned w = 0; w < kGroupSize / 32; ++w) {
      std::uint32_t word = 0;
      for (unsigned b = 0; b < 32; ++b) {
        word |= static_cast<std::uint32_t>(body(32 * w + b) ? 1 : 0) << b;
      }
      words[w] = word;
    }
  }
};

// A warp emulated by one thread: lane after lane between two exchanges, which are butterflies as on
// a device. For tests.
struct EmulatedLanes {
  template <class Value>
  using Reg = SerialLanes::Reg<Value>;

  template <class Body>
  static void each(Body&& body) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      for (unsigned i = lane; i < kGroupSize; i += kLanes) {
        body(i);
      }
    }
  }

  template <class Value, class Body>
  static Value reduce_or(Body&& body) {
    return reduce<Value>(body, [](Value a, Value b) { return static_cast<Value>(a | b); });
  }

  template <class Value, class Body>
  static Value reduce_max(Body&& body) {
    return reduce<Value>(body, [](Value a, Value b) { return a > b ? a : b; });
  }

  template <class Value, class Body>
  static Value reduce_sum(Body&& body) {
    return reduce<Value>(body, [](Value a, Value b) { return static_cast<Value>(a + b); });
  }

  template <class Body>
  static void ballot(std::uint32_t words[kGroupSize / 32], Body&& body) {
    for (unsigned w = 0; w < kGroupSize / 32; ++w) {
      words[w] = 0;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      for (unsigned w = 0; w < kGroupSize / 32; ++w) {
        words[w] |= static_cast<std::uint32_t>(body(32 * w + lane) ? 1 : 0) << lane;
      }
    }
  }

 private:
  template <class Value, class Body, class Combine>
  static Value reduce(Body&& body, Combine&& combine) {
    Value partial[kLanes];
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      partial[lane] = 0;
      for (unsigned i = lane; i < kGroupSize; i += kLanes) {
        partial[lane] = combine(partial[lane], static_cast<Value>(body(i)));
      }
    }
    for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) {
      Value next[kLanes];
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        next[lane] = combine(partial[lane], partial[lane ^ distance]);
      }
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        partial[lane] = next[lane];
      }
    }
    return partial[0];
  }
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

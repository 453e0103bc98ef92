// Device code asks the warp that runs it for all that is here. nvcc makes CUDA's own instructions
// of it; the C++ compiler makes calls of the emulator (tests/simt/emulator.hpp), which runs the
// same sources as fibers and stops where lanes do not meet.
//
// Every function that exchanges values is called by all 32 lanes of a warp together. None of them
// orders accesses to memory but sync_warp() and sync_block().
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define CFCK_DEVICE __device__ __forceinline__
#define CFCK_DEVICE_CALL __device__ __noinline__
#define CFCK_UNROLL _Pragma("unroll")
#define CFCK_NO_UNROLL _Pragma("unroll 1")
#else
#define CFCK_DEVICE inline
#define CFCK_DEVICE_CALL inline
#define CFCK_UNROLL
#define CFCK_NO_UNROLL
#endif

namespace cfck::simt {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

#ifdef __CUDACC__

CFCK_DEVICE unsigned lane() { return threadIdx.x % kWarpLanes; }
CFCK_DEVICE unsigned warp_of_block() { return threadIdx.x / kWarpLanes; }
CFCK_DEVICE unsigned warps_per_block() { return blockDim.x / kWarpLanes; }
CFCK_DEVICE unsigned block() { return blockIdx.x; }

CFCK_DEVICE void sync_warp() { __syncwarp(); }
CFCK_DEVICE void sync_block() { __syncthreads(); }
CFCK_DEVICE std::uint32_t shuffle(std::uint32_t value, unsigned from) {
  return __shfl_sync(kAllLanes, value, static_cast<int>(from));
}
CFCK_DEVICE std::uint32_t shuffle_xor(std::uint32_t value, unsigned mask) {
  return __shfl_xor_sync(kAllLanes, value, static_cast<int>(mask));
}
CFCK_DEVICE std::uint32_t ballot(bool holds) { return __ballot_sync(kAllLanes, holds); }
CFCK_DEVICE bool any(bool holds) { return __any_sync(kAllLanes, holds) != 0; }
// Returns the lanes that have the same value.
CFCK_DEVICE std::uint32_t match(std::uint32_t value) { return __match_any_sync(kAllLanes, value); }

CFCK_DEVICE unsigned popcount(std::uint32_t bits) { return static_cast<unsigned>(__popc(bits)); }
// Requires: bits != 0.
CFCK_DEVICE unsigned lowest_bit(std::uint32_t bits) {
  return static_cast<unsigned>(__ffs(static_cast<int>(bits))) - 1;
}
// Requires: bits != 0.
CFCK_DEVICE unsigned highest_bit(std::uint32_t bits) {
  return 31 - static_cast<unsigned>(__clz(static_cast<int>(bits)));
}
CFCK_DEVICE std::uint32_t funnel_right(std::uint32_t low, std::uint32_t high, unsigned bits) {
  return __funnelshift_r(low, high, bits);
}
// Shifts by any number of bits: 0 is left after 32 or more.
CFCK_DEVICE std::uint32_t shift_right(std::uint32_t value, std::uint32_t bits) {
  return __funnelshift_rc(value, 0, bits);
}
// Returns bytes of eight, those of `low` first: digit i of `digits`, which are hexadecimal, says
// which becomes byte i.
CFCK_DEVICE std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, unsigned digits) {
  return __byte_perm(low, high, digits);
}
CFCK_DEVICE std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  return __umul64hi(a, b);
}

// Return the value before.
CFCK_DEVICE std::uint32_t atomic_add(std::uint32_t* where, std::uint32_t value) {
  return atomicAdd(where, value);
}
CFCK_DEVICE std::uint64_t atomic_add(std::uint64_t* where, std::uint64_t value) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  return atomicAdd(reinterpret_cast<unsigned long long*>(where), value);
}
CFCK_DEVICE std::uint32_t atomic_or(std::uint32_t* where, std::uint32_t value) {
  return atomicOr(where, value);
}
// Returns a number that other blocks may be changing, all of it as it was at one moment.
CFCK_DEVICE std::uint64_t peek(const std::uint64_t* where) {
  return *static_cast<const volatile std::uint64_t*>(where);
}
// Orders the lane's writes: others see those before the call before those after it.
CFCK_DEVICE void fence() { __threadfence(); }

CFCK_DEVICE std::uint32_t load_byte(const std::uint8_t* from) { return __ldg(from); }
// Returns the four bytes from `from` on, low ones first; those at or after `end` are unspecified.
// No memory is touched but aligned words that have a byte before `end`, and that of `from`.
// Requires: from < end.
CFCK_DEVICE std::uint32_t load_word(const std::uint8_t* from, const std::uint8_t* end) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3});
  const std::uint32_t low = __ldg(words);
  const std::uint32_t high =
      reinterpret_cast<const std::uint8_t*>(words + 1) < end ? __ldg(words + 1) : 0;
  return __funnelshift_r(low, high, static_cast<unsigned>(address) * 8);
}
// Returns the aligned word that has the byte at `from`, moved by `offset`. (An address that is a
// number for a while is no longer known to be in shared memory.)
CFCK_DEVICE std::uint32_t word_with(const std::uint8_t* from, std::size_t offset) {
  const std::uint8_t* const word = from - (reinterpret_cast<std::uintptr_t>(from) & 3);
  return *reinterpret_cast<const std::uint32_t*>(word + offset);
}
// Return the n_bytes from `from + offset` on, low ones first, up to 4 and 5 to 8; what is above
// them is unspecified. They may be in shared memory, of which load_byte() and load_word() know
// nothing. No memory is touched but aligned words that have one of the bytes. Requires: offset is a
// multiple of 4, so that loads from one address share what is computed of it.
CFCK_DEVICE std::uint32_t load_bytes(const std::uint8_t* from, unsigned n_bytes,
                                     std::size_t offset = 0) {
  // Where the first byte is at an aligned address, nothing of the second word is used.
  return __funnelshift_r(word_with(from, offset), word_with(from + n_bytes - 1, offset),
                         static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from)) * 8);
}
CFCK_DEVICE std::uint64_t load_long(const std::uint8_t* from, unsigned n_bytes,
                                    std::size_t offset = 0) {
  const std::uint32_t middle = word_with(from + 4, offset);
  const unsigned turn = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from)) * 8;
  const std::uint32_t low = __funnelshift_r(word_with(from, offset), middle, turn);
  const std::uint32_t last = word_with(from + n_bytes - 1, offset);
  return std::uint64_t{__funnelshift_r(middle, last, turn)} << 32 | low;
}

// Loads in two steps, so that a warp does other work while the memory takes its time: what is asked
// for is taken from the same address later.
struct PendingWord {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};
struct PendingLong {
  std::uint32_t low = 0;
  std::uint32_t middle = 0;
  std::uint32_t high = 0;
};
CFCK_DEVICE std::uint32_t global_word_with(std::uintptr_t address) {
  return __ldg(reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3}));
}
// Asks for the word of load_word().
CFCK_DEVICE PendingWord ask_word(const std::uint8_t* from, const std::uint8_t* end) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const bool has_high =
      reinterpret_cast<const std::uint8_t*>((address & ~std::uintptr_t{3}) + 4) < end;
  return {global_word_with(address), has_high ? global_word_with(address + 4) : 0};
}
// Ask for the bytes of load_bytes() and load_long(), which are not in shared memory.
CFCK_DEVICE PendingWord ask_bytes(const std::uint8_t* from, unsigned n_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  return {global_word_with(address), global_word_with(address + n_bytes - 1)};
}
CFCK_DEVICE PendingLong ask_long(const std::uint8_t* from, unsigned n_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  return {global_word_with(address), global_word_with(address + 4),
          global_word_with(address + n_bytes - 1)};
}
CFCK_DEVICE std::uint32_t take(const PendingWord& word, const std::uint8_t* from) {
  return __funnelshift_r(word.low, word.high,
                         static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from)) * 8);
}
CFCK_DEVICE std::uint64_t take(const PendingLong& word, const std::uint8_t* from) {
  return std::uint64_t{take(PendingWord{word.middle, word.high}, from)} << 32 |
         take(PendingWord{word.low, word.middle}, from);
}

// Whether four values can be loaded or stored at once from `at` on.
template <class Word>
CFCK_DEVICE bool can_move_four(const Word* at) {
  constexpr unsigned kBytes = 4 * sizeof(Word) < 16 ? 4 * sizeof(Word) : 16;
  return reinterpret_cast<std::uintptr_t>(at) % kBytes == 0;
}
// Four neighbouring values that were asked for, as the memory gives them: whoever takes them apart
// waits for them.
template <class Word>
struct PendingFour {
  std::uint32_t words[sizeof(Word)];
};
// Requires: can_move_four(from).
template <class Word>
CFCK_DEVICE PendingFour<Word> ask_four(const Word* from) {
  PendingFour<Word> four;
  if constexpr (sizeof(Word) == 1) {
    four.words[0] = *reinterpret_cast<const std::uint32_t*>(from);
  } else if constexpr (sizeof(Word) == 2) {
    const uint2 pairs = *reinterpret_cast<const uint2*>(from);
    four.words[0] = pairs.x;
    four.words[1] = pairs.y;
  } else {
    CFCK_UNROLL
    for (unsigned i = 0; i < sizeof(Word); i += 4) {
      const uint4 words = reinterpret_cast<const uint4*>(from)[i / 4];
      four.words[i] = words.x;
      four.words[i + 1] = words.y;
      four.words[i + 2] = words.z;
      four.words[i + 3] = words.w;
    }
  }
  return four;
}
template <class Word>
CFCK_DEVICE Word take(const PendingFour<Word>& four, unsigned t) {
  if constexpr (sizeof(Word) == 8) {
    return std::uint64_t{four.words[2 * t + 1]} << 32 | four.words[2 * t];
  } else {
    constexpr unsigned kInWord = 4 / sizeof(Word);
    return static_cast<Word>(four.words[t / kInWord] >> (t % kInWord * 8 * sizeof(Word)));
  }
}
// Stores four values to neighbouring places. Requires: can_move_four(to).
template <class Word>
CFCK_DEVICE void store_four(Word* to, const Word* values) {
  if constexpr (sizeof(Word) == 1) {
    *reinterpret_cast<std::uint32_t*>(to) =
        std::uint32_t{values[0]} | std::uint32_t{values[1]} << 8 | std::uint32_t{values[2]} << 16 |
        std::uint32_t{values[3]} << 24;
  } else if constexpr (sizeof(Word) == 2) {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(std::uint32_t{values[0]} | std::uint32_t{values[1]} << 16,
                   std::uint32_t{values[2]} | std::uint32_t{values[3]} << 16);
  } else if constexpr (sizeof(Word) == 4) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(static_cast<unsigned>(values[0]), static_cast<unsigned>(values[1]),
                   static_cast<unsigned>(values[2]), static_cast<unsigned>(values[3]));
  } else {
    auto* const pairs = reinterpret_cast<ulonglong2*>(to);
    pairs[0] = make_ulonglong2(values[0], values[1]);
    pairs[1] = make_ulonglong2(values[2], values[3]);
  }
}

// Stores four values of 16 bits, two in each word.
template <class Word>
CFCK_DEVICE void store_pairs(Word* to, std::uint32_t first, std::uint32_t second) {
  *reinterpret_cast<uint2*>(to) = make_uint2(first, second);
}

// Bytes at any address, of which eight at a time are loaded that are not the last of the data: no
// end is looked at. has_odd_words: the word of the first byte is at an odd multiple of four; then
// the second and the third of three words are loaded at once, otherwise the first and the second.
template <bool has_odd_words>
class FollowedBytes {
 public:
  CFCK_DEVICE explicit FollowedBytes(const std::uint8_t* from)
      : pairs_(reinterpret_cast<const uint2*>(reinterpret_cast<std::uintptr_t>(from) &
                                              ~std::uintptr_t{7})),
        bits_(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) & 3) * 8) {}
  struct Pending {
    uint2 pair;
    std::uint32_t word;
  };
  // Asks for those from `at` on, a multiple of 8. The word after them is touched.
  CFCK_DEVICE Pending ask_64(unsigned at) const {
    const uint2* const pairs = pairs_ + at / 8;
    const std::uint32_t* const words = reinterpret_cast<const std::uint32_t*>(pairs);
    return {__ldg(pairs + (has_odd_words ? 1 : 0)), __ldg(words + (has_odd_words ? 1 : 2))};
  }
  CFCK_DEVICE std::uint64_t take(const Pending& asked) const {
    const std::uint32_t low = __funnelshift_r(has_odd_words ? asked.word : asked.pair.x,
                                              has_odd_words ? asked.pair.x : asked.pair.y, bits_);
    const std::uint32_t high = __funnelshift_r(has_odd_words ? asked.pair.x : asked.pair.y,
                                               has_odd_words ? asked.pair.y : asked.word, bits_);
    return std::uint64_t{high} << 32 | low;
  }

 private:
  const uint2* pairs_;
  unsigned bits_;
};

#else

// The place of a call, by which the emulator tells whether lanes meet.
struct Site {
  const char* file;
  unsigned line;
};
#define CFCK_SITE ::cfck::simt::Site site = {__builtin_FILE(), __builtin_LINE()}

unsigned lane();
unsigned warp_of_block();
unsigned warps_per_block();
unsigned block();

void sync_warp(CFCK_SITE);
void sync_block(CFCK_SITE);
std::uint32_t shuffle(std::uint32_t value, unsigned from, CFCK_SITE);
std::uint32_t shuffle_xor(std::uint32_t value, unsigned mask, CFCK_SITE);
std::uint32_t ballot(bool holds, CFCK_SITE);
bool any(bool holds, CFCK_SITE);
std::uint32_t match(std::uint32_t value, CFCK_SITE);

CFCK_DEVICE unsigned popcount(std::uint32_t bits) {
  return static_cast<unsigned>(__builtin_popcount(bits));
}
CFCK_DEVICE unsigned lowest_bit(std::uint32_t bits) {
  return static_cast<unsigned>(__builtin_ctz(bits));
}
CFCK_DEVICE unsigned highest_bit(std::uint32_t bits) {
  return 31 - static_cast<unsigned>(__builtin_clz(bits));
}
CFCK_DEVICE std::uint32_t funnel_right(std::uint32_t low, std::uint32_t high, unsigned bits) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (bits & 31));
}
CFCK_DEVICE std::uint32_t shift_right(std::uint32_t value, std::uint32_t bits) {
  return bits < 32 ? value >> bits : 0;
}
CFCK_DEVICE std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, unsigned digits) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  std::uint32_t picked = 0;
  for (unsigned i = 0; i < 4; ++i) {
    picked |= static_cast<std::uint32_t>(bytes >> 8 * (digits >> 4 * i & 7) & 0xff) << 8 * i;
  }
  return picked;
}
CFCK_DEVICE std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b >> 64);
}

std::uint32_t atomic_add(std::uint32_t* where, std::uint32_t value);
std::uint64_t atomic_add(std::uint64_t* where, std::uint64_t value);
std::uint32_t atomic_or(std::uint32_t* where, std::uint32_t value);
CFCK_DEVICE std::uint64_t peek(const std::uint64_t* where) { return *where; }
CFCK_DEVICE void fence() {}

std::uint32_t load_byte(const std::uint8_t* from);
std::uint32_t load_word(const std::uint8_t* from, const std::uint8_t* end);
std::uint32_t load_bytes(const std::uint8_t* from, unsigned n_bytes, std::size_t offset = 0);
CFCK_DEVICE std::uint64_t load_long(const std::uint8_t* from, unsigned n_bytes,
                                    std::size_t offset = 0) {
  const std::uint32_t low = load_bytes(from, 4, offset);
  return std::uint64_t{load_bytes(from + 4, n_bytes - 4, offset)} << 32 | low;
}

// These are as large as on a device, so that as many groups go together (codec/symboliser/device).
struct PendingWord {
  std::uint32_t word = 0;
  std::uint32_t unused = 0;
};
struct PendingLong {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  std::uint32_t unused = 0;
};
CFCK_DEVICE PendingWord ask_word(const std::uint8_t* from, const std::uint8_t* end) {
  return {load_word(from, end)};
}
CFCK_DEVICE PendingWord ask_bytes(const std::uint8_t* from, unsigned n_bytes) {
  return {load_word(from, from + n_bytes)};
}
CFCK_DEVICE PendingLong ask_long(const std::uint8_t* from, unsigned n_bytes) {
  return {load_word(from, from + 4), load_word(from + 4, from + n_bytes)};
}
CFCK_DEVICE std::uint32_t take(const PendingWord& word, const std::uint8_t*) { return word.word; }
CFCK_DEVICE std::uint64_t take(const PendingLong& word, const std::uint8_t*) {
  return std::uint64_t{word.high} << 32 | word.low;
}

// Stops where it cannot be done.
void expect_aligned(const void* to, std::size_t alignment);

template <class Word>
CFCK_DEVICE bool can_move_four(const Word* at) {
  return reinterpret_cast<std::uintptr_t>(at) % (4 * sizeof(Word) < 16 ? 4 * sizeof(Word) : 16) ==
         0;
}
template <class Word>
struct PendingFour {
  Word values[4];
};
template <class Word>
CFCK_DEVICE PendingFour<Word> ask_four(const Word* from) {
  expect_aligned(from, (4 * sizeof(Word) < 16 ? 4 * sizeof(Word) : 16));
  return {{from[0], from[1], from[2], from[3]}};
}
template <class Word>
CFCK_DEVICE Word take(const PendingFour<Word>& four, unsigned t) {
  return four.values[t];
}
template <class Word>
CFCK_DEVICE void store_four(Word* to, const Word* values) {
  expect_aligned(to, (4 * sizeof(Word) < 16 ? 4 * sizeof(Word) : 16));
  for (unsigned t = 0; t < 4; ++t) {
    to[t] = values[t];
  }
}

template <class Word>
CFCK_DEVICE void store_pairs(Word* to, std::uint32_t first, std::uint32_t second) {
  const Word values[4] = {static_cast<Word>(first), static_cast<Word>(first >> 16),
                          static_cast<Word>(second), static_cast<Word>(second >> 16)};
  store_four(to, values);
}

// Stops unless the word of the byte is at an odd or even multiple of four.
void expect_word(const std::uint8_t* from, bool is_odd);

template <bool has_odd_words>
class FollowedBytes {
 public:
  explicit FollowedBytes(const std::uint8_t* from) : from_(from) {
    expect_word(from, has_odd_words);
  }
  using Pending = std::uint64_t;
  Pending ask_64(unsigned at) const {
    const std::uint8_t* const followed = from_ + at;
    return load_word(followed, followed + 9) | std::uint64_t{load_word(followed + 4, followed + 9)}
                                                   << 32;
  }
  std::uint64_t take(Pending asked) const { return asked; }

 private:
  const std::uint8_t* from_;
};

#endif

// The lanes below the calling one, a bit each.
CFCK_DEVICE std::uint32_t lanes_below() { return (std::uint32_t{1} << lane()) - 1; }

CFCK_DEVICE std::uint64_t shuffle_64(std::uint64_t value, unsigned from) {
  const std::uint32_t low = shuffle(static_cast<std::uint32_t>(value), from);
  const std::uint32_t high = shuffle(static_cast<std::uint32_t>(value >> 32), from);
  return std::uint64_t{high} << 32 | low;
}

// Combines the values of all lanes, of up to 64 bits, and returns the result in each. `combine` may
// take them in any order.
template <class Value, class Combine>
CFCK_DEVICE Value warp_reduce(Value value, Combine&& combine) {
  CFCK_UNROLL
  for (unsigned distance = kWarpLanes / 2; distance != 0; distance /= 2) {
    Value other;
    if constexpr (sizeof(Value) == 8) {
      const std::uint32_t low = shuffle_xor(static_cast<std::uint32_t>(value), distance);
      const std::uint32_t high = shuffle_xor(static_cast<std::uint32_t>(value >> 32), distance);
      other = static_cast<Value>(std::uint64_t{high} << 32 | low);
    } else {
      other = static_cast<Value>(shuffle_xor(value, distance));
    }
    value = static_cast<Value>(combine(value, other));
  }
  return value;
}

// Returns the sum of the values of all lanes in each.
CFCK_DEVICE std::uint64_t warp_sum_64(std::uint64_t value) {
  return warp_reduce(value, [](std::uint64_t a, std::uint64_t b) { return a + b; });
}

// Return the sum of the values of all lanes, the bits that some of them have, and the largest, in
// each. From 8.0 on a device does that in one instruction.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
CFCK_DEVICE std::uint32_t warp_sum(std::uint32_t value) {
  return __reduce_add_sync(kAllLanes, value);
}
CFCK_DEVICE std::uint32_t warp_or(std::uint32_t value) {
  return __reduce_or_sync(kAllLanes, value);
}
CFCK_DEVICE std::uint32_t warp_max(std::uint32_t value) {
  return __reduce_max_sync(kAllLanes, value);
}
#else
CFCK_DEVICE std::uint32_t warp_sum(std::uint32_t value) {
  return warp_reduce(value, [](std::uint32_t a, std::uint32_t b) { return a + b; });
}
CFCK_DEVICE std::uint32_t warp_or(std::uint32_t value) {
  return warp_reduce(value, [](std::uint32_t a, std::uint32_t b) { return a | b; });
}
CFCK_DEVICE std::uint32_t warp_max(std::uint32_t value) {
  return warp_reduce(value, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; });
}
#endif
CFCK_DEVICE std::uint64_t warp_or(std::uint64_t value) {
  const std::uint32_t low = warp_or(static_cast<std::uint32_t>(value));
  return std::uint64_t{warp_or(static_cast<std::uint32_t>(value >> 32))} << 32 | low;
}

// Returns the sum of the values of the calling lane and those below it.
CFCK_DEVICE std::uint32_t running_sum(std::uint32_t value) {
  CFCK_UNROLL
  for (unsigned distance = 1; distance < kWarpLanes; distance *= 2) {
    const std::uint32_t before = shuffle(value, lane() - distance);
    value += lane() >= distance ? before : 0;
  }
  return value;
}

}  // namespace cfck::simt

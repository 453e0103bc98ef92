// XXH3-64 with the default secret and seed 0 on a device, of bytes at any address, by one warp: the
// same as hash64() (base/hashing/hashing.hpp). The algorithm and its numbers are those of the
// specification of XXH3, xxHash 0.8.
#pragma once

#include "base/simt/warp.cuh"

namespace cfck::simt {

// The numbers of XXH3: the secret as little-endian words, and the primes.
struct Xxh3 {
  static constexpr unsigned kSecretWords = 24;
  static constexpr unsigned kStripeBytes = 64;
  static constexpr unsigned kStripes = 16;  // of a block
  static constexpr unsigned kBlockBytes = kStripeBytes * kStripes;
  static constexpr std::uint64_t kPrime32_1 = 0x9e3779b1u;
  static constexpr std::uint64_t kPrime32_2 = 0x85ebca77u;
  static constexpr std::uint64_t kPrime32_3 = 0xc2b2ae3du;
  static constexpr std::uint64_t kPrime64_1 = 0x9e3779b185ebca87u;
  static constexpr std::uint64_t kPrime64_2 = 0xc2b2ae3d27d4eb4fu;
  static constexpr std::uint64_t kPrime64_3 = 0x165667b19e3779f9u;
  static constexpr std::uint64_t kPrime64_4 = 0x85ebca77c2b2ae63u;
  static constexpr std::uint64_t kPrime64_5 = 0x27d4eb2f165667c5u;
};

// Word `i` of the secret.
CFCK_DEVICE std::uint64_t secret_word(unsigned i) {
#ifdef __CUDACC__
  static constexpr __device__ std::uint64_t kWords[Xxh3::kSecretWords] = {
#else
  static constexpr std::uint64_t kWords[Xxh3::kSecretWords] = {
#endif
    0xbe4ba423396cfeb8u,
    0x1cad21f72c81017cu,
    0xdb979083e96dd4deu,
    0x1f67b3b7a4a44072u,
    0x78e5c0cc4ee679cbu,
    0x2172ffcc7dd05a82u,
    0x8e2443f7744608b8u,
    0x4c263a81e69035e0u,
    0xcb00c391bb52283cu,
    0xa32e531b8b65d088u,
    0x4ef90da297486471u,
    0xd8acdea946ef1938u,
    0x3f349ce33f76faa8u,
    0x1d4f0bc7c7bbdcf9u,
    0x3159b4cd4be0518au,
    0x647378d9c97e9fc8u,
    0xc3ebd33483acc5eau,
    0xeb6313faffa081c5u,
    0x49daf0b751dd0d17u,
    0x9e68d429265516d3u,
    0xfca1477d58be162bu,
    0xce31d07ad1b8f88fu,
    0x280416958f3acb45u,
    0x7e404bbbcafbd7afu
  };
  return kWords[i];
}

// Eight bytes of the secret from any place on.
CFCK_DEVICE std::uint64_t secret_at(unsigned byte) {
  const std::uint64_t low = secret_word(byte / 8);
  return byte % 8 == 0 ? low
                       : low >> 8 * (byte % 8) | secret_word(byte / 8 + 1) << (64 - 8 * (byte % 8));
}

// Eight bytes at any address. Requires: from + 8 <= end.
CFCK_DEVICE std::uint64_t load_64(const std::uint8_t* from, const std::uint8_t* end) {
  const std::uint32_t low = load_word(from, end);
  return std::uint64_t{load_word(from + 4, end)} << 32 | low;
}

CFCK_DEVICE std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) {
  return (a * b) ^ multiply_high(a, b);
}
CFCK_DEVICE std::uint64_t rotated(std::uint64_t value, unsigned bits) {
  return value << bits | value >> (64 - bits);
}
CFCK_DEVICE std::uint64_t xxh3_avalanche(std::uint64_t hash) {
  hash ^= hash >> 37;
  hash *= 0x165667919e3779f9u;
  return hash ^ hash >> 32;
}
CFCK_DEVICE std::uint64_t xxh64_avalanche(std::uint64_t hash) {
  hash ^= hash >> 33;
  hash *= Xxh3::kPrime64_2;
  hash ^= hash >> 29;
  hash *= Xxh3::kPrime64_3;
  return hash ^ hash >> 32;
}
CFCK_DEVICE std::uint64_t swapped_bytes(std::uint64_t value) {
  std::uint64_t result = 0;
  CFCK_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    result = result << 8 | (value >> 8 * i & 0xff);
  }
  return result;
}

// Up to 16 bytes.
CFCK_DEVICE_CALL std::uint64_t xxh3_short(const std::uint8_t* data, std::uint32_t n_bytes) {
  const std::uint8_t* const end = data + n_bytes;
  if (n_bytes > 8) {
    const std::uint64_t low = load_64(data, end) ^ (secret_word(3) ^ secret_word(4));
    const std::uint64_t high = load_64(end - 8, end) ^ (secret_word(5) ^ secret_word(6));
    return xxh3_avalanche(n_bytes + swapped_bytes(low) + high + folded_product(low, high));
  }
  if (n_bytes >= 4) {
    const std::uint64_t both =
        load_word(end - 4, end) + (std::uint64_t{load_word(data, end)} << 32);
    std::uint64_t hash = both ^ (secret_word(1) ^ secret_word(2));
    hash ^= rotated(hash, 49) ^ rotated(hash, 24);
    hash *= 0x9fb21c651e98df25u;
    hash ^= (hash >> 35) + n_bytes;
    hash *= 0x9fb21c651e98df25u;
    return hash ^ hash >> 28;
  }
  if (n_bytes > 0) {
    const std::uint32_t combined = load_byte(data) << 16 | load_byte(data + n_bytes / 2) << 24 |
                                   load_byte(end - 1) | n_bytes << 8;
    const std::uint64_t secret = secret_word(0);
    return xxh64_avalanche(combined ^ (static_cast<std::uint32_t>(secret) ^ secret >> 32));
  }
  return xxh64_avalanche(secret_word(7) ^ secret_word(8));
}

// The folded product of 16 bytes with 16 bytes of the secret.
CFCK_DEVICE std::uint64_t mixed_16(const std::uint8_t* data, const std::uint8_t* end,
                                   unsigned secret_byte) {
  return folded_product(load_64(data, end) ^ secret_at(secret_byte),
                        load_64(data + 8, end) ^ secret_at(secret_byte + 8));
}

// 17 to 240 bytes.
CFCK_DEVICE_CALL std::uint64_t xxh3_medium(const std::uint8_t* data, std::uint32_t n_bytes) {
  const std::uint8_t* const end = data + n_bytes;
  std::uint64_t sum = n_bytes * Xxh3::kPrime64_1;
  if (n_bytes <= 128) {
    for (unsigned i = (n_bytes - 1) / 32 + 1; i-- > 0;) {
      sum += mixed_16(data + 16 * i, end, 32 * i) + mixed_16(end - 16 * (i + 1), end, 32 * i + 16);
    }
    return xxh3_avalanche(sum);
  }
  for (unsigned i = 0; i < 8; ++i) {
    sum += mixed_16(data + 16 * i, end, 16 * i);
  }
  sum = xxh3_avalanche(sum);
  for (unsigned i = 8; i < n_bytes / 16; ++i) {
    sum += mixed_16(data + 16 * i, end, 16 * (i - 8) + 3);
  }
  return xxh3_avalanche(sum + mixed_16(end - 16, end, 136 - 17));
}

// The sums of some stripes in one of the eight columns: of products in the column itself, of data
// in the column beside it.
struct StripeSums {
  std::uint64_t products = 0;
  std::uint64_t data = 0;

  CFCK_DEVICE void add(std::uint64_t value, std::uint64_t secret) {
    const std::uint64_t keyed = value ^ secret;
    products += (keyed & 0xffffffffu) * (keyed >> 32);
    data += value;
  }
  // For all lanes: what is added to the lane's column.
  CFCK_DEVICE std::uint64_t of_column() const { return products + shuffle_64(data, lane() ^ 1); }
};

CFCK_DEVICE std::uint64_t initial_sum(unsigned column) {
  return column == 0   ? Xxh3::kPrime32_3
         : column == 1 ? Xxh3::kPrime64_1
         : column == 2 ? Xxh3::kPrime64_2
         : column == 3 ? Xxh3::kPrime64_3
         : column == 4 ? Xxh3::kPrime64_4
         : column == 5 ? Xxh3::kPrime32_2
         : column == 6 ? Xxh3::kPrime64_5
                       : Xxh3::kPrime32_1;
}

// The sum of a column at the end of a block.
CFCK_DEVICE std::uint64_t scrambled(std::uint64_t sum, std::uint64_t secret) {
  return (sum ^ sum >> 47 ^ secret) * Xxh3::kPrime32_1;
}

// The sums of more than 240 bytes. Lane l has column l mod 8.
class Xxh3Long {
 public:
  CFCK_DEVICE Xxh3Long(const std::uint8_t* data, std::uint32_t n_bytes)
      : data_(data),
        n_bytes_(n_bytes),
        n_blocks_((n_bytes - 1) / Xxh3::kBlockBytes),
        sum_(initial_sum(column())) {}

  CFCK_DEVICE void add_all() {
    CFCK_NO_UNROLL
    for (std::uint32_t block = 0; block <= n_blocks_; ++block) {
      add_block(block);
    }
  }
  // Returns the sums of all columns as a hash that begins with `start`, with the secret from that
  // byte on; the same in all lanes. Requires: add_all().
  CFCK_DEVICE std::uint64_t merged(unsigned secret_byte, std::uint64_t start) const {
    // Pairs of columns are folded; lanes of even columns have the pairs.
    const std::uint64_t keyed = sum_ ^ secret_at(secret_byte + 8 * column());
    const std::uint64_t folded = folded_product(keyed, shuffle_64(keyed, lane() ^ 1));
    std::uint64_t hash = start;
    for (unsigned i = 0; i < 8; i += 2) {
      hash += shuffle_64(folded, i);
    }
    return xxh3_avalanche(hash);
  }

 private:
  static constexpr unsigned kTogether = 4;  // stripes that are added up side by side

  CFCK_DEVICE static unsigned column() { return lane() % 8; }
  CFCK_DEVICE static unsigned quarter() { return lane() / 8; }

  // One block, four stripes at a time; or what is after the last whole one, which has a stripe of
  // its own at the end of the data.
  CFCK_DEVICE void add_block(std::uint32_t block) {
    const std::uint8_t* const end = data_ + n_bytes_;
    const std::uint32_t begin = block * Xxh3::kBlockBytes;
    const bool is_whole = block < n_blocks_;
    const unsigned n_stripes =
        is_whole ? Xxh3::kStripes : (n_bytes_ - 1 - begin) / Xxh3::kStripeBytes;
    StripeSums sums;
    CFCK_NO_UNROLL
    for (unsigned stripe = quarter(); stripe < n_stripes; stripe += kTogether) {
      sums.add(load_64(data_ + begin + stripe * Xxh3::kStripeBytes + 8 * column(), end),
               secret_word(stripe + column()));
    }
    if (!is_whole && quarter() == 0) {
      sums.add(load_64(end - Xxh3::kStripeBytes + 8 * column(), end),
               secret_at(121 + 8 * column()));
    }
    std::uint64_t of_block = sums.of_column();
    of_block += shuffle_64(of_block, lane() ^ 8);
    of_block += shuffle_64(of_block, lane() ^ 16);
    sum_ += of_block;
    sum_ = is_whole ? scrambled(sum_, secret_word(Xxh3::kStripes + column())) : sum_;
  }

  const std::uint8_t* data_;
  std::uint32_t n_bytes_;
  std::uint32_t n_blocks_;  // whole ones, with data after them
  std::uint64_t sum_;
};

// Returns the hash, the same in all lanes.
CFCK_DEVICE std::uint64_t warp_hash64(const std::uint8_t* data, std::uint32_t n_bytes) {
  if (n_bytes > 240) {
    Xxh3Long sums(data, n_bytes);
    sums.add_all();
    return sums.merged(11, n_bytes * Xxh3::kPrime64_1);
  }
  return n_bytes <= 16 ? xxh3_short(data, n_bytes) : xxh3_medium(data, n_bytes);
}

inline constexpr std::uint32_t kHashTileBytes = 4 * Xxh3::kBlockBytes;

// Adds up tiles that have data after them, which are whole: four at a time, each by a quarter of
// the warp. The words of the secret stay in registers.
class Xxh3Tiles {
 public:
  CFCK_DEVICE Xxh3Tiles()
      : scramble_secret_(secret_word(Xxh3::kStripes + column())),
        last_secret_(secret_at(121 + 8 * column())) {
    CFCK_UNROLL
    for (unsigned stripe = 0; stripe < Xxh3::kStripes; ++stripe) {
      secrets_[stripe] = secret_word(stripe + column());
    }
  }

  // Returns what n tiles from `data` on, at least one, of which the first has number `first`, add
  // to the tiled hash; the same in all lanes.
  CFCK_DEVICE std::uint64_t sum_of(const std::uint8_t* data, std::uint32_t first,
                                   std::uint32_t n) const {
    // Lanes whose addresses are odd multiples of four load other words, and all lanes are alike.
    std::uint64_t sum = (reinterpret_cast<std::uintptr_t>(data) & 4) == 0
                            ? sum_of_quarter<false>(data, first, n)
                            : sum_of_quarter<true>(data, first, n);
    sum += shuffle_64(sum, lane() ^ 8);
    return sum + shuffle_64(sum, lane() ^ 16);
  }

 private:
  static constexpr std::uint32_t kTogether = 4;
  static constexpr unsigned kBlocks = kHashTileBytes / Xxh3::kBlockBytes;

  CFCK_DEVICE static unsigned column() { return lane() % 8; }
  CFCK_DEVICE static unsigned quarter() { return lane() / 8; }

  // Half of a block, which is asked for while the half before it is added up, and the one before
  // that as well: with fewer loads under way a lane waits for the memory most of the time.
  static constexpr unsigned kAhead = Xxh3::kStripes / 2;

  // The tiles of a quarter as a row of blocks, those of one turn after another.
  template <bool has_odd_words>
  struct BlockRow {
    using Bytes = FollowedBytes<has_odd_words>;

    const std::uint8_t* data;  // of the first tile, from the column of the lane on
    std::uint32_t n_tiles;

    // A quarter without a tile takes the last one again, for nothing.
    CFCK_DEVICE Bytes block(std::uint32_t i) const {
      const std::uint32_t tile = i / kBlocks * kTogether + quarter();
      return Bytes(data + std::size_t{tile < n_tiles ? tile : n_tiles - 1} * kHashTileBytes +
                   i % kBlocks * Xxh3::kBlockBytes);
    }
    CFCK_DEVICE std::uint32_t n_blocks() const {
      return (n_tiles + kTogether - 1) / kTogether * kBlocks;
    }
  };

  template <class Bytes>
  CFCK_DEVICE static void ask(const Bytes& bytes, unsigned first, typename Bytes::Pending* asked) {
    CFCK_UNROLL
    for (unsigned i = 0; i < kAhead; ++i) {
      asked[i] = bytes.ask_64((first + i) * Xxh3::kStripeBytes);
    }
  }

  template <bool has_odd_words>
  CFCK_DEVICE std::uint64_t sum_of_quarter(const std::uint8_t* data, std::uint32_t first,
                                           std::uint32_t n) const {
    using Bytes = FollowedBytes<has_odd_words>;
    const BlockRow<has_odd_words> row{data + 8 * column(), n};
    const std::uint32_t n_blocks = row.n_blocks();
    Bytes bytes = row.block(0);
    typename Bytes::Pending front[kAhead];
    typename Bytes::Pending back[kAhead];
    ask(bytes, 0, front);
    ask(bytes, kAhead, back);
    std::uint64_t all = 0;
    std::uint64_t sum = initial_sum(column());
    CFCK_NO_UNROLL
    for (std::uint32_t block = 0; block < n_blocks; ++block) {
      const bool is_last = block % kBlocks == kBlocks - 1;
      // After the last block it is asked for once more, for nothing.
      bytes = row.block(block + 1 < n_blocks ? block + 1 : block);
      StripeSums sums;
      add_half(bytes, front, 0, false, sums);
      ask(bytes, 0, front);
      add_half(bytes, back, kAhead, is_last, sums);
      ask(bytes, kAhead, back);
      sum += sums.of_column();
      if (is_last) {
        const std::uint32_t tile = block / kBlocks * kTogether + quarter();
        const std::uint64_t hash = hash_of_tile(sum);
        all += tile < n ? (2 * std::uint64_t{first + tile} + 1) * hash : 0;
        sum = initial_sum(column());
      } else {
        sum = scrambled(sum, scramble_secret_);
      }
    }
    return all;
  }

  // Adds half of a block, from stripe `first` on, which was asked for at a place as aligned as
  // `bytes`. has_end: it is the end of the data, whose last stripe has a secret of its own.
  template <class Bytes>
  CFCK_DEVICE void add_half(const Bytes& bytes, const typename Bytes::Pending* asked,
                            unsigned first, bool has_end, StripeSums& sums) const {
    CFCK_UNROLL
    for (unsigned i = 0; i < kAhead; ++i) {
      const bool is_end = has_end && first + i == Xxh3::kStripes - 1;
      sums.add(bytes.take(asked[i]), is_end ? last_secret_ : secrets_[first + i]);
    }
  }

  // The hash of the quarter's tile, all blocks of which are in the sum.
  CFCK_DEVICE static std::uint64_t hash_of_tile(std::uint64_t sum) {
    // Both columns of a pair have their product.
    const std::uint64_t keyed = sum ^ secret_at(11 + 8 * column());
    std::uint64_t folded = folded_product(keyed, shuffle_64(keyed, lane() ^ 1));
    folded += shuffle_64(folded, lane() ^ 2);
    folded += shuffle_64(folded, lane() ^ 4);
    return xxh3_avalanche(kHashTileBytes * Xxh3::kPrime64_1 + folded);
  }

  std::uint64_t secrets_[Xxh3::kStripes];
  std::uint64_t scramble_secret_;
  std::uint64_t last_secret_;
};

// Returns what some bytes add to the tiled hash (base/hashing/hashing.hpp), the same in all lanes:
// tiles from number `first` on, all whole if there is data after them, the last ones otherwise.
CFCK_DEVICE std::uint64_t warp_tile_sum(const std::uint8_t* data, std::uint32_t n_bytes,
                                        std::uint32_t first, bool are_last) {
  const std::uint32_t n_followed =
      are_last ? (n_bytes == 0 ? 0 : (n_bytes - 1) / kHashTileBytes) : n_bytes / kHashTileBytes;
  std::uint64_t sum = n_followed == 0 ? 0 : Xxh3Tiles().sum_of(data, first, n_followed);
  if (are_last) {
    const std::uint32_t rest = n_followed * kHashTileBytes;
    sum += (2 * std::uint64_t{first + n_followed} + 1) * warp_hash64(data + rest, n_bytes - rest);
  }
  return sum;
}

}  // namespace cfck::simt

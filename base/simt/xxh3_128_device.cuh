// XXH3-128 with the default secret and seed 0 on a device, of bytes at any address, by one warp:
// the same as hash128() (base/hashing/hashing.hpp). The algorithm and its numbers are those of the
// specification of XXH3, xxHash 0.8.
#pragma once

#include "base/simt/xxh3_device.cuh"

namespace cfck::simt {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

CFCK_DEVICE Hash128 full_product(std::uint64_t a, std::uint64_t b) {
  return {a * b, multiply_high(a, b)};
}

// Up to 16 bytes.
CFCK_DEVICE Hash128 xxh3_128_short(const std::uint8_t* data, std::uint32_t n_bytes) {
  const std::uint8_t* const end = data + n_bytes;
  if (n_bytes > 8) {
    const std::uint64_t low = load_64(data, end);
    const std::uint64_t last = load_64(end - 8, end);
    Hash128 mixed = full_product(low ^ last ^ secret_word(4) ^ secret_word(5), Xxh3::kPrime64_1);
    mixed.low += std::uint64_t{n_bytes - 1} << 54;
    const std::uint64_t high = last ^ (secret_word(6) ^ secret_word(7));
    mixed.high += high + (high & 0xffffffffu) * (Xxh3::kPrime32_2 - 1);
    mixed.low ^= swapped_bytes(mixed.high);
    Hash128 hash = full_product(mixed.low, Xxh3::kPrime64_2);
    hash.high += mixed.high * Xxh3::kPrime64_2;
    return {xxh3_avalanche(hash.low), xxh3_avalanche(hash.high)};
  }
  if (n_bytes >= 4) {
    const std::uint64_t both =
        load_word(data, end) + (std::uint64_t{load_word(end - 4, end)} << 32);
    Hash128 hash = full_product(both ^ (secret_word(2) ^ secret_word(3)),
                                Xxh3::kPrime64_1 + (std::uint64_t{n_bytes} << 2));
    hash.high += hash.low << 1;
    hash.low ^= hash.high >> 3;
    hash.low = (hash.low ^ hash.low >> 35) * 0x9fb21c651e98df25u;
    return {hash.low ^ hash.low >> 28, xxh3_avalanche(hash.high)};
  }
  if (n_bytes > 0) {
    const std::uint32_t low = load_byte(data) << 16 | load_byte(data + n_bytes / 2) << 24 |
                              load_byte(end - 1) | n_bytes << 8;
    const auto swapped = static_cast<std::uint32_t>(swapped_bytes(low) >> 32);
    const std::uint32_t high = swapped << 13 | swapped >> 19;
    const std::uint64_t first = secret_word(0);
    const std::uint64_t second = secret_word(1);
    return {xxh64_avalanche(low ^ (static_cast<std::uint32_t>(first) ^ first >> 32)),
            xxh64_avalanche(high ^ (static_cast<std::uint32_t>(second) ^ second >> 32))};
  }
  return {xxh64_avalanche(secret_word(8) ^ secret_word(9)),
          xxh64_avalanche(secret_word(10) ^ secret_word(11))};
}

// Adds two pieces of 16 bytes, with 32 bytes of the secret.
CFCK_DEVICE void add_mixed_32(Hash128& sum, const std::uint8_t* first, const std::uint8_t* second,
                              const std::uint8_t* end, unsigned secret_byte) {
  sum.low += mixed_16(first, end, secret_byte);
  sum.low ^= load_64(second, end) + load_64(second + 8, end);
  sum.high += mixed_16(second, end, secret_byte + 16);
  sum.high ^= load_64(first, end) + load_64(first + 8, end);
}

// 17 to 240 bytes.
CFCK_DEVICE Hash128 xxh3_128_medium(const std::uint8_t* data, std::uint32_t n_bytes) {
  const std::uint8_t* const end = data + n_bytes;
  Hash128 sum{n_bytes * Xxh3::kPrime64_1, 0};
  if (n_bytes <= 128) {
    for (unsigned i = (n_bytes - 1) / 32 + 1; i-- > 0;) {
      add_mixed_32(sum, data + 16 * i, end - 16 * (i + 1), end, 32 * i);
    }
  } else {
    for (unsigned i = 0; i < 4; ++i) {
      add_mixed_32(sum, data + 32 * i, data + 32 * i + 16, end, 32 * i);
    }
    sum = {xxh3_avalanche(sum.low), xxh3_avalanche(sum.high)};
    for (unsigned i = 4; i < n_bytes / 32; ++i) {
      add_mixed_32(sum, data + 32 * i, data + 32 * i + 16, end, 32 * (i - 4) + 3);
    }
    add_mixed_32(sum, end - 16, end - 32, end, 136 - 17 - 16);
  }
  const std::uint64_t high =
      sum.low * Xxh3::kPrime64_1 + sum.high * Xxh3::kPrime64_4 + n_bytes * Xxh3::kPrime64_2;
  return {xxh3_avalanche(sum.low + sum.high), 0 - xxh3_avalanche(high)};
}

// Returns the hash, the same in all lanes.
CFCK_DEVICE Hash128 warp_hash128(const std::uint8_t* data, std::uint32_t n_bytes) {
  if (n_bytes > 240) {
    Xxh3Long sums(data, n_bytes);
    sums.add_all();
    return {sums.merged(11, n_bytes * Xxh3::kPrime64_1),
            sums.merged(8 * Xxh3::kSecretWords - 64 - 11, ~(n_bytes * Xxh3::kPrime64_2))};
  }
  return n_bytes <= 16 ? xxh3_128_short(data, n_bytes) : xxh3_128_medium(data, n_bytes);
}

}  // namespace cfck::simt

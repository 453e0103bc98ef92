// Writes raw bits of dense classes (spec.md, section 5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/delta/kernels/kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Whole words are written at a time: the memory has 16 bytes more than the bits need.
class RawWriter {
 public:
  // The most bits that put() takes.
  static constexpr unsigned kMostAtOnce = 56;

  explicit RawWriter(const RawBits& begun) : now_(begun) {}

  // Writes the low n bits of `value`; those above are zeros.
  void put(std::uint64_t value, unsigned n) {
    now_.bits |= value << now_.n_bits;
    std::memcpy(now_.next, &now_.bits, sizeof(now_.bits));
    now_.n_bits += n;
    now_.next += now_.n_bits / 8;
    now_.bits >>= now_.n_bits / 8 * 8;
    now_.n_bits %= 8;
  }
  // Writes a sign and the n bits of `low`; n is below 64.
  void put_signed(bool negative, std::uint64_t low, unsigned n) {
    if (n < kMostAtOnce) [[likely]] {
      put((negative ? 1 : 0) | low << 1, n + 1);
    } else {
      put((negative ? 1 : 0) | low << 33 >> 32, 32);
      put(low >> 31, n - 31);
    }
  }

  const RawBits& now() const { return now_; }

 private:
  RawBits now_;
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

// Fields and bit strings of the bytes of a chunk, written on a device: the other direction of
// fields_device.cuh.
#pragma once

#include "base/simt/warp.cuh"

namespace cfck::codec {

// Writes n_bytes of a number, the low ones first.
CFCK_DEVICE void store_bytes(std::uint64_t number, unsigned n_bytes, std::uint8_t* to) {
  for (unsigned i = 0; i < n_bytes; ++i) {
    to[i] = static_cast<std::uint8_t>(number >> 8 * i);
  }
}

// Appends bytes and varints (codec/lossless/spec.md, section 1), by the lanes that have memory for
// them; others, which give nullptr, count the bytes.
class DeviceFieldWriter {
 public:
  CFCK_DEVICE explicit DeviceFieldWriter(std::uint8_t* out) : out_(out) {}

  CFCK_DEVICE void byte(std::uint32_t value) {
    if (out_ != nullptr) {
      out_[n_] = static_cast<std::uint8_t>(value);
    }
    ++n_;
  }
  CFCK_DEVICE void varint(std::uint32_t value) {
    for (; value >= 0x80; value >>= 7) {
      byte(value | 0x80);
    }
    byte(value);
  }
  CFCK_DEVICE std::uint32_t n_bytes() const { return n_; }

 private:
  std::uint8_t* out_;
  std::uint32_t n_ = 0;
};

// Sets words of the warp to 0; all lanes see that, and nothing of what was there is read any more.
template <unsigned n_words>
CFCK_DEVICE void clear_words(std::uint32_t (&words)[n_words]) {
  simt::sync_warp();
  for (unsigned i = simt::lane(); i < n_words; i += simt::kWarpLanes) {
    words[i] = 0;
  }
  simt::sync_warp();
}

// Puts a number at a bit of a string of words that were cleared. Other lanes may do the same.
CFCK_DEVICE void put_bits(std::uint32_t* words, unsigned at, std::uint32_t number) {
  simt::atomic_or(&words[at / 32], number << at % 32);
  const std::uint32_t high = at % 32 == 0 ? 0 : number >> (32 - at % 32);
  if (high != 0) {
    simt::atomic_or(&words[at / 32 + 1], high);
  }
}

// Copies n bytes to any address.
CFCK_DEVICE void copy_bytes(const std::uint8_t* from, std::uint32_t n, std::uint8_t* to) {
  for (std::uint32_t i = simt::lane(); i < n; i += simt::kWarpLanes) {
    to[i] = from[i];
  }
}

// Copies n bytes to any address, by n_threads threads, of which the calling one is `thread`. Words
// of the target are written whole, a few at a time, since the memory takes its time.
template <unsigned n_threads>
CFCK_DEVICE void copy_together(const std::uint8_t* from, std::uint32_t n, std::uint8_t* to,
                               unsigned thread) {
  constexpr unsigned kAtOnce = 8;
  const auto before = static_cast<std::uint32_t>(-reinterpret_cast<std::uintptr_t>(to) & 3);
  const std::uint32_t n_before = before < n ? before : n;
  const std::uint32_t n_words = (n - n_before) / 4;
  const std::uint32_t n_after = n - n_before - 4 * n_words;
  const std::uint8_t* const words_from = from + n_before;
  auto* const words = reinterpret_cast<std::uint32_t*>(to + n_before);
  if (thread < n_before) {
    to[thread] = from[thread];
  }
  if (thread < n_after) {
    to[n - n_after + thread] = from[n - n_after + thread];
  }
  for (std::uint32_t first = thread; first < n_words; first += kAtOnce * n_threads) {
    std::uint32_t loaded[kAtOnce];
    CFCK_UNROLL
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint32_t word = first + i * n_threads;
      loaded[i] = word < n_words ? simt::load_bytes(words_from, 4, std::size_t{4} * word) : 0;
    }
    CFCK_UNROLL
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint32_t word = first + i * n_threads;
      if (word < n_words) {
        words[word] = loaded[i];
      }
    }
  }
}

}  // namespace cfck::codec

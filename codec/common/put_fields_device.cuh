// Fields and bit strings of the bytes of a chunk, written on a device: the other direction of
// fields_device.cuh.
#pragma once

#include "base/simt/warp.cuh"

namespace cfck::codec {

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

}  // namespace cfck::codec

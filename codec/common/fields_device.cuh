// Fields in the bytes of a chunk, on a device: bytes, varints, bit strings and values
// (codec/lossless/spec.md; codec/entropy/rans.md, section 4). A warp reads them together.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/device_chunk.hpp"

namespace cfck::codec {

// Bytes of a chunk on the device, at any address.
struct DeviceBytes {
  const std::uint8_t* data = nullptr;
  std::uint32_t n_bytes = 0;

  CFCK_DEVICE const std::uint8_t* end() const { return data + n_bytes; }
  // Requires: at + n is not beyond the end.
  CFCK_DEVICE DeviceBytes part(std::uint32_t at, std::uint32_t n) const { return {data + at, n}; }
};

CFCK_DEVICE DeviceBytes section_of(const DeviceChunk& chunk, const DeviceSection& section) {
  return {chunk.payload + section.at, section.n_bytes};
}

// Returns what the codec's plan has stored of the header of a chunk.
template <class Header>
CFCK_DEVICE const Header& header_of(const DeviceChunk& chunk) {
  return *reinterpret_cast<const Header*>(chunk.header.bytes);
}

// Takes fields from the front of `bytes`, the same ones in all lanes. Past the end it gives zeros,
// and `failed` is set.
class DeviceFields {
 public:
  CFCK_DEVICE explicit DeviceFields(DeviceBytes bytes) : bytes_(bytes) {}

  CFCK_DEVICE std::uint32_t byte() {
    if (at_ >= bytes_.n_bytes) {
      failed = true;
      return 0;
    }
    return simt::load_byte(bytes_.data + at_++);
  }

  // codec/lossless/spec.md: at most five bytes, and as few as possible.
  CFCK_DEVICE std::uint32_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const std::uint32_t next = byte();
      value |= std::uint64_t{next & 0x7f} << shift;
      if (next < 0x80) {
        failed = failed || (next == 0 && shift != 0) || value > 0xffffffffu;
        return static_cast<std::uint32_t>(value);
      }
    }
    failed = true;
    return 0;
  }

  CFCK_DEVICE std::uint32_t position() const { return at_; }
  // Returns all that is left.
  CFCK_DEVICE DeviceBytes rest() const { return bytes_.part(at_, bytes_.n_bytes - at_); }

  bool failed = false;

 private:
  DeviceBytes bytes_;
  std::uint32_t at_ = 0;
};

// Returns n bits of a bit string, at most 32, from bit `first` on, the least significant of a byte
// first; each lane has its own place. Requires: they are not past the end.
CFCK_DEVICE std::uint32_t bits_at(DeviceBytes bytes, std::uint32_t first, unsigned n) {
  if (n == 0) {
    return 0;
  }
  const std::uint8_t* const from = bytes.data + first / 8;
  const std::uint32_t low = simt::load_word(from, bytes.end());
  const std::uint32_t high =
      first / 8 + 4 < bytes.n_bytes ? simt::load_word(from + 4, bytes.end()) : 0;
  const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << n) - 1);
  return simt::funnel_right(low, high, first % 8) & mask;
}

// Whether the bits of the byte are zero into which a bit string of n_bits bits ends. Requires: it
// is not past the end.
CFCK_DEVICE bool rest_is_zero(DeviceBytes bytes, std::uint32_t n_bits) {
  return n_bits % 8 == 0 || simt::load_byte(bytes.data + n_bits / 8) >> n_bits % 8 == 0;
}

// Loads a value at any address.
template <class Word>
CFCK_DEVICE Word load_value(const std::uint8_t* from) {
  const std::uint8_t* const end = from + sizeof(Word);
  const auto low = simt::load_word(from, end);
  if constexpr (sizeof(Word) == 8) {
    return static_cast<Word>(simt::load_word(from + 4, end)) << 32 | low;
  } else {
    return static_cast<Word>(low);
  }
}

}  // namespace cfck::codec

// Kernels that encode on a device call these functions of the lossless codec (device/kernels.inc).
#pragma once

#include "codec/device_encode_batch.hpp"
#include "codec/lossless/device/encode.cuh"

namespace cfck::codec {

// A chunk that a block of n_warps encodes.
template <class Format, unsigned n_warps>
class LosslessEncoding {
 public:
  using Shared = DeviceLosslessShared<n_warps>;

  CFCK_DEVICE LosslessEncoding(const DeviceEncodeChunk& chunk, const DeviceChoiceTables& tables,
                               std::uint8_t* memory, Shared& shared)
      : encoder_(static_cast<const typename Format::Word*>(chunk.values), chunk.n_values,
                 lossless_memory_at<Format>(memory, chunk.n_values), tables, shared) {}

  CFCK_DEVICE DeviceEncoded encode() { return encoder_.encode(); }
  CFCK_DEVICE void write(std::uint8_t* out) const { encoder_.write(out); }

 private:
  DeviceLosslessEncoder<Format, n_warps> encoder_;
};

// Does the same for another codec, which compares: functions of their own, so that each codec has
// all registers, and the object is made anew in between.
template <class Format, unsigned n_warps>
struct LosslessInstead {
  using Shared = DeviceLosslessShared<n_warps>;
  using Encoder = DeviceLosslessEncoder<Format, n_warps>;

  CFCK_DEVICE_CALL static DeviceEncoded encode(const DeviceEncodeChunk& chunk,
                                               const DeviceChoiceTables& tables,
                                               std::uint8_t* memory, Shared& shared) {
    Encoder encoder = encoder_of(chunk, tables, memory, shared);
    const DeviceEncoded encoded = encoder.encode();
    encoder.leave_state();
    simt::sync_block();
    return encoded;
  }
  CFCK_DEVICE_CALL static void write(const DeviceEncodeChunk& chunk,
                                     const DeviceChoiceTables& tables, std::uint8_t* memory,
                                     Shared& shared, std::uint8_t* out) {
    Encoder encoder = encoder_of(chunk, tables, memory, shared);
    encoder.take_state();
    encoder.write(out);
  }

 private:
  CFCK_DEVICE static Encoder encoder_of(const DeviceEncodeChunk& chunk,
                                        const DeviceChoiceTables& tables, std::uint8_t* memory,
                                        Shared& shared) {
    return Encoder(static_cast<const typename Format::Word*>(chunk.values), chunk.n_values,
                   lossless_memory_at<Format>(memory, chunk.n_values), tables, shared);
  }
};

template <unsigned n_warps>
using LosslessEncodingF64 = LosslessEncoding<With32Symbols<FormatF64>, n_warps>;
template <unsigned n_warps>
using LosslessEncodingF32 = LosslessEncoding<With32Symbols<FormatF32>, n_warps>;
template <unsigned n_warps>
using LosslessEncodingBf16 = LosslessEncoding<With32Symbols<FormatBf16>, n_warps>;
template <unsigned n_warps>
using LosslessEncodingF16 = LosslessEncoding<With32Symbols<FormatF16>, n_warps>;

}  // namespace cfck::codec

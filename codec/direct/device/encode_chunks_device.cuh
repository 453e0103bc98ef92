// Kernels that encode on a device call these functions of the direct codec (device/kernels.inc).
#pragma once

#include "codec/common/lossless_fallback.hpp"
#include "codec/direct/device/encode.cuh"

namespace cfck::codec {

// A chunk that a block of n_warps encodes, or losslessly where that is not longer, as
// encode_direct() does. `Lossless` encodes and writes instead (LosslessInstead of codec lossless).
template <class Value, class Lossless, unsigned n_warps>
class DirectEncoding {
  using Word = typename Value::Word;
  using DirectShared = DeviceDirectShared<n_warps>;
  using LosslessShared = typename Lossless::Shared;

 public:
  // The two codecs have it one after the other.
  struct Shared {
    static constexpr std::size_t kBytes = sizeof(DirectShared) > sizeof(LosslessShared)
                                              ? sizeof(DirectShared)
                                              : sizeof(LosslessShared);
    alignas(16) unsigned char bytes[kBytes];
    std::uint32_t is_lossless;  // the payload
  };

  // The memory of the block has what direct_encode_layout() says, and where chunks are compared
  // kDirectResultRoom and what lossless_device_bytes() says behind it.
  CFCK_DEVICE DirectEncoding(const DeviceEncodeChunk& chunk, const DeviceChoiceTables& tables,
                             std::uint8_t* memory, Shared& shared)
      : chunk_(chunk),
        tables_(tables),
        kept_(memory +
              direct_encode_layout(sizeof(Word), chunk.n_values, form_of(chunk.lossy->parameters))
                  .n_bytes),
        shared_(shared),
        direct_(values(), chunk.n_values, *chunk.lossy, memory, tables,
                reinterpret_cast<DirectShared&>(shared.bytes)) {}

  CFCK_DEVICE DeviceEncoded encode() {
    if (thread() == 0) {
      shared_.is_lossless = 0;
    }
    const DeviceEncoded direct = direct_.encode();
    if (direct.needs_host || !asks_for_lossless(direct.n_bytes)) {
      return direct;
    }
    if (chunk_.lossy->compares == 0) {
      return {true, 0};
    }
    move_result(shared_.bytes, kept_);
    const DeviceEncoded lossless =
        Lossless::encode(chunk_, tables_, lossless_memory(), lossless_shared());
    if (lossless.needs_host) {
      return lossless;
    }
    if (lossless.n_bytes <= direct.n_bytes) {
      lose_nothing();
      simt::sync_block();
      return lossless;
    }
    move_result(kept_, shared_.bytes);
    return direct;
  }
  CFCK_DEVICE void write(std::uint8_t* out) const {
    if (shared_.is_lossless != 0) {
      Lossless::write(chunk_, tables_, lossless_memory(), lossless_shared(), out);
    } else {
      direct_.write(out);
    }
  }

 private:
  static constexpr std::uint32_t kResultBytes = sizeof(DeviceDirectResult);
  static_assert(kResultBytes <= kDirectResultRoom);
  static constexpr unsigned kThreads = n_warps * simt::kWarpLanes;

  CFCK_DEVICE const Word* values() const { return static_cast<const Word*>(chunk_.values); }
  CFCK_DEVICE LosslessShared& lossless_shared() const {
    return reinterpret_cast<LosslessShared&>(shared_.bytes);
  }
  CFCK_DEVICE std::uint8_t* lossless_memory() const { return kept_ + kDirectResultRoom; }
  CFCK_DEVICE std::uint32_t value_bytes() const {
    return chunk_.n_values * static_cast<std::uint32_t>(sizeof(Word));
  }
  CFCK_DEVICE static unsigned thread() {
    return simt::warp_of_block() * simt::kWarpLanes + simt::lane();
  }

  // may_be_smaller_lossless(), and values that are all the same.
  CFCK_DEVICE bool asks_for_lossless(std::uint32_t n_bytes) const {
    return direct_.is_constant() || value_bytes() <= kSmallChunkBytes ||
           n_bytes > value_bytes() / kShareWithoutLossless;
  }

  // Moves what write() needs of the shared memory. All warps meet before and after.
  CFCK_DEVICE static void move_result(const unsigned char* from, unsigned char* to) {
    simt::sync_block();
    CFCK_NO_UNROLL
    for (unsigned i = thread(); i < kResultBytes; i += kThreads) {
      to[i] = from[i];
    }
    simt::sync_block();
  }

  // The decoded values are the values themselves. All warps meet afterwards.
  CFCK_DEVICE void lose_nothing() const {
    if (thread() == 0) {
      shared_.is_lossless = 1;
    }
    if (chunk_.lossy->decoded != nullptr) {
      copy_together<kThreads>(static_cast<const std::uint8_t*>(chunk_.values), value_bytes(),
                              static_cast<std::uint8_t*>(chunk_.lossy->decoded), thread());
    }
    if (chunk_.lossy->errors != nullptr && thread() == 0) {
      ErrorTotals& errors = *chunk_.lossy->errors;
      errors.max_error = 0;
      errors.sum_of_squares = 0;
      errors.n_exact = 0;
    }
  }

  const DeviceEncodeChunk& chunk_;
  const DeviceChoiceTables tables_;
  std::uint8_t* const kept_;
  Shared& shared_;
  DeviceDirectEncoder<Value, n_warps> direct_;
};

}  // namespace cfck::codec

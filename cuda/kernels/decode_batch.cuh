// Batches on a device: every warp takes a chunk, an extent or a part of a copy, until none is left.
#pragma once

#include "base/simt/warp.cuh"
#include "base/simt/xxh3_device.cuh"
#include "codec/device_batch.hpp"
#include "codec/direct/device/direct_device.cuh"
#include "codec/entropy/rans/rans_device_tables.hpp"
#include "codec/lossless/lossless_device.cuh"
#include "cuda/kernels/launch_shapes.hpp"

namespace cfck::cuda {

// Calls `decode(i)` for the numbers that this warp takes.
template <class Decode>
CFCK_DEVICE void take_in_turn(std::uint32_t* next, std::uint32_t n, Decode&& decode) {
  while (true) {
    std::uint32_t mine = simt::lane() == 0 ? simt::atomic_add(next, 1) : 0;
    mine = simt::shuffle(mine, 0);
    if (mine >= n) {
      return;
    }
    decode(mine);
  }
}

CFCK_DEVICE void set_status(std::uint32_t* statuses, std::uint32_t i, bool fits) {
  if (simt::lane() == 0) {
    statuses[i] = fits ? codec::kDeviceOk : codec::kDeviceFailed;
  }
}

// Chunks of the lossless codec; `shared` is the block's.
template <class Format>
CFCK_DEVICE void decode_lossless_batch(const codec::DeviceBatch& batch,
                                       codec::LosslessShared* shared) {
  take_in_turn(batch.next, batch.n_chunks, [&](std::uint32_t i) {
    set_status(batch.statuses, i,
               codec::decode_lossless_chunk<Format>(batch.chunks[i], batch.static_tables,
                                                    shared[simt::warp_of_block()]));
  });
}

// Chunks of the direct codec.
template <class Value>
CFCK_DEVICE void decode_direct_batch(const codec::DeviceBatch& batch, codec::DirectShared* shared) {
  take_in_turn(batch.next, batch.n_chunks, [&](std::uint32_t i) {
    set_status(batch.statuses, i,
               codec::decode_direct_chunk<Value>(batch.chunks[i], batch.static_tables,
                                                 shared[simt::warp_of_block()]));
  });
}

CFCK_DEVICE void hash_batch(const codec::DeviceExtents& batch) {
  take_in_turn(batch.next, batch.n_extents, [&](std::uint32_t i) {
    const codec::DeviceExtent& extent = batch.extents[i];
    set_status(batch.statuses, i, simt::warp_hash64(extent.data, extent.n_bytes) == extent.hash);
  });
}

// Bytes that all lanes of a block write together, block after block of the grid of n_blocks.
CFCK_DEVICE void copy_batch(const codec::DeviceCopies& batch, unsigned n_blocks) {
  const unsigned n_threads = simt::warps_per_block() * simt::kWarpLanes;
  const unsigned thread = simt::warp_of_block() * simt::kWarpLanes + simt::lane();
  for (std::uint32_t c = 0; c < batch.n_copies; ++c) {
    const codec::DeviceCopy& copy = batch.copies[c];
    const bool is_fill = copy.value_bytes != 0;
    const std::uint8_t* const end = copy.from + (is_fill ? copy.value_bytes : copy.n_bytes);
    // Words of four bytes where `to` is aligned to them, which all tensors of such words are.
    const bool has_words = reinterpret_cast<std::uintptr_t>(copy.to) % 4 == 0;
    const std::uint64_t n_words = has_words ? copy.n_bytes / 4 : 0;
    const std::uint64_t stride = std::uint64_t{n_blocks} * n_threads;
    const std::uint64_t first = std::uint64_t{simt::block()} * n_threads + thread;
    for (std::uint64_t i = first; i < n_words; i += stride) {
      std::uint32_t word = 0;
      if (!is_fill) {
        word = simt::load_word(copy.from + 4 * i, end);
      } else {
        for (unsigned b = 0; b < 4; ++b) {
          word |= simt::load_byte(copy.from + (4 * i + b) % copy.value_bytes) << 8 * b;
        }
      }
      reinterpret_cast<std::uint32_t*>(copy.to)[i] = word;
    }
    for (std::uint64_t i = 4 * n_words + first; i < copy.n_bytes; i += stride) {
      copy.to[i] = static_cast<std::uint8_t>(
          simt::load_byte(copy.from + (is_fill ? i % copy.value_bytes : i)));
    }
  }
}

// Returns the element of the tensor that is number `flat` of the view.
CFCK_DEVICE std::uint64_t element_of(const codec::DeviceGather& gather, std::uint64_t flat) {
  std::uint64_t element = gather.offset;
  CFCK_NO_UNROLL
  for (unsigned i = gather.n_dimensions; i-- > 0;) {
    element += flat % gather.shape[i] * gather.strides[i];
    flat /= gather.shape[i];
  }
  return element;
}

template <class Word>
CFCK_DEVICE void copy_element(const codec::DeviceGather& gather, std::uint64_t i,
                              std::uint64_t element) {
  constexpr unsigned kBytes = sizeof(Word);
  const unsigned n_words = gather.element_bytes / kBytes;
  const auto* const from = reinterpret_cast<const Word*>(gather.from) + element * n_words;
  auto* const to = reinterpret_cast<Word*>(gather.to) + i * n_words;
  CFCK_NO_UNROLL
  for (unsigned w = 0; w < n_words; ++w) {
    to[w] = from[w];
  }
}

// Elements of views, which all threads of the grid of n_blocks write together.
CFCK_DEVICE void gather_batch(const codec::DeviceGathers& batch, unsigned n_blocks) {
  const unsigned n_threads = simt::warps_per_block() * simt::kWarpLanes;
  const unsigned thread = simt::warp_of_block() * simt::kWarpLanes + simt::lane();
  for (std::uint32_t g = 0; g < batch.n_gathers; ++g) {
    const codec::DeviceGather& gather = batch.gathers[g];
    const std::uint64_t stride = std::uint64_t{n_blocks} * n_threads;
    for (std::uint64_t i = std::uint64_t{simt::block()} * n_threads + thread; i < gather.n_elems;
         i += stride) {
      const std::uint64_t element = element_of(gather, gather.first + i) - gather.from_first;
      switch (gather.element_bytes) {
        case 1:
          copy_element<std::uint8_t>(gather, i, element);
          break;
        case 2:
          copy_element<std::uint16_t>(gather, i, element);
          break;
        case 4:
          copy_element<std::uint32_t>(gather, i, element);
          break;
        default:
          copy_element<std::uint64_t>(gather, i, element);
      }
    }
  }
}

}  // namespace cfck::cuda

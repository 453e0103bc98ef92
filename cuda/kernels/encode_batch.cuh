// Batches of chunks that a device encodes: every block takes a chunk until none is left.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/device_encode_batch.hpp"
#include "codec/entropy/rans/device_choose.cuh"
#include "cuda/kernels/frame_places.cuh"

namespace cfck::cuda {

CFCK_DEVICE void write_frame_header(const device::FrameHeader& header, std::uint32_t n_bytes,
                                    std::uint8_t* to) {
  CFCK_UNROLL
  for (unsigned i = 0; i < 3; ++i) {
    const std::uint32_t word = header.words[i] + (i == 1 ? n_bytes : 0);
    for (unsigned byte = 0; byte < 4; ++byte) {
      to[4 * i + byte] = static_cast<std::uint8_t>(word >> 8 * byte);
    }
  }
}

// The shared memory of a block.
template <class Chunk>
struct EncodeShared {
  std::uint32_t item;   // of the batch
  std::uint64_t place;  // of its payload
  typename Chunk::Shared chunk;
};

// Chunks of one codec and dtype; `Chunk` is what the codec's device code says of them
// (device/kernels.inc): encode() and then write(), by all warps of a block.
template <class Chunk>
CFCK_DEVICE void encode_batch(const codec::DeviceEncodeBatch& batch, EncodeShared<Chunk>& shared) {
  const bool is_first = simt::warp_of_block() == 0 && simt::lane() == 0;
  const std::uint32_t n_header = batch.has_header != 0 ? device::kFrameHeaderBytes : 0;
  const codec::DeviceChoiceTables tables{batch.costs, batch.frequencies};
  std::uint8_t* const memory = batch.memory + std::size_t{simt::block()} * batch.block_bytes;
  while (true) {
    if (is_first) {
      shared.item = simt::atomic_add(batch.next, 1);
    }
    simt::sync_block();
    const std::uint32_t item = shared.item;
    if (item >= batch.n_chunks) {
      return;
    }
    Chunk chunk(batch.chunks[item], tables, memory, shared.chunk);
    const codec::DeviceEncoded encoded = chunk.encode();
    const std::uint32_t n_bytes = encoded.needs_host ? 0 : n_header + encoded.n_bytes;
    const std::uint64_t end = batch.chunks[item].end;
    if (simt::warp_of_block() == 0) {
      const std::uint32_t aligned = (n_bytes + batch.alignment - 1) & ~(batch.alignment - 1);
      const std::uint64_t place = take_place(batch.places, batch.first_place + item, aligned);
      if (is_first) {
        shared.place = place;
        batch.frames[item].at = place;
        batch.frames[item].n_bytes = place + n_bytes <= end ? n_bytes : 0;
      }
    }
    simt::sync_block();
    if (!encoded.needs_host && shared.place + n_bytes <= end) {
      std::uint8_t* const to = batch.out + shared.place;
      if (is_first && n_header != 0) {
        write_frame_header(batch.header, encoded.n_bytes, to);
      }
      chunk.write(to + n_header);
    }
    simt::sync_block();  // whoever still reads the shared memory
  }
}

}  // namespace cfck::cuda

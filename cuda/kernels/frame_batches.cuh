// Hashes of pieces of tensors, of frames whose lengths only the device knows yet, and of messages
// made of them.
#pragma once

#include "base/simt/xxh3_128_device.cuh"
#include "codec/common/put_fields_device.cuh"
#include "cuda/kernels/byte_batches.cuh"

namespace cfck::cuda {

CFCK_DEVICE void hash_ranges(const device::Ranges& batch, unsigned /*n_blocks*/) {
  take_in_turn(batch.next, batch.n_pieces, [&](std::uint32_t piece) {
    const device::Range& range = batch.ranges[item_of_piece(batch.ranges, batch.n_ranges, piece)];
    const std::uint64_t number =
        std::uint64_t{piece - range.first_piece} * range.n_of / range.n_pieces;
    const std::uint64_t begin = number * range.piece_bytes;
    const std::uint64_t n_left = range.n_bytes - begin;
    const auto n_bytes =
        static_cast<std::uint32_t>(n_left < range.piece_bytes ? n_left : range.piece_bytes);
    const simt::Hash128 hash = simt::warp_hash128(range.data + begin, n_bytes);
    if (simt::lane() == 0) {
      batch.hashes[piece] = {hash.low, hash.high};
    }
  });
}

CFCK_DEVICE void hash_frames(const device::Frames& batch, unsigned /*n_blocks*/) {
  take_in_turn(batch.next, batch.n_pieces, [&](std::uint32_t piece) {
    device::Frame& frame = batch.frames[item_of_piece(batch.frames, batch.n_frames, piece)];
    const std::uint64_t begin = std::uint64_t{piece - frame.first_piece} * device::kHashPieceBytes;
    if (begin >= frame.n_bytes) {
      return;  // the frame is shorter than it could be
    }
    const std::uint64_t n_left = frame.n_bytes - begin;
    const auto n_bytes = static_cast<std::uint32_t>(
        n_left < device::kHashPieceBytes ? n_left : device::kHashPieceBytes);
    const std::uint64_t sum = simt::warp_tile_sum(
        batch.memory + frame.at + begin, n_bytes,
        static_cast<std::uint32_t>(begin / simt::kHashTileBytes), n_bytes == n_left);
    if (simt::lane() == 0) {
      simt::atomic_add(&frame.hash, sum);
    }
  });
}

// By one warp.
CFCK_DEVICE void put_lengths(const device::Message& message, std::uint8_t* memory) {
  for (std::uint32_t i = simt::lane(); i < message.n_payloads && message.table_at != 0;
       i += simt::kWarpLanes) {
    codec::store_bytes(message.payloads[i].n_bytes, 4,
                       memory + message.whole->at + message.table_at + 4 * i);
  }
  if (simt::lane() == 0) {
    const device::Frame& last = message.payloads[message.n_payloads - 1];
    const std::uint64_t n_bytes = last.at + last.n_bytes - message.whole->at;
    message.whole->n_bytes = n_bytes <= message.most_bytes ? n_bytes : 0;
  }
}

CFCK_DEVICE void put_hash(const device::Message& message, std::uint8_t* memory) {
  const device::Frame& whole = *message.whole;
  if (simt::lane() == 0 && whole.n_bytes != 0) {
    codec::store_bytes(whole.hash, 8, memory + whole.at + whole.n_bytes);
  }
}

// A warp takes a message.
CFCK_DEVICE void seal_messages(const device::Messages& batch, unsigned n_blocks) {
  const unsigned n_warps = simt::warps_per_block();
  for (std::uint32_t i = simt::block() * n_warps + simt::warp_of_block(); i < batch.n_messages;
       i += n_blocks * n_warps) {
    if (batch.is_hashed != 0) {
      put_hash(batch.messages[i], batch.memory);
    } else {
      put_lengths(batch.messages[i], batch.memory);
    }
  }
}

}  // namespace cfck::cuda

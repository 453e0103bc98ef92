// Bytes as they are stored: hashes of extents, copies, repeated values, and elements of views.
#pragma once

#include "base/simt/warp.cuh"
#include "base/simt/xxh3_device.cuh"
#include "cuda/kernels/take_items.cuh"
#include "device/batches.hpp"

namespace cfck::cuda {

// Returns the item that a piece is of.
template <class Item>
CFCK_DEVICE std::uint32_t item_of_piece(const Item* items, std::uint32_t n_items,
                                        std::uint32_t piece) {
  std::uint32_t item = 0;
  std::uint32_t end = n_items;
  while (end - item > 1) {
    const std::uint32_t middle = item + (end - item) / 2;
    const bool is_before = items[middle].first_piece <= piece;
    item = is_before ? middle : item;
    end = is_before ? end : middle;
  }
  return item;
}

// Adds the sum of a piece to its extent; whoever adds the last one says whether the hash is right.
CFCK_DEVICE void add_piece(device::Extent& extent, std::uint64_t sum, std::uint32_t& status) {
  const std::uint32_t n_pieces =
      (extent.n_bytes + device::kHashPieceBytes - 1) / device::kHashPieceBytes;
  if (simt::lane() == 0) {
    simt::atomic_add(&extent.sum, sum);
    simt::fence();
    if (simt::atomic_add(&extent.n_done, 1) + 1 == n_pieces) {
      simt::fence();
      const std::uint64_t all = simt::atomic_add(&extent.sum, std::uint64_t{0});
      status = all == extent.hash ? device::kOk : device::kFailed;
    }
  }
}

CFCK_DEVICE void hash_extents(const device::Extents& batch, unsigned /*n_blocks*/) {
  constexpr std::uint32_t kPieceBytes = device::kHashPieceBytes;
  static_assert(kPieceBytes % simt::kHashTileBytes == 0);
  take_in_turn(batch.next, batch.n_pieces, [&](std::uint32_t piece) {
    const std::uint32_t i = item_of_piece(batch.extents, batch.n_extents, piece);
    device::Extent& extent = batch.extents[i];
    const std::uint32_t begin = (piece - extent.first_piece) * kPieceBytes;
    const std::uint32_t n_left = extent.n_bytes - begin;
    const std::uint32_t n_bytes = n_left < kPieceBytes ? n_left : kPieceBytes;
    add_piece(extent,
              simt::warp_tile_sum(extent.data + begin, n_bytes, begin / simt::kHashTileBytes,
                                  n_bytes == n_left),
              batch.statuses[i]);
  });
}

// Calls `work(item, number)` for the pieces of this block, all threads together: the item that the
// piece is of, and its number there.
template <class Item, class Work>
CFCK_DEVICE void take_pieces(const Item* items, std::uint32_t n_items, std::uint32_t n_pieces,
                             unsigned n_blocks, Work&& work) {
  for (std::uint32_t piece = simt::block(); piece < n_pieces; piece += n_blocks) {
    const std::uint32_t item = item_of_piece(items, n_items, piece);
    work(items[item], piece - items[item].first_piece);
  }
}

// One word of a value that is repeated.
CFCK_DEVICE std::uint32_t repeated_word(const device::Copy& copy, std::uint64_t at) {
  std::uint32_t word = 0;
  CFCK_UNROLL
  for (unsigned b = 0; b < 4; ++b) {
    word |= simt::load_byte(copy.from + (at + b) % copy.value_bytes) << 8 * b;
  }
  return word;
}

// Writes bytes [begin, end) of a copy.
CFCK_DEVICE void copy_piece(const device::Copy& copy, std::uint64_t begin, std::uint64_t end) {
  const unsigned n_threads = simt::warps_per_block() * simt::kWarpLanes;
  const unsigned thread = simt::warp_of_block() * simt::kWarpLanes + simt::lane();
  const bool is_fill = copy.value_bytes != 0;
  const std::uint8_t* const from_end = copy.from + (is_fill ? copy.value_bytes : copy.n_bytes);
  // Words of four bytes where `to` is aligned to them, which all tensors of such words are.
  const bool has_words = reinterpret_cast<std::uintptr_t>(copy.to) % 4 == 0;
  const std::uint64_t words_end = has_words ? begin + (end - begin) / 4 * 4 : begin;
  CFCK_NO_UNROLL
  for (std::uint64_t at = begin + 4 * thread; at < words_end; at += 4 * n_threads) {
    const std::uint32_t word =
        is_fill ? repeated_word(copy, at) : simt::load_word(copy.from + at, from_end);
    *reinterpret_cast<std::uint32_t*>(copy.to + at) = word;
  }
  CFCK_NO_UNROLL
  for (std::uint64_t at = words_end + thread; at < end; at += n_threads) {
    copy.to[at] = static_cast<std::uint8_t>(
        simt::load_byte(copy.from + (is_fill ? at % copy.value_bytes : at)));
  }
}

CFCK_DEVICE void copy_bytes(const device::Copies& batch, unsigned n_blocks) {
  take_pieces(batch.copies, batch.n_copies, batch.n_pieces, n_blocks,
              [](const device::Copy& copy, std::uint32_t piece) {
                const std::uint64_t begin = std::uint64_t{piece} * device::kCopyPieceBytes;
                const std::uint64_t end = begin + device::kCopyPieceBytes;
                copy_piece(copy, begin, end < copy.n_bytes ? end : copy.n_bytes);
              });
}

// Returns the element of the tensor that is number `flat` of the view.
CFCK_DEVICE std::uint64_t element_of(const device::Gather& gather, std::uint64_t flat) {
  std::uint64_t element = gather.offset;
  CFCK_NO_UNROLL
  for (unsigned i = gather.n_dimensions; i-- > 0;) {
    element += flat % gather.shape[i] * gather.strides[i];
    flat /= gather.shape[i];
  }
  return element;
}

template <class Word>
CFCK_DEVICE void copy_element(const device::Gather& gather, std::uint64_t i,
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

// Writes elements [begin, end) of a gather.
CFCK_DEVICE void gather_piece(const device::Gather& gather, std::uint64_t begin,
                              std::uint64_t end) {
  const unsigned n_threads = simt::warps_per_block() * simt::kWarpLanes;
  const unsigned thread = simt::warp_of_block() * simt::kWarpLanes + simt::lane();
  CFCK_NO_UNROLL
  for (std::uint64_t i = begin + thread; i < end; i += n_threads) {
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

CFCK_DEVICE void gather_elements(const device::Gathers& batch, unsigned n_blocks) {
  take_pieces(batch.gathers, batch.n_gathers, batch.n_pieces, n_blocks,
              [](const device::Gather& gather, std::uint32_t piece) {
                const std::uint64_t begin = std::uint64_t{piece} * device::kGatherPieceElems;
                const std::uint64_t end = begin + device::kGatherPieceElems;
                gather_piece(gather, begin, end < gather.n_elems ? end : gather.n_elems);
              });
}

}  // namespace cfck::cuda

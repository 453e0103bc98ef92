// What happens to the indices of a chunk once all are there, on a device: masked values,
// prediction, and the values themselves (codec/direct/spec.md, sections 4 and 5).
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/bin_codes.hpp"
#include "codec/common/fields_device.cuh"
#include "codec/common/float_values.hpp"
#include "codec/device_chunk.hpp"
#include "codec/direct/device/bin_order_device.cuh"
#include "codec/direct/device/predict_device.cuh"

namespace cfck::codec {

// The memory for the indices of a chunk in the order of its groups, and in that of storage
// (DeviceChunk::values).
struct DirectIndices {
  std::int32_t* merged;
  std::int32_t* stored;
};
template <class Word>
CFCK_DEVICE DirectIndices indices_of(const DeviceChunk& chunk, bool is_moved,
                                     std::uint32_t n_groups) {
  // An index that is as long as a value takes its place.
  constexpr bool kInPlace = has_indices_in_place(sizeof(Word));
  auto* const out = static_cast<std::int32_t*>(chunk.out);
  auto* const values = static_cast<std::int32_t*>(chunk.values);
  if (!is_moved) {
    return kInPlace ? DirectIndices{out, out} : DirectIndices{values, values};
  }
  return {values, kInPlace ? out : values + std::size_t{n_groups} * kGroupSize};
}

CFCK_DEVICE bool is_valid_index(std::int32_t index) {
  return index >= -kMaxIndex && index <= kMaxIndex;
}

// Returns the step of value i of the chunk.
CFCK_DEVICE double step_of_value(const DeviceParameters& parameters, std::uint32_t i) {
  if (parameters.row_steps == nullptr) {
    return parameters.step;
  }
  const std::uint64_t row = (std::uint64_t{parameters.first_in_row} + i) / parameters.row_values;
  return same_bits<float>(static_cast<std::uint32_t>(parameters.row_steps[row]) << 16);
}

// Puts the indices of a part of the chunk that are not masked back between those that are.
CFCK_DEVICE void spread_indices(const std::uint8_t* mask, std::uint32_t n_values,
                                const DevicePart& part, const std::int32_t* shown,
                                std::int32_t* indices) {
  std::uint32_t n_unmasked = unmasked_before(mask, n_values, part.begin);
  for (std::uint32_t first = part.begin; first < part.end; first += simt::kWarpLanes) {
    const std::uint32_t word = shown_word(mask, n_values, first);
    const std::uint32_t i = first + simt::lane();
    if (i < n_values) {
      const std::uint32_t place = n_unmasked + simt::popcount(word & simt::lanes_below());
      indices[i] = (word >> simt::lane() & 1) != 0 ? shown[place] : kMasked;
    }
    n_unmasked += simt::popcount(word);
  }
}

// Turns residuals of the whole kernels of a chunk into indices, a kernel in each lane of n_warps
// from `warp` on. False if an index is out of range.
CFCK_DEVICE bool restore_device_indices(const DeviceParameters& parameters, std::uint32_t n_values,
                                        std::int32_t* indices, unsigned warp, unsigned n_warps) {
  const std::uint32_t size = parameters.kernel_size;
  const std::uint32_t before = (size - parameters.first_in_kernel) % size;
  const std::uint32_t n_kernels = before < n_values ? (n_values - before) / size : 0;
  bool fits = true;
  for (std::uint32_t k = warp * simt::kWarpLanes + simt::lane(); k < n_kernels;
       k += n_warps * simt::kWarpLanes) {
    std::int32_t* const kernel = indices + before + std::size_t{k} * size;
    const std::int16_t* coefficients = parameters.coefficients;
    for (std::uint32_t t = 0; t < size; coefficients += t, ++t) {
      if (kernel[t] <= kMasked) {
        continue;
      }
      const std::int64_t index = std::int64_t{kernel[t]} + predicted_index(coefficients, kernel, t);
      fits = fits && index >= -kMaxIndex && index <= kMaxIndex;
      kernel[t] = static_cast<std::int32_t>(index > kMaxIndex    ? kMaxIndex
                                            : index < -kMaxIndex ? -kMaxIndex
                                                                 : index);
    }
  }
  return !simt::any(!fits);
}

// Counts the indices of a part of a chunk that are kExact.
CFCK_DEVICE std::uint32_t count_exact(const std::int32_t* indices, const DevicePart& part) {
  std::uint32_t n = 0;
  for (std::uint32_t i = part.begin + simt::lane(); i < part.end; i += simt::kWarpLanes) {
    n += indices[i] == kExact ? 1 : 0;
  }
  return simt::warp_sum(n);
}

// Computes the values of the indices of a part of a chunk, in the order of storage; exact ones are
// taken from `exact` in order, from number n_exact on, which goes on behind the last of them. False
// if an index is out of range, or an exact value is missing.
template <class Value>
CFCK_DEVICE bool store_device_values(const DeviceParameters& parameters, const DevicePart& part,
                                     const std::int32_t* indices, DeviceBytes exact,
                                     std::uint32_t& n_exact, typename Value::Word* out) {
  using Word = typename Value::Word;
  bool fits = true;
  for (std::uint32_t first = part.begin; first < part.end; first += simt::kWarpLanes) {
    const std::uint32_t i = first + simt::lane();
    const std::int32_t index = i < part.end ? indices[i] : 0;
    const bool is_exact = index == kExact;
    const std::uint32_t votes = simt::ballot(is_exact);
    if (is_exact) {
      const std::uint32_t at =
          (n_exact + simt::popcount(votes & simt::lanes_below())) * sizeof(Word);
      const bool is_there = at + sizeof(Word) <= exact.n_bytes;
      fits = fits && is_there;
      out[i] = is_there ? load_value<Word>(exact.data + at) : Word{0};
    } else if (i < part.end) {
      const std::int32_t shown = index == kMasked ? 0 : index;
      fits = fits && is_valid_index(shown);
      out[i] = Value::from_double(static_cast<double>(shown) * step_of_value(parameters, i));
    }
    n_exact += simt::popcount(votes);
  }
  return !simt::any(!fits);
}

}  // namespace cfck::codec

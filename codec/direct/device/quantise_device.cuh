// Values to indices on a device, and the errors of what is decoded (codec/direct/spec.md, section
// 4): the same as codec/direct/kernels/quantise.hpp.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/device_encode_batch.hpp"
#include "codec/direct/kernels/quantise_value.hpp"
#include "codec/entropy/rans/device_choose.cuh"
#include "codec/symboliser/device/raw_bits_device.cuh"
#include "codec/symboliser/device/split_device.cuh"

namespace cfck::codec {

// Quantises the values of a chunk.
template <class Value>
class DeviceQuantiser {
  using Word = typename Value::Word;

 public:
  CFCK_DEVICE explicit DeviceQuantiser(const DeviceLossyChunk& chunk)
      : row_steps_(chunk.parameters.row_steps),
        row_bounds_(chunk.row_bounds),
        row_values_(chunk.parameters.row_values),
        first_in_row_(chunk.parameters.first_in_row),
        step_(value_step(chunk.parameters.step, chunk.bound)) {}

  // Value i of the chunk.
  CFCK_DEVICE QuantisedValue<Value> quantise(Word word, std::uint32_t i) const {
    return quantise_value<Value>(word, row_steps_ == nullptr ? step_ : step_of(i));
  }

 private:
  CFCK_DEVICE ValueStep step_of(std::uint32_t i) const {
    const std::uint32_t row = (first_in_row_ + i) / row_values_;
    const auto step = same_bits<float>(static_cast<std::uint32_t>(row_steps_[row]) << 16);
    return value_step(step, row_bounds_[row]);
  }

  const std::uint16_t* row_steps_;
  const double* row_bounds_;
  std::uint32_t row_values_;
  std::uint32_t first_in_row_;
  ValueStep step_;
};

// The indices of a group, and what is decoded of them: those of a lane's four values, by
// place_in_group(). Beyond the last value of the group they are 0.
template <class Value>
struct LaneIndices {
  std::int32_t indices[kLaneValues];
  typename Value::Word back[kLaneValues];
};

// Quantises a group of a chunk, the first value of which has number `first`.
template <class Value>
CFCK_DEVICE LaneIndices<Value> quantise_group(const DeviceQuantiser<Value>& quantiser,
                                              const LaneGroup<Value>& group, std::uint32_t first) {
  LaneIndices<Value> quantised;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    const unsigned i = place_in_group(group.is_whole(), t, simt::lane());
    const bool is_there = group.is_whole() || i < group.n;
    const auto value = quantiser.quantise(group.values[t], is_there ? first + i : first);
    quantised.indices[t] = is_there ? value.index : 0;
    quantised.back[t] = value.back;
  }
  return quantised;
}

// The bin of a group of n values (specification, section 5.4), the same in all lanes.
CFCK_DEVICE GroupCode code_of_group(const std::int32_t (&indices)[kLaneValues], unsigned n) {
  GroupCode code;
  std::uint32_t magnitudes[kLaneValues];
  std::uint32_t in_use = 0;
  CFCK_UNROLL
  for (unsigned t = 0; t < kLaneValues; ++t) {
    // The magnitude of kExact is the only one with bit 31, which says that the group is coded.
    const std::int32_t sign = indices[t] >> 31;
    magnitudes[t] =
        static_cast<std::uint32_t>(indices[t] ^ sign) - static_cast<std::uint32_t>(sign);
    in_use |= magnitudes[t];
    magnitudes[t] &= 0x7fffffffu;
  }
  in_use = simt::warp_or(in_use);
  if (in_use == 0) {
    code.kind = GroupKind::kAllZero;
    return code;
  }
  const bool is_small = (in_use & 0x7fffffffu) < kSmallMagnitudes;
  const auto sum_below = [&](std::uint32_t limit) -> std::uint64_t {
    std::uint64_t sum = 0;
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      sum += magnitudes[t] < limit ? magnitudes[t] : limit;
    }
    return is_small ? simt::warp_sum(static_cast<std::uint32_t>(sum)) : simt::warp_sum_64(sum);
  };
  code.scale_bin =
      static_cast<std::uint16_t>(bin_of_mean(sum_below(limit_of(sum_below(UINT32_MAX), n)), n));
  return code;
}

}  // namespace cfck::codec

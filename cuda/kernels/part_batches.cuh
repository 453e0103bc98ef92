// Statistics of parts of tensors, each by a warp.
#pragma once

#include "codec/common/part_facts_device.cuh"
#include "cuda/kernels/take_items.cuh"

namespace cfck::cuda {

template <class Value>
CFCK_DEVICE device::PartFacts facts_of_part(const device::Part& part,
                                            [[maybe_unused]] device::PartStatistic statistic) {
  using Word = typename Value::Word;
  const auto* const values = reinterpret_cast<const Word*>(part.data);
  // Nobody asks for moments of 64 bits, which are scaled first: they would take more registers.
  if constexpr (sizeof(Word) == 8) {
    return codec::range_of_part<Value>(values, part.n_values);
  } else {
    return statistic == device::PartStatistic::kRange
               ? codec::range_of_part<Value>(values, part.n_values)
               : codec::moments_of_part<Value>(values, part.n_values,
                                               reinterpret_cast<const Word*>(part.row));
  }
}

CFCK_DEVICE void measure_parts(const device::Parts& batch, unsigned /*n_blocks*/) {
  take_in_turn(batch.next, batch.n_parts, [&](std::uint32_t i) {
    const device::Part& part = batch.parts[i];
    const device::PartFacts facts = batch.format == device::PartFormat::kF64
                                        ? facts_of_part<codec::ValueF64>(part, batch.statistic)
                                    : batch.format == device::PartFormat::kF32
                                        ? facts_of_part<codec::ValueF32>(part, batch.statistic)
                                    : batch.format == device::PartFormat::kBf16
                                        ? facts_of_part<codec::ValueBf16>(part, batch.statistic)
                                        : facts_of_part<codec::ValueF16>(part, batch.statistic);
    if (simt::lane() == 0) {
      batch.facts[i] = facts;
    }
  });
}

}  // namespace cfck::cuda

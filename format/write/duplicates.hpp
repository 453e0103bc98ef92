// Finds tensors whose bytes equal those of an earlier one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "cfck/record.hpp"
#include "encode/plan.hpp"

namespace cfck::format {

// Only tensors of equal dtype, shape, first leaf and choices are compared,
// byte by byte, range by range; two that a device has looked at by the hashes of
// all of their leaves. Memory: a few hundred bytes a tensor.
class DuplicateFinder {
 public:
  // Returns the first record whose tensor equals this one; else nullopt, and the tensor is
  // remembered under `record`. The first bytes of the source are read, unless a device has looked
  // at the tensor.
  Result<std::optional<std::uint32_t>> find_or_add(std::uint32_t record, const Shape& shape,
                                                   const encode::EncodePlan& plan);

 private:
  struct Place {
    std::uint32_t record;
    encode::TensorChoice choice;
    const ByteSource* source;
    std::uint64_t offset_bytes;
    const encode::DeviceTensor* on_device;  // where a device has looked at it
  };
  using Key = std::tuple<DType, Shape, Digest>;

  Result<Digest> first_leaf(const encode::EncodePlan& plan);
  Result<bool> equal(const Place& place, const encode::EncodePlan& plan);

  std::map<Key, std::vector<Place>> places_;
  std::vector<std::byte> left_, right_;  // ranges of sources that are not in memory
};

}  // namespace cfck::format

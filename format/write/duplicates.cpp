#include "format/write/duplicates.hpp"

#include <algorithm>
#include <cstring>

#include "base/hashing/hashing.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kCompareBytes = std::uint64_t{1} << 18;

}  // namespace

Result<bool> DuplicateFinder::equal(const Place& place, const encode::EncodePlan& plan) {
  if (place.source == plan.source && place.offset_bytes == plan.offset_bytes) {
    return true;
  }
  if (place.on_device != nullptr && plan.on_device != nullptr) {
    return place.on_device->leaves == plan.on_device->leaves;
  }
  const std::uint64_t total = plan.geometry.n_bytes;
  for (std::uint64_t done = 0; done < total; done += kCompareBytes) {
    const std::uint64_t n = std::min(kCompareBytes, total - done);
    CFCK_TRY_ASSIGN(const ByteView a,
                    encode::range_of(*place.source, place.offset_bytes + done, n, left_));
    CFCK_TRY_ASSIGN(const ByteView b,
                    encode::range_of(*plan.source, plan.offset_bytes + done, n, right_));
    if (a.data() != b.data() && std::memcmp(a.data(), b.data(), n) != 0) {
      return false;
    }
  }
  return true;
}

Result<Digest> DuplicateFinder::first_leaf(const encode::EncodePlan& plan) {
  if (plan.on_device != nullptr) {
    return plan.on_device->leaves.front();
  }
  const std::uint64_t leaf = std::min<std::uint64_t>(kLeafBytes, plan.geometry.n_bytes);
  CFCK_TRY_ASSIGN(const ByteView first,
                  encode::range_of(*plan.source, plan.offset_bytes, leaf, left_));
  return hash128(first);
}

Result<std::optional<std::uint32_t>> DuplicateFinder::find_or_add(std::uint32_t record,
                                                                  const Shape& shape,
                                                                  const encode::EncodePlan& plan) {
  CFCK_TRY_ASSIGN(const Digest first, first_leaf(plan));
  std::vector<Place>& places = places_[Key(plan.dtype, shape, first)];
  for (const Place& place : places) {
    if (!place.choice.stores_as(plan.choice)) {
      continue;
    }
    CFCK_TRY_ASSIGN(const bool is_equal, equal(place, plan));
    if (is_equal) {
      return std::optional(place.record);
    }
  }
  places.push_back({record, plan.choice, plan.source, plan.offset_bytes, plan.on_device});
  return std::optional<std::uint32_t>();
}

}  // namespace cfck::format

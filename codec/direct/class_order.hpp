// The order in which the codes of a chunk are grouped (codec/direct/spec.md, section 5.3):
// that of storage, or by predicted class.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "codec/direct/class_codes.hpp"
#include "codec/direct/parameters.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

// Classes of n values of a record, the first of which is `first_value`.
void predict_classes(const DirectGeometry& geometry, const ScaleField& field,
                     std::uint64_t first_value, std::size_t n_values, std::uint8_t* classes);

// Codes other than kHidden, sorted stably by class and cut into groups, which take
// the class of their middle code. Returns how many there are. `groups` may be null.
// Without `has_hidden` no code is kHidden.
std::size_t sort_by_class(std::span<const std::int32_t> codes, const std::uint8_t* classes,
                          bool has_hidden, std::int32_t* sorted, GroupCode* groups);

// The classes of the groups alone; the codes need only say which are kHidden.
std::size_t classes_of_sorted(std::span<const std::int32_t> codes, const std::uint8_t* classes,
                              bool has_hidden, GroupCode* groups);

// The inverse of sort_by_class: replaces the codes that are not kHidden.
void unsort(const std::int32_t* sorted, const std::uint8_t* classes, bool has_hidden,
            std::span<std::int32_t> codes);

// The same in storage order.
std::size_t gather_shown(std::span<const std::int32_t> codes, std::int32_t* shown);
void spread_shown(const std::int32_t* shown, std::span<std::int32_t> codes);

// Calls `action` with the number of each code that is kExact, of which there are
// n_exact, in order.
template <class Action>
void each_exact(std::span<const std::int32_t> codes, std::size_t n_exact, Action&& action) {
  constexpr std::size_t kBlock = 64;
  for (std::size_t first = 0; n_exact != 0 && first < codes.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, codes.size() - first);
    std::uint32_t n_found = 0;
    for (std::size_t i = first; i < first + n; ++i) {
      n_found += codes[i] == kExact ? 1u : 0u;
    }
    for (std::size_t i = first; n_found != 0 && n_exact != 0 && i < first + n; ++i) {
      if (codes[i] == kExact) {
        action(i);
        --n_exact;
      }
    }
  }
}

}  // namespace cfck::codec

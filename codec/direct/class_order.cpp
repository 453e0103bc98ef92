#include "codec/direct/class_order.hpp"

#include <algorithm>
#include <array>

#include "codec/direct/class_codes.hpp"

namespace cfck::codec {
namespace {

// Where the codes of each class begin among the sorted ones; the last is their number.
using ClassStarts = std::array<std::size_t, kMaxDirectClass + 2>;

ClassStarts class_starts(std::span<const std::int32_t> codes, const std::uint8_t* classes) {
  ClassStarts starts{};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    starts[classes[i] + 1u] += codes[i] != kHidden ? 1 : 0;
  }
  for (std::size_t c = 1; c < starts.size(); ++c) {
    starts[c] += starts[c - 1];
  }
  return starts;
}

void set_groups(const ClassStarts& starts, GroupCode* groups) {
  const std::size_t n_values = starts.back();
  std::size_t scale_class = 0;
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const std::size_t middle = first + std::min<std::size_t>(kGroupSize, n_values - first) / 2;
    while (starts[scale_class + 1] <= middle) {
      ++scale_class;
    }
    groups[first / kGroupSize] = {static_cast<std::uint16_t>(scale_class), 0, GroupKind::kValues};
  }
}

}  // namespace

void predict_classes(const DirectGeometry& geometry, const ScaleField& field,
                     std::uint64_t first_value, std::size_t n_values, std::uint8_t* classes) {
  std::uint64_t row = first_value / geometry.row_values();
  std::uint64_t column = first_value / geometry.taps % geometry.columns;
  std::uint64_t band = first_value % geometry.taps;
  for (std::size_t i = 0; i < n_values;) {
    const int base = field.rows[row] + field.columns[column];
    for (; band < geometry.taps && i < n_values; ++band, ++i) {
      classes[i] = static_cast<std::uint8_t>(
          std::clamp(base + field.bands[band], 1, static_cast<int>(kMaxDirectClass)));
    }
    band = 0;
    if (++column == geometry.columns) {
      column = 0;
      ++row;
    }
  }
}

std::size_t sort_by_class(std::span<const std::int32_t> codes, const std::uint8_t* classes,
                          std::int32_t* sorted, GroupCode* groups) {
  ClassStarts next = class_starts(codes, classes);
  if (groups != nullptr) {
    set_groups(next, groups);
  }
  const std::size_t n_shown = next.back();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] != kHidden) {
      sorted[next[classes[i]]++] = codes[i];
    }
  }
  return n_shown;
}

std::size_t classes_of_sorted(std::span<const std::int32_t> codes, const std::uint8_t* classes,
                              GroupCode* groups) {
  const ClassStarts starts = class_starts(codes, classes);
  set_groups(starts, groups);
  return starts.back();
}

void unsort(const std::int32_t* sorted, const std::uint8_t* classes,
            std::span<std::int32_t> codes) {
  ClassStarts next = class_starts(codes, classes);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] != kHidden) {
      codes[i] = sorted[next[classes[i]]++];
    }
  }
}

std::size_t gather_shown(std::span<const std::int32_t> codes, std::int32_t* shown) {
  std::size_t n_shown = 0;
  for (const std::int32_t code : codes) {
    shown[n_shown] = code;
    n_shown += code != kHidden ? 1 : 0;
  }
  return n_shown;
}

void spread_shown(const std::int32_t* shown, std::span<std::int32_t> codes) {
  for (std::int32_t& code : codes) {
    if (code != kHidden) {
      code = *shown++;
    }
  }
}

}  // namespace cfck::codec

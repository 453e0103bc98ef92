#include "codec/direct/chunk/bin_order.hpp"

#include <algorithm>
#include <vector>

#include "codec/common/bin_codes.hpp"

namespace cfck::codec {
namespace {

// Clamps bins of consecutive values of a row. `offsets` are the sums of columns and bands.
template <class Number>
void clamp_bins(int base, const Number* offsets, std::size_t n, std::uint8_t* bins) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto sum = static_cast<Number>(base + offsets[i]);
    const Number low = sum < 1 ? Number{1} : sum;
    bins[i] = static_cast<std::uint8_t>(
        low > static_cast<Number>(kMaxDirectBin) ? static_cast<Number>(kMaxDirectBin) : low);
  }
}

template <class Number>
void predict_rows(const DirectGeometry& geometry, const ScaleField& field,
                  std::uint64_t first_value, std::size_t n_values, std::uint8_t* bins) {
  // Limited to the values of a row that occur: rows may be much longer than chunks.
  const std::uint64_t row_values = geometry.row_values();
  std::uint64_t at = first_value % row_values;
  const std::uint64_t begin = n_values < row_values ? at : 0;
  const auto n_used = static_cast<std::size_t>(std::min<std::uint64_t>(n_values, row_values));
  std::vector<Number> offsets;
  offsets.reserve(n_used);
  for (std::uint64_t i = begin; offsets.size() < n_used; i = i + 1 < row_values ? i + 1 : 0) {
    offsets.push_back(static_cast<Number>(field.columns[i / geometry.kernel_size] +
                                          field.bands[i % geometry.kernel_size]));
  }
  std::uint64_t row = first_value / row_values;
  for (std::size_t done = 0; done < n_values; at = 0, ++row) {
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(n_values - done, row_values - at));
    const std::uint64_t from = at >= begin ? at - begin : at + (row_values - begin);
    clamp_bins(field.rows[row], offsets.data() + from, n, bins + done);
    done += n;
  }
}

// True if sums of three fit 16 bits, for the values of a chunk. Entries that only other chunks use
// are not read: a record may have many chunks and long vectors.
bool has_small_numbers(const DirectGeometry& geometry, const ScaleField& field,
                       std::uint64_t first_value, std::size_t n_values) {
  const auto are_small = [](std::span<const std::int16_t> numbers) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [](std::int16_t number) { return number >= -8192 && number <= 8192; });
  };
  const std::uint64_t row_values = geometry.row_values();
  const std::uint64_t last_value = first_value + n_values - 1;
  const std::uint64_t row = first_value / row_values;
  const std::uint64_t n_more_rows = last_value / row_values - row;
  std::span<const std::int16_t> columns(field.columns);
  if (n_more_rows == 0) {
    const std::uint64_t column = first_value % row_values / geometry.kernel_size;
    columns = columns.subspan(column, last_value % row_values / geometry.kernel_size + 1 - column);
  }
  return are_small(field.bands) && are_small(columns) &&
         are_small(std::span(field.rows).subspan(row, n_more_rows + 1));
}

}  // namespace

void predict_bins(const DirectGeometry& geometry, const ScaleField& field,
                  std::uint64_t first_value, std::size_t n_values, std::uint8_t* bins) {
  if (has_small_numbers(geometry, field, first_value, n_values)) {
    predict_rows<std::int16_t>(geometry, field, first_value, n_values, bins);
  } else {
    predict_rows<std::int32_t>(geometry, field, first_value, n_values, bins);
  }
}

BinOrder::BinOrder(std::span<const std::int32_t> indices, const std::uint8_t* bins, bool has_masked)
    : indices_(indices), bins_(bins), has_hidden_(has_masked) {
  for (BinCounts& counts : next_) {
    counts.fill(0);
  }
  each([&](std::size_t part, std::size_t i) { ++next_[part][bins_[i]]; });
  std::uint32_t total = 0;
  for (std::size_t c = 0; c <= kMaxDirectBin; ++c) {
    for (BinCounts& counts : next_) {
      const std::uint32_t count = counts[c];
      counts[c] = total;
      total += count;
    }
    ends_[c] = total;
  }
}

void BinOrder::set_groups(GroupCode* groups) const {
  std::size_t scale_bin = 0;
  for (std::size_t first = 0; first < n_unmasked(); first += kGroupSize) {
    const std::size_t middle = first + group_values(n_unmasked() - first) / 2;
    while (ends_[scale_bin] <= middle) {
      ++scale_bin;
    }
    groups[first / kGroupSize] = {static_cast<std::uint16_t>(scale_bin), 0, GroupKind::kValues};
  }
}

void BinOrder::sort(std::int32_t* sorted) {
  each([&](std::size_t part, std::size_t i) { sorted[next_[part][bins_[i]]++] = indices_[i]; });
}

void BinOrder::unsort(const std::int32_t* sorted, std::int32_t* indices) {
  each([&](std::size_t part, std::size_t i) { indices[i] = sorted[next_[part][bins_[i]]++]; });
}

template <class Action>
void BinOrder::each(Action&& action) const {
  has_hidden_ ? each_unmasked<true>(action) : each_unmasked<false>(action);
}

template <bool has_masked, class Action>
void BinOrder::each_unmasked(Action&& action) const {
  const std::size_t part_size = indices_.size() / kParts;
  const auto visit = [&](std::size_t part, std::size_t i) {
    if (!has_masked || indices_[i] != kMasked) {
      action(part, i);
    }
  };
  for (std::size_t i = 0; i < part_size; ++i) {
    for (std::size_t part = 0; part < kParts; ++part) {
      visit(part, part * part_size + i);
    }
  }
  for (std::size_t i = kParts * part_size; i < indices_.size(); ++i) {
    visit(kParts - 1, i);
  }
}

std::size_t gather_unmasked(std::span<const std::int32_t> indices, std::int32_t* shown) {
  std::size_t n_unmasked = 0;
  for (const std::int32_t index : indices) {
    shown[n_unmasked] = index;
    n_unmasked += index != kMasked ? 1 : 0;
  }
  return n_unmasked;
}

void spread_unmasked(const std::int32_t* shown, std::span<std::int32_t> indices) {
  for (std::int32_t& index : indices) {
    if (index != kMasked) {
      index = *shown++;
    }
  }
}

}  // namespace cfck::codec

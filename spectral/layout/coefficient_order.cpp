#include "spectral/layout/coefficient_order.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "codec/common/chunk_buffers.hpp"
#include "spectral/layout/scratch.hpp"

namespace cfck::spectral {
namespace {

// Average length of runs; shorter ones are not worth moving as runs.
inline constexpr std::size_t kMinRun = 4;

}  // namespace

CoefficientOrdering::CoefficientOrdering(const SpectralGeometry& geometry,
                                         const SpectralParameters& parameters,
                                         std::uint64_t first_value, std::size_t n_values,
                                         Scratch& scratch)
    : geometry_(geometry), first_value_(first_value), n_values_(n_values) {
  if (parameters.order == CoefficientOrder::kBins) {
    std::optional<RowBins> rows;
    if (geometry.row_values() >= kMinRun && geometry.row_values() <= n_values / 2) {
      rows = row_bins(geometry, parameters, first_value, n_values);
    }
    if (rows && rows->max() <= static_cast<int>(kMaxSpectralBin) && has_runs(*rows)) {
      kind_ = Kind::kRows;
      bases_ = std::move(rows->bases);
      offsets_ = std::move(rows->offsets);
      count_runs();
      return;
    }
    kind_ = Kind::kBins;
    std::uint8_t* const bins = scratch.part<ChunkBuffers>().predicted_bins.reserve(n_values);
    predict_spectral_bins(geometry, parameters, first_value, n_values, bins);
    bins_ = bins;
    count_bins();
  } else if (parameters.order == CoefficientOrder::kRowBlocks) {
    kind_ = Kind::kRowBlocks;
    row_blocks_.emplace(*row_bins(geometry, parameters, first_value, n_values));
  } else if (parameters.order == CoefficientOrder::kBands && geometry.n_bands() > 1) {
    const bool has_rows = geometry.is_tall() && geometry.has_whole_rows(first_value, n_values);
    kind_ = geometry.is_simple() ? Kind::kTaps : has_rows ? Kind::kWholeRows : Kind::kPlaces;
    if (kind_ == Kind::kWholeRows) {
      sort_rows();
    } else if (kind_ == Kind::kPlaces) {
      std::uint32_t* const places =
          scratch.part<SpectralScratch>().coefficient_places.reserve(n_values);
      sort_bands(places);
      places_ = places;
    }
  }
}

void CoefficientOrdering::count_bins() {
  for (BinCounts& counts : next_) {
    counts.fill(0);
  }
  const std::size_t part_size = n_values_ / kParts;
  for (std::size_t i = 0; i < part_size; ++i) {
    for (std::size_t part = 0; part < kParts; ++part) {
      ++next_[part][bins_[part * part_size + i]];
    }
  }
  for (std::size_t i = kParts * part_size; i < n_values_; ++i) {
    ++next_[kParts - 1][bins_[i]];
  }
  std::uint32_t total = 0;
  for (std::size_t c = 0; c <= kMaxSpectralBin; ++c) {
    for (BinCounts& counts : next_) {
      const std::uint32_t count = counts[c];
      counts[c] = total;
      total += count;
    }
    ends_[c] = total;
  }
}

// True for rows in which enough places share an offset to be moved one after another.
bool CoefficientOrdering::has_runs(const RowBins& rows) {
  const auto [low, high] = std::minmax_element(rows.offsets.begin(), rows.offsets.end());
  std::vector<std::uint32_t> next(static_cast<std::size_t>(*high - *low) + 1);
  for (const std::int32_t offset : rows.offsets) {
    ++next[static_cast<std::size_t>(offset - *low)];
  }
  std::uint32_t total = 0;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const std::uint32_t n = next[i];
    if (n != 0) {
      runs_.push_back({*low + static_cast<std::int32_t>(i), n});
    }
    next[i] = total;
    total += n;
  }
  if (rows.offsets.size() < kMinRun * runs_.size()) {
    return false;
  }
  of_runs_.resize(rows.offsets.size());
  for (std::uint32_t place = 0; place < of_runs_.size(); ++place) {
    of_runs_[next[static_cast<std::size_t>(rows.offsets[place] - *low)]++] = place;
  }
  return true;
}

void CoefficientOrdering::count_runs() {
  BinCounts& counts = next_[0];
  counts.fill(0);
  for (const std::int32_t base : bases_) {
    for (const Run& run : runs_) {
      counts[static_cast<std::size_t>(std::max(base + run.offset, 1))] += run.n;
    }
  }
  std::uint32_t total = 0;
  for (std::size_t c = 0; c <= kMaxSpectralBin; ++c) {
    const std::uint32_t count = counts[c];
    counts[c] = total;
    total += count;
    ends_[c] = total;
  }
}

// Sorts stably by band.
void CoefficientOrdering::sort_bands(std::uint32_t* places) const {
  std::vector<std::uint16_t> bands(n_values_);
  std::vector<std::uint32_t> next(geometry_.n_bands() + 1);
  geometry_.each(first_value_, n_values_, [&](std::size_t i, std::uint32_t band, auto, auto) {
    bands[i] = static_cast<std::uint16_t>(band);
    ++next[band + 1];
  });
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (std::size_t i = 0; i < n_values_; ++i) {
    places[next[bands[i]]++] = static_cast<std::uint32_t>(i);
  }
}

// Sorts whole rows, where all of a row is in one band.
void CoefficientOrdering::sort_rows() {
  const std::uint32_t height = geometry_.block_height();
  const std::uint64_t first_row = first_value_ / geometry_.row_values();
  const std::size_t n_rows = n_values_ / geometry_.row_values();
  const auto band_of = [&](std::size_t row) {
    return geometry_.band_of_place()[(first_row + row) % height];
  };
  std::vector<std::uint32_t> next(height + 1);
  for (std::size_t row = 0; row < n_rows; ++row) {
    ++next[band_of(row) + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  rows_.resize(n_rows);
  for (std::size_t row = 0; row < n_rows; ++row) {
    rows_[next[band_of(row)]++] = static_cast<std::uint32_t>(row);
  }
}

void CoefficientOrdering::set_groups(GroupCode* groups) const {
  std::size_t scale_bin = 0;
  for (std::size_t first = 0; first < n_values_; first += kGroupSize) {
    const std::size_t middle = first + std::min<std::size_t>(kGroupSize, n_values_ - first) / 2;
    if (kind_ == Kind::kRowBlocks) {
      scale_bin = row_blocks_->bin_of(middle);
    }
    while (kind_ != Kind::kRowBlocks && ends_[scale_bin] <= middle) {
      ++scale_bin;
    }
    groups[first / kGroupSize] = {static_cast<std::uint16_t>(scale_bin), 0, GroupKind::kValues};
  }
}

template <class Action>
void CoefficientOrdering::each_by_bin(Action&& action) {
  const std::size_t part_size = n_values_ / kParts;
  for (std::size_t i = 0; i < part_size; ++i) {
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t at = part * part_size + i;
      action(next_[part][bins_[at]]++, at);
    }
  }
  for (std::size_t at = kParts * part_size; at < n_values_; ++at) {
    action(next_[kParts - 1][bins_[at]]++, at);
  }
}

// Calls action(where in the order it begins, length) for each run of a row. Runs of the lowest
// bin, whose values are in the order of their places, come as one.
template <class Action>
void CoefficientOrdering::each_run(std::int32_t base, Action&& action) {
  std::uint32_t n_lowest = 0;
  std::size_t i = 0;
  for (; i < runs_.size() && base + runs_[i].offset <= 1; ++i) {
    n_lowest += runs_[i].n;
  }
  if (n_lowest != 0) {
    action(next_[0][1], n_lowest);
    next_[0][1] += n_lowest;
  }
  for (; i < runs_.size(); ++i) {
    std::uint32_t& next = next_[0][static_cast<std::size_t>(base + runs_[i].offset)];
    action(next, runs_[i].n);
    next += runs_[i].n;
  }
}

template <class T>
void CoefficientOrdering::gather_runs(const T* coefficients, T* ordered) {
  const std::size_t row_values = of_runs_.size();
  std::vector<T> lowest(row_values + 1);
  const T* from = coefficients;
  for (const std::int32_t base : bases_) {
    const bool is_clamped = base + runs_[0].offset < 1;
    std::size_t n_lowest = 0;
    for (std::size_t place = 0; is_clamped && place < row_values; ++place) {
      lowest[n_lowest] = from[place];
      n_lowest += base + offsets_[place] <= 1 ? 1 : 0;
    }
    std::size_t at = 0;
    each_run(base, [&](std::uint32_t first, std::uint32_t n) {
      if (at == 0 && is_clamped) {
        std::copy_n(lowest.begin(), n, ordered + first);
      } else {
        for (std::uint32_t i = 0; i < n; ++i) {
          ordered[first + i] = from[of_runs_[at + i]];
        }
      }
      at += n;
    });
    from += row_values;
  }
}

// Copies run after run into one row, some values at a time, and then each to its place.
template <class T>
void CoefficientOrdering::scatter_runs(const T* ordered, T* coefficients) {
  constexpr std::size_t kStep = kSpareBytes / sizeof(T);
  const std::size_t row_values = of_runs_.size();
  std::vector<T> row(row_values + kStep);
  std::vector<std::uint32_t> in_row(row_values);  // where the value of a place is
  for (std::uint32_t i = 0; i < row_values; ++i) {
    in_row[of_runs_[i]] = i;
  }
  T* to = coefficients;
  for (const std::int32_t base : bases_) {
    T* sorted = row.data();
    each_run(base, [&](std::uint32_t first, std::uint32_t n) {
      for (std::size_t i = 0; i < n; i += kStep) {
        std::memcpy(sorted + i, ordered + first + i, kSpareBytes);
      }
      sorted += n;
    });
    if (base + runs_[0].offset >= 1) {
      for (std::size_t place = 0; place < row_values; ++place) {
        to[place] = row[in_row[place]];
      }
    } else {
      std::size_t n_lowest = 0;
      for (std::size_t place = 0; place < row_values; ++place) {
        const bool is_lowest = base + offsets_[place] <= 1;
        to[place] = row[is_lowest ? n_lowest : in_row[place]];
        n_lowest += is_lowest ? 1 : 0;
      }
    }
    to += row_values;
  }
}

// Visits some blocks at a time, so that they stay in cache.
template <class Action>
void CoefficientOrdering::each_by_tap(Action&& action) const {
  constexpr std::size_t kBlocks = 32;
  const std::size_t kernel_size = geometry_.kernel_size();
  std::vector<std::size_t> firsts(kernel_size);  // by band: the first place in the chunk
  std::vector<std::size_t> next(kernel_size);
  std::size_t total = 0;
  for (std::size_t position = 0; position < kernel_size; ++position) {
    firsts[geometry_.band_of_position()[position]] =
        (position + kernel_size - first_value_ % kernel_size) % kernel_size;
  }
  for (std::size_t band = 0; band < kernel_size; ++band) {
    next[band] = total;
    total +=
        firsts[band] < n_values_ ? (n_values_ - firsts[band] + kernel_size - 1) / kernel_size : 0;
  }
  for (std::size_t begin = 0; begin < n_values_; begin += kBlocks * kernel_size) {
    const std::size_t end = std::min(n_values_, begin + kBlocks * kernel_size);
    for (std::size_t band = 0; band < kernel_size; ++band) {
      std::size_t at = next[band];
      for (std::size_t place = begin + firsts[band]; place < end; place += kernel_size) {
        action(at++, place);
      }
      next[band] = at;
    }
  }
}

template <class Action>
void CoefficientOrdering::each(Action&& action) {
  if (kind_ == Kind::kBins) {
    each_by_bin(action);
  } else if (kind_ == Kind::kTaps) {
    each_by_tap(action);
  } else if (kind_ == Kind::kRowBlocks) {
    row_blocks_->each(action);
  } else if (kind_ == Kind::kWholeRows) {
    const std::size_t row_values = geometry_.row_values();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::size_t k = 0; k < row_values; ++k) {
        action(i * row_values + k, rows_[i] * row_values + k);
      }
    }
  } else {
    for (std::size_t at = 0; at < n_values_; ++at) {
      action(at, kind_ == Kind::kPlaces ? places_[at] : at);
    }
  }
}

template <class T>
void CoefficientOrdering::gather(const T* coefficients, T* ordered) {
  if (kind_ == Kind::kRows) {
    return gather_runs(coefficients, ordered);
  }
  each([&](std::size_t at, std::size_t place) { ordered[at] = coefficients[place]; });
}

template <class T>
void CoefficientOrdering::scatter(const T* ordered, T* coefficients) {
  if (kind_ == Kind::kRows) {
    return scatter_runs(ordered, coefficients);
  }
  each([&](std::size_t at, std::size_t place) { coefficients[place] = ordered[at]; });
}

template void CoefficientOrdering::gather(const float*, float*);
template void CoefficientOrdering::scatter(const float*, float*);
template void CoefficientOrdering::scatter(const double*, double*);

}  // namespace cfck::spectral

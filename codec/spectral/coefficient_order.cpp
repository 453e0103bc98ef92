#include "codec/spectral/coefficient_order.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cfck::codec {

CoefficientOrdering::CoefficientOrdering(const SpectralGeometry& geometry,
                                         const SpectralParameters& parameters,
                                         std::uint64_t first_value, std::size_t n_values,
                                         Scratch& scratch)
    : geometry_(geometry), first_value_(first_value), n_values_(n_values) {
  if (parameters.order == CoefficientOrder::kClasses) {
    std::optional<RowClasses> rows = row_classes(geometry, parameters, first_value, n_values);
    if (rows && has_runs(*rows)) {
      kind_ = Kind::kRows;
      bases_ = std::move(rows->bases);
      count_runs();
      return;
    }
    kind_ = Kind::kClasses;
    std::uint8_t* const classes = scratch.impl().predicted_classes.room_for(n_values);
    predict_spectral_classes(geometry, parameters, first_value, n_values, classes);
    classes_ = classes;
    count_classes();
  } else if (parameters.order == CoefficientOrder::kBands && geometry.n_bands() > 1) {
    kind_ = geometry.is_simple() ? Kind::kTaps : Kind::kPlaces;
    if (kind_ == Kind::kPlaces) {
      std::uint32_t* const places = scratch.impl().coefficient_places.room_for(n_values);
      sort_bands(places);
      places_ = places;
    }
  }
}

void CoefficientOrdering::count_classes() {
  for (ClassCounts& counts : next_) {
    counts.fill(0);
  }
  const std::size_t part_size = n_values_ / kParts;
  for (std::size_t i = 0; i < part_size; ++i) {
    for (std::size_t part = 0; part < kParts; ++part) {
      ++next_[part][classes_[part * part_size + i]];
    }
  }
  for (std::size_t i = kParts * part_size; i < n_values_; ++i) {
    ++next_[kParts - 1][classes_[i]];
  }
  std::uint32_t total = 0;
  for (std::size_t c = 0; c <= kMaxSpectralClass; ++c) {
    for (ClassCounts& counts : next_) {
      const std::uint32_t count = counts[c];
      counts[c] = total;
      total += count;
    }
    ends_[c] = total;
  }
}

// Rows of which the places with one offset are many enough to be moved one after another.
bool CoefficientOrdering::has_runs(const RowClasses& rows) {
  constexpr std::size_t kLeastRun = 4;  // on average
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
  if (rows.bases.size() < 2 || rows.offsets.size() < kLeastRun * runs_.size()) {
    return false;
  }
  of_runs_.resize(rows.offsets.size());
  for (std::uint32_t place = 0; place < of_runs_.size(); ++place) {
    of_runs_[next[static_cast<std::size_t>(rows.offsets[place] - *low)]++] = place;
  }
  return true;
}

void CoefficientOrdering::count_runs() {
  ClassCounts& counts = next_[0];
  counts.fill(0);
  for (const std::int32_t base : bases_) {
    for (const Run& run : runs_) {
      counts[static_cast<std::size_t>(base + run.offset)] += run.n;
    }
  }
  std::uint32_t total = 0;
  for (std::size_t c = 0; c <= kMaxSpectralClass; ++c) {
    const std::uint32_t count = counts[c];
    counts[c] = total;
    total += count;
    ends_[c] = total;
  }
}

// Stably by band.
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

void CoefficientOrdering::set_groups(GroupCode* groups) const {
  std::size_t scale_class = 0;
  for (std::size_t first = 0; first < n_values_; first += kGroupSize) {
    const std::size_t middle = first + std::min<std::size_t>(kGroupSize, n_values_ - first) / 2;
    while (ends_[scale_class] <= middle) {
      ++scale_class;
    }
    groups[first / kGroupSize] = {static_cast<std::uint16_t>(scale_class), 0, GroupKind::kValues};
  }
}

template <class Action>
void CoefficientOrdering::each_by_class(Action&& action) {
  const std::size_t part_size = n_values_ / kParts;
  for (std::size_t i = 0; i < part_size; ++i) {
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t at = part * part_size + i;
      action(next_[part][classes_[at]]++, at);
    }
  }
  for (std::size_t at = kParts * part_size; at < n_values_; ++at) {
    action(next_[kParts - 1][classes_[at]]++, at);
  }
}

template <class Action>
void CoefficientOrdering::each_by_run(Action&& action) {
  std::size_t row_place = 0;
  for (const std::int32_t base : bases_) {
    const std::uint32_t* of_run = of_runs_.data();
    for (const Run& run : runs_) {
      std::uint32_t& next = next_[0][static_cast<std::size_t>(base + run.offset)];
      const std::size_t first = next;
      next += run.n;
      for (std::uint32_t i = 0; i < run.n; ++i) {
        action(first + i, row_place + of_run[i]);
      }
      of_run += run.n;
    }
    row_place += of_runs_.size();
  }
}

// Some blocks at a time, so that they stay near.
template <class Action>
void CoefficientOrdering::each_by_tap(Action&& action) const {
  constexpr std::size_t kBlocks = 32;
  const std::size_t taps = geometry_.taps();
  std::vector<std::size_t> firsts(taps);  // by band: the first place in the chunk
  std::vector<std::size_t> next(taps);
  std::size_t total = 0;
  for (std::size_t tap = 0; tap < taps; ++tap) {
    firsts[geometry_.band_of_tap()[tap]] = (tap + taps - first_value_ % taps) % taps;
  }
  for (std::size_t band = 0; band < taps; ++band) {
    next[band] = total;
    total += firsts[band] < n_values_ ? (n_values_ - firsts[band] + taps - 1) / taps : 0;
  }
  for (std::size_t begin = 0; begin < n_values_; begin += kBlocks * taps) {
    const std::size_t end = std::min(n_values_, begin + kBlocks * taps);
    for (std::size_t band = 0; band < taps; ++band) {
      std::size_t at = next[band];
      for (std::size_t place = begin + firsts[band]; place < end; place += taps) {
        action(at++, place);
      }
      next[band] = at;
    }
  }
}

template <class Action>
void CoefficientOrdering::each(Action&& action) {
  if (kind_ == Kind::kClasses) {
    each_by_class(action);
  } else if (kind_ == Kind::kRows) {
    each_by_run(action);
  } else if (kind_ == Kind::kTaps) {
    each_by_tap(action);
  } else {
    for (std::size_t at = 0; at < n_values_; ++at) {
      action(at, kind_ == Kind::kPlaces ? places_[at] : at);
    }
  }
}

template <class T>
void CoefficientOrdering::gather(const T* coefficients, T* ordered) {
  each([&](std::size_t at, std::size_t place) { ordered[at] = coefficients[place]; });
}

// Run after run into one row, some values at a time, and then each to its place.
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
    for (const Run& run : runs_) {
      std::uint32_t& next = next_[0][static_cast<std::size_t>(base + run.offset)];
      const T* const from = ordered + next;
      next += run.n;
      for (std::size_t i = 0; i < run.n; i += kStep) {
        std::memcpy(sorted + i, from + i, kSpareBytes);
      }
      sorted += run.n;
    }
    for (std::size_t i = 0; i < row_values; ++i) {
      to[i] = row[in_row[i]];
    }
    to += row_values;
  }
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

}  // namespace cfck::codec

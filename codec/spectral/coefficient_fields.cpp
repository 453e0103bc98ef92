#include "codec/spectral/coefficient_fields.hpp"

#include <algorithm>
#include <numeric>

namespace cfck::codec {
namespace {

std::int32_t entry(const std::vector<std::int16_t>& vector, std::uint64_t i) {
  return vector.empty() ? 0 : vector[i];
}

std::int32_t sum_at(const QuarterField& field, std::uint64_t band, std::uint64_t row,
                    std::uint64_t column) {
  return entry(field.bands, band) + entry(field.rows, row) + entry(field.columns, column);
}

// Rows of blocks that are kernels: what columns and taps add is the same in every row.
void simple_quarters(const SpectralGeometry& geometry, const QuarterField& field,
                     const QuarterField& less, std::uint64_t first_value,
                     std::span<std::int32_t> quarters) {
  const std::uint64_t row_values = geometry.row_values();
  const std::uint32_t taps = geometry.taps();
  std::uint64_t row = first_value / row_values;
  std::uint64_t at = first_value % row_values;
  const std::uint64_t n_used = std::min<std::uint64_t>(row_values, quarters.size());
  const std::uint64_t begin = n_used == row_values ? 0 : at;
  std::vector<std::int32_t> offsets(n_used);
  for (std::uint64_t i = 0; i < n_used; ++i) {
    const std::uint64_t place = (begin + i) % row_values;
    const std::uint32_t band = geometry.band_of_tap()[place % taps];
    offsets[i] = entry(field.bands, band) - entry(less.bands, band) +
                 entry(field.columns, place / taps) - entry(less.columns, place / taps);
  }
  for (std::size_t done = 0; done < quarters.size(); ++row) {
    const std::size_t n = std::min<std::size_t>(quarters.size() - done, row_values - at);
    const std::int32_t base = entry(field.rows, row) - entry(less.rows, row);
    const std::int32_t* const from = &offsets[(at + row_values - begin) % row_values];
    for (std::size_t i = 0; i < n; ++i) {
      quarters[done + i] = base + from[i];
    }
    done += n;
    at = 0;
  }
}

// Stably by key, which is less than n_keys.
template <class Key>
void sort_places(std::size_t n_keys, std::size_t n_values, Key&& key_of, std::uint32_t* places) {
  std::vector<std::uint32_t> next(n_keys + 1);
  for (std::size_t i = 0; i < n_values; ++i) {
    ++next[key_of(i) + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (std::size_t i = 0; i < n_values; ++i) {
    places[next[key_of(i)]++] = static_cast<std::uint32_t>(i);
  }
}

}  // namespace

std::vector<std::int32_t> quarters_of(const SpectralGeometry& geometry, const QuarterField& field,
                                      const QuarterField& less, std::uint64_t first_value,
                                      std::size_t n_values) {
  std::vector<std::int32_t> quarters(n_values);
  if (geometry.is_simple()) {
    simple_quarters(geometry, field, less, first_value, quarters);
    return quarters;
  }
  geometry.each(first_value, n_values,
                [&](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
                  quarters[i] = sum_at(field, band, row, column) - sum_at(less, band, row, column);
                });
  return quarters;
}

void predict_spectral_classes(const SpectralGeometry& geometry,
                              const SpectralParameters& parameters, std::uint64_t first_value,
                              std::size_t n_values, std::uint8_t* classes) {
  const std::vector<std::int32_t> quarters =
      quarters_of(geometry, parameters.scales, parameters.steps, first_value, n_values);
  for (std::size_t i = 0; i < n_values; ++i) {
    classes[i] = static_cast<std::uint8_t>(
        std::clamp<std::int32_t>(quarters[i], 1, static_cast<std::int32_t>(kMaxSpectralClass)));
  }
}

void order_coefficients(const SpectralGeometry& geometry, CoefficientOrder order,
                        const std::uint8_t* classes, std::uint64_t first_value,
                        std::size_t n_values, std::uint32_t* places) {
  if (order == CoefficientOrder::kClasses) {
    const auto class_of = [&](std::size_t i) { return classes[i]; };
    sort_places(kMaxSpectralClass + 1, n_values, class_of, places);
  } else if (order == CoefficientOrder::kBands && geometry.n_bands() > 1) {
    std::vector<std::uint16_t> bands(n_values);
    if (geometry.is_simple()) {
      for (std::size_t i = 0; i < n_values; ++i) {
        bands[i] =
            static_cast<std::uint16_t>(geometry.band_of_tap()[(first_value + i) % geometry.taps()]);
      }
    } else {
      geometry.each(first_value, n_values, [&](std::size_t i, std::uint32_t band, auto, auto) {
        bands[i] = static_cast<std::uint16_t>(band);
      });
    }
    const auto band_of = [&](std::size_t i) { return bands[i]; };
    sort_places(geometry.n_bands(), n_values, band_of, places);
  } else {
    std::iota(places, places + n_values, 0u);
  }
}

template <class T>
void coefficient_steps(const SpectralGeometry& geometry, const SpectralParameters& parameters,
                       std::uint64_t first_value, std::size_t n_values, T* steps) {
  if (parameters.steps.empty()) {
    std::fill_n(steps, n_values, static_cast<T>(parameters.step));
    return;
  }
  const std::vector<std::int32_t> quarters =
      quarters_of(geometry, parameters.steps, QuarterField(), first_value, n_values);
  const auto [least, most] = std::minmax_element(quarters.begin(), quarters.end());
  std::vector<T> table(static_cast<std::size_t>(*most - *least) + 1);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<T>(scaled_step(parameters.step, *least + static_cast<std::int32_t>(i)));
  }
  for (std::size_t i = 0; i < n_values; ++i) {
    steps[i] = table[static_cast<std::size_t>(quarters[i] - *least)];
  }
}

template void coefficient_steps(const SpectralGeometry&, const SpectralParameters&, std::uint64_t,
                                std::size_t, float*);
template void coefficient_steps(const SpectralGeometry&, const SpectralParameters&, std::uint64_t,
                                std::size_t, double*);

}  // namespace cfck::codec

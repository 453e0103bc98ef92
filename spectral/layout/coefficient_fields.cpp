#include "spectral/layout/coefficient_fields.hpp"

#include <algorithm>

namespace cfck::spectral {
namespace {

std::int32_t entry(const std::vector<std::int16_t>& vector, std::uint64_t i) {
  return vector.empty() ? 0 : vector[i];
}

std::int32_t sum_at(const QuarterField& field, std::uint64_t band, std::uint64_t row,
                    std::uint64_t column) {
  return entry(field.bands, band) + entry(field.rows, row) + entry(field.columns, column);
}

// The part that the row of a coefficient adds, or row and band where blocks are tall.
std::int32_t row_base(const SpectralGeometry& geometry, const QuarterField& field,
                      std::uint64_t row) {
  if (!geometry.is_tall()) {
    return entry(field.rows, row);
  }
  const std::uint32_t height = geometry.block_height();
  return entry(field.rows, row / height) +
         entry(field.bands, geometry.band_of_place()[row % height]);
}

// The parts that column and band add to the n_places coefficients of a row from number `begin` on.
std::vector<std::int32_t> row_offsets(const SpectralGeometry& geometry, const QuarterField& field,
                                      const QuarterField& less, std::uint64_t begin,
                                      std::size_t n_places) {
  const std::uint32_t kernel_size = geometry.is_tall() ? 1 : geometry.kernel_size();
  std::vector<std::int32_t> of_positions(kernel_size);
  for (std::uint32_t position = 0; !geometry.is_tall() && position < kernel_size; ++position) {
    const std::uint32_t band = geometry.band_of_position()[position];
    of_positions[position] = entry(field.bands, band) - entry(less.bands, band);
  }
  std::vector<std::int32_t> offsets(n_places);
  std::uint64_t column = begin / kernel_size;
  auto position = static_cast<std::uint32_t>(begin % kernel_size);
  for (std::int32_t& offset : offsets) {
    offset = of_positions[position] + entry(field.columns, column) - entry(less.columns, column);
    if (++position == kernel_size) {
      position = 0;
      column = column + 1 == geometry.n_columns() ? 0 : column + 1;
    }
  }
  return offsets;
}

// True if the value for a coefficient is the sum of what its row and its place in the row add.
bool has_plain_rows(const SpectralGeometry& geometry) {
  return geometry.is_simple() || geometry.is_tall();
}

// Where rows are plain: calls action(base, offsets, done, n) for the n coefficients of each row
// from number `done` on.
template <class Action>
void each_plain_row(const SpectralGeometry& geometry, const QuarterField& field,
                    const QuarterField& less, std::uint64_t first_value, std::size_t n_values,
                    Action&& action) {
  const std::uint64_t row_values = geometry.row_values();
  std::uint64_t row = first_value / row_values;
  std::uint64_t at = first_value % row_values;
  const auto n_used = static_cast<std::size_t>(std::min<std::uint64_t>(row_values, n_values));
  const std::uint64_t begin = n_used == row_values ? 0 : at;
  const std::vector<std::int32_t> offsets = row_offsets(geometry, field, less, begin, n_used);
  for (std::size_t done = 0; done < n_values; ++row) {
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(n_values - done, row_values - at));
    const std::int32_t base = row_base(geometry, field, row) - row_base(geometry, less, row);
    action(base, offsets.data() + (at + row_values - begin) % row_values, done, n);
    done += n;
    at = 0;
  }
}

std::vector<std::int32_t> quarters_of(const SpectralGeometry& geometry, const QuarterField& field,
                                      const QuarterField& less, std::uint64_t first_value,
                                      std::size_t n_values) {
  std::vector<std::int32_t> quarters(n_values);
  if (has_plain_rows(geometry)) {
    each_plain_row(
        geometry, field, less, first_value, n_values,
        [&](std::int32_t base, const std::int32_t* offsets, std::size_t done, std::size_t n) {
          for (std::size_t i = 0; i < n; ++i) {
            quarters[done + i] = base + offsets[i];
          }
        });
    return quarters;
  }
  geometry.each(first_value, n_values,
                [&](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
                  quarters[i] = sum_at(field, band, row, column) - sum_at(less, band, row, column);
                });
  return quarters;
}

}  // namespace

void predict_spectral_bins(const SpectralGeometry& geometry, const SpectralParameters& parameters,
                           std::uint64_t first_value, std::size_t n_values, std::uint8_t* bins) {
  constexpr auto kMax = static_cast<std::int32_t>(kMaxSpectralBin);
  const SpectralKernels& kernels = spectral_kernels();
  if (!has_plain_rows(geometry)) {
    const std::vector<std::int32_t> quarters =
        quarters_of(geometry, parameters.scales, parameters.steps, first_value, n_values);
    kernels.clamp_bins(0, quarters.data(), n_values, kMax, bins);
    return;
  }
  each_plain_row(geometry, parameters.scales, parameters.steps, first_value, n_values,
                 [&](std::int32_t base, const std::int32_t* offsets, std::size_t done,
                     std::size_t n) { kernels.clamp_bins(base, offsets, n, kMax, bins + done); });
}

std::optional<RowBins> row_bins(const SpectralGeometry& geometry,
                                const SpectralParameters& parameters, std::uint64_t first_value,
                                std::size_t n_values) {
  if (!has_plain_rows(geometry) || !geometry.has_whole_rows(first_value, n_values)) {
    return std::nullopt;
  }
  RowBins rows;
  each_plain_row(geometry, parameters.scales, parameters.steps, first_value, n_values,
                 [&](std::int32_t base, const std::int32_t* offsets, std::size_t, std::size_t n) {
                   rows.bases.push_back(base);
                   if (rows.offsets.empty()) {
                     rows.offsets.assign(offsets, offsets + n);
                   }
                 });
  return rows;
}

std::int32_t RowBins::max() const {
  return *std::max_element(bases.begin(), bases.end()) +
         *std::max_element(offsets.begin(), offsets.end());
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
  const auto [min, most] = std::minmax_element(quarters.begin(), quarters.end());
  std::vector<T> table(static_cast<std::size_t>(*most - *min) + 1);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<T>(scaled_step(parameters.step, *min + static_cast<std::int32_t>(i)));
  }
  for (std::size_t i = 0; i < n_values; ++i) {
    steps[i] = table[static_cast<std::size_t>(quarters[i] - *min)];
  }
}

template void coefficient_steps(const SpectralGeometry&, const SpectralParameters&, std::uint64_t,
                                std::size_t, float*);
template void coefficient_steps(const SpectralGeometry&, const SpectralParameters&, std::uint64_t,
                                std::size_t, double*);

}  // namespace cfck::spectral

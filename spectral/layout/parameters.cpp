#include "spectral/layout/parameters.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/bytes.hpp"
#include "spectral/layout/rice_vector.hpp"
#include "spectral/transforms/morton.hpp"

namespace cfck::spectral {
namespace {

enum SpectralFlag : std::uint8_t {
  kStates = 3,  // the place in kStateCounts
  kTransforms = 1 << 2,
  kOrder = 3 << 3,
  kHasScales = 1 << 5,
  kHasSteps = 1 << 6,
  kHasRanges = 1 << 7,
};

constexpr unsigned kStateCounts[] = {1, 4, 8, 64};

enum FieldFlag : std::uint8_t { kHasBands = 1, kHasRows = 2, kHasColumns = 4 };

// Returns the entry of each range's first band.
std::vector<std::int16_t> of_ranges(const std::vector<std::int16_t>& bands) {
  std::vector<std::int16_t> ranges;
  for (std::uint32_t band = 0; band < bands.size(); ++band) {
    if (band_range(band) == ranges.size()) {
      ranges.push_back(bands[band]);
    }
  }
  return ranges;
}

Result<std::vector<std::int16_t>> read_bands(std::uint32_t n_bands, bool has_ranges,
                                             VarintReader& in) {
  if (!has_ranges) {
    return read_rice_vector(n_bands, in);
  }
  CFCK_TRY_ASSIGN(const std::vector<std::int16_t> ranges,
                  read_rice_vector(n_band_ranges(n_bands), in));
  std::vector<std::int16_t> bands(n_bands);
  for (std::uint32_t band = 0; band < n_bands; ++band) {
    bands[band] = ranges[band_range(band)];
  }
  return bands;
}

void append_field(const QuarterField& field, bool has_ranges, std::vector<std::byte>& out) {
  out.push_back(static_cast<std::byte>((field.bands.empty() ? 0 : kHasBands) |
                                       (field.rows.empty() ? 0 : kHasRows) |
                                       (field.columns.empty() ? 0 : kHasColumns)));
  if (!field.bands.empty()) {
    append_rice_vector(has_ranges ? of_ranges(field.bands) : field.bands, out);
  }
  for (const auto* vector : {&field.rows, &field.columns}) {
    if (!vector->empty()) {
      append_rice_vector(*vector, out);
    }
  }
}

Result<QuarterField> read_field(const SpectralGeometry& geometry, bool has_ranges,
                                VarintReader& in) {
  QuarterField field;
  const std::size_t at = in.origin() + in.position();
  CFCK_TRY_ASSIGN(const std::uint8_t flags, in.byte());
  if (flags == 0 || flags > (kHasBands | kHasRows | kHasColumns)) {
    return corrupt("unknown flags of a field", at);
  }
  if (flags & kHasBands) {
    CFCK_TRY_ASSIGN(field.bands, read_bands(geometry.n_bands(), has_ranges, in));
  }
  if (flags & kHasRows) {
    CFCK_TRY_ASSIGN(field.rows, read_rice_vector(geometry.n_rows(), in));
  }
  if (flags & kHasColumns) {
    CFCK_TRY_ASSIGN(field.columns, read_rice_vector(geometry.n_columns(), in));
  }
  return field;
}

}  // namespace

void append_spectral_parameters(const SpectralParameters& parameters, std::vector<std::byte>& out) {
  const auto states = std::ranges::find(kStateCounts, parameters.n_states) - kStateCounts;
  out.push_back(static_cast<std::byte>(
      static_cast<int>(states) | (parameters.transforms ? kTransforms : 0) |
      static_cast<int>(parameters.order) << 3 | (parameters.scales.empty() ? 0 : kHasScales) |
      (parameters.steps.empty() ? 0 : kHasSteps) | (parameters.has_ranges ? kHasRanges : 0)));
  const std::size_t start = out.size();
  out.resize(start + sizeof(double));
  store(out.data() + start, parameters.step);
  out.push_back(static_cast<std::byte>(parameters.sides.size()));
  for (const std::uint8_t side : parameters.sides) {
    out.push_back(std::byte{side});
  }
  if (!parameters.scales.empty()) {
    append_field(parameters.scales, parameters.has_ranges, out);
  }
  if (!parameters.steps.empty()) {
    append_field(parameters.steps, parameters.has_ranges, out);
  }
}

Result<SpectralParameters> read_spectral_parameters(std::span<const std::uint64_t> shape,
                                                    VarintReader& in) {
  SpectralParameters parameters;
  const std::size_t at = in.origin() + in.position();
  CFCK_TRY_ASSIGN(const std::uint8_t flags, in.byte());
  const unsigned order = (flags & kOrder) >> 3;
  const bool has_scales = (flags & kHasScales) != 0;
  if (has_scales != predicts_bins(static_cast<CoefficientOrder>(order))) {
    return corrupt("unknown flags of the parameters", at);
  }
  parameters.n_states = kStateCounts[flags & kStates];
  parameters.transforms = (flags & kTransforms) != 0;
  parameters.order = static_cast<CoefficientOrder>(order);
  CFCK_TRY_ASSIGN(const ByteView step, in.take(sizeof(double)));
  parameters.step = load<double>(step.data());
  if (!(parameters.step > 0) || parameters.step > std::numeric_limits<double>::max()) {
    return corrupt("the step is not a positive number", at);
  }
  CFCK_TRY_ASSIGN(const std::uint8_t n_sides, in.byte());
  CFCK_TRY_ASSIGN(const ByteView sides, in.take(n_sides));
  for (const std::byte side : sides) {
    parameters.sides.push_back(static_cast<std::uint8_t>(side));
  }
  Result<SpectralGeometry> geometry = SpectralGeometry::create(shape, parameters.sides);
  if (!geometry) {
    return shifted(std::move(geometry).error(), at);
  }
  parameters.has_ranges = (flags & kHasRanges) != 0;
  if (parameters.has_ranges && geometry->n_bands() <= kSingleBands) {
    return corrupt("ranges of so few bands", at);
  }
  if (has_scales) {
    CFCK_TRY_ASSIGN(parameters.scales, read_field(*geometry, parameters.has_ranges, in));
  }
  if (flags & kHasSteps) {
    CFCK_TRY_ASSIGN(parameters.steps, read_field(*geometry, parameters.has_ranges, in));
  }
  return parameters;
}

Result<SpectralParameters> parse_spectral_parameters(std::span<const std::uint64_t> shape,
                                                     ByteView preamble) {
  VarintReader in(preamble);
  CFCK_TRY_ASSIGN(SpectralParameters parameters, read_spectral_parameters(shape, in));
  if (!in.at_end()) {
    return corrupt("bytes after the parameters", in.position());
  }
  return parameters;
}

CoefficientOrder order_of_preamble(ByteView preamble) noexcept {
  return static_cast<CoefficientOrder>((static_cast<unsigned>(preamble[0]) & kOrder) >> 3);
}

double scaled_step(double step, std::int32_t quarters) {
  // Computes 2^(i / 4), rounded to nearest.
  static constexpr double kRoots[4] = {1, 0x1.306fe0a31b715p+0, 0x1.6a09e667f3bcdp+0,
                                       0x1.ae89f995ad3adp+0};
  const std::int32_t octaves = std::clamp(quarters >> 2, -1022, 1023);
  const double power = std::bit_cast<double>(static_cast<std::uint64_t>(octaves + 1023) << 52);
  return step * (kRoots[quarters & 3] * power);
}

}  // namespace cfck::spectral

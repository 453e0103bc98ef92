#include "codec/direct/plan/sample.hpp"

#include <algorithm>

namespace cfck::codec {
namespace {

// Records of up to kWholeValues are sampled whole, others at the share 1 / kShare of their values,
// within limits.
inline constexpr std::uint64_t kWholeValues = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kShare = 8;
inline constexpr std::uint64_t kMinSample = std::uint64_t{1} << 14;
inline constexpr std::uint64_t kMaxSample = std::uint64_t{1} << 16;
// The values that a column of a field needs, and the limit for all columns.
inline constexpr std::uint64_t kColumnValues = 64;
inline constexpr std::uint64_t kMaxFieldSample = std::uint64_t{1} << 18;
// Values read at a time: rows next to each other where they are short.
inline constexpr std::uint64_t kBlockValues = std::uint64_t{1} << 11;

// The positions of the pieces of a sample in the record.
struct SampleLayout {
  std::uint64_t n_pieces = 1;
  std::uint64_t piece_rows = 1;
  std::uint64_t row_values = 0;  // of the sample
  std::uint64_t stride = 0;      // from piece to piece
};

SampleLayout layout_of(const DirectGeometry& geometry, EncodeLevel level) {
  const std::uint64_t n_values = geometry.n_values();
  SampleLayout layout;
  layout.row_values = geometry.row_values();
  if (n_values <= kWholeValues) {
    layout.piece_rows = geometry.rows;
    return layout;
  }
  std::uint64_t wanted = std::clamp(n_values / kShare, kMinSample, kMaxSample);
  const std::uint64_t of_columns =
      ceil_div(kColumnValues, geometry.kernel_size) * geometry.row_values();
  const bool fits_field = may_fit_field(geometry, level) && of_columns <= kMaxFieldSample;
  wanted = fits_field ? std::max(wanted, of_columns) : wanted;
  if (!fits_field && geometry.row_values() > wanted / 4) {
    // The pieces are parts of rows, all the same distance apart.
    layout.row_values =
        std::min(geometry.row_values(), wanted / 4) / geometry.kernel_size * geometry.kernel_size;
    layout.n_pieces = 4;
    const std::uint64_t per_row = geometry.row_values() / layout.row_values;
    layout.stride = std::max<std::uint64_t>(1, geometry.rows * per_row / layout.n_pieces);
    return layout;
  }
  layout.piece_rows = std::max<std::uint64_t>(1, kBlockValues / geometry.row_values());
  const std::uint64_t n_blocks = geometry.rows / layout.piece_rows;
  layout.n_pieces = std::min(
      n_blocks, std::max<std::uint64_t>(1, wanted / (layout.piece_rows * geometry.row_values())));
  layout.stride = n_blocks / layout.n_pieces;
  return layout;
}

// Returns the record's value with which piece i begins.
std::uint64_t piece_start(const DirectGeometry& geometry, const SampleLayout& layout,
                          std::uint64_t i) {
  if (layout.row_values == geometry.row_values()) {
    return i * layout.stride * layout.piece_rows * geometry.row_values();
  }
  const std::uint64_t per_row = geometry.row_values() / layout.row_values;
  const std::uint64_t piece = i * layout.stride;
  return piece / per_row * geometry.row_values() + piece % per_row * layout.row_values;
}

}  // namespace

DirectParameters PlanSample::parameters(const DirectParameters& of_record) const {
  DirectParameters result;
  result.step = of_record.step;
  result.coefficients = of_record.coefficients;
  for (const std::uint64_t row :
       of_record.row_steps.empty() ? std::vector<std::uint64_t>() : rows) {
    result.row_steps.push_back(of_record.row_steps[row]);
  }
  return result;
}

std::vector<ValueRange> plan_sample_ranges(const DirectGeometry& geometry, EncodeLevel level) {
  const SampleLayout layout = layout_of(geometry, level);
  std::vector<ValueRange> ranges;
  for (std::uint64_t i = 0; i < layout.n_pieces; ++i) {
    ranges.push_back({piece_start(geometry, layout, i), layout.piece_rows * layout.row_values});
  }
  return ranges;
}

Result<PlanSample> take_plan_sample(const DirectRecord& record, const DirectGeometry& geometry,
                                    const DirectBounds& bounds, const ReadValues& read) {
  const SampleLayout layout = layout_of(geometry, record.level);
  PlanSample sample;
  sample.has_whole_rows = layout.row_values == geometry.row_values();
  sample.is_whole = sample.has_whole_rows && layout.n_pieces * layout.piece_rows == geometry.rows;
  sample.shape = {layout.n_pieces * layout.piece_rows, layout.row_values / geometry.kernel_size};
  if (geometry.kernel_size > 1) {
    sample.shape.push_back(geometry.kernel_size);
  }
  CFCK_TRY_ASSIGN(sample.geometry, direct_geometry(sample.shape));
  const std::size_t value_bytes = bits_per_element(record.dtype) / 8;
  sample.values.reserve(sample.n_values() * value_bytes);
  std::vector<std::byte> workspace;
  for (std::uint64_t i = 0; i < layout.n_pieces; ++i) {
    const std::uint64_t first = piece_start(geometry, layout, i);
    CFCK_TRY_ASSIGN(const ByteView values,
                    read(first, layout.piece_rows * layout.row_values, workspace));
    sample.values.insert(sample.values.end(), values.begin(), values.end());
    for (std::uint64_t row = 0; row < layout.piece_rows; ++row) {
      sample.rows.push_back(first / geometry.row_values() + row);
      if (!bounds.rows.empty()) {
        sample.row_bounds.push_back(bounds.rows[sample.rows.back()]);
      }
    }
  }
  return sample;
}

}  // namespace cfck::codec

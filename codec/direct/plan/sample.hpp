// The part of a record that a plan uses: some of its rows, which make a smaller tensor
// (codec/direct/spec.md, section 7).
#pragma once

#include "codec/direct/plan/plan.hpp"

namespace cfck::codec {

// A scale field needs all indices at once, and pays little on large tensors.
inline constexpr std::uint64_t kMaxFieldValues = std::uint64_t{1} << 22;
inline constexpr std::uint64_t kMaxArchivedFieldValues = std::uint64_t{1} << 24;
inline bool may_fit_field(const DirectGeometry& geometry, EncodeLevel level) {
  return geometry.rows > 1 && level != EncodeLevel::kFast &&
         geometry.n_values() <=
             (level == EncodeLevel::kArchive ? kMaxArchivedFieldValues : kMaxFieldValues);
}

struct PlanSample {
  std::vector<std::uint64_t> shape;
  DirectGeometry geometry;
  std::vector<std::byte> values;
  std::vector<std::uint64_t> rows;  // of the record, one for each of the sample
  std::vector<double> row_bounds;   // where the record has them
  bool has_whole_rows = true;       // else pieces of rows
  bool is_whole = true;             // the sample is the record itself

  std::uint64_t n_values() const { return geometry.n_values(); }
  DirectBounds bounds(const DirectBounds& of_record) const { return {of_record.bound, row_bounds}; }
  // Returns the parameters of the record, except its field.
  DirectParameters parameters(const DirectParameters& of_record) const;
};

// Returns the ranges of the record that take_plan_sample() reads.
std::vector<ValueRange> plan_sample_ranges(const DirectGeometry& geometry, EncodeLevel level);

// Errors: those of `read`.
Result<PlanSample> take_plan_sample(const DirectRecord& record, const DirectGeometry& geometry,
                                    const DirectBounds& bounds, const ReadValues& read);

}  // namespace cfck::codec

// Included once for each CPU level, by a source that is compiled for it and
// defines CFCK_CPU_NAMESPACE.
#include "base/cpu/x86_intrinsics.hpp"
//
#include "codec/direct/kernels/assign_bins.hpp"
#include "codec/direct/kernels/kernels.hpp"
#include "codec/direct/kernels/merge_indices.hpp"
#include "codec/direct/kernels/prediction.hpp"
#include "codec/direct/kernels/quantise.hpp"
#include "codec/direct/kernels/quantise_symbols.hpp"
#include "codec/direct/kernels/split_indices.hpp"
#include "codec/direct/kernels/symbol_codes.hpp"
#include "codec/direct/kernels/symbol_values.hpp"
#include "codec/direct/kernels/value_range.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

template <class Visitor>
auto visit_value(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kF64:
      return visitor(ValueF64{});
    case DType::kBF16:
      return visitor(ValueBf16{});
    case DType::kF16:
      return visitor(ValueF16{});
    default:
      return visitor(ValueF32{});
  }
}

QuantisedTotals quantise(DType dtype, const std::byte* values, std::size_t n_values,
                         const ValueSteps& steps, std::int32_t* indices, std::byte* decoded) {
  return visit_value(dtype, [&](auto value) {
    return quantise_values<decltype(value)>(values, n_values, steps, indices, decoded);
  });
}

QuantisedTotals quantise_symbols(DType dtype, const std::byte* values, std::size_t n_values,
                                 const ValueSteps& steps, std::byte* decoded, GroupCode* groups,
                                 DirectSplit& to) {
  return visit_value(dtype, [&](auto value) {
    return quantise_to_symbols<decltype(value)>(values, n_values, steps, decoded, groups, to);
  });
}

void dequantise(DType dtype, const std::int32_t* indices, std::size_t n_values,
                const ValueSteps& steps, std::byte* values) {
  visit_value(dtype, [&](auto value) {
    dequantise_values<decltype(value)>(indices, n_values, steps, values);
  });
}

bool merge_values(DType dtype, std::size_t n_values, const GroupCode* groups,
                  const ValueSteps& steps, DirectMerge& from, std::byte* values) {
  return visit_value(dtype, [&](auto value) {
    return values_of_symbols<decltype(value)>(n_values, groups, steps, from, values);
  });
}

bool decode_values(DType dtype, std::size_t n_groups, const GroupCode* groups,
                   const ValueSteps& steps, RansLanes& lanes, const RansDecodeTable* const* tables,
                   DirectMerge& from, std::byte* values) {
  return visit_value(dtype, [&](auto value) {
    using Value = decltype(value);
    const auto decode = lanes.n_sets == 4   ? &values_of_lanes<Value, 4>
                        : lanes.n_sets == 2 ? &values_of_lanes<Value, 2>
                                            : &values_of_lanes<Value, 1>;
    return decode(n_groups, groups, steps, lanes, tables, from, values);
  });
}

bool has_float_products([[maybe_unused]] double step) {
#if defined(CFCK_HAS_FLOAT_PRODUCTS)
  return FloatStep::is_exact(step);
#else
  return false;
#endif
}

void extend_range_of(DType dtype, const std::byte* values, std::size_t n, double& min,
                     double& max) {
  visit_value(dtype, [&](auto value) { extend_range<decltype(value)>(values, n, min, max); });
}

}  // namespace

const DirectKernels& direct_kernel_set() noexcept {
  static const DirectKernels set{.quantise = &quantise,
                                 .quantise_symbols = &quantise_symbols,
                                 .dequantise = &dequantise,
                                 .assign_bins = &assign_bins,
                                 .split = &split_indices,
                                 .merge = &merge_indices,
                                 .split_symbols = &split_symbols,
                                 .merge_symbols = &merge_symbols,
                                 .merge_values = &merge_values,
                                 .decode_values = &decode_values,
                                 .has_float_products = &has_float_products,
                                 .predict = &predict_kernels,
                                 .restore = &restore_kernels,
                                 .extend_range = &extend_range_of};
  return set;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

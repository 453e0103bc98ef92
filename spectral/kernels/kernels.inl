// Included once for each CPU level, by a source that is compiled for it and defines
// CFCK_CPU_NAMESPACE.
#include "base/cpu/x86_intrinsics.hpp"
//
#include "spectral/kernels/coefficient_values.hpp"
#include "spectral/kernels/feedback_search.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/kernels/merge_levels.hpp"
#include "spectral/kernels/trellis_search.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

void load_values(DType dtype, const std::byte* values, std::size_t n, double* to) {
  switch (dtype) {
    case DType::kF64:
      return load_doubles<ValueF64>(values, n, to);
    case DType::kBF16:
      return load_doubles<ValueBf16>(values, n, to);
    case DType::kF16:
      return load_doubles<ValueF16>(values, n, to);
    default:
      return load_doubles<ValueF32>(values, n, to);
  }
}

std::size_t compare(DType dtype, const std::byte* values, const std::byte* decoded, std::size_t n,
                    double bound, ErrorTotals& totals) {
  switch (dtype) {
    case DType::kF64:
      return compare_values<ValueF64>(values, decoded, n, bound, totals);
    case DType::kBF16:
      return compare_values<ValueBf16>(values, decoded, n, bound, totals);
    case DType::kF16:
      return compare_values<ValueF16>(values, decoded, n, bound, totals);
    default:
      return compare_values<ValueF32>(values, decoded, n, bound, totals);
  }
}

void store_floats(DType dtype, const float* values, std::size_t n, std::byte* to) {
  switch (dtype) {
    case DType::kBF16:
      return store_values<ValueBf16>(values, n, to);
    case DType::kF16:
      return store_values<ValueF16>(values, n, to);
    default:
      return store_values<ValueF32>(values, n, to);
  }
}

void store_doubles(const double* values, std::size_t n, std::byte* to) {
  store_values<ValueF64>(values, n, to);
}

}  // namespace

const SpectralKernels& spectral_kernel_set() noexcept {
  static constexpr SpectralKernels kSet {
    .search = &search_codes, .search_feedback = &search_feedback,
    .write_planes = &write_code_planes, .load_values = &load_values, .divide = &divide_coefficients,
    .assign_bins = &assign_bins, .round_indices = &round_steps, .compare = &compare,
    .merge_floats = &merge_values<float>, .merge_doubles = &merge_values<double>,
#if defined(__AVX2__)
    .decode_floats = &decode_floats,
#else
    .decode_floats = nullptr,
#endif
    .clamp_bins = &clamp_sums, .store_floats = &store_floats, .store_doubles = &store_doubles,
    .clear_float_nans = &clear_nans<float>, .clear_double_nans = &clear_nans<double>
  };
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral

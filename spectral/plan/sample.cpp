#include "spectral/plan/sample.hpp"

#include <algorithm>
#include <cmath>

#include "spectral/kernels/kernels.hpp"

namespace cfck::spectral {
namespace {

inline constexpr std::uint64_t kSampleValues = std::uint64_t{1} << 16;
// Rows that are transformed together stay together, even if there are more.
inline constexpr std::uint64_t kMaxSampleValues = std::uint64_t{1} << 18;
inline constexpr std::uint64_t kPairs = 16;
// Correlation r saves log2(1 / (1 - r^2)) / 2 bits: this one saves 0.02.
inline constexpr double kMinCorrelation = 0.16;

std::uint64_t n_values_of(const LossyRecord& record) {
  std::uint64_t n = 1;
  for (const std::uint64_t length : record.shape) {
    n *= length;
  }
  return n;
}

}  // namespace

Result<SpectralSample> take_sample(const LossyRecord& record, const ReadValues& read,
                                   std::uint64_t n_together) {
  SpectralSample sample;
  sample.shape = record.shape;
  std::vector<std::byte> workspace;
  const auto append = [&](std::uint64_t first, std::uint64_t n) -> Result<void> {
    CFCK_TRY_ASSIGN(const ByteView values, read(first, n, workspace));
    sample.values.insert(sample.values.end(), values.begin(), values.end());
    return {};
  };
  const std::uint64_t n_values = n_values_of(record);
  if (n_values <= kSampleValues) {
    CFCK_TRY(append(0, n_values));
    return sample;
  }
  sample.is_whole = false;
  const std::uint64_t row_values = record.shape.size() < 2 ? n_values : n_values / record.shape[0];
  if (row_values > kSampleValues / 2 || row_values > kMaxSampleValues / n_together) {
    sample.shape = {kSampleValues};
    CFCK_TRY(append(n_values / 2 - kSampleValues / 2, kSampleValues));
    return sample;
  }
  // Uses only whole runs: the last ones of the record may be shorter.
  const std::uint64_t n_runs = std::max<std::uint64_t>(1, kSampleValues / row_values / n_together);
  const std::uint64_t runs_there = std::max<std::uint64_t>(1, record.shape[0] / n_together);
  for (std::uint64_t i = 0; i < n_runs && i < runs_there; ++i) {
    const std::uint64_t first = runs_there * i / std::min(n_runs, runs_there) * n_together;
    const std::uint64_t n_rows = std::min(n_together, record.shape[0] - first);
    for (std::uint64_t row = first; row < first + n_rows; ++row) {
      sample.rows.push_back(row);
    }
    CFCK_TRY(append(first * row_values, n_rows * row_values));
  }
  sample.shape[0] = sample.rows.size();
  return sample;
}

Result<bool> are_rows_similar(const LossyRecord& record, const ReadValues& read) {
  const std::uint64_t n_rows = record.shape[0];
  const auto n = static_cast<std::size_t>(std::min(record.shape[1], kSampleValues / 2));
  std::vector<std::byte> workspace;
  std::vector<double> pair(2 * n);
  double products = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    const std::uint64_t row = (n_rows - 1) * i / kPairs;
    for (std::uint64_t next = 0; next < 2; ++next) {
      CFCK_TRY_ASSIGN(const ByteView values, read((row + next) * record.shape[1], n, workspace));
      spectral_kernels().load_values(record.dtype, values.data(), n, pair.data() + next * n);
    }
    for (std::size_t k = 0; k < n; ++k) {
      products += pair[k] * pair[n + k];
      squares += (pair[k] * pair[k] + pair[n + k] * pair[n + k]) / 2;
    }
  }
  return products > kMinCorrelation * squares;
}

}  // namespace cfck::spectral

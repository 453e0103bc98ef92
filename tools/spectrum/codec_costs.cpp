#include "tools/spectrum/codec_costs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cfck/writer.hpp"

namespace cfck::tools {
namespace {

constexpr CodecTrial kTrials[] = {
    {"raw", ""},
    {"lossless", ""},
    {"direct", "--max-sigma-error 1e-3"},
    {"direct", "--max-sigma-error 1e-2"},
    {"spectral", "--nmse -40dB"},
    {"spectral", "--nmse -20dB"},
};

TensorOptions options_of(const CodecTrial& trial) {
  TensorOptions options;
  if (trial.codec == "raw") options.codec = CodecChoice::kRaw;
  if (trial.codec == "lossless") options.codec = CodecChoice::kLossless;
  if (trial.codec == "direct") {
    options.codec = CodecChoice::kDirect;
    options.max_sigma_error = trial.request.ends_with("1e-3") ? 1e-3 : 1e-2;
  }
  if (trial.codec == "spectral") {
    options.codec = CodecChoice::kSpectral;
    options.nmse = trial.request.ends_with("-40dB") ? 1e-4 : 1e-2;
  }
  return options;
}

bool is_lossy(const CodecTrial& trial) {
  return trial.codec == "direct" || trial.codec == "spectral";
}

// Whether lossy codecs take such values.
bool may_be_lossy(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16 ||
         dtype == DType::kF16;
}

class NoSink final : public ByteSink {
 public:
  Result<void> write(ByteView) override { return {}; }
};

Result<CodecCost> try_codec(const CodecTrial& trial, const TensorView& tensor,
                            std::uint64_t n_elems, double rms) {
  CodecCost cost;
  cost.nmse_db = -std::numeric_limits<double>::infinity();
  cost.applies = !is_lossy(trial) || may_be_lossy(tensor.dtype);
  if (!cost.applies) return cost;
  NoSink sink;
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(sink));
  CFCK_TRY(writer.add("tensor", tensor, options_of(trial)));
  CFCK_TRY_ASSIGN(const WriteSummary summary, writer.finish());
  // A codec that loses something stores the tensor without loss where that takes no more.
  if (is_lossy(trial) && summary.lossy.empty()) return cost;
  cost.bits_per_weight =
      8 * static_cast<double>(summary.stored_bytes) / static_cast<double>(n_elems);
  if (!is_lossy(trial)) return cost;
  const double rmse = summary.lossy.front().error.rmse;
  if (rmse > 0) cost.nmse_db = 20 * std::log10(rmse / rms);
  return cost;
}

}  // namespace

std::span<const CodecTrial> codec_trials() { return kTrials; }

Result<std::vector<CodecCost>> codec_costs(DType dtype, const TensorSample& sample) {
  std::uint64_t n_not_finite = 0;
  const std::vector<double> values = finite_values(dtype, sample.bytes, n_not_finite);
  double squares = 0;
  for (const double value : values) squares += value * value;
  const auto n_finite = static_cast<double>(values.size() - n_not_finite);
  const double rms = std::sqrt(squares / std::max(n_finite, 1.0));
  std::uint64_t n_elems = 1;
  for (const std::uint64_t dim : sample.shape) n_elems *= dim;
  std::vector<CodecCost> costs;
  for (const CodecTrial& trial : kTrials) {
    CFCK_TRY_ASSIGN(costs.emplace_back(),
                    try_codec(trial, {dtype, sample.shape, sample.bytes}, n_elems, rms));
  }
  return costs;
}

}  // namespace cfck::tools

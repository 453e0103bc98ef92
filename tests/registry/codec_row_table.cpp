// The rows. Fuzz targets use them too (tests/fuzz/coding_again.cpp).
#include "spectral/plan/request.hpp"
#include "tests/registry/codec_rows.hpp"

namespace cfck::codec {
namespace {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
constexpr double kBound = 0.01;

void ask_absolute(LossyRecord& record) { record.bound = {BoundKind::kAbs, false, kBound}; }

void ask_relative(LossyRecord& record) { record.bound = {BoundKind::kRel, false, kBound}; }

void ask_by_row(LossyRecord& record) { record.bound = {BoundKind::kSigma, true, kBound}; }

void ask_spectral(LossyRecord& record, unsigned n_states,
                  std::optional<double> max_abs_error = std::nullopt) {
  spectral::SpectralRequest request;
  request.step = 0.05;
  request.n_states = n_states;
  request.lambda = n_states == 8 ? 0.1 : 0;
  request.max_abs_error = max_abs_error;
  record.request = std::make_shared<const spectral::SpectralRequest>(std::move(request));
}

constexpr CodecRow kRows[] = {
    {"lossless", CodecId::kLossless, kAllDTypes, nullptr, 0},
    {"delta", CodecId::kDelta, kAllDTypes, nullptr, 0},
    {"direct_abs", CodecId::kDirect, kFloats, ask_absolute, kBound},
    {"direct_by_row", CodecId::kDirect, kFloats, ask_by_row, {}},
    {"spectral_plain", CodecId::kSpectral, kFloats, [](LossyRecord& r) { ask_spectral(r, 1); }, {}},
    {"spectral_4", CodecId::kSpectral, kFloats, [](LossyRecord& r) { ask_spectral(r, 4); }, {}},
    {"spectral_8", CodecId::kSpectral, kFloats, [](LossyRecord& r) { ask_spectral(r, 8); }, {}},
    {"spectral_64", CodecId::kSpectral, kFloats, [](LossyRecord& r) { ask_spectral(r, 64); }, {}},
    {"spectral_bound", CodecId::kSpectral, kFloats,
     [](LossyRecord& r) { ask_spectral(r, 8, kBound); }, kBound},
    {"rows", CodecId::kRows, kAllDTypes, nullptr, 0},
    {"rows_abs", CodecId::kRows, kFloats, ask_absolute, kBound},
    {"rows_rel", CodecId::kRows, kFloats, ask_relative, {}}};

}  // namespace

std::span<const CodecRow> codec_rows() { return kRows; }

}  // namespace cfck::codec

// What the container asks of a codec that loses something: a plan for the whole
// tensor first, then its chunks, in any order and on any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "codec/codec.hpp"
#include "codec/error_totals.hpp"

namespace cfck::codec {

// Quarter octaves to be added to a step: the sum of what band, row and column of a
// coefficient have. What is empty counts as 0.
struct StepField {
  std::vector<std::int16_t> bands;    // of the DCT of a convolution kernel
  std::vector<std::int16_t> rows;     // by index of axis 0
  std::vector<std::int16_t> columns;  // by index of axis 1

  bool empty() const { return bands.empty() && rows.empty() && columns.empty(); }
  bool operator==(const StepField&) const = default;
};

class SecondMoments;

// What the spectral codec is to do (spectral/spec.md). Steps are chosen by the
// caller: rate control knows the whole file.
struct SpectralRequest {
  // Decoded coefficients are whole multiples of it, or, with a field, of what their
  // quarters make of it. Positive, finite.
  double step = 0;
  // Trellis states: 1 (none), 4, 8 or 64.
  unsigned n_states = 8;
  // Bits are weighed against squared errors: a bit counts lambda * step^2. 0: errors only.
  double lambda = 0;
  // No value may be off by more, if given; as in ErrorBound.
  std::optional<double> max_abs_error = std::nullopt;
  // With bands, kernels are transformed, whether that saves bits or not.
  StepField steps;
  // Sides of the blocks along the last axes, 1 to 64, at most 4096 values in all: those are
  // transformed, whether that saves bits or not. All 1: nothing is transformed. Sides longer than
  // their axis are cut to it. Empty, or more sides than axes: the kernel, or, of a matrix, 64 rows,
  // where that saves bits. Blocks that chunks cut are left out.
  std::vector<std::uint8_t> block = {};
  // Of the inputs of each row, channel by channel, places of the kernel within. With it errors
  // are fed forward and steps follow from it instead of from `steps`, where the tensor has
  // two axes or kernels and at most 2^24 values, chunks are whole rows, and the sizes agree. Then
  // `lambda` counts as 0, and states are at most 8.
  std::shared_ptr<const SecondMoments> moments = nullptr;
  // Where errors are fed forward: as many values as the tensor has, finite, which are quantised
  // instead of its own. Errors count from its own all the same.
  std::shared_ptr<const std::vector<float>> corrected = nullptr;

  bool operator==(const SpectralRequest&) const = default;
};

// The tensor to plan. It has values.
struct LossyRecord {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t chunk_elems = 0;  // of all chunks but the last
  ErrorBound bound;
  bool is_forced = false;        // rather than lossless, whatever it takes
  bool keeps_near_zero = false;  // lossless where the root mean square is below the bound
  EntropyId entropy = EntropyId::kZstd;
  EncodeLevel level = EncodeLevel::kDefault;
  // For the spectral codec, which looks at no bound; nullopt for the others.
  std::optional<SpectralRequest> spectral = std::nullopt;
};

// The bytes of `n_elems` values from `first_elem` on, in place or in `room`. May be
// called several times for the same values.
using ReadValues = std::function<Result<ByteView>(std::uint64_t first_elem, std::uint64_t n_elems,
                                                  std::vector<std::byte>& workspace)>;

// What is the same for all chunks of a tensor. Immutable.
class LossyPlan {
 public:
  virtual ~LossyPlan() = default;

  EntropyId entropy() const noexcept { return entropy_; }
  // To be stored once, before the chunks; empty if there is none.
  ByteView preamble() const noexcept { return preamble_; }

  // Encodes the n_elems values from `first_elem` on. `decoded` has the size of
  // `values` and gets what the decoder will give: no finite value is off by more
  // than the bound. Errors: kInvalidArgument, kOutOfMemory.
  virtual Result<void> encode(std::uint64_t first_elem, ByteView values, Scratch& scratch,
                              MutableBytes decoded, EncodedChunk& out,
                              ErrorTotals& errors) const = 0;

 protected:
  EntropyId entropy_ = EntropyId::kZstd;  // that of all chunks
  std::vector<std::byte> preamble_;
};

// Either a plan, or why the tensor should be stored without loss.
struct LossyDecision {
  std::unique_ptr<const LossyPlan> plan;
  LosslessReason reason = LosslessReason::kNotSmaller;  // where there is no plan
};

// Stateless, as Encoder. The same values give the same plan everywhere.
class LossyEncoder {
 public:
  virtual ~LossyEncoder() = default;
  virtual bool supports(DType dtype) const = 0;
  // Requires: supports(record.dtype). Errors: those of `read`, kInvalidArgument for
  // a bound that cannot be kept, kUnsupported for one for each of too many rows,
  // kOutOfMemory.
  virtual Result<LossyDecision> plan(const LossyRecord& record, const ReadValues& read,
                                     Scratch& scratch) const = 0;
};

// nullptr for codecs that lose nothing.
const LossyEncoder* find_lossy_encoder(CodecId id) noexcept;

}  // namespace cfck::codec

#include "hdf5/filter/chunk_choice.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/cpu/float_environment.hpp"
#include "codec/lossy.hpp"
#include "encode/rules/encode_rules.hpp"
#include "hdf5/filter/fill_values.hpp"
#include "hdf5/filter/rungs.hpp"

namespace cfck::hdf5 {
namespace {

// The range of max_abs_error (cfck/options.hpp).
constexpr double kSmallestBound = 0x1p-1000;
constexpr double kLargestBound = 0x1p1000;
constexpr unsigned kSmallestRate = 128;  // bytes of a chunk: headers take half of that
// Allows for more than all roundings of a bound.
constexpr double kBelow = 1 - 0x1p-19;

// The options of cfck for a chunk that is written once, with a bound relative to the range made
// absolute.
TensorOptions options_of(const FilterRequest& request, double max_abs_error) {
  TensorOptions options = request.options;
  switch (request.mode) {
    case Mode::kLossless:
      break;
    case Mode::kMaxAbsError:
    case Mode::kMaxRelError:
      options.max_abs_error = max_abs_error;
      break;
    case Mode::kNmse:
      options.nmse = request.value;
      break;
    case Mode::kBitsPerWeight:
      options.bits_per_weight = request.value;
      break;
  }
  if (request.max_abs_error > 0) {
    options.max_abs_error = request.max_abs_error;
  }
  if (options.nmse || options.bits_per_weight || options.codec == CodecChoice::kSpectral) {
    options.steps = StepPreset::kFlat;  // the values are data, not the weights of a known model
  }
  return options;
}

// The options for a chunk that may be decoded, changed and encoded again. Codec spectral has no
// grid on which decoded values lie, so it is never used here.
TensorOptions rewritable_options(const FilterRequest& request, double max_abs_error) {
  TensorOptions options;
  options.codec =
      request.options.codec == CodecChoice::kSpectral ? CodecChoice::kAuto : request.options.codec;
  options.max_abs_error = max_abs_error;
  return options;
}

Result<encode::TensorChoice> choose(const FilterRequest& request, const ChunkValues& values,
                                    const TensorOptions& options) {
  EncodeOptions of_file;
  of_file.level = request.level;
  CFCK_TRY_ASSIGN(const encode::EncodeRules rules, encode::EncodeRules::create(of_file));
  return rules.choose("", values.dtype, values.shape, options);
}

Result<ChunkChoice> choose_written_once(const FilterRequest& request, const ChunkValues& values,
                                        ByteView bytes) {
  ChunkChoice choice;
  double bound = request.value;
  if (request.mode == Mode::kMaxRelError) {
    bound = share_of_range(values.dtype, bytes, values.fill_bits, request.value);
    if (bound < kSmallestBound) {
      choice.tensor = without_loss(request);
      return choice;
    }
    bound = std::min(bound, kLargestBound);
  }
  CFCK_TRY_ASSIGN(choice.tensor, choose(request, values, options_of(request, bound)));
  return choice;
}

// The step follows from the bound alone. For 16-bit types it is a power of two: others miss the
// bound where values are about as far apart as multiples of the step.
Result<ChunkChoice> choose_absolute(const FilterRequest& request, const ChunkValues& values) {
  ChunkChoice choice;
  CFCK_TRY_ASSIGN(choice.tensor,
                  choose(request, values, rewritable_options(request, request.value)));
  if (values.dtype == DType::kF16 || values.dtype == DType::kBF16) {
    const double step = std::ldexp(1.0, std::ilogb(request.value) + 1);
    choice.tensor.request = choice.tensor.request->with_step(step);
  }
  return choice;
}

// The most by which values may be off so that the request is kept, also if they are off already by
// as much: range and mean square are those of the values that were written.
double bound_of(const FilterRequest& request, const ChunkValues& values, ByteView bytes,
                const Measures& measures) {
  const DefaultFloatEnvironment environment;
  double bound = kLargestBound;
  if (request.mode == Mode::kMaxRelError) {
    const double share = share_of_range(values.dtype, bytes, values.fill_bits, request.value);
    bound = share / (1 + 2 * request.value) * kBelow;
  } else if (request.mode == Mode::kNmse) {
    // Each value may have the largest error.
    const double root = std::sqrt(request.value);
    bound = measures.root_mean_square * (root / (1 + root)) * kBelow;
  }
  return request.max_abs_error > 0 ? std::min(bound, request.max_abs_error) : bound;
}

}  // namespace

bool is_float(DType dtype) { return codec::find_lossy_encoder(CodecId::kDirect)->supports(dtype); }

encode::TensorChoice without_loss(const FilterRequest& request) {
  return encode::without_loss(request.options.codec);
}

Result<ChunkChoice> choose_rung(const FilterRequest& request, const ChunkValues& values,
                                int number) {
  ChunkChoice choice;
  // Half a step, and the rounding to the type, which is less than half a step.
  const double bound = std::min(2 * rung(number), kLargestBound);
  CFCK_TRY_ASSIGN(choice.tensor, choose(request, values, rewritable_options(request, bound)));
  choice.tensor.request = choice.tensor.request->with_step(2 * rung(number));
  return choice;
}

Result<ChunkChoice> choose_for_chunk(const FilterRequest& request, const ChunkValues& values,
                                     ByteView bytes) {
  if (request.is_lossy() && request.is_written_once) {
    return choose_written_once(request, values, bytes);
  }
  if (request.mode == Mode::kMaxAbsError) {
    return choose_absolute(request, values);
  }
  ChunkChoice exact;
  exact.tensor = without_loss(request);
  if (!request.is_lossy()) {
    return exact;
  }
  const Measures measures = measures_of(values.dtype, bytes, values.fill_bits);
  const double bound = bound_of(request, values, bytes, measures);
  const std::optional<int> within = rung_within(values.dtype, bound, measures.largest);
  if (measures.largest == 0 || !within || rung(*within) < kSmallestBound) {
    return exact;
  }
  if (request.mode != Mode::kBitsPerWeight) {
    return choose_rung(request, values, *within);
  }
  RungsToTry rungs;
  rungs.finest = finest_rung(values.dtype, measures.largest);
  rungs.coarsest = std::min(*within, coarsest_rung(measures.largest));
  rungs.is_bounded = rungs.coarsest == *within;
  exact.rungs = rungs;
  return exact;
}

Result<void> check_request(const FilterRequest& request, const ChunkValues& values) {
  if (values.n_bytes() == 0 || values.n_bytes() > codec::kMaxChunkBytes) {
    return unsupported("a chunk of the dataset has more than 64 MiB; choose smaller chunks");
  }
  if (request.is_lossy() && !is_float(values.dtype)) {
    return invalid_argument(
        "maximum errors and targets apply to floats only, and the dataset has " +
        std::string(dtype_name(values.dtype)) +
        "; leave them out for it, and it is stored without loss");
  }
  const double n_values =
      static_cast<double>(values.n_bytes() * 8 / bits_per_element(values.dtype));
  if (request.mode == Mode::kBitsPerWeight && request.value * n_values < kSmallestRate * 8) {
    return invalid_argument("bits_per_weight leaves less than " + std::to_string(kSmallestRate) +
                            " bytes to a chunk; choose larger chunks or more bits");
  }
  // An absolute bound stands for a relative one: neither depends on the values here.
  const bool is_relative = request.mode == Mode::kMaxRelError;
  CFCK_TRY(choose(request, values, options_of(request, is_relative ? 1 : request.value)));
  return {};
}

Result<void> check_new_request(const FilterRequest& request) {
  const bool asks_for_spectral = request.options.codec == CodecChoice::kSpectral ||
                                 request.options.trellis_states || !request.options.block.empty();
  if (asks_for_spectral && !request.is_written_once) {
    return invalid_argument(
        "codec spectral, block and trellis_states are for chunks that are written once, as a "
        "whole: values that are decoded and encoded again, as when rows are appended to a chunk, "
        "would change each time; say written_once=True (bit 31 of value 4 of the client data) if "
        "that does not happen, or leave these options out");
  }
  return {};
}

}  // namespace cfck::hdf5

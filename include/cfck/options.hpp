// Choices a caller makes when encoding and decoding, and the ids stored in a file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/status.hpp"

namespace cfck {

class Base;         // cfck/base.hpp
class Calibration;  // cfck/calibration.hpp

// The ids are wire values (spec/format.md, section "Records").
enum class CodecId : std::uint8_t {
  kRaw = 0,       // bytes as they are
  kLossless = 1,  // float fields through the symboliser, byte planes for integers
  kDirect = 2,    // error-bounded quantisation of the values themselves
  kSpectral = 3,  // trellis-coded quantisation of blockwise DCT coefficients
  kRows = 4,      // rows that repeat once, by lossless or direct
  kDelta = 5,     // differences from a base, without loss
};

enum class EntropyId : std::uint8_t {
  kNone = 0,  // no entropy stage (raw records)
  kZstd = 1,  // Huffman literals in a Zstd frame
  kRans = 2,  // 32 interleaved rANS lanes
};

enum class ScanId : std::uint8_t {
  kStorageOrder = 0,  // row-major, as the tensor lies in memory
};

// Return "raw", "lossless", "direct", "spectral", "rows", "delta"; "none", "zstd", "rans";
// "unknown" for ids of newer versions.
CFCK_API std::string_view codec_name(CodecId id) noexcept;
CFCK_API std::string_view entropy_name(EntropyId id) noexcept;

// The stages that a writer may be asked for: "zstd" and "rans". Every reader reads both; chunks of
// zstd can also be decompressed with any Zstd decoder.
CFCK_API std::optional<EntropyId> entropy_choice_from_name(std::string_view name) noexcept;
inline constexpr EntropyId kDefaultEntropy = EntropyId::kRans;

// How much time a writer spends for fewer bytes. Any reader reads all levels.
enum class EncodeLevel : std::uint8_t {
  // Uses as few passes over the values as possible: one entropy stage; direct searches neither a
  // scale field nor a prediction.
  kFast = 0,
  kDefault = 1,
  // May take several times as long, and decode somewhat slower: where kRans is wanted, every record
  // is encoded with both entropy stages and the smaller kept (with kZstd only that is tried);
  // direct tries scale fields on large tensors too, and where they hardly pay, and keeps the plan
  // of kDefault where that takes fewer bytes.
  kArchive = 2,
};
// Returns "fast", "default", "archive"; "unknown" for anything else.
CFCK_API std::string_view encode_level_name(EncodeLevel level) noexcept;
CFCK_API std::optional<EncodeLevel> encode_level_from_name(std::string_view name) noexcept;

// The codec to use for a tensor. kAuto takes whichever needs fewer bytes: of raw and lossless (raw
// on a tie), where a maximum error is given of direct and lossless, and where a target is given of
// spectral and lossless; and where rows of a tensor repeat, kRows in place of lossless or direct.
// kDirect needs a maximum error, kSpectral max_abs_error, a target or both; their exemptions are
// those of kAuto. kRows loses nothing unless there is a maximum error.
enum class CodecChoice : std::uint8_t { kAuto, kRaw, kLossless, kDirect, kSpectral, kRows };
// Codecs are chosen by one more than their id.
constexpr CodecChoice codec_choice(CodecId id) noexcept {
  return static_cast<CodecChoice>(static_cast<std::uint8_t>(id) + 1);
}
CFCK_API std::optional<CodecChoice> codec_choice_from_name(std::string_view name) noexcept;
// Returns the names of all choices: "auto", "raw", then the codecs of this version by id, but for
// those that need a base, which nobody asks for by name.
CFCK_API std::span<const std::string_view> codec_choice_names() noexcept;

// The reference of a maximum error. The ids are wire values (spec/format.md, section
// "Errors").
enum class BoundKind : std::uint8_t {
  kNone = 0,   // no maximum is promised
  kAbs = 1,    // nothing: |x - y| <= value
  kRel = 2,    // the value range: |x - y| <= value * (max - min)
  kSigma = 3,  // the standard deviation: |x - y| <= value * sigma
};
// Returns "none", "abs", "rel", "sigma"; "unknown" for ids of newer versions.
CFCK_API std::string_view bound_kind_name(BoundKind kind) noexcept;

// The maximum error of any value of a tensor. Range and deviation are those of the finite
// values of the tensor, or of each row of axis 0 with per_row (a tensor of fewer than two
// dimensions is one row). NaN and infinities are preserved exactly, bit for bit; -0 may become
// +0.
struct ErrorBound {
  BoundKind kind = BoundKind::kAbs;
  bool per_row = false;  // not with kAbs
  double value = 0;      // positive and finite

  bool operator==(const ErrorBound&) const = default;
};

// A goal for all values together, which promises nothing for a single value. The ids are wire
// values (spec/format.md, section "Errors"). With x a finite value and y the value it is decoded
// to:
enum class TargetKind : std::uint8_t {
  kNone = 0,
  kNmse = 1,           // sum of (x - y)^2 over sum of x^2: at most the value
  kPsnr = 2,           // the square of the range of x over the mean of (x - y)^2, in dB: at least
  kBitsPerWeight = 3,  // stored bits of the records over their values: at most
  kSize = 4,           // bytes of the file: at most
};
// Returns "none", "nmse", "psnr", "bits_per_weight", "size"; "unknown" for ids of newer versions.
CFCK_API std::string_view target_kind_name(TargetKind kind) noexcept;

struct Target {
  TargetKind kind = TargetKind::kNone;
  bool whole_file = false;  // for all tensors that it reaches; else for each of them
  double value = 0;

  bool operator==(const Target&) const = default;
};

// Parse numbers as users write them: "0.01" or "-20dB"; "40" or "40dB"; "1000", "60MB" (10^6) or
// "60MiB" (2^20), also k, G and T. Errors: kInvalidArgument, with what is expected.
CFCK_API Result<double> parse_nmse(std::string_view text);
CFCK_API Result<double> parse_psnr(std::string_view text);
CFCK_API Result<std::uint64_t> parse_size(std::string_view text);

// How codec spectral spreads errors over tensors, and over the rows, columns and
// frequencies of each.
enum class StepPreset : std::uint8_t {
  // One step for all: the minimum sum of squared errors at a size. Right for data, wrong for the
  // weights of a model: those of small tensors are lost first.
  kFlat,
  // The step of kFlat, except for convolution kernels of 3x3, whose low frequencies get finer steps
  // and whose high ones coarser (docs/targets.md). Needs no data; models that are like those the
  // table comes from lose less.
  kPrior,
  // For the weights of a model of which nothing else is known: steps in proportion to the root mean
  // square of a tensor and to the root of its number of values, in kernels of 3x3 those of kPrior;
  // coarser ones for queries and keys of attention, and finer ones for output layers of language
  // models, as far as names show it (docs/targets.md).
  kModel,
  // Steps from EncodeOptions::calibration.
  kCalibrated,
  // Steps as with kCalibrated; and where the calibration has the second moment of a layer's inputs,
  // the effect of errors in some of its weights on its outputs is compensated by others
  // (docs/calibration.md). The calibration must come from data.
  kFeedback,
};
// Returns "flat", "prior", "model", "calibrated", "feedback"; "unknown" for anything else.
CFCK_API std::string_view step_preset_name(StepPreset preset) noexcept;
CFCK_API std::optional<StepPreset> step_preset_from_name(std::string_view name) noexcept;

// How much of a model is to be kept, for people who do not want to choose numbers. Each is a step
// of codec spectral relative to the values of a tensor; docs/quality.md says what models of several
// kinds did with each. Not a bound on any error.
enum class Quality : std::uint8_t { kNearLossless, kHigh, kBalanced, kSmall };
// Returns "near-lossless", "high", "balanced", "small"; "unknown" for anything else.
CFCK_API std::string_view quality_name(Quality quality) noexcept;
CFCK_API std::optional<Quality> quality_from_name(std::string_view name) noexcept;
// Returns the names of all qualities, the best first.
CFCK_API std::span<const std::string_view> quality_names() noexcept;

// Maximum bytes of an attachment: writers refuse more, and readers unless Limits allow it.
inline constexpr std::uint64_t kMaxAttachmentBytes = std::uint64_t{1} << 30;

// Choices for a tensor. At most one of the three errors may be given, and at most one quality or
// target, to which max_abs_error may be added. Qualities and targets are reached by codec spectral.
struct TensorOptions {
  CodecChoice codec = CodecChoice::kAuto;
  std::optional<double> max_abs_error = std::nullopt;
  std::optional<double> max_rel_error = std::nullopt;
  std::optional<double> max_sigma_error = std::nullopt;
  bool per_row = false;  // with max_rel_error or max_sigma_error
  // Targets, in the units of Target::value.
  std::optional<double> nmse = std::nullopt;
  std::optional<double> psnr = std::nullopt;
  std::optional<double> bits_per_weight = std::nullopt;
  // Trellis states of codec spectral: 64 (fewest bytes at an error), 8, 4, or 1 (plain
  // quantisation); nullopt: 8, and at level archive 64.
  std::optional<unsigned> trellis_states = std::nullopt;
  // Steps of codec spectral; nullopt: kFeedback with a calibration that was refined, kCalibrated
  // with any other or a quality. Without one, kModel for a quality, bits_per_weight and a size,
  // also where it was made from noise; kFlat for nmse, psnr and max_abs_error.
  std::optional<StepPreset> steps = std::nullopt;
  // Sides of the blocks that codec spectral transforms, along the last axes; 1 to 64 each, at most
  // 4096 values in all. Sides longer than their axis are cut to it, and tensors of fewer axes left
  // to the codec. All 1: nothing is transformed. Empty: the codec takes convolution kernels, and of
  // matrices 64 rows, where that saves bits. Blocks other than its own choice have no steps by
  // frequency, and no feedback.
  std::vector<std::uint8_t> block = {};
  // In place of a target. Takes the steps kModel, kCalibrated or kFeedback.
  std::optional<Quality> quality = std::nullopt;

  bool operator==(const TensorOptions&) const = default;
};

// Returns the maximum error that the options ask for, if any. Errors: kInvalidArgument for
// one that is not positive and finite (max_abs_error: from 2^-1000 to 2^1000), for two of
// them, for per_row without one that it can apply to, for codec raw or lossless with one, for
// codec direct without, and for max_rel_error and max_sigma_error with codec spectral or a
// target.
CFCK_API Result<std::optional<ErrorBound>> error_bound(const TensorOptions& options);

struct EncodeOptions;
// Returns the target that the options ask for, if any; that of a file applies to the whole of it. A
// quality is none. Errors: kInvalidArgument for one that makes no sense, for two of them or a
// quality beside it, for codec raw, lossless or direct with one, for codec spectral with neither
// quality nor target nor max_abs_error, for a quality with other steps than it takes, and for
// trellis_states and blocks that do not exist.
CFCK_API Result<std::optional<Target>> error_target(const TensorOptions& options);
CFCK_API Result<std::optional<Target>> error_target(const EncodeOptions& options);

// Why a tensor is stored losslessly although a maximum error or target was given.
enum class LosslessReason : std::uint8_t {
  kNotFloat,        // its dtype is not floating-point
  kFewDimensions,   // fewer than two
  kFewValues,       // fewer than 1024
  kExempt,          // it is named in EncodeOptions::exempt
  kOptimizerState,  // by its name
  kNearZero,        // its root mean square is below the absolute bound
  kConstant,        // its range or deviation is 0, or below 2^-1000
  kSharedMemory,    // stored as an alias: of a part, or under other options
  kNotSmaller,      // lossless takes no more bytes
  kOutOfRange,      // squares of its values are too large or too small for a target
};
// Returns "not_float", "few_dimensions", and so on.
CFCK_API std::string_view lossless_reason_name(LosslessReason reason) noexcept;

// Options for the tensors whose names match. In a pattern `*` stands for any characters,
// `?` for one, `[abc]`, `[a-z]` and `[!abc]` for one of (not) these; anything else for
// itself. A pattern that is the name itself matches too. Names are UTF-8, compared by code
// points.
//
// A rule with wildcards leaves alone what plain maximum errors and targets leave alone
// (EncodeOptions); a rule that is the name of a tensor, and one with `force`, does not.
struct EncodeRule {
  std::string pattern;
  TensorOptions options;
  bool force = false;
};

// Steps of codec spectral for one tensor, as training has learned them (cfck/training.hpp). Its
// values are rounded to nearest, or with more than one state as the trellis has it.
struct LearnedSteps {
  double step = 0;  // from 2^-1000 to 2^1000
  // Quarter-log2 steps on top: by number of the band (spectral/transforms.md), by row and by column
  // of blocks. Empty: 0.
  std::vector<std::int16_t> bands = {};
  std::vector<std::int16_t> rows = {};
  std::vector<std::int16_t> columns = {};
  // Sides as in TensorOptions::block. Empty: convolution kernels, and nothing of other tensors.
  std::vector<std::uint8_t> block = {};
  unsigned trellis_states = 1;

  bool operator==(const LearnedSteps&) const = default;
};

// The options of a file. For each tensor the first rule that matches its name applies, and nothing
// else; without a matching rule, the plain options.
//
// Plain targets are for all tensors they reach together: one step for all, times what
// TensorOptions::steps has for each. In a rule each tensor gets its own. A size is met within 0.5 %
// from below, and so is bits_per_weight; nmse and psnr are met, with at most 0.05 dB to spare.
// Where lossless takes no more bytes it is used.
//
// A plain maximum error or target reaches float tensors of two or more dimensions and at
// least 1024 values which are neither named in `exempt` nor match *exp_avg*, *momentum_buffer*,
// optimizer.*, optimizer/* or optimizer_weights/*, and, if it is absolute, whose root mean square
// is not below it. All others stay lossless. The same goes for those of a rule with wildcards,
// unless it has EncodeRule::force. A rule without wildcards reaches the tensor of that name,
// whatever it is; if it is no float, that is an error (kInvalidArgument).
struct EncodeOptions {
  // The plain options: the members of TensorOptions, with the same meaning.
  CodecChoice codec = CodecChoice::kAuto;
  std::optional<double> max_abs_error = std::nullopt;
  std::optional<double> max_rel_error = std::nullopt;
  std::optional<double> max_sigma_error = std::nullopt;
  bool per_row = false;
  std::optional<double> nmse = std::nullopt;
  std::optional<double> psnr = std::nullopt;
  std::optional<double> bits_per_weight = std::nullopt;
  std::optional<unsigned> trellis_states = std::nullopt;
  std::optional<StepPreset> steps = std::nullopt;
  std::vector<std::uint8_t> block = {};
  std::optional<Quality> quality = std::nullopt;
  // Another target: bytes of the file. Not for update().
  std::optional<std::uint64_t> size = std::nullopt;
  // A calibration of the model that is written, for StepPreset::kCalibrated and kFeedback: shapes
  // must agree, and the root mean square of each tensor within a hundredth.
  std::shared_ptr<const Calibration> calibration = nullptr;
  std::vector<EncodeRule> rules = {};
  // Tensors that are stored with steps of their own, by name, whatever rules and plain options say.
  // Error where one is no float tensor, and where its steps do not fit it (kInvalidArgument).
  std::map<std::string, LearnedSteps, std::less<>> learned_steps = {};
  std::vector<std::string> exempt = {};  // names: buffers, optimizer state
  // Tensors that readers will have: a tensor that has one of its name, dtype and shape there is
  // stored as the difference where that takes fewer bytes, and nothing of it is lost. Only with
  // CodecChoice::kAuto and without a maximum error or target for the tensor. Not for update(). A
  // base that is stored against another makes a chain, of which readers open Limits::max_bases
  // files (Base::chain_length).
  std::shared_ptr<const Base> base = nullptr;
  // Worker threads; 0: the CPUs this process may use (default_thread_count()). The bytes do not
  // depend on it; those of integers, masks, attachments do on libzstd's version.
  unsigned threads = 0;
  // Values per chunk, the unit of random access; 0: at most 2^18, in equal chunks. Whole rows of
  // axis 0 where at least one fits, and otherwise a multiple of 8; no more than asked for. With
  // StepPreset::kFeedback, further down to 128 rows times a number, or a power of two of rows.
  std::uint32_t chunk_elems = 0;
  // kZstd or kRans, for F64, F32, BF16 and F16; other dtypes always use kZstd, and raw records
  // neither. The index names the stage of each record: with kRans, records of one chunk and up to
  // 2^15 values, or with less than two bits for each value, use kZstd if that is smaller; with
  // kFast none do, with kArchive any. Both choices are for the records that this writer adds:
  // existing records of a file stay as they are.
  EntropyId entropy = kDefaultEntropy;
  EncodeLevel level = EncodeLevel::kDefault;

  // The plain options alone, and their replacement by `plain`.
  TensorOptions tensor_options() const {
    return {codec, max_abs_error,   max_rel_error,  max_sigma_error, per_row, nmse,
            psnr,  bits_per_weight, trellis_states, steps,           block,   quality};
  }
  void set_tensor_options(const TensorOptions& plain) {
    std::tie(codec, max_abs_error, max_rel_error, max_sigma_error, per_row, nmse, psnr,
             bits_per_weight, trellis_states, steps, block, quality) =
        std::tie(plain.codec, plain.max_abs_error, plain.max_rel_error, plain.max_sigma_error,
                 plain.per_row, plain.nmse, plain.psnr, plain.bits_per_weight, plain.trellis_states,
                 plain.steps, plain.block, plain.quality);
  }
  operator TensorOptions() const { return tensor_options(); }
};

// Upper bounds on what a file may make the reader allocate. The caller can change every one; the
// error names the one to raise. By default a reader takes what a writer writes: metadata
// and an index above 4 MiB are stored uncompressed, so their cost is in proportion to the file.
struct Limits {
  std::uint64_t max_index_bytes = 0;                         // 0: what the file has
  std::uint64_t max_metadata_bytes = 0;                      // 0: what the file has
  std::uint64_t max_records = 0;                             // 0: what the file has
  std::uint64_t max_attachment_bytes = kMaxAttachmentBytes;  // decoded; 0: the default
  // Decoded bytes that one call may return. 0: max(16 GiB, 64 * file size).
  std::uint64_t max_decoded_bytes = 0;
  // Files that must be open to read one: its base, the base of that, and so on.
  std::uint64_t max_bases = 8;
};

// Sets the limit of this name, such as "max_decoded_bytes". Returns false for an unknown name.
CFCK_API bool set_limit(Limits& limits, std::string_view name, std::uint64_t value) noexcept;
// Returns all names, in the order above, separated by commas.
CFCK_API std::string_view limit_names() noexcept;

struct DecodeOptions {
  unsigned threads = 0;       // as in EncodeOptions
  bool verify_chunks = true;  // check the hash of every chunk before decoding it
  Limits limits = {};
  // For files that are stored against others: what they are decoded with, whatever they name; or
  // folders in which the file that they name is looked for, after the one that they are in.
  std::shared_ptr<const Base> base = nullptr;
  std::vector<std::string> base_dirs = {};
};

// Number of CPUs this process may use: CFCK_NUM_THREADS if set and valid, else the smaller of its
// affinity mask and its cgroup quota (rounded up); at least 1.
CFCK_API unsigned default_thread_count() noexcept;

}  // namespace cfck

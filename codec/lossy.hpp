// The interface of lossy codecs: what the options ask of one for a tensor, a plan for the whole
// tensor, then its chunks, in any order and on any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codec/codec.hpp"
#include "codec/error_totals.hpp"
#include "codec/frame_costs.hpp"
#include "codec/wanted_values.hpp"

namespace cfck {
struct CalibratedSteps;  // cfck/calibration.hpp
namespace spectral {
class SecondMoments;
}
}  // namespace cfck

namespace cfck::codec {

class CodecRequest;
using SharedRequest = std::shared_ptr<const CodecRequest>;

// Says how rate control finds the step of a tensor.
struct OpenStep {
  // Without a target: the step, unless it follows from a maximum error. With one: the first to be
  // tried. 0: unknown.
  double known = 0;
  // Without a target or a known step: the steps to be tried, as multiples of the maximum error, as
  // long as they take fewer bytes.
  std::span<const double> of_bound = {};
  // This tensor's step relative to that of the target, or, if sigma is not 0, to that times the
  // root mean square of its values, with which sigma must agree approximately.
  double scale = 1;
  double sigma = 0;
  // Steps relative to those of the other tensors follow from names, shapes and values.
  bool follows_roles = false;
};

// A request says what a caller asks of one codec for a tensor beyond the fields of LossyRecord.
// Each codec derives a type of its own, opaque to all others. Immutable once it is shared.
class CodecRequest {
 public:
  virtual ~CodecRequest() = default;
  bool operator==(const CodecRequest&) const = default;

  // Returns true if `other` asks the same of the same codec.
  virtual bool equals(const CodecRequest& other) const = 0;
  // Says how the step is to be found; nullopt where there is none to find: plan() takes the
  // request as it is.
  virtual std::optional<OpenStep> open_step() const { return std::nullopt; }
  // Returns this request with a step, which applies whatever the bound and the values. Requires:
  // the codec has steps.
  virtual SharedRequest with_step(double /*step*/) const { return nullptr; }
  // Returns the number of values of a chunk for a tensor whose chunks would have `chunk_elems`
  // without the request: codecs may keep rows together. Requires: the tensor has more values.
  virtual std::uint64_t align_chunks(DType /*dtype*/, const Shape& /*shape*/,
                                     std::uint64_t chunk_elems) const {
    return chunk_elems;
  }
};

// The options of a caller, for any tensor, as a codec is asked for its request.
struct LossyOptions {
  TensorOptions tensor;
  std::optional<ErrorBound> bound;  // error_bound(tensor)
  std::optional<Target> target;     // error_target() of the caller's options
  bool is_of_file = false;          // for all tensors of a file, rather than of a rule or for one
  bool is_named = false;            // the options name the codec that is asked
  const Calibration* calibration = nullptr;  // may be nullptr
  EncodeLevel level = EncodeLevel::kDefault;

  // True if the options name no codec.
  bool is_open() const { return tensor.codec == CodecChoice::kAuto; }
};

// Holds what a calibration knows of one tensor. The functions read what `steps` names, as those of
// Calibration do: codecs use nothing of that but what its header has.
struct CalibratedTensor {
  const Calibration* calibration = nullptr;
  const CalibratedSteps* steps = nullptr;
  std::function<Result<std::shared_ptr<const spectral::SecondMoments>>()> second_moments;
  std::function<Result<std::shared_ptr<const std::vector<float>>>()> corrected_values;
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
  FrameCosts costs = {};            // of the file, so that lossless is compared fairly
  SharedRequest request = nullptr;  // of the codec's own type
  // Facts are of the parts that wanted_values() has named; empty: they are found by reading.
  std::span<const PartFacts> facts = {};
};

// Returns the bytes of `n_elems` values from `first_elem` on, in place or in `workspace`. May be
// called several times for one range of values.
using ReadValues = std::function<Result<ByteView>(std::uint64_t first_elem, std::uint64_t n_elems,
                                                  std::vector<std::byte>& workspace)>;

// Everything that the chunks of a tensor have in common. Immutable.
class LossyPlan {
 public:
  virtual ~LossyPlan() = default;

  EntropyId entropy() const noexcept { return entropy_; }
  // Bytes to be stored once, before the chunks; empty if there are none.
  ByteView preamble() const noexcept { return preamble_; }

  // Encodes the n_elems values from `first_elem` on. `decoded` has the size of `values` and gets
  // what the decoder will return: no finite value is off by more than the bound. Errors:
  // kInvalidArgument, kOutOfMemory.
  virtual Result<void> encode(std::uint64_t first_elem, ByteView values, Scratch& scratch,
                              MutableBytes decoded, EncodedChunk& out,
                              ErrorTotals& errors) const = 0;
  // Says how a device encodes them; nothing where it has no kernel for that.
  virtual std::optional<DeviceLossyEncodePlan> plan_for_device(std::uint64_t /*first_elem*/,
                                                               std::uint64_t /*n_elems*/) const {
    return std::nullopt;
  }

 protected:
  EntropyId entropy_ = EntropyId::kZstd;  // of all chunks
  std::vector<std::byte> preamble_;
};

// Either a plan, or the reason to store the tensor losslessly.
struct LossyDecision {
  std::unique_ptr<const LossyPlan> plan;
  LosslessReason reason = LosslessReason::kNotSmaller;  // where there is no plan
};

// Says what a bound means for the values of a tensor: the maximum error of all of them, or why
// nothing may be lost.
struct AbsoluteBound {
  double value = 0;
  std::optional<LosslessReason> reason = std::nullopt;
};

// Stateless, like Encoder. Equal values give equal plans everywhere.
class LossyEncoder {
 public:
  virtual ~LossyEncoder() = default;
  virtual bool supports(DType dtype) const = 0;

  // Returns what these options ask of this codec, for any tensor; nullptr where they ask nothing of
  // it. The codecs are asked in the order of the registry, and the first that answers is taken.
  // Errors: kInvalidArgument for options of this codec that do not fit the others.
  virtual Result<SharedRequest> request_of(const LossyOptions& asked) const = 0;
  // Makes what request_of() returned the request for one tensor. `known` is nullptr where there is
  // no calibration. Errors: kInvalidArgument, those of reading the calibration.
  virtual Result<SharedRequest> request_for(SharedRequest any, const Shape& /*shape*/,
                                            const CalibratedTensor* /*known*/) const {
    return any;
  }
  // Returns the request for a tensor with steps that training has learned; nullptr where this is
  // not the codec that they are for.
  virtual SharedRequest request_with(const LearnedSteps& /*steps*/, const Shape& /*shape*/) const {
    return nullptr;
  }

  // Says what a device needs for chunks of such a record at most, before its values are known;
  // nothing where no plan is for a device.
  virtual std::optional<DeviceLossyRoom> room_on_device(const LossyRecord& /*record*/) const {
    return std::nullopt;
  }
  // Says what plan() will read, and want to know, of the values of such a record. It may read
  // others too, and does without facts.
  virtual WantedValues wanted_values(const LossyRecord& /*record*/) const { return {}; }
  // Requires: supports(record.dtype). Errors: those of `read`, kInvalidArgument for
  // a bound that cannot be kept, kUnsupported for one for each of too many rows,
  // kOutOfMemory.
  virtual Result<LossyDecision> plan(const LossyRecord& record, const ReadValues& read,
                                     Scratch& scratch) const = 0;

  // Returns what record.bound, which is not by row, means for the values. Errors: those of `read`.
  // Codecs whose chunks other codecs store answer; others do not.
  virtual Result<AbsoluteBound> absolute_bound(const LossyRecord& /*record*/,
                                               const ReadValues& /*read*/) const {
    return AbsoluteBound{0, LosslessReason::kNotSmaller};
  }
  // These do what those of Encoder do, where the options have a maximum error and name no codec.
  virtual RowSample rows_to_sample(const LossyRecord& /*record*/, const ChunkInfo& /*info*/) const {
    return {};
  }
  virtual bool may_be_smaller(std::span<const Digest> /*hashes*/) const { return false; }
};

// Returns nullptr for lossless codecs.
const LossyEncoder* find_lossy_encoder(CodecId id) noexcept;
// Returns the ids of all codecs, in the order of the registry.
std::span<const CodecId> codec_ids() noexcept;

}  // namespace cfck::codec

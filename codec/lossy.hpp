// The interface of lossy codecs: a plan for the whole tensor first, then its chunks, in any order
// and on any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "codec/codec.hpp"
#include "codec/error_totals.hpp"

namespace cfck::codec {

// The request of a caller to one codec beyond the fields of LossyRecord. Each codec that takes
// requests derives its own type; a codec ignores the requests of others.
class CodecRequest {
 public:
  virtual ~CodecRequest() = default;
  bool operator==(const CodecRequest&) const = default;
};

// The tensor to plan. It has values.
struct LossyRecord {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t chunk_elems = 0;  // of all chunks but the last
  ErrorBound bound;
  bool is_forced = false;        // rather than lossless, whatever it takes
  bool keeps_near_zero = false;  // lossless where the root mean square is below the bound
  // Codec direct: the step, whatever the bound and the values, so that decoded values are coded as
  // they are when they are encoded again. 0: the codec chooses. Not with a bound for each row.
  double fixed_step = 0;
  EntropyId entropy = EntropyId::kZstd;
  EncodeLevel level = EncodeLevel::kDefault;
  std::shared_ptr<const CodecRequest> request = nullptr;  // of the codec's own type
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

 protected:
  EntropyId entropy_ = EntropyId::kZstd;  // of all chunks
  std::vector<std::byte> preamble_;
};

// Either a plan, or the reason to store the tensor losslessly.
struct LossyDecision {
  std::unique_ptr<const LossyPlan> plan;
  LosslessReason reason = LosslessReason::kNotSmaller;  // where there is no plan
};

// Stateless, like Encoder. Equal values give equal plans everywhere.
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

// Returns nullptr for lossless codecs.
const LossyEncoder* find_lossy_encoder(CodecId id) noexcept;

}  // namespace cfck::codec

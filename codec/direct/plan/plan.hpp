// Chooses the parameters of a record from a sample of it (codec/direct/spec.md, section 7).
#pragma once

#include "codec/direct/chunk/direct.hpp"
#include "codec/lossy.hpp"

namespace cfck::codec {

struct DirectRecord {
  DType dtype = DType::kF32;
  EntropyId entropy = EntropyId::kZstd;
  std::span<const std::uint64_t> shape;
  std::uint64_t chunk_elems = 0;  // of all chunks but the last
  EncodeLevel level = EncodeLevel::kDefault;
  double fixed_step = 0;  // as in DirectRequest
  FrameCosts costs = {};
  bool is_forced = false;  // whatever lossless takes, which is not looked at
};

struct DirectPlan {
  DirectParameters parameters;
  ParameterPlace place = ParameterPlace::kInline;  // inline where there is one chunk
  EntropyId entropy = EntropyId::kZstd;            // the one asked for, or one that takes less
  bool is_short = false;                           // chunks hardly take half of their values
  bool prefers_lossless = false;                   // the lossless codec takes no more bytes; never
                                                   // where the record is forced
};

// Requires: the record has values. Errors: kInvalidArgument for a bound that is
// refused by step_of; those of `read`.
Result<DirectPlan> plan_direct(const DirectRecord& record, const DirectBounds& bounds,
                               const ReadValues& read, Scratch& scratch);

}  // namespace cfck::codec

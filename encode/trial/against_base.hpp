// Tensors that may be stored against a base (cfck/base.hpp): the candidate, and a comparison with
// lossless that costs next to nothing where the difference is small.
#pragma once

#include <cstdint>
#include <optional>

#include "encode/trial/candidates.hpp"

namespace cfck::encode {

// Returns the candidate of the codec for differences; nullopt where the tensor has nothing in the
// base, or the options name another codec or let it lose something.
std::optional<Candidate> base_candidate(const EncodePlan& plan);

// True if chunks of the candidate are encoded against the base.
bool needs_base(const Candidate& candidate) noexcept;

// Returns the values of a chunk's range in the base: in place, or in memory of the worker that is
// valid until its next use. Requires: plan.base_tensor. Errors: those of Base::read(), with the
// name of the tensor.
Result<ByteView> base_values(const EncodePlan& plan, std::uint64_t offset_bytes,
                             std::uint64_t n_bytes, WorkerMemory& memory);

// Estimates the bytes that a chunk takes losslessly from its first values: from fewer where the
// differences, of so many bytes, are few. Keeps memory.encoded.
Result<std::uint64_t> estimate_lossless(const EncodePlan& plan, std::uint64_t chunk,
                                        ByteView values, std::uint64_t difference_bytes,
                                        WorkerMemory& memory);

// True if differences take so much less than lossless is estimated to take that it need not be
// tried: patches are made after every step of a training.
constexpr bool is_clearly_smaller(std::uint64_t difference_bytes,
                                  std::uint64_t lossless_bytes) noexcept {
  return difference_bytes <= lossless_bytes / 2;
}

constexpr bool are_few(std::uint64_t difference_bytes, std::uint64_t n_bytes) noexcept {
  return difference_bytes <= n_bytes / 32;
}

// Whether lossless is estimated for a chunk while its values are in the cache. Where differences
// are few, the estimates of some chunks show that they are smaller.
constexpr bool is_estimated_at_once(std::uint64_t chunk, std::uint64_t difference_bytes,
                                    std::uint64_t n_bytes) noexcept {
  return chunk % 8 == 0 || !are_few(difference_bytes, n_bytes);
}

}  // namespace cfck::encode

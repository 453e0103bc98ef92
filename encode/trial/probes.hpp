// Probes look at a tensor before its candidates are known: at its first values, and at rows that
// show whether a codec that nobody asked for may be of use.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.hpp"
#include "encode/plan.hpp"

namespace cfck::encode {

// Returns the entropy stage that the tensor is encoded with unless others are tried.
EntropyId wanted_stage(const EncodePlan& plan);

// Number of values from which the bits of each value of a long record are estimated.
std::uint64_t probed_elems(const EncodePlan& plan) noexcept;

// Returns the chunks of which rows are sampled: the first one, that in the middle and the last one.
std::vector<std::uint64_t> sampled_chunks(const EncodePlan& plan);
// Describes a chunk to the codec that is asked for rows.
codec::ChunkInfo sampled_chunk_info(const EncodePlan& plan, std::uint64_t chunk);

// Whether codecs that nobody asked for may be tried.
bool tries_other_codecs(const EncodePlan& plan) noexcept;

}  // namespace cfck::encode

// DeviceTensor holds the facts of a tensor in the memory of a device that precede its encoding.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "cfck/record.hpp"

namespace cfck::encode {

// Hashes of rows of a chunk that a codec asked for (codec::Encoder::rows_to_sample()).
struct SampledRows {
  CodecId codec = CodecId::kLossless;
  std::uint64_t chunk = 0;
  std::vector<Digest> hashes;
};

struct DeviceTensor {
  std::uint64_t n_bytes = 0;
  std::vector<Digest> leaves;  // hashes of its leaves (spec/format.md, section 8), in order
  std::vector<std::byte> first_bytes;
  std::uint64_t chunk_elems = 0;  // of the chunks of which rows were sampled
  std::vector<SampledRows> samples;

  // nullptr: not asked for.
  const SampledRows* find_sample(CodecId codec, std::uint64_t chunk) const noexcept {
    for (const SampledRows& sample : samples) {
      if (sample.codec == codec && sample.chunk == chunk) {
        return &sample;
      }
    }
    return nullptr;
  }
};

}  // namespace cfck::encode

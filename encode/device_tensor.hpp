// DeviceTensor holds the facts of a tensor in the memory of a device that precede its encoding.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "cfck/record.hpp"
#include "codec/wanted_values.hpp"

namespace cfck::encode {

// Hashes of rows of a chunk that a codec asked for (codec::Encoder::rows_to_sample()).
struct SampledRows {
  CodecId codec = CodecId::kLossless;
  std::uint64_t chunk = 0;
  std::vector<Digest> hashes;
};

// Bytes of a tensor that were copied to the host.
struct KnownBytes {
  std::uint64_t offset_bytes = 0;
  std::vector<std::byte> bytes;
};

// Facts of parts that a lossy codec wants to know (codec::LossyEncoder::wanted_values()), and what
// the parts depend on beside dtype and shape.
struct KnownFacts {
  codec::PartStatistic statistic = codec::PartStatistic::kNone;
  bool per_row = false;
  std::uint64_t chunk_elems = 0;
  std::vector<codec::PartFacts> parts;
};

struct DeviceTensor {
  std::uint64_t n_bytes = 0;
  std::vector<Digest> leaves;  // hashes of its leaves (spec/format.md, section 8), in order
  std::vector<KnownBytes> known;
  std::vector<KnownFacts> facts;  // several, where it is stored more than once with other bounds
  std::uint64_t chunk_elems = 0;  // of the chunks of which rows were sampled
  std::vector<SampledRows> samples;

  // Returns these bytes; nothing where not all of them are known.
  ByteView find_bytes(std::uint64_t offset_bytes, std::uint64_t n_bytes_wanted) const noexcept {
    for (const KnownBytes& some : known) {
      if (offset_bytes >= some.offset_bytes &&
          offset_bytes + n_bytes_wanted <= some.offset_bytes + some.bytes.size()) {
        return ByteView(some.bytes).subspan(offset_bytes - some.offset_bytes, n_bytes_wanted);
      }
    }
    return {};
  }
  // nullptr: not asked for.
  const KnownFacts* find_facts(codec::PartStatistic statistic, bool per_row,
                               std::uint64_t elems_of_chunk) const noexcept {
    for (const KnownFacts& some : facts) {
      if (some.statistic == statistic && some.per_row == per_row &&
          some.chunk_elems == elems_of_chunk) {
        return &some;
      }
    }
    return nullptr;
  }
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

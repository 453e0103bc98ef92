// Chunks of codec delta for its tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "codec/change_log.hpp"
#include "codec/decode_job.hpp"
#include "codec/delta/delta.hpp"
#include "codec/encode_job.hpp"
#include "tests/codec/test_values.hpp"

namespace cfck::codec {

struct DeltaCase {
  DType dtype = DType::kBF16;
  std::uint64_t n_elems = 0;
  std::vector<std::byte> base;
  std::vector<std::byte> values;

  ChunkInfo info() const {
    ChunkInfo info = chunk_info(dtype, n_elems, EntropyId::kRans);
    info.base = base;
    return info;
  }
};

inline std::vector<std::byte> encode_delta(const DeltaCase& one) {
  Scratch scratch;
  EncodedChunk coded;
  std::vector<std::byte> unused;
  EncodeJob job;
  job.encoder = &delta_encoder();
  job.info = one.info();
  job.values = one.values;
  const auto done = encode(job, scratch, unused, coded);
  EXPECT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(coded.body_bytes, coded.payload.size());
  return coded.payload;
}

inline Result<void> decode_delta(const DeltaCase& one, ByteView payload, MutableBytes out) {
  Scratch scratch;
  return decode({&delta_decoder(), one.info(), payload, {}, out}, scratch);
}

// Decodes a payload, valid or not, to other memory and where the base lies, and puts that back.
// Returns what the first says, in `out`.
inline Result<void> decode_both_ways(const DeltaCase& one, ByteView payload, MutableBytes out) {
  const Result<void> expected = decode_delta(one, payload, out);
  std::vector<std::byte> values = one.base;
  ChangeLog changes;
  ChunkInfo info = one.info();
  info.base = values;
  info.changes = &changes;
  Scratch scratch;
  const Result<void> decoded = decode({&delta_decoder(), info, payload, {}, values}, scratch);
  EXPECT_EQ(decoded.has_value(), expected.has_value());
  if (decoded) {
    EXPECT_TRUE(std::equal(values.begin(), values.end(), out.begin(), out.end()));
  }
  EXPECT_EQ(changes.has_changes(), values != one.base);
  changes.shrink();
  changes.undo(values);
  EXPECT_TRUE(values == one.base);
  return expected;
}

// Weights, and what a step makes of them: `rate` is about how often those of the middle change.
template <class Word>
DeltaCase step_of(DType dtype, std::size_t n, double rate, std::uint64_t seed = 1) {
  DeltaCase one{dtype, n, {}, {}};
  one.base.resize(n * sizeof(Word));
  one.values.resize(n * sizeof(Word));
  Random random(seed);
  for (std::size_t i = 0; i < n; ++i) {
    const auto weight = static_cast<float>(random.gaussian()) * 0x1p-36f;
    const auto moved =
        weight + static_cast<float>(static_cast<double>(random.gaussian()) * 0x1p-50 * rate);
    for (const auto& [number, bytes] : {std::pair(weight, &one.base), {moved, &one.values}}) {
      std::uint32_t word;
      std::memcpy(&word, &number, sizeof(word));
      const auto cut = static_cast<Word>(sizeof(Word) == 2 ? (word + 0x8000u) >> 16 : word);
      std::memcpy(bytes->data() + i * sizeof(Word), &cut, sizeof(cut));
    }
  }
  return one;
}

}  // namespace cfck::codec

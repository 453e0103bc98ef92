// Parts of chunks of the spectral codec: valid ones that may be changed, and the errors expected of
// those that are not valid.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "spectral/chunk/spectral.hpp"
#include "tests/support/guarded_bytes.hpp"

// The largest single allocation since it was set to 0.
extern std::atomic<std::size_t> largest_allocation;

namespace cfck::spectral {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint32_t kMax = 0xffffffff;
inline constexpr unsigned kFourStates = 1;
inline constexpr unsigned kTransforms = 4;
inline constexpr unsigned kByBin = 16 | 32;      // with a scale field
inline constexpr unsigned kRowBlocks = 24 | 32;  // with a scale field
inline constexpr unsigned kSteps = 64;

inline Bytes list(std::initializer_list<unsigned> values) {
  Bytes bytes;
  for (const unsigned value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

inline Bytes number(std::uint32_t value) {
  Bytes bytes;
  append_varint(value, bytes);
  return bytes;
}

inline Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes bytes;
  for (const Bytes& part : parts) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

inline Bytes parameters(unsigned flags, double step, const Bytes& sides, const Bytes& fields = {}) {
  Bytes bytes = list({flags});
  bytes.resize(9);
  std::memcpy(bytes.data() + 1, &step, sizeof(step));
  return joined({bytes, list({static_cast<unsigned>(sides.size())}), sides, fields});
}

// A Zstd frame of one raw block.
inline Bytes frame(const Bytes& content, std::uint32_t stated) {
  Bytes bytes = list({0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0, 0, 0, 0});
  std::memcpy(bytes.data() + 5, &stated, sizeof(stated));
  const auto header = static_cast<std::uint32_t>(content.size() << 3 | 1);
  std::memcpy(bytes.data() + 9, &header, 3);
  return joined({bytes, content});
}

inline Bytes frame(const Bytes& content) {
  return frame(content, static_cast<std::uint32_t>(content.size()));
}

inline constexpr std::uint64_t kShape[] = {2, 1, 3};

// Three values of bin 35 and indices 0, 1, 2: the parts of a chunk, to be changed.
struct Parts {
  unsigned mode = 4;
  Bytes parameters = spectral::parameters(kFourStates, 0.5, list({3}));
  unsigned flags = 0;
  Bytes first_bin = number(35);
  Bytes length = number(1);  // of splits, or of the coded section
  Bytes counts;
  Bytes sections;
  Bytes splits = number(3);
  Bytes raw;
  Bytes symbols = frame(list({0, 16, 17, 18}));

  Bytes payload() const {
    return joined({list({mode}), parameters, list({flags}), first_bin, length, counts, sections,
                   splits, raw, symbols});
  }
};

struct Chunk {
  SpectralChunkInfo info;
  std::vector<float> values;
};

inline Chunk chunk_of(std::span<const std::uint64_t> shape = kShape, std::uint64_t n_elems = 3) {
  Chunk chunk;
  chunk.info.shape = shape;
  chunk.info.n_elems = n_elems;
  chunk.info.entropy = EntropyId::kZstd;
  chunk.values.resize(n_elems);
  return chunk;
}

inline Result<void> decode(Chunk& chunk, const Bytes& payload) {
  const test::GuardedBytes guarded(payload);
  Scratch scratch;
  (void)spectral_body_bytes(chunk.info, guarded.bytes());
  return decode_spectral(chunk.info, guarded.bytes(), scratch,
                         std::as_writable_bytes(std::span(chunk.values)));
}

// A chunk with a hostile length may be too short, or make no sense.
inline constexpr std::optional<ErrorCode> kEither = std::nullopt;

inline void expect_refused(Chunk chunk, const Bytes& payload,
                           std::optional<ErrorCode> code = ErrorCode::kCorrupt) {
  largest_allocation = 0;
  const auto done = decode(chunk, payload);
  const std::size_t fair = (std::size_t{4} << 20) + 64 * (chunk.values.size() + payload.size());
  EXPECT_LE(largest_allocation, fair);
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().code == code.value_or(ErrorCode::kCorrupt) ||
              (!code && done.error().code == ErrorCode::kTruncated))
      << done.error().to_string();
  EXPECT_FALSE(done.error().message.empty());
  EXPECT_TRUE(done.error().byte_offset.has_value()) << done.error().to_string();
  EXPECT_LE(done.error().byte_offset.value_or(0), payload.size()) << done.error().to_string();
}

inline void expect_refused(const Parts& parts,
                           std::optional<ErrorCode> code = ErrorCode::kCorrupt) {
  expect_refused(chunk_of(), parts.payload(), code);
}

// Valid chunks of which the others are variants.

inline Parts low_bits() {  // bin 40: a parity bit and one plane of raw bits
  Parts parts;
  parts.flags = 24;
  parts.first_bin = number(40);
  parts.counts = list({1, 1});
  parts.sections = list({6});
  parts.raw = list({2});
  parts.symbols = frame(list({0, 17, 17, 16}));
  return parts;
}

inline Parts escape_and_exact() {  // level 100, an exact value, index -2
  Parts parts;
  parts.flags = 3;
  parts.counts = list({1, 1, 1, 2});
  parts.sections = joined({number(200), number(1), list({0, 0, 0xe0, 0x40})});
  parts.symbols = frame(list({0, 0, 16, 14}));
  return parts;
}

inline Parts by_bin() {
  Parts parts;
  parts.parameters = parameters(kByBin, 0.5, list({3}), list({1, 70, 0, 1, 0}));
  parts.first_bin = {};
  parts.length = number(0);
  parts.splits = {};
  parts.symbols = frame(list({16, 17, 18}));
  return parts;
}

// Sides and a bin that all coefficients have: the order of row blocks.
inline Parts row_blocks(const Bytes& sides, std::size_t n) {
  Parts parts = by_bin();
  parts.parameters = parameters(kRowBlocks, 0.5, sides, list({1, 70, 0, 1, 0}));
  Bytes symbols(n);
  for (std::size_t i = 0; i < n; ++i) {
    symbols[i] = static_cast<std::byte>(14 + i % 5);
  }
  parts.symbols = frame(symbols);
  return parts;
}

inline void expect_parameters_refused(unsigned flags, double step, const Bytes& sides,
                                      const Bytes& fields = {},
                                      ErrorCode code = ErrorCode::kCorrupt) {
  Parts parts;
  parts.parameters = parameters(flags, step, sides, fields);
  expect_refused(parts, code);
}

}  // namespace cfck::spectral

// The entropy stage turns streams of symbols into bytes, and back. Codecs hand it one stream for
// each frequency table and do not depend on how it codes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/codec.hpp"

namespace cfck::codec {

using SymbolStream = std::span<const std::uint8_t>;

class EntropyEncoder {
 public:
  virtual ~EntropyEncoder() = default;

  // Appends the coded streams to `out`. Some of the streams may be empty, but not all of them.
  virtual void encode(std::span<const SymbolStream> streams, std::vector<std::byte>& out) const = 0;
};

class EntropyDecoder {
 public:
  virtual ~EntropyDecoder() = default;

  // Decodes the streams, whose lengths the caller knows, one after another into
  // `symbols`, which has exactly the sum of the lengths. All of `coded` must be
  // consumed. Errors: kTruncated, kCorrupt, kOutOfMemory; offsets count from the
  // start of `coded`.
  virtual Result<void> decode(ByteView coded, std::span<const std::size_t> lengths,
                              Scratch& scratch, std::span<std::uint8_t> symbols) const = 0;
};

// True if this version can code symbols with the stage: false for kNone and for newer stages.
bool has_entropy_stage(EntropyId id) noexcept;

// Finds the encoder of a stage that codes streams: nullptr for all but kZstd. Symbols of kRans,
// whose tables change from group to group, are a section of a chunk
// (codec/entropy/rans/section.hpp).
const EntropyEncoder* find_entropy_encoder(EntropyId id) noexcept;
const EntropyDecoder* find_entropy_decoder(EntropyId id) noexcept;

}  // namespace cfck::codec

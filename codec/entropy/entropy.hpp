// The entropy stage: streams of symbols into bytes, and back. Codecs hand it one
// stream for each frequency table and know nothing of how it codes them.
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

  // Appends the coded streams to `out`. Streams may be empty; not all of them.
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

// Whether this version can code symbols by it: false for kNone and for newer ones.
bool has_entropy_stage(EntropyId id) noexcept;

// Of stages that code streams: nullptr for all but kZstd. Symbols of kRans, whose tables
// change from group to group, are a section of a chunk (rans_section.hpp).
const EntropyEncoder* find_entropy_encoder(EntropyId id) noexcept;
const EntropyDecoder* find_entropy_decoder(EntropyId id) noexcept;

}  // namespace cfck::codec

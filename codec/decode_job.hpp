// A chunk to decode as plain data, apart from where its bytes come from and who decodes it.
#pragma once

#include <cstdint>
#include <optional>

#include "codec/codec.hpp"

namespace cfck::codec {

struct DecodeJob {
  const Decoder* decoder = nullptr;  // nullptr: `payload` has the values as they are
  ChunkInfo info;
  ByteView payload;  // its hash was checked, unless the caller waived that
  std::optional<std::uint32_t>
      body_bytes;    // of the payload, as its frame says; in a pack none does
  MutableBytes out;  // exactly the chunk's bytes
};

// Checks that the payload says the same length of its body as its frame. Errors: kCorrupt, and
// those of Decoder::body_bytes().
Result<void> check_body(const DecodeJob& job);

// Decodes on the thread that calls. Errors: those of check_body() and Decoder::decode(); offsets
// count from the start of the payload.
Result<void> decode(const DecodeJob& job, Scratch& scratch);

}  // namespace cfck::codec

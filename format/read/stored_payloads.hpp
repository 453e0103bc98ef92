// The chunks of a record as they are stored: for programs that show how it is coded.
#pragma once

#include <cstdint>
#include <functional>

#include "cfck/reader.hpp"
#include "codec/codec.hpp"

namespace cfck::format {

struct StoredPayload {
  codec::ChunkInfo info;
  ByteView payload;
  std::uint64_t stored_bytes = 0;  // of the file, frame headers included
};

// May use the scratch memory for anything. Offsets of its errors count from the start of the
// payload.
using TakePayload = std::function<Result<void>(const StoredPayload&, codec::Scratch&)>;

// Passes on the chunks of a record in order, with hashes and frames checked. Returns the bytes that
// they share: those of the preamble. Errors have record and place in the file. Requires: a record
// of the reader that is neither alias nor duplicate, and not of codec raw.
Result<std::uint64_t> each_payload(const Reader& reader, const Record& record,
                                   const TakePayload& take);

}  // namespace cfck::format

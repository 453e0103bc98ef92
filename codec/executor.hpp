// Decoding, apart from where bytes come from: batches of chunks, and who decodes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "codec/codec.hpp"

namespace cfck::codec {

// A chunk to decode: all it takes, where its values go, and how it ended.
struct ChunkTask {
  const Decoder* decoder = nullptr;  // nullptr: `payload` has the values as they are
  ChunkInfo info;
  ByteView payload;  // its hash was checked, unless the caller waived that
  std::optional<std::uint32_t>
      body_bytes;            // of the payload, as its frame says; in a pack none does
  MutableBytes out;          // exactly the chunk's bytes
  Result<void> result = {};  // offsets count from the start of the payload
};

// Whether the payload says the same length of its body as its frame. Errors: kCorrupt, and those of
// Decoder::body_bytes().
Result<void> check_body(const ChunkTask& task);

// Decodes batches of chunks, one batch after another: a thread of the CPU, or the stream of a
// device. Not thread-safe; whoever reads with several threads has an executor for each, so that one
// fetches the next extents while others decode.
class Executor {
 public:
  virtual ~Executor() = default;

  // Number of chunks of a good batch. Callers keep the extents of one batch in memory.
  virtual std::size_t batch_chunks() const noexcept = 0;
  // Decodes every task and sets its result. Afterwards nothing refers to the payloads.
  virtual void decode(std::span<ChunkTask> batch) = 0;
};

// Decodes on the thread that calls, chunk by chunk: while the bytes that were just hashed are in
// its caches.
class CpuExecutor final : public Executor {
 public:
  std::size_t batch_chunks() const noexcept override { return 1; }
  void decode(std::span<ChunkTask> batch) override;
  Scratch& scratch() noexcept { return scratch_; }

 private:
  Scratch scratch_;
};

}  // namespace cfck::codec

// The one decision between candidates: the fewest bytes in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "encode/trial/candidates.hpp"
#include "encode/trial/trial.hpp"

namespace cfck::encode {

// Returns the index of the first candidate with the fewest bytes. Requires: there is one.
std::size_t choose_candidate(std::span<const std::uint64_t> stored_bytes) noexcept;

// The bytes of a record in a file with a candidate.
struct RecordSize {
  CodecId codec = CodecId::kLossless;
  std::uint64_t preamble_bytes = 0;          // 0: none
  std::vector<std::uint64_t> payload_bytes;  // of each chunk, frame headers left out
  bool has_errors = false;                   // in the index: something may be lost
  bool has_base = false;                     // in the index: stored against a base

  // Returns the bytes as Record::stored_bytes counts them, without the padding of raw frames.
  std::uint64_t stored_bytes(const ChunkGeometry& geometry, const FrameCosts& costs) const;
};

// Decides whether a record of many chunks takes fewer bytes losslessly than raw. It gets the sizes
// of chunks as they come, and is decided as soon as the others cannot change it.
class LosslessOrRaw {
 public:
  enum class State : std::uint8_t { kUndecided, kLossless, kRaw };

  LosslessOrRaw(const ChunkGeometry& geometry, const FrameCosts& costs);

  State state() const noexcept { return state_; }
  std::uint64_t n_chunks_seen() const noexcept { return n_seen_; }
  // Adds the payload of one more chunk, whichever it is. Requires: undecided.
  void add_chunk(std::uint64_t payload_bytes) noexcept;
  // Decides, given the bytes that the record takes losslessly.
  void decide(std::uint64_t lossless_bytes) noexcept;

 private:
  const ChunkGeometry geometry_;
  const FrameCosts costs_;
  State state_ = State::kUndecided;
  std::uint64_t n_seen_ = 0;
  std::uint64_t lossless_bytes_ = 0;  // of those chunks
};

// Whether the digest of what is decoded is of use: it takes a pass over the values.
enum class WantsDigest : std::uint8_t { kNo, kYes };

// The decision for a record of one chunk, with all that follows from it.
struct SingleChoice {
  Candidate candidate;
  RecordErrors errors;
  std::optional<LosslessReason> reason;  // as Candidates::reason, for lossless candidates
  Digest digest = {};                    // of the decoded values, where it was wanted
  // Of what they are stored against, if they are, where it was wanted.
  std::optional<Digest> base_digest = std::nullopt;
};

// Encodes the only chunk of the tensor with each candidate. The result of the chosen one is in
// memory.encoded, unless that is raw.
Result<SingleChoice> choose_for_values(const EncodePlan& plan, const FrameCosts& costs,
                                       ByteView values, WorkerMemory& memory,
                                       WantsDigest digest = WantsDigest::kYes);

// Whether choose_for_values() would store the only chunk of a tensor with its only candidate, with
// which it takes so many bytes.
bool is_chosen(const EncodePlan& plan, const FrameCosts& costs, const Candidate& only,
               std::uint64_t payload_bytes);

}  // namespace cfck::encode

// What happens to one chunk on a worker: read, hash, encode. Nothing here knows
// where the chunk will lie in the file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "codec/lossy.hpp"
#include "encode/rules/encode_rules.hpp"
#include "format/container/frame_bytes.hpp"
#include "format/write/record_layout.hpp"
#include "spectral/plan/spectral_request.hpp"

namespace cfck::format {

using encode::TensorChoice;

// A tensor to encode. The source outlives every job that uses the plan.
struct EncodePlan {
  std::string name;  // for messages
  DType dtype = DType::kU8;
  Shape shape;
  TensorChoice choice;
  ChunkGeometry geometry;
  const ByteSource* source = nullptr;
  std::uint64_t offset_bytes = 0;       // of the tensor in the source
  EntropyId entropy = kDefaultEntropy;  // as the caller wants it
  EncodeLevel level = EncodeLevel::kDefault;
  // Of a choice of codec spectral, as soon as its step is known.
  std::optional<codec::SpectralRequest> spectral = std::nullopt;
  RecordQuality quality = {};
};

// What one thread keeps between chunks.
struct WorkerMemory {
  codec::Scratch scratch;
  codec::EncodedChunk encoded;
  codec::EncodedChunk other;  // with another entropy stage
  std::unique_ptr<std::byte[]> values;
  std::size_t values_bytes = 0;
  std::vector<std::byte> decoded;  // of a lossy chunk
};

// Bytes of a chunk that belong to digest leaves it shares with its neighbours.
struct LeafEdges {
  std::uint64_t head_offset = 0;
  std::vector<std::byte> head;
  std::uint64_t tail_offset = 0;
  std::vector<std::byte> tail;
};

// Bytes [offset, offset + n) of a source: in place where it is in memory, else read
// into `buffer`.
Result<ByteView> range_of(const ByteSource& source, std::uint64_t offset_bytes,
                          std::uint64_t n_bytes, std::vector<std::byte>& buffer);
// Bytes [offset, offset + n) of the tensor: in place where the source is in
// memory, else a copy in the worker's buffer, valid until its next use.
Result<ByteView> read_values(const EncodePlan& plan, std::uint64_t offset_bytes,
                             std::uint64_t n_bytes, WorkerMemory& memory);

// All values of a chunk, likewise.
Result<ByteView> read_chunk(const EncodePlan& plan, std::uint64_t chunk, WorkerMemory& memory);

// Hashes the leaves inside the chunk; the result owns copies of the rest.
LeafEdges hash_leaves(DigestBuilder& digest, std::uint64_t offset_bytes, ByteView values);
void add_edges(DigestBuilder& digest, const LeafEdges& edges);

// The entropy stages to encode the tensor with: the first of those that need the
// fewest bytes is for the file. Where rans is wanted, short records are tried with zstd
// too, since the states of the lanes weigh most there; archive tries it for all records,
// fast for none.
std::vector<EntropyId> stages_to_try(const EncodePlan& plan);
// Whether the default level, which encoded so many values without loss with rans alone,
// should try zstd too: with less than two bits for each there is next to nothing in
// their symbols, and zstd may need fewer bytes and less time.
bool may_prefer_zstd(const EncodePlan& plan, std::uint64_t payload_bytes, std::uint64_t n_elems);
// The same for a record of several chunks, from its first values.
Result<bool> may_prefer_zstd(const EncodePlan& plan, WorkerMemory& memory);
// Encodes with the lossless codec into memory.encoded.
Result<void> encode_lossless(const EncodePlan& plan, EntropyId entropy, std::uint64_t chunk,
                             ByteView values, WorkerMemory& memory);
// How to plan a tensor that is lossy: with every stage to try; at level archive also as
// the default level would, since plans are made from samples. Codec spectral: as wanted.
struct LossyTrial {
  EntropyId entropy;
  EncodeLevel level;
};
std::vector<LossyTrial> lossy_trials(const EncodePlan& plan);
// Plans a lossy tensor. `before_read`, if there is one, is called now and
// then; its error ends the plan.
Result<codec::LossyDecision> plan_lossy(const EncodePlan& plan, const LossyTrial& trial,
                                        WorkerMemory& memory,
                                        const std::function<Result<void>()>& before_read = {});
// Encodes with `lossy` into memory.encoded, and decodes into memory.decoded.
Result<codec::ErrorTotals> encode_lossy(const EncodePlan& plan, const codec::LossyPlan& lossy,
                                        std::uint64_t chunk, ByteView values, WorkerMemory& memory);
// Takes the payload out of `encoded`, which gets other memory for the next one.
ChunkExtent take_extent(codec::EncodedChunk& encoded, PayloadPool& payloads);

// Bytes that a record of one chunk takes as a pack payload or in a frame of its
// own. Padding is left out: it depends on where the record stands.
std::uint64_t single_chunk_cost(const ChunkGeometry& geometry, std::uint64_t payload_bytes);
// Bytes of a raw record of several chunks, likewise without padding.
std::uint64_t raw_cost(const ChunkGeometry& geometry);
// Of either kind.
std::uint64_t raw_bytes(const ChunkGeometry& geometry);

}  // namespace cfck::format

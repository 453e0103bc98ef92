// The container as plain data: the content of head, tail, index and metadata, and the functions
// that turn it into bytes and back (spec/format.md, sections 2, 3, 5 and 6). Codec ids are integers
// here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/record.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/chunk_geometry.hpp"
#include "codec/codec.hpp"

namespace cfck::format {

inline constexpr std::uint32_t kSkippableMagic = 0x184D2A5C;
inline constexpr std::uint64_t kFrameHeaderBytes = 12;  // magic, size, tag
inline constexpr std::uint64_t kHeadBytes = 16;
inline constexpr std::uint64_t kTailBytes = 128;
inline constexpr std::uint64_t kRawAlignment = 64;
inline constexpr std::uint64_t kMaxRawFrameBytes = (std::uint64_t{1} << 32) - 128;
inline constexpr std::uint64_t kMaxPackBytes = 131072;
inline constexpr std::uint64_t kMaxPackedPayloadBytes = 16384;
inline constexpr std::uint64_t kPackKeepOpenBytes = 65536;
inline constexpr std::uint64_t kChunkEntryBytes = 12;  // in the index: a length and a hash
inline constexpr std::uint64_t kErrorEntryBytes = 32;
using codec::kDefaultChunkElems;
using codec::kMaxChunkBytes;
inline constexpr std::size_t kMaxDims = 64;
inline constexpr std::uint64_t kMaxDim = (std::uint64_t{1} << 48) - 1;

using Tag = std::array<char, 4>;
inline constexpr Tag kHeadTag = {'C', 'F', 'C', 'K'};
inline constexpr Tag kRawTag = {'R', 'A', 'W', 'D'};
inline constexpr Tag kChunkTag = {'C', 'H', 'N', 'K'};
inline constexpr Tag kPackTag = {'P', 'A', 'C', 'K'};
inline constexpr Tag kPreambleTag = {'P', 'R', 'E', 'A'};
inline constexpr Tag kMetadataTag = {'M', 'E', 'T', 'A'};
inline constexpr Tag kIndexTag = {'I', 'N', 'D', 'X'};
inline constexpr Tag kTailTag = {'T', 'A', 'I', 'L'};

struct Extent {
  std::uint64_t offset_bytes = 0;
  std::uint64_t n_bytes = 0;
};

struct ChunkEntry {
  std::uint32_t n_bytes = 0;
  std::uint64_t hash = 0;
};

struct PackEntry {
  std::uint64_t offset_bytes = 0;
  std::uint32_t n_bytes = 0;
  std::uint64_t hash = 0;
};

// A record and the location of its bytes.
struct StoredRecord {
  Record record;
  bool has_preamble = false;
  std::uint64_t offset_bytes = 0;   // chunked: first extent
  std::uint32_t pack = 0;           // packed: number of the pack
  std::uint64_t pack_offset = 0;    // packed: from the start of the pack's frame
  std::uint64_t payload_bytes = 0;  // packed
  std::uint64_t first_chunk = 0;    // chunked: number of its first entry in Index::chunks,
                                    // the preamble's if it has one
};

struct Index {
  std::vector<StoredRecord> records;
  std::vector<PackEntry> packs;
  std::vector<ChunkEntry> chunks;
  std::string base_name;  // of the file against which records with a base_digest are stored
};

// True if a record of the index is stored against a base.
bool needs_base(const Index& index) noexcept;

struct StoredAttachment {
  std::string name;
  Extent extent;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t hash = 0;
};

struct MetadataFrame {
  Metadata entries;
  std::vector<StoredAttachment> attachments;  // sorted by name
};

// The required features of spec/format.md, section 3.
inline constexpr std::uint64_t kCompressedIndex = 2;
inline constexpr std::uint64_t kHasBase = 4;
inline constexpr std::uint64_t kKnownFeatures = kCompressedIndex | kHasBase;

struct Tail {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
  std::uint64_t required_features = 0;
  std::uint64_t optional_features = 0;
  std::uint64_t generation = 0;
  std::uint64_t previous_file_bytes = 0;
  Extent metadata;
  Digest metadata_hash = {};
  Extent index;
  Digest index_hash = {};
  std::uint64_t file_bytes = 0;
};

// Encoders return whole frames, headers included; that of the index is plain, and in a file often
// compressed (compressed_index.hpp). Errors: kLimitExceeded.
std::array<std::byte, kHeadBytes> encode_head();
std::array<std::byte, kTailBytes> encode_tail(const Tail& tail);
Result<std::vector<std::byte>> encode_index(const Index& index);
Result<std::vector<std::byte>> encode_metadata(const MetadataFrame& metadata);

// The decoders check everything that can be checked without other frames; `frame_offset` is the
// position of the frame in the file, for error messages.
Result<void> decode_head(ByteView frame);
Result<Tail> decode_tail(ByteView frame, std::uint64_t frame_offset);
Result<Index> decode_index(ByteView frame, std::uint64_t frame_offset, const Limits& limits);
Result<MetadataFrame> decode_metadata(ByteView frame, std::uint64_t frame_offset);

// Checks section 5.3: extents inside the file, not overlapping; without gaps in generation 0.
// Returns the bytes of dead frames.
Result<std::uint64_t> check_coverage(const Tail& tail, const Index& index,
                                     const MetadataFrame& metadata);

// Geometry (section 4).
using codec::chunk_count;
using codec::default_chunk_elems;
// Number of bytes from the start of a RAWD frame at `frame_offset` to its data.
std::uint64_t raw_start_bytes(std::uint64_t frame_offset);
// Number of chunks in every RAWD frame of a record but its last.
std::uint64_t raw_chunks_per_frame(std::uint64_t full_chunk_bytes);

}  // namespace cfck::format

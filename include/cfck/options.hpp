// Choices a caller makes when encoding and decoding, and the ids stored in a file.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace cfck {

// The ids are wire values (spec/format.md, section "Records").
enum class CodecId : std::uint8_t {
  kRaw = 0,       // bytes as they are
  kLossless = 1,  // float fields through the symboliser, byte planes for integers
};

enum class EntropyId : std::uint8_t {
  kNone = 0,  // no entropy stage (raw records)
  kZstd = 1,  // Huffman literals in a Zstd frame
};

enum class ScanId : std::uint8_t {
  kStorageOrder = 0,  // row-major, as the tensor lies in memory
};

// "raw", "lossless"; "none", "zstd"; "unknown" for ids of newer versions.
std::string_view codec_name(CodecId id) noexcept;
std::string_view entropy_name(EntropyId id) noexcept;

// What to use for a tensor. kAuto takes whichever needs fewer bytes, raw on a tie.
enum class CodecChoice : std::uint8_t { kAuto, kRaw, kLossless };
std::optional<CodecChoice> codec_choice_from_name(std::string_view name) noexcept;

struct EncodeOptions {
  CodecChoice codec = CodecChoice::kAuto;
  // Worker threads; 0: the CPUs this process may use (default_thread_count()).
  // The bytes written do not depend on it.
  unsigned threads = 0;
  // Values per chunk, the unit of random access; 0: 2^18. Rounded down to whole
  // rows of axis 0 where at least one fits, and to a multiple of 8 below that.
  std::uint32_t chunk_elems = 0;
};

// Upper bounds on what a file may make the reader allocate. Every one can be
// raised by the caller; the error names the field to raise.
struct Limits {
  // 0: max(64 MiB, file size / 1024).
  std::uint64_t max_index_bytes = 0;
  std::uint64_t max_metadata_bytes = std::uint64_t{16} << 20;
  std::uint64_t max_attachment_bytes = std::uint64_t{1} << 30;
  std::uint32_t max_records = std::uint32_t{1} << 20;
  // Decoded bytes that one call may return. 0: max(16 GiB, 64 * file size).
  std::uint64_t max_decoded_bytes = 0;
};

struct DecodeOptions {
  unsigned threads = 0;       // as in EncodeOptions
  bool verify_chunks = true;  // check the hash of every chunk before decoding it
  Limits limits;
};

// CPUs this process may use: CFCK_NUM_THREADS if set and valid, else the smaller
// of its affinity mask and its cgroup quota (rounded up); at least 1.
unsigned default_thread_count() noexcept;

}  // namespace cfck

// The JSON header of a safetensors file: reads it by the rules of safetensors 0.8, and writes new
// ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/reader.hpp"
#include "cfck/safetensors.hpp"
#include "cfck/status.hpp"

namespace cfck::interop {

// The header is preceded by its length, a u64.
inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::string_view kSafetensorsHeaderAttachment = "safetensors.header";
// Characters that may stand before the '{' of a header, as before any JSON.
inline constexpr std::string_view kJsonSpaces = " \t\n\r";

// Parses `json` and checks it against the `data_bytes` that follow it in the
// file, if they are known. Errors: kCorrupt, kTruncated.
Result<SafetensorsHeader> parse_safetensors_header(std::string json,
                                                   std::optional<std::uint64_t> data_bytes);

// Bounds on a header that are known before it is parsed.
struct SafetensorsHeaderBounds {
  std::size_t max_tensors = std::numeric_limits<std::size_t>::max();
  std::size_t max_metadata = std::numeric_limits<std::size_t>::max();  // entries
};

// Parses a header without a copy of `json`, which stays empty in the result. Errors: also kCorrupt
// for more tensors or metadata than expected.
Result<SafetensorsHeader> check_safetensors_header(std::string_view json,
                                                   std::optional<std::uint64_t> data_bytes,
                                                   const SafetensorsHeaderBounds& bounds);

// Makes the header that safetensors itself would write: tensors by descending alignment, then name,
// without gaps; padded with spaces to 8 bytes. Takes name, dtype and shape of `entries` and sets
// their offsets. Errors: kLimitExceeded, kInvalidArgument for a dtype or shape that safetensors
// does not have.
Result<SafetensorsHeader> make_safetensors_header(std::vector<SafetensorsEntry> entries,
                                                  Metadata metadata);

}  // namespace cfck::interop

// What is checked of all that is added to a file, whatever its format.
#pragma once

#include <cstdint>
#include <string_view>

#include "cfck/status.hpp"
#include "cfck/writer.hpp"

namespace cfck::format {

// Error: kInvalidArgument for a name that is not UTF-8.
Result<void> check_utf8_name(std::string_view name);
// Error: kInvalidArgument for text that is not UTF-8.
Result<void> check_metadata(std::string_view key, std::string_view value);
Result<void> check_attachment_name(std::string_view name);

// Returns the number of bytes of a tensor, which its source has. Errors: kInvalidArgument for one
// that ends before, kLimitExceeded for an impossible shape.
Result<std::uint64_t> checked_bytes(std::string_view name, const TensorSource& tensor);
// The same of a tensor in memory. Error: also kUnsupported for memory that is not the host's.
Result<std::uint64_t> checked_bytes(std::string_view name, const TensorView& tensor);

}  // namespace cfck::format

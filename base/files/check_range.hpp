// The check that every source of bytes makes.
#pragma once

#include <cstdint>
#include <string>

#include "cfck/status.hpp"

namespace cfck {

// Error: kTruncated where a source of `size` bytes has no `n_bytes` at `offset_bytes`.
Result<void> check_range(std::uint64_t offset_bytes, std::uint64_t n_bytes, std::uint64_t size,
                         const std::string& name);

}  // namespace cfck

// Base64 (RFC 4648, section 4), with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/names/detail.hpp"

namespace cfck::detail {

std::string base64(std::string_view bytes);

// Returns the bytes, or nullopt for text that base64() does not return for any bytes.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace cfck::detail

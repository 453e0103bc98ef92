// Versions of the library and of the format it writes.
#pragma once

#include <cstdint>

#include "cfck/export.hpp"

#define CFCK_VERSION_MAJOR 0
#define CFCK_VERSION_MINOR 1
#define CFCK_VERSION_PATCH 0

namespace cfck {

// Written into every file. Until 1.0 a reader reads only its own version; the
// error for another one names it.
inline constexpr std::uint16_t kFormatMajor = 0;
inline constexpr std::uint16_t kFormatMinor = 8;

// Returns the version of the library, such as "0.1.0".
CFCK_API const char* library_version() noexcept;

}  // namespace cfck

// Values of fields of a zip file (APPNOTE.TXT of PKWARE, section 4.4).
#pragma once

#include <cstdint>

namespace cfck::interop {

// These stand for "see the zip64 field".
inline constexpr std::uint32_t kIn64 = 0xffffffff;
inline constexpr std::uint16_t kManyMembers = 0xffff;

}  // namespace cfck::interop

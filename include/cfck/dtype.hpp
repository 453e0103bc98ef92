// Element types: those of safetensors 0.8, under the same names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cfck/export.hpp"

namespace cfck {

// The values are those stored in a file (spec/format.md, section "Dtypes") and
// never change their meaning. A file may hold values this version does not know;
// such a record can be listed but not read.
enum class DType : std::uint8_t {
  kBool = 1,
  kF4 = 2,      // E2M1, two elements per byte, the first in the low bits
  kF6E2M3 = 3,  // 6 bits, packed, least significant bits first
  kF6E3M2 = 4,
  kU8 = 5,
  kI8 = 6,
  kF8E5M2 = 7,
  kF8E4M3 = 8,
  kF8E8M0 = 9,
  kF8E4M3Fnuz = 10,
  kF8E5M2Fnuz = 11,
  kI16 = 12,
  kU16 = 13,
  kF16 = 14,
  kBF16 = 15,
  kI32 = 16,
  kU32 = 17,
  kF32 = 18,
  kC64 = 19,  // two F32: real part, imaginary part
  kF64 = 20,
  kI64 = 21,
  kU64 = 22,
};

// Returns the size of one element in bits; 0 for a value that is not a DType of this version.
CFCK_API unsigned bits_per_element(DType dtype) noexcept;

// Returns the name in safetensors: "BOOL", "F8_E4M3", "BF16", ...; "UNKNOWN" for a value without a
// name.
CFCK_API std::string_view dtype_name(DType dtype) noexcept;

// The inverse of dtype_name; nullopt for a name that safetensors 0.8 does not have.
CFCK_API std::optional<DType> dtype_from_name(std::string_view name) noexcept;

}  // namespace cfck

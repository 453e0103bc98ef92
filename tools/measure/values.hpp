// The numbers that the bytes of a tensor stand for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cfck/tensor.hpp"

namespace cfck::tools {

// True for integers, including BOOL.
bool is_integer(DType dtype);
bool is_signed_integer(DType dtype);
// Number of real numbers per element: two for complex ones.
unsigned parts_per_element(DType dtype);

// A number as exact as its dtype.
struct Number {
  enum class Kind { kReal, kSigned, kUnsigned };
  Kind kind = Kind::kReal;
  double real = 0;            // of every kind, rounded
  std::uint64_t integer = 0;  // the bits of an integer of 64 bits

  std::string text() const;  // six digits of a real number, all of an integer
};

// Turns elements into doubles, and into keys: integers in the order of the numbers,
// which are exact where a double is not (64-bit integers). Keys of 32 bits serve
// all dtypes but F64, I64 and U64. -0 has the key of +0; keys of NaN are
// unspecified.
class ValueDecoder {
 public:
  // Requires: a dtype of this version.
  explicit ValueDecoder(DType dtype);

  unsigned key_bits() const { return key_bits_; }
  unsigned parts() const { return parts_; }

  // `values` and `keys` have parts() entries for each element; `bytes` starts at
  // an element that starts a byte.
  void decode(ByteView bytes, std::span<double> values, std::span<std::uint64_t> keys) const;

  Number number_of(std::uint64_t key) const;

 private:
  template <class T>
  void decode_integers(ByteView bytes, std::span<double> values,
                       std::span<std::uint64_t> keys) const;
  double value_of(std::uint64_t key) const;
  std::int64_t integer_of(std::uint64_t key) const;
  void decode_codes(ByteView bytes, std::span<double> values, std::span<std::uint64_t> keys) const;

  DType dtype_;
  unsigned bits_;
  unsigned key_bits_;
  unsigned parts_;
  std::span<const double> table_;  // of every code, for floats of 16 bits and less
};

}  // namespace cfck::tools

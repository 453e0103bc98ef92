#include "model/checkpoint/keys.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/text.hpp"

namespace cfck::model {
namespace {

std::string hex_digits(std::uint64_t value) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, 16).ptr;
  return std::string(digits, end);
}

// The hexadecimal form of a double that is an integer.
std::string hex_of_integral(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
  const int shift = exponent - 53;
  std::string digits = shift <= 0 ? hex_digits(mantissa >> -shift)
                                  : hex_digits(mantissa << shift % 4) +
                                        std::string(static_cast<std::size_t>(shift / 4), '0');
  return (value < 0 ? "-0x" : "0x") + digits;
}

std::optional<std::string> canonical_tuple(const TupleKey& tuple) {
  std::string text = "(";
  for (const CheckpointValue& item : tuple.items) {
    const auto key = canonical_key(item);
    if (!key) return std::nullopt;
    // Lengths keep ("a", "b") and ("a,b",) apart.
    text += std::to_string(key->size()) + ":" + *key;
  }
  return text + ")";
}

std::optional<std::string> canonical_size(const TorchSize& size) {
  TupleKey tuple;
  for (const std::int64_t item : size.sizes) tuple.items.push_back({item});
  return canonical_tuple(tuple);
}

std::optional<std::string> canonical_double(double value) {
  if (std::isnan(value)) return std::nullopt;
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0) return "0x0";
  if (value == std::trunc(value)) return hex_of_integral(value);
  return "f" + hex_digits(std::bit_cast<std::uint64_t>(value));
}

}  // namespace

bool is_plain_key(const CheckpointValue& key) {
  const auto& value = key.value;
  if (const auto* const bytes = std::get_if<CheckpointBytes>(&value)) return !bytes->is_bytearray;
  // The alternatives up to complex numbers.
  return value.index() <= 5 || std::holds_alternative<std::string>(value) ||
         std::holds_alternative<TorchSize>(value) || std::holds_alternative<TorchDType>(value) ||
         std::holds_alternative<TorchDevice>(value);
}

bool is_split_complex(std::string_view dtype) {
  return dtype == "complex128" || dtype == "complex32";
}

bool is_meta_tensor(const MetaTensor& tensor) {
  const auto is_negative = [](std::int64_t size) { return size < 0; };
  return tensor.shape.size() == tensor.strides.size() &&
         std::none_of(tensor.shape.begin(), tensor.shape.end(), is_negative) &&
         std::none_of(tensor.strides.begin(), tensor.strides.end(), is_negative);
}

std::optional<CheckpointValue> integer_of_hex(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  if (!digits.starts_with("0x") || digits.size() == 2) return std::nullopt;
  digits.remove_prefix(2);
  if (digits.find_first_not_of(kHexDigits) != std::string_view::npos) return std::nullopt;
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  std::uint64_t magnitude = 0;
  const bool fits =
      digits.size() <= 16 &&
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, 16).ec ==
          std::errc();
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  if (fits && (magnitude < kSign || (negative && magnitude == kSign))) {
    return CheckpointValue{static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude)};
  }
  return CheckpointValue{BigInteger{(negative ? "-0x" : "0x") + std::string(digits)}};
}

std::string hex_of_integer(std::int64_t integer) {
  const auto bits = static_cast<std::uint64_t>(integer);
  return integer < 0 ? "-0x" + hex_digits(0 - bits) : "0x" + hex_digits(bits);
}

std::optional<std::string> canonical_key(const CheckpointValue& key) {
  if (std::holds_alternative<std::monostate>(key.value)) return "None";
  if (const auto* flag = std::get_if<bool>(&key.value)) return *flag ? "0x1" : "0x0";
  if (const auto* integer = std::get_if<std::int64_t>(&key.value)) return hex_of_integer(*integer);
  if (const auto* integer = std::get_if<BigInteger>(&key.value)) return integer->digits;
  if (const auto* number = std::get_if<double>(&key.value)) return canonical_double(*number);
  if (const auto* text = std::get_if<std::string>(&key.value)) return "\"" + *text;
  if (const auto* tuple = std::get_if<TupleKey>(&key.value)) return canonical_tuple(*tuple);
  // A size equals the tuple of its items, and a complex number without imaginary part a real one.
  if (const auto* size = std::get_if<TorchSize>(&key.value)) return canonical_size(*size);
  if (const auto* number = std::get_if<std::complex<double>>(&key.value)) {
    auto real = canonical_double(number->real());
    if (number->imag() == 0) return real;
    const auto imaginary = canonical_double(number->imag());
    if (!real || !imaginary) return std::nullopt;
    return "c" + *real + "," + *imaginary;
  }
  if (const auto* bytes = std::get_if<CheckpointBytes>(&key.value)) return "b" + bytes->bytes;
  if (const auto* dtype = std::get_if<TorchDType>(&key.value)) return "dtype " + dtype->name;
  if (const auto* device = std::get_if<TorchDevice>(&key.value)) return "device " + device->name;
  return std::nullopt;
}

std::string python_float(double value) {
  char buffer[32] = {};  // with a zero behind the digits
  const auto end = std::to_chars(buffer, buffer + sizeof buffer - 1, std::fabs(value),
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 2) digits += text.substr(2, e - 2);
  // The place of the point behind the first digits; Python writes exponents below -4 and from 16.
  const int exponent = std::atoi(text.data() + e + 1);
  const int n_digits = static_cast<int>(digits.size());
  const std::string sign = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    const std::string tail = n_digits > 1 ? "." + digits.substr(1) : "";
    const std::string power = std::to_string(std::abs(exponent));
    return sign + digits[0] + tail + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") +
           power;
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (n_digits <= exponent + 1) {
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - n_digits), '0') +
           ".0";
  }
  return sign + digits.substr(0, static_cast<std::size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<std::size_t>(exponent) + 1);
}

}  // namespace cfck::model

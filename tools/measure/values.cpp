#include "tools/measure/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <type_traits>
#include <vector>

#include "base/bytes.hpp"

namespace cfck::tools {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Specials {
  kNone,     // every code is a finite number
  kIeee,     // the highest exponent: infinity and NaN
  kLastNan,  // all bits set but the sign: NaN
  kFnuz,     // the code of -0 is NaN
};

struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;
};

SmallFloat small_float(DType dtype) {
  switch (dtype) {
    case DType::kF4:
      return {2, 1, 1, Specials::kNone};
    case DType::kF6E2M3:
      return {2, 3, 1, Specials::kNone};
    case DType::kF6E3M2:
      return {3, 2, 3, Specials::kNone};
    case DType::kF8E5M2:
      return {5, 2, 15, Specials::kIeee};
    case DType::kF8E4M3:
      return {4, 3, 7, Specials::kLastNan};
    case DType::kF8E4M3Fnuz:
      return {4, 3, 8, Specials::kFnuz};
    case DType::kF8E5M2Fnuz:
      return {5, 2, 16, Specials::kFnuz};
    case DType::kBF16:
      return {8, 7, 127, Specials::kIeee};
    default:
      return {5, 10, 15, Specials::kIeee};  // F16
  }
}

double decode_small(const SmallFloat& format, std::uint32_t code) {
  const std::uint32_t mantissa_mask = (1U << format.mantissa_bits) - 1;
  const std::uint32_t exponent_mask = (1U << format.exponent_bits) - 1;
  const std::uint32_t mantissa = code & mantissa_mask;
  const std::uint32_t exponent = (code >> format.mantissa_bits) & exponent_mask;
  const std::uint32_t sign = code >> (format.mantissa_bits + format.exponent_bits);
  const bool is_last = exponent == exponent_mask;
  if (format.specials == Specials::kFnuz && sign != 0 && exponent == 0 && mantissa == 0) {
    return kNan;
  }
  if (format.specials == Specials::kLastNan && is_last && mantissa == mantissa_mask) return kNan;
  if (format.specials == Specials::kIeee && is_last) {
    if (mantissa != 0) return kNan;
    return sign != 0 ? -kInfinity : kInfinity;
  }
  const std::uint32_t significand = exponent == 0 ? mantissa : mantissa + mantissa_mask + 1;
  const int power = static_cast<int>(std::max(exponent, 1U)) - format.bias - format.mantissa_bits;
  const double size = std::ldexp(significand, power);
  return sign != 0 ? -size : size;
}

// Made once for each dtype: it takes longer than decoding most tensors.
std::span<const double> small_table(DType dtype) {
  static std::mutex mutex;
  static std::map<DType, std::vector<double>> tables;
  const std::lock_guard lock(mutex);
  std::vector<double>& table = tables[dtype];
  if (!table.empty()) return table;
  table.resize(std::size_t{1} << bits_per_element(dtype));
  for (std::uint32_t code = 0; code < table.size(); ++code) {
    if (dtype == DType::kF8E8M0) {
      table[code] = code == 255 ? kNan : std::ldexp(1.0, static_cast<int>(code) - 127);
    } else {
      table[code] = decode_small(small_float(dtype), code);
    }
  }
  return table;
}

constexpr std::uint64_t kSign32 = std::uint64_t{1} << 31;
constexpr std::uint64_t kSign64 = std::uint64_t{1} << 63;

std::uint64_t key_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value == 0 ? 0.0F : value);
  return (bits & kSign32) != 0 ? static_cast<std::uint32_t>(~bits) : bits | kSign32;
}

std::uint64_t key_of_double(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);
  return (bits & kSign64) != 0 ? ~bits : bits | kSign64;
}

}  // namespace

bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return true;
    default:
      return is_signed_integer(dtype);
  }
}

bool is_signed_integer(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

unsigned parts_per_element(DType dtype) { return dtype == DType::kC64 ? 2 : 1; }

std::string Number::text() const {
  switch (kind) {
    case Kind::kReal:
      break;
    case Kind::kSigned:
      return std::to_string(static_cast<std::int64_t>(integer));
    case Kind::kUnsigned:
      return std::to_string(integer);
  }
  return fmt::format("{:.6g}", real);
}

ValueDecoder::ValueDecoder(DType dtype)
    : dtype_(dtype),
      bits_(bits_per_element(dtype)),
      key_bits_(bits_ == 64 && dtype != DType::kC64 ? 64 : 32),
      parts_(parts_per_element(dtype)) {
  if (!is_integer(dtype) && bits_ <= 16) table_ = small_table(dtype);
}

template <class T>
void ValueDecoder::decode_integers(ByteView bytes, std::span<double> values,
                                   std::span<std::uint64_t> keys) const {
  using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const Wide flip = std::is_signed_v<T> ? Wide{1} << (8 * sizeof(Wide) - 1) : Wide{0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = load<T>(bytes.data() + i * sizeof(T));
    values[i] = static_cast<double>(value);
    keys[i] = static_cast<Wide>(value) ^ flip;
  }
}

void ValueDecoder::decode_codes(ByteView bytes, std::span<double> values,
                                std::span<std::uint64_t> keys) const {
  const std::uint32_t mask = (1U << bits_) - 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t first_bit = i * bits_;
    const std::size_t at = first_bit / 8;
    auto code = static_cast<std::uint32_t>(bytes[at]);
    if (at + 1 < bytes.size()) code |= static_cast<std::uint32_t>(bytes[at + 1]) << 8;
    values[i] = table_[(code >> (first_bit % 8)) & mask];
    keys[i] = key_of_float(static_cast<float>(values[i]));
  }
}

void ValueDecoder::decode(ByteView bytes, std::span<double> values,
                          std::span<std::uint64_t> keys) const {
  switch (dtype_) {
    case DType::kBool:
    case DType::kU8:
      return decode_integers<std::uint8_t>(bytes, values, keys);
    case DType::kI8:
      return decode_integers<std::int8_t>(bytes, values, keys);
    case DType::kU16:
      return decode_integers<std::uint16_t>(bytes, values, keys);
    case DType::kI16:
      return decode_integers<std::int16_t>(bytes, values, keys);
    case DType::kU32:
      return decode_integers<std::uint32_t>(bytes, values, keys);
    case DType::kI32:
      return decode_integers<std::int32_t>(bytes, values, keys);
    case DType::kU64:
      return decode_integers<std::uint64_t>(bytes, values, keys);
    case DType::kI64:
      return decode_integers<std::int64_t>(bytes, values, keys);
    case DType::kF64:
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = load<double>(bytes.data() + 8 * i);
        keys[i] = key_of_double(values[i]);
      }
      return;
    case DType::kF32:
    case DType::kC64:
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto value = load<float>(bytes.data() + 4 * i);
        values[i] = value;
        keys[i] = key_of_float(value);
      }
      return;
    default:
      return decode_codes(bytes, values, keys);
  }
}

std::int64_t ValueDecoder::integer_of(std::uint64_t key) const {
  if (!is_signed_integer(dtype_)) return static_cast<std::int64_t>(key);
  if (key_bits_ == 64) return static_cast<std::int64_t>(key ^ kSign64);
  return static_cast<std::int64_t>(key) - static_cast<std::int64_t>(kSign32);
}

double ValueDecoder::value_of(std::uint64_t key) const {
  if (is_integer(dtype_)) {
    const std::int64_t value = integer_of(key);
    return is_signed_integer(dtype_) ? static_cast<double>(value)
                                     : static_cast<double>(static_cast<std::uint64_t>(value));
  }
  if (key_bits_ == 64) {
    return std::bit_cast<double>((key & kSign64) != 0 ? key ^ kSign64 : ~key);
  }
  const auto bits = static_cast<std::uint32_t>((key & kSign32) != 0 ? key ^ kSign32 : ~key);
  return std::bit_cast<float>(bits);
}

Number ValueDecoder::number_of(std::uint64_t key) const {
  Number number;
  number.real = value_of(key);
  if (is_integer(dtype_)) {
    number.kind = is_signed_integer(dtype_) ? Number::Kind::kSigned : Number::Kind::kUnsigned;
    number.integer = static_cast<std::uint64_t>(integer_of(key));
  }
  return number;
}

}  // namespace cfck::tools

#include "spectral/layout/rice_vector.hpp"

#include <algorithm>

#include "codec/common/bit_strings.hpp"

namespace cfck::spectral {
namespace {

inline constexpr unsigned kMaxLowBits = 15;
inline constexpr std::uint32_t kMaxDistance = 0xffff;  // zigzag

std::uint64_t cost_of(std::span<const std::int16_t> numbers, std::int16_t middle,
                      unsigned low_bits) {
  std::uint64_t bits = 0;
  for (const std::int16_t number : numbers) {
    bits += 1 + low_bits + (zigzag(number - middle) >> low_bits);
  }
  return bits;
}

}  // namespace

void append_rice_vector(std::span<const std::int16_t> numbers, std::vector<std::byte>& out) {
  std::vector<std::int16_t> sorted(numbers.begin(), numbers.end());
  const auto half = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), half, sorted.end());
  const std::int16_t middle = *half;
  unsigned low_bits = 0;
  for (unsigned b = 1; b <= kMaxLowBits; ++b) {
    low_bits = cost_of(numbers, middle, b) < cost_of(numbers, middle, low_bits) ? b : low_bits;
  }
  append_varint(zigzag(middle), out);
  out.push_back(static_cast<std::byte>(low_bits));
  const std::size_t length_at = out.size();
  std::vector<std::byte> bytes;
  BitWriter bits(bytes);
  for (const std::int16_t number : numbers) {
    const std::uint32_t distance = zigzag(number - middle);
    for (std::uint32_t i = distance >> low_bits; i > 0; --i) {
      bits.put(1, 1);
    }
    bits.put(0, 1);
    bits.put(distance & ((1u << low_bits) - 1), low_bits);
  }
  bits.finish();
  out.resize(length_at);
  append_varint(static_cast<std::uint32_t>(bytes.size()), out);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

Result<std::vector<std::int16_t>> read_rice_vector(std::uint64_t n, VarintReader& in) {
  const std::size_t at = in.origin() + in.position();
  CFCK_TRY_ASSIGN(const std::uint32_t coded_middle, in.varint());
  CFCK_TRY_ASSIGN(const std::uint8_t low_bits, in.byte());
  CFCK_TRY_ASSIGN(const std::uint32_t n_bytes, in.varint());
  CFCK_TRY_ASSIGN(const ByteView bytes, in.take(n_bytes));
  if (coded_middle > kMaxDistance || low_bits > kMaxLowBits) {
    return corrupt("a vector has entries that do not fit 16 bits", at);
  }
  if (n > std::uint64_t{8} * n_bytes) {
    return corrupt("a vector has fewer bits than entries", at);
  }
  const std::int32_t middle = unzigzag(coded_middle);
  BitReader bits(bytes);
  std::vector<std::int16_t> numbers(n);
  for (std::int16_t& number : numbers) {
    std::uint32_t high = 0;
    while (bits.take(1) != 0) {
      ++high;
    }
    const std::uint64_t distance = (std::uint64_t{high} << low_bits) | bits.take(low_bits);
    if (distance > 2 * kMaxDistance || bits.is_past_end()) {
      return corrupt("a vector ends before its last entry, or entries do not fit 16 bits", at);
    }
    const std::int32_t value = middle + unzigzag(static_cast<std::uint32_t>(distance));
    if (value < INT16_MIN || value > INT16_MAX) {
      return corrupt("a vector has entries that do not fit 16 bits", at);
    }
    number = static_cast<std::int16_t>(value);
  }
  if (bits.position() != bytes.size() || !bits.rest_is_zero()) {
    return corrupt("bytes after the end of a vector", at);
  }
  return numbers;
}

}  // namespace cfck::spectral

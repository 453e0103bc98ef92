// The filter scaleoffset: numbers less their minimum, in as many bits as the largest needs
// (H5Zscaleoffset.c of libhdf5).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/bytes.hpp"
#include "hdf5/chunks/filters.hpp"

namespace cfck::hdf5 {
namespace {

constexpr const char* kName = "scaleoffset";
constexpr std::size_t kHeadBytes = 21;

// The values of the filter, in their order.
struct Values {
  unsigned scale_type = 0;  // 0: decimal digits of floats; 2: integers
  unsigned scale_factor = 0;
  unsigned n_elems = 0;
  unsigned is_float = 0;
  unsigned elem_bytes = 0;
  unsigned is_signed = 0;
  unsigned is_big_endian = 0;
  unsigned has_fill = 0;
  std::array<unsigned, 12> fill = {};
};
static_assert(sizeof(Values) == 20 * sizeof(unsigned));

// Numbers of `bits` bits each, the most significant bit first. Requires: enough bytes for all that
// are taken.
class Bits {
 public:
  explicit Bits(ByteView bytes) : bytes_(bytes) {}

  std::uint64_t take(unsigned bits) {
    std::uint64_t value = 0;
    while (bits > 0) {
      const unsigned n = std::min(bits, 8 - used_);
      const auto byte = static_cast<unsigned>(bytes_[at_]);
      value = value << n | ((byte >> (8 - used_ - n)) & ((1U << n) - 1));
      bits -= n;
      used_ += n;
      at_ += used_ / 8;
      used_ %= 8;
    }
    return value;
  }

 private:
  ByteView bytes_;
  std::size_t at_ = 0;
  unsigned used_ = 0;
};

template <class T>
T fill_of(const Values& values) {
  T fill;
  std::memcpy(&fill, values.fill.data(), sizeof(T));
  return fill;
}

template <class T>
void unpack_integers(const Values& values, Bits bits, unsigned n_bits, std::uint64_t minimum,
                     MutableBytes out) {
  const std::uint64_t for_fill = (std::uint64_t{1} << n_bits) - 1;
  for (std::size_t at = 0; at < out.size(); at += sizeof(T)) {
    const std::uint64_t code = bits.take(n_bits);
    const bool is_fill = values.has_fill != 0 && code == for_fill;
    store(out.data() + at, is_fill ? fill_of<T>(values) : static_cast<T>(code + minimum));
  }
}

template <class T, class Code>
void unpack_floats(const Values& values, Bits bits, unsigned n_bits, std::uint64_t minimum_bits,
                   MutableBytes out) {
  T minimum;
  std::memcpy(&minimum, &minimum_bits, sizeof(T));
  const T scale = std::pow(T{10}, static_cast<T>(static_cast<int>(values.scale_factor)));
  const std::uint64_t for_fill = (std::uint64_t{1} << n_bits) - 1;
  for (std::size_t at = 0; at < out.size(); at += sizeof(T)) {
    const std::uint64_t code = bits.take(n_bits);
    const bool is_fill = values.has_fill != 0 && code == for_fill;
    const T value = static_cast<T>(static_cast<Code>(code)) / scale + minimum;
    store(out.data() + at, is_fill ? fill_of<T>(values) : value);
  }
}

Result<void> unpack(const Values& values, Bits bits, unsigned n_bits, std::uint64_t minimum,
                    MutableBytes out) {
  if (values.is_float != 0) {
    if (values.elem_bytes == sizeof(float)) {
      unpack_floats<float, std::int32_t>(values, bits, n_bits, minimum, out);
    } else if (values.elem_bytes == sizeof(double)) {
      unpack_floats<double, std::int64_t>(values, bits, n_bits, minimum, out);
    } else {
      return bad_filter_values(kName);
    }
    return {};
  }
  const auto unpack_as = [&](auto zero) -> Result<void> {
    unpack_integers<decltype(zero)>(values, bits, n_bits, minimum, out);
    return {};
  };
  switch (values.elem_bytes) {
    case 1:
      return unpack_as(std::uint8_t{0});
    case 2:
      return unpack_as(std::uint16_t{0});
    case 4:
      return unpack_as(std::uint32_t{0});
    case 8:
      return unpack_as(std::uint64_t{0});
    default:
      return bad_filter_values(kName);
  }
}

void turn_bytes(std::size_t elem_bytes, MutableBytes out) {
  for (std::size_t at = 0; at < out.size(); at += elem_bytes) {
    std::reverse(out.data() + at, out.data() + at + elem_bytes);
  }
}

}  // namespace

Result<Buffer> undo_scale_offset(const Filter& filter, Buffer in, std::uint64_t) {
  Values values;
  if (filter.values.size() != sizeof(values) / sizeof(unsigned)) return bad_filter_values(kName);
  std::memcpy(static_cast<void*>(&values), filter.values.data(), sizeof(values));
  const unsigned all_bits = 8 * values.elem_bytes;
  const unsigned wanted_type = values.is_float != 0 ? 0 : 2;
  if (values.scale_type != wanted_type || values.elem_bytes == 0 || values.elem_bytes > 8 ||
      values.is_float > 1 || values.is_signed > 1 || values.is_big_endian > 1 ||
      values.has_fill > 1) {
    return bad_filter_values(kName);
  }
  // Integers with all their bits are stored as they are.
  if (values.is_float == 0 && values.scale_factor == all_bits) return in;
  if (in.size() < kHeadBytes) return damaged_chunk(kName);
  const auto n_bits = load<std::uint32_t>(in.data());
  const std::uint64_t out_bytes = std::uint64_t{values.n_elems} * values.elem_bytes;
  if (n_bits > all_bits) return damaged_chunk(kName);
  if (out_bytes > kMaxFilterBytes) return chunk_too_large();
  if ((std::uint64_t{values.n_elems} * n_bits + 7) / 8 > in.size() - kHeadBytes) {
    return damaged_chunk(kName);
  }
  const std::size_t minimum_bytes =
      std::min<std::size_t>(static_cast<std::size_t>(in.data()[4]), 8);
  std::uint64_t minimum = 0;
  std::memcpy(&minimum, in.data() + 5, minimum_bytes);
  CFCK_TRY_ASSIGN(Buffer out, Buffer::zeroed(out_bytes));
  const ByteView packed = in.bytes().subspan(kHeadBytes);
  if (n_bits == all_bits) {
    std::memcpy(out.data(), packed.data(), out_bytes);
  } else {
    CFCK_TRY(unpack(values, Bits(packed), n_bits, minimum, out.bytes()));
  }
  if (values.is_big_endian != 0) turn_bytes(values.elem_bytes, out.bytes());
  return out;
}

}  // namespace cfck::hdf5

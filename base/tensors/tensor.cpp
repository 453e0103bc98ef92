#include "cfck/tensor.hpp"

#include <string>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "base/tensors/sizes.hpp"

namespace cfck {
namespace {

constexpr std::uint64_t kMaxProduct = (std::uint64_t{1} << 63) - 1;

// Makes an error with text, or one for lack of memory for it.
template <class Text>
Error error_of(ErrorCode code, const Text& text) {
  return run_guarded([&] { return Error{code, text(), {}, {}}; });
}

}  // namespace

Result<std::uint64_t> detail::count_elems(std::span<const std::uint64_t> dimensions) {
  std::uint64_t product = 1;
  bool empty = false;
  for (const std::uint64_t dim : dimensions) {
    if (dim == 0) {
      empty = true;
    } else if (!checked_mul(product, dim, product) || product > kMaxProduct) {
      return error_of(ErrorCode::kLimitExceeded, [] {
        return "the shape has 2^63 elements or more; no tensor can be so large";
      });
    }
  }
  return empty ? 0 : product;
}

Result<std::uint64_t> detail::count_bytes(DType dtype, std::span<const std::uint64_t> dimensions) {
  const unsigned bits = bits_per_element(dtype);
  if (bits == 0) {
    return error_of(ErrorCode::kUnsupported, [&] {
      return "dtype " + std::to_string(static_cast<unsigned>(dtype)) +
             " is unknown to this version of cfck";
    });
  }
  CFCK_TRY_ASSIGN(const std::uint64_t elems, count_elems(dimensions));
  if (bits >= 8) {
    std::uint64_t bytes = 0;
    if (!checked_mul(elems, std::uint64_t{bits / 8}, bytes) || bytes > kMaxProduct) {
      return error_of(ErrorCode::kLimitExceeded, [] {
        return "the tensor has 2^63 bytes or more; no tensor can be so large";
      });
    }
    return bytes;
  }
  // Eight elements fill `bits` bytes, so nothing overflows here.
  const std::uint64_t rest_bits = (elems % 8) * bits;
  if (rest_bits % 8 != 0) {
    return error_of(ErrorCode::kInvalidArgument, [&] {
      return "a tensor of dtype " + std::string(dtype_name(dtype)) + " with " +
             std::to_string(elems) +
             " elements does not fill whole bytes; safetensors has no such tensors either";
    });
  }
  return elems / 8 * bits + rest_bits / 8;
}

Result<std::uint64_t> n_elems(const Shape& shape) { return count_elems(shape); }

Result<std::uint64_t> n_bytes(DType dtype, const Shape& shape) { return count_bytes(dtype, shape); }

}  // namespace cfck

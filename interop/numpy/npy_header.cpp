#include "interop/numpy/npy_header.hpp"

#include <string_view>

namespace cfck::interop {
namespace {

constexpr std::size_t kAlignment = 64;

// numpy's name of the type, or of one with equal width; empty if there is none.
std::string_view npy_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kI8:
      return "|i1";
    case DType::kU8:
    case DType::kF8E5M2:
    case DType::kF8E4M3:
    case DType::kF8E8M0:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2Fnuz:
      return "|u1";
    case DType::kI16:
      return "<i2";
    case DType::kU16:
    case DType::kBF16:
      return "<u2";
    case DType::kF16:
      return "<f2";
    case DType::kI32:
      return "<i4";
    case DType::kU32:
      return "<u4";
    case DType::kF32:
      return "<f4";
    case DType::kC64:
      return "<c8";
    case DType::kF64:
      return "<f8";
    case DType::kI64:
      return "<i8";
    case DType::kU64:
      return "<u8";
    case DType::kF4:
    case DType::kF6E2M3:
    case DType::kF6E3M2:
      break;
  }
  return {};
}

bool is_stand_in(DType dtype) {
  const std::string_view name = dtype_name(dtype);
  return name == "BF16" || name.starts_with("F8");
}

void append_little_endian(std::string& text, std::size_t number, unsigned n_bytes) {
  for (unsigned i = 0; i < n_bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xFF);
}

}  // namespace

Result<NpyHeader> npy_header(DType dtype, const Shape& shape) {
  const std::string_view type = npy_type(dtype);
  if (type.empty()) {
    return unsupported("numpy has no equivalent of dtype " + std::string(dtype_name(dtype)) +
                       "; convert the file to safetensors, which keeps its bytes");
  }
  std::string text = "{'descr': '";
  text.append(type).append("', 'fortran_order': False, 'shape': (");
  for (const std::uint64_t dim : shape) text.append(std::to_string(dim)).append(", ");
  // "(3,)", "(3, 4)", "()"
  if (!shape.empty()) text.pop_back();
  if (shape.size() > 1) text.pop_back();
  text += "), }";
  // A header is magic, version, length, text, and a line feed.
  const bool is_long = (10 + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment > 65536;
  const std::size_t start_bytes = is_long ? 12 : 10;
  const std::size_t total =
      (start_bytes + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.append(total - start_bytes - text.size() - 1, ' ');
  text += '\n';
  NpyHeader header;
  header.bytes = std::string("\x93NUMPY") + (is_long ? '\x02' : '\x01') + '\0';
  append_little_endian(header.bytes, text.size(), is_long ? 4 : 2);
  header.bytes += text;
  if (is_stand_in(dtype)) header.stand_in_for = dtype_name(dtype);
  return header;
}

}  // namespace cfck::interop

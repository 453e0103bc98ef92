#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "interop/numpy/npy_header.hpp"

namespace cfck::interop {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{64} << 10;
constexpr std::size_t kMaxDimensions = 64;

struct NpyType {
  std::string_view name;  // without its byte order
  DType dtype;
};
constexpr std::array kNpyTypes = {
    NpyType{"b1", DType::kBool}, NpyType{"i1", DType::kI8},  NpyType{"u1", DType::kU8},
    NpyType{"i2", DType::kI16},  NpyType{"u2", DType::kU16}, NpyType{"i4", DType::kI32},
    NpyType{"u4", DType::kU32},  NpyType{"i8", DType::kI64}, NpyType{"u8", DType::kU64},
    NpyType{"f2", DType::kF16},  NpyType{"f4", DType::kF32}, NpyType{"f8", DType::kF64},
    NpyType{"c8", DType::kC64},
};

// Reads the text of a header, a Python dict of three known items: {'descr': '<f4',
// 'fortran_order': False, 'shape': (3, 4), }.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  Result<void> parse(NpyArray& array) {
    if (!take('{')) return bad();
    while (!take('}')) {
      const std::optional<std::string_view> key = quoted();
      if (!key || !take(':')) return bad();
      if (*key == "descr") {
        CFCK_TRY(parse_type(array));
      } else if (*key == "fortran_order") {
        CFCK_TRY(parse_order(array));
      } else if (*key == "shape") {
        CFCK_TRY(parse_shape(array));
      } else {
        return bad();
      }
      if (!take(',') && peek() != '}') return bad();
    }
    skip_spaces();
    return rest_.empty() && has_type_ && has_order_ && has_shape_ ? Result<void>() : bad();
  }

 private:
  static Error bad() {
    return corrupt("the header of the numpy array is damaged; save the array again");
  }
  void skip_spaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  char peek() {
    skip_spaces();
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const std::size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  Result<void> parse_type(NpyArray& array) {
    const std::optional<std::string_view> type = quoted();
    has_type_ = true;
    // Structures are lists of fields.
    if (!type) return peek() == '[' ? not_numbers("structures") : bad();
    const std::string_view name = type->substr(std::min<std::size_t>(1, type->size()));
    if (name == "V2" || name == "f1") {
      array.dtype = name == "V2" ? DType::kBF16 : DType::kF8E5M2;
      array.is_stand_in = true;
      return {};
    }
    for (const NpyType& known : kNpyTypes) {
      if (known.name != name) continue;
      const char order = type->front();
      if (order != '<' && order != '>' && order != '|' && order != '=') break;
      array.dtype = known.dtype;
      array.big_endian = order == '>';
      return {};
    }
    if (name == "V1") {
      return unsupported(
          "its elements are of type '" + escaped(*type) +
          "', as numpy saves all dtypes of ml_dtypes with one byte (float8_e4m3fn, int4 and "
          "others), so that the file does not say which; load it in Python, view the array as its "
          "dtype, and store it with cfck.numpy.save_file, or leave such arrays out "
          "(--only-tensors)");
    }
    return not_numbers("of type '" + escaped(*type) + "'");
  }
  static Error not_numbers(const std::string& what) {
    return unsupported("its elements are " + what +
                       ", and cfck stores numbers of up to 64 bits, bools and complex64; convert "
                       "the array in numpy first, or leave such arrays out (--only-tensors)");
  }
  Result<void> parse_order(NpyArray& array) {
    has_order_ = true;
    if (take("True")) {
      array.fortran_order = true;
    } else if (!take("False")) {
      return bad();
    }
    return {};
  }
  Result<void> parse_shape(NpyArray& array) {
    has_shape_ = true;
    if (!take('(') || !array.shape.empty()) return bad();
    while (!take(')')) {
      skip_spaces();
      std::uint64_t dim = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (error != std::errc() || array.shape.size() == kMaxDimensions) return bad();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      (void)take('L');  // long integers of Python 2
      array.shape.push_back(dim);
      if (!take(',') && peek() != ')') return bad();
    }
    return {};
  }

  std::string_view rest_;
  bool has_type_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

}  // namespace

Result<bool> begins_as_npy(const ByteSource& source) {
  std::string begin(std::min<std::uint64_t>(source.size(), kNpyMagic.size()), '\0');
  CFCK_TRY(source.read_at(0, std::as_writable_bytes(std::span(begin))));
  return begin == kNpyMagic;
}

Result<NpyArray> read_npy(const ByteSource& source) {
  constexpr std::uint64_t kStartBytes = 10;
  if (source.size() < kStartBytes) {
    return truncated("the numpy array has " + std::to_string(source.size()) +
                     " bytes, fewer than its header");
  }
  std::vector<std::byte> start(std::min<std::uint64_t>(source.size(), kStartBytes + 2));
  CFCK_TRY(source.read_at(0, start));
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), kNpyMagic.size());
  if (magic != kNpyMagic) return corrupt("this is no numpy array: its first bytes are others");
  const auto version = static_cast<unsigned>(start[kNpyMagic.size()]);
  if (version < 1 || version > 3) {
    return unsupported("the numpy array has version " + std::to_string(version) +
                       " of its format, and cfck reads 1 to 3");
  }
  if (version > 1 && start.size() < kStartBytes + 2) {
    return truncated("the numpy array ends inside its header");
  }
  const std::uint64_t text_bytes =
      version == 1 ? load<std::uint16_t>(start.data() + 8) : load<std::uint32_t>(start.data() + 8);
  NpyArray array;
  const std::uint64_t text_at = version == 1 ? kStartBytes : kStartBytes + 2;
  if (text_bytes > kMaxHeaderBytes) {
    return limit_exceeded("the header of the numpy array claims " + std::to_string(text_bytes) +
                          " bytes, more than the 65536 that cfck reads");
  }
  if (text_bytes > source.size() - text_at) {
    return truncated("the numpy array ends inside its header");
  }
  std::string text(text_bytes, '\0');
  CFCK_TRY(source.read_at(text_at, std::as_writable_bytes(std::span(text))));
  CFCK_TRY(HeaderParser(text).parse(array));
  array.data_bytes = text_at + text_bytes;
  CFCK_TRY_ASSIGN(const std::uint64_t needed, n_bytes(array.dtype, array.shape));
  const std::uint64_t present = source.size() - array.data_bytes;
  if (present < needed) {
    return truncated("the numpy array has " + std::to_string(present) + " bytes of elements, and " +
                     std::to_string(needed) + " by its header")
        .at_byte(array.data_bytes);
  }
  if (present > needed) {
    std::string next(std::min<std::uint64_t>(present - needed, kNpyMagic.size()), '\0');
    CFCK_TRY(source.read_at(array.data_bytes + needed, std::as_writable_bytes(std::span(next))));
    if (next == kNpyMagic) {
      return unsupported(
                 "another array follows the first one, and only files of one array are read; load "
                 "them in Python, one np.load each, and store them with np.savez")
          .at_byte(array.data_bytes + needed);
    }
    return corrupt("the numpy array has " + std::to_string(present - needed) +
                   " bytes behind its last element")
        .at_byte(array.data_bytes + needed);
  }
  return array;
}

}  // namespace cfck::interop

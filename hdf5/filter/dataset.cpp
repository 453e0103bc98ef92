#include "hdf5/filter/dataset.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "hdf5/filter/chunk_choice.hpp"
#include "hdf5/filter/fill_values.hpp"

namespace cfck::hdf5 {
namespace {

// H5T_class_t, H5T_order_t, H5D_fill_value_t
enum TypeClass { kInteger = 0, kFloat = 1, kCompound = 6, kEnum = 8, kArray = 10, kComplex = 11 };
constexpr int kBigEndian = 1;
constexpr int kSigned = 1;
constexpr int kFillUndefined = 0;
constexpr int kMaxRank = 32;
constexpr unsigned kMaxNesting = 8;

struct Element {
  DType dtype = DType::kU8;
  bool is_big_endian = false;

  bool operator==(const Element&) const = default;
};

class OwnedType {
 public:
  OwnedType(const Hdf5Functions& hdf5, Id id) : hdf5_(hdf5), id_(id) {}
  ~OwnedType() {
    if (id_ >= 0) {
      hdf5_.H5Tclose(id_);
    }
  }
  OwnedType(const OwnedType&) = delete;
  OwnedType& operator=(const OwnedType&) = delete;
  Id get() const { return id_; }

 private:
  const Hdf5Functions& hdf5_;
  const Id id_;
};

std::optional<DType> integer_type(const Hdf5Functions& hdf5, Id type) {
  const bool is_signed = hdf5.H5Tget_sign(type) == kSigned;
  switch (hdf5.H5Tget_size(type)) {
    case 1:
      return is_signed ? DType::kI8 : DType::kU8;
    case 2:
      return is_signed ? DType::kI16 : DType::kU16;
    case 4:
      return is_signed ? DType::kI32 : DType::kU32;
    case 8:
      return is_signed ? DType::kI64 : DType::kU64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> float_type(const Hdf5Functions& hdf5, Id type) {
  struct Layout {
    DType dtype;
    std::size_t size, exponent, mantissa, bias;
  };
  static constexpr Layout kLayouts[] = {{DType::kF64, 8, 11, 52, 1023},
                                        {DType::kF32, 4, 8, 23, 127},
                                        {DType::kF16, 2, 5, 10, 15},
                                        {DType::kBF16, 2, 8, 7, 127}};
  std::size_t sign_at = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
  if (hdf5.H5Tget_fields(type, &sign_at, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0) {
    return std::nullopt;
  }
  const std::size_t size = hdf5.H5Tget_size(type);
  const std::size_t bias = hdf5.H5Tget_ebias(type);
  for (const Layout& layout : kLayouts) {
    if (size == layout.size && hdf5.H5Tget_precision(type) == size * 8 && mantissa_at == 0 &&
        mantissa == layout.mantissa && exponent_at == mantissa && exponent == layout.exponent &&
        sign_at == size * 8 - 1 && bias == layout.bias) {
      return layout.dtype;
    }
  }
  return std::nullopt;
}

// The type of the values that an element consists of, if all are of one: itself, those of an array,
// or the members of a compound type without gaps, such as the parts of a complex number.
std::optional<Element> element_of(const Hdf5Functions& hdf5, Id type, unsigned depth) {
  if (type < 0 || depth > kMaxNesting) {
    return std::nullopt;
  }
  const int type_class = hdf5.H5Tget_class(type);
  if (type_class == kInteger || type_class == kFloat) {
    const auto dtype = type_class == kInteger ? integer_type(hdf5, type) : float_type(hdf5, type);
    const int order = hdf5.H5Tget_order(type);
    if (!dtype || order > kBigEndian || order < 0) {
      return std::nullopt;
    }
    return Element{*dtype, order == kBigEndian && hdf5.H5Tget_size(type) > 1};
  }
  if (type_class == kEnum || type_class == kArray || type_class == kComplex) {
    const OwnedType super(hdf5, hdf5.H5Tget_super(type));
    return element_of(hdf5, super.get(), depth + 1);
  }
  if (type_class != kCompound) {
    return std::nullopt;
  }
  std::optional<Element> common;
  std::size_t n_bytes = 0;
  const int n_members = hdf5.H5Tget_nmembers(type);
  for (int i = 0; i < n_members; ++i) {
    const OwnedType member(hdf5, hdf5.H5Tget_member_type(type, static_cast<unsigned>(i)));
    const std::optional<Element> of_member = element_of(hdf5, member.get(), depth + 1);
    if (!of_member || (common && *common != *of_member)) {
      return std::nullopt;
    }
    common = of_member;
    n_bytes += hdf5.H5Tget_size(member.get());
  }
  return n_bytes == hdf5.H5Tget_size(type) ? common : std::nullopt;
}

Result<Shape> chunk_shape(const Hdf5Functions& hdf5, Id creation) {
  std::array<std::uint64_t, kMaxRank> sizes{};
  const int rank = hdf5.H5Pget_chunk(creation, kMaxRank, sizes.data());
  if (rank < 1 || rank > kMaxRank) {
    return invalid_argument("the dataset is not chunked; filters need chunks");
  }
  return Shape(sizes.begin(), sizes.begin() + rank);
}

Result<std::vector<unsigned>> client_data(const Hdf5Functions& hdf5, Id creation) {
  std::vector<unsigned> words(kUserValues + kLocalValues + kMaxRank + 1);
  std::size_t n_words = words.size();
  unsigned flags = 0;
  if (hdf5.H5Pget_filter_by_id2(creation, kFilterId, &flags, &n_words, words.data(), 0, nullptr,
                                nullptr) < 0) {
    return internal_error("HDF5 does not show the client data of the filter");
  }
  words.resize(std::min(n_words, words.size()));
  return words;
}

bool is_first_filter(const Hdf5Functions& hdf5, Id creation) {
  unsigned flags = 0;
  unsigned config = 0;
  std::size_t n_words = 0;
  return hdf5.H5Pget_filter2(creation, 0, &flags, &n_words, nullptr, 0, nullptr, &config) ==
         kFilterId;
}

// The bits of the fill value of elements that are single values; otherwise 0.
std::uint64_t fill_bits(const Hdf5Functions& hdf5, Id creation, Id type,
                        const ChunkValues& values) {
  const unsigned value_bytes = bits_per_element(values.dtype) / 8;
  int status = kFillUndefined;
  if (hdf5.H5Tget_size(type) != value_bytes || hdf5.H5Pfill_value_defined(creation, &status) < 0 ||
      status == kFillUndefined) {
    return 0;
  }
  std::array<std::byte, 8> fill{};
  if (hdf5.H5Pget_fill_value(creation, type, fill.data()) < 0) {
    return 0;
  }
  std::array<std::byte, 8> bits{};
  const ByteView value(fill.data(), value_bytes);
  if (values.is_big_endian) {
    reverse_bytes(value_bytes, value, bits.data());
  } else {
    std::copy(value.begin(), value.end(), bits.begin());
  }
  return load<std::uint64_t>(bits.data());
}

}  // namespace

Result<Dataset> describe(const Hdf5Functions& hdf5, Id creation, Id type) {
  if (!hdf5.can_describe()) {
    return unsupported(
        "the HDF5 library does not show the functions that the filter needs to "
        "create datasets; use a program that loads a shared libhdf5 1.10 or newer");
  }
  Dataset dataset;
  CFCK_TRY_ASSIGN(dataset.words, client_data(hdf5, creation));
  CFCK_TRY_ASSIGN(dataset.request, parse_request(dataset.words));
  CFCK_TRY_ASSIGN(Shape shape, chunk_shape(hdf5, creation));
  const bool is_first = is_first_filter(hdf5, creation);
  if (dataset.request.is_lossy() && !is_first) {
    return invalid_argument(
        "another filter, such as shuffle, comes before cfck: maximum errors and "
        "targets need cfck to be the first filter; leave the others out");
  }
  const std::optional<Element> found = element_of(hdf5, type, 0);
  if (dataset.request.is_lossy() && !found) {
    return invalid_argument(
        "maximum errors and targets apply to floats of 64, 32 and 16 bits, and "
        "to arrays and compounds of one of them; create the dataset without "
        "them to store it without loss");
  }
  const Element element = is_first ? found.value_or(Element{}) : Element{};
  const std::uint64_t n_values =
      hdf5.H5Tget_size(type) * 8 / std::max(1u, bits_per_element(element.dtype));
  if (n_values != 1) {
    shape.push_back(n_values);
  }
  while (shape.size() > 1 && shape.front() == 1) {
    shape.erase(shape.begin());
  }
  dataset.values = {element.dtype, element.is_big_endian, 0, std::move(shape), is_first};
  CFCK_TRY(check_request(dataset.request, dataset.values));
  return dataset;
}

Result<Dataset> describe_new(const Hdf5Functions& hdf5, Id creation, Id type) {
  CFCK_TRY_ASSIGN(Dataset dataset, describe(hdf5, creation, type));
  CFCK_TRY(check_new_request(dataset.request));
  if (dataset.request.is_lossy()) {
    dataset.values.fill_bits = fill_bits(hdf5, creation, type, dataset.values);
  }
  return dataset;
}

}  // namespace cfck::hdf5

#include "hdf5/archive/element_type.hpp"

#include <array>
#include <cstring>
#include <memory>

namespace cfck::hdf5 {
namespace {

// The places of the parts of a float, in bits.
struct FloatForm {
  DType dtype = DType::kF32;
  std::size_t n_bytes = 0;
  std::size_t sign_at = 0;
  std::size_t exponent_at = 0;
  std::size_t exponent_bits = 0;
  std::size_t mantissa_bits = 0;
  std::size_t bias = 0;
};

constexpr std::array kFloatForms = {
    FloatForm{DType::kF16, 2, 15, 10, 5, 10, 15},  FloatForm{DType::kBF16, 2, 15, 7, 8, 7, 127},
    FloatForm{DType::kF32, 4, 31, 23, 8, 23, 127}, FloatForm{DType::kF64, 8, 63, 52, 11, 52, 1023},
    FloatForm{DType::kF8E4M3, 1, 7, 3, 4, 3, 7},   FloatForm{DType::kF8E5M2, 1, 7, 2, 5, 2, 15},
};

struct OpaqueName {
  DType dtype;
  std::string_view name;
};
constexpr std::array kOpaqueNames = {OpaqueName{DType::kBF16, "bfloat16"},
                                     OpaqueName{DType::kF8E4M3, "float8_e4m3fn"},
                                     OpaqueName{DType::kF8E5M2, "float8_e5m2"}};

struct MemberName {
  explicit MemberName(hid_t type, unsigned i) : text(H5Tget_member_name(type, i), &H5free_memory) {}
  std::string_view view() const { return text == nullptr ? "" : text.get(); }
  std::unique_ptr<char, herr_t (*)(void*)> text;
};

std::optional<DType> float_dtype(hid_t type) {
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) {
    return std::nullopt;
  }
  const std::size_t n_bytes = H5Tget_size(type);
  for (const FloatForm& form : kFloatForms) {
    if (n_bytes == form.n_bytes && sign == form.sign_at && exponent == form.exponent_at &&
        exponent_bits == form.exponent_bits && mantissa == 0 &&
        mantissa_bits == form.mantissa_bits && H5Tget_ebias(type) == form.bias &&
        H5Tget_precision(type) == 8 * n_bytes && H5Tget_offset(type) == 0 &&
        H5Tget_norm(type) == H5T_NORM_IMPLIED && H5Tget_order(type) != H5T_ORDER_VAX) {
      return form.dtype;
    }
  }
  return std::nullopt;
}

std::optional<DType> integer_dtype(hid_t type) {
  const std::size_t n_bytes = H5Tget_size(type);
  if (H5Tget_precision(type) != 8 * n_bytes || H5Tget_offset(type) != 0) return std::nullopt;
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  switch (n_bytes) {
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

// True for the enumeration that h5py writes for bool.
bool is_bool(hid_t type) {
  if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
  for (unsigned i = 0; i < 2; ++i) {
    unsigned char value = 255;
    if (H5Tget_member_value(type, i, &value) < 0) return false;
    const MemberName name(type, i);
    if (!(name.view() == "FALSE" && value == 0) && !(name.view() == "TRUE" && value == 1)) {
      return false;
    }
  }
  return true;
}

bool is_complex(hid_t type) {
  if (H5Tget_nmembers(type) != 2) return false;
  for (unsigned i = 0; i < 2; ++i) {
    const Handle member(H5Tget_member_type(type, i));
    if (!member || H5Tget_class(member.get()) != H5T_FLOAT ||
        float_dtype(member.get()) != DType::kF32 ||
        MemberName(type, i).view() != (i == 0 ? "r" : "i")) {
      return false;
    }
  }
  return true;
}

Result<Handle> complex_type() {
  CFCK_TRY_ASSIGN(Handle type, checked(H5Tcreate(H5T_COMPOUND, 8), "no compound type"));
  CFCK_TRY(checked_status(H5Tinsert(type.get(), "r", 0, H5T_IEEE_F32LE), "no compound type"));
  CFCK_TRY(checked_status(H5Tinsert(type.get(), "i", 4, H5T_IEEE_F32LE), "no compound type"));
  return type;
}

Result<Handle> bool_type() {
  CFCK_TRY_ASSIGN(Handle type, checked(H5Tenum_create(H5T_STD_I8LE), "no enumeration"));
  const signed char values[] = {0, 1};
  CFCK_TRY(checked_status(H5Tenum_insert(type.get(), "FALSE", &values[0]), "no enumeration"));
  CFCK_TRY(checked_status(H5Tenum_insert(type.get(), "TRUE", &values[1]), "no enumeration"));
  return type;
}

Result<Handle> half_type() {
  CFCK_TRY_ASSIGN(Handle type, checked(H5Tcopy(H5T_IEEE_F32LE), "no float type"));
  const bool made = H5Tset_fields(type.get(), 15, 10, 5, 0, 10) >= 0 &&
                    H5Tset_size(type.get(), 2) >= 0 && H5Tset_ebias(type.get(), 15) >= 0;
  return made ? Result<Handle>(std::move(type)) : library_error("no float type");
}

hid_t standard_type(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return H5T_STD_U8LE;
    case DType::kI8:
      return H5T_STD_I8LE;
    case DType::kI16:
      return H5T_STD_I16LE;
    case DType::kU16:
      return H5T_STD_U16LE;
    case DType::kI32:
      return H5T_STD_I32LE;
    case DType::kU32:
      return H5T_STD_U32LE;
    case DType::kI64:
      return H5T_STD_I64LE;
    case DType::kU64:
      return H5T_STD_U64LE;
    case DType::kF32:
      return H5T_IEEE_F32LE;
    case DType::kF64:
      return H5T_IEEE_F64LE;
    default:
      return H5I_INVALID_HID;
  }
}

}  // namespace

std::optional<DType> dtype_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return integer_dtype(type);
    case H5T_FLOAT:
      return float_dtype(type);
    case H5T_ENUM: {
      if (is_bool(type)) return DType::kBool;
      const Handle base(H5Tget_super(type));
      return base ? integer_dtype(base.get()) : std::nullopt;
    }
    case H5T_COMPOUND:
      return is_complex(type) ? std::optional(DType::kC64) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool is_stored_like(hid_t type, DType dtype) {
  if (H5Tget_size(type) * 8 != bits_per_element(dtype)) return false;
  if (H5Tget_class(type) == H5T_COMPOUND) {
    const Handle real(H5Tget_member_type(type, 0));
    const Handle imaginary(H5Tget_member_type(type, 1));
    return H5Tget_member_offset(type, 0) == 0 && H5Tget_member_offset(type, 1) == 4 && real &&
           imaginary && H5Tget_order(real.get()) == H5T_ORDER_LE &&
           H5Tget_order(imaginary.get()) == H5T_ORDER_LE;
  }
  return H5Tget_size(type) == 1 || H5Tget_class(type) == H5T_OPAQUE ||
         H5Tget_order(type) == H5T_ORDER_LE;
}

Result<Handle> memory_type(hid_t file_type, DType dtype) {
  if (dtype == DType::kC64) return complex_type();
  if (dtype == DType::kBool) return checked(H5Tcopy(file_type), "the type cannot be copied");
  if (const hid_t standard = standard_type(dtype); standard >= 0) {
    return checked(H5Tcopy(standard), "the type cannot be copied");
  }
  CFCK_TRY_ASSIGN(Handle type, checked(H5Tcopy(file_type), "the type cannot be copied"));
  if (H5Tget_class(type.get()) == H5T_FLOAT) {
    CFCK_TRY(checked_status(H5Tset_order(type.get(), H5T_ORDER_LE), "no float type"));
  }
  return type;
}

Result<Handle> file_type(DType dtype) {
  if (dtype == DType::kC64) return complex_type();
  if (dtype == DType::kBool) return bool_type();
  if (dtype == DType::kF16) return half_type();
  if (const hid_t standard = standard_type(dtype); standard >= 0) {
    return checked(H5Tcopy(standard), "the type cannot be copied");
  }
  if (opaque_name(dtype).empty()) {
    return unsupported("HDF5 files have no elements of the dtype " +
                       std::string(dtype_name(dtype)) +
                       "; write a safetensors file, or convert the tensor first");
  }
  CFCK_TRY_ASSIGN(Handle type,
                  checked(H5Tcreate(H5T_OPAQUE, bits_per_element(dtype) / 8), "no opaque type"));
  CFCK_TRY(checked_status(H5Tset_tag(type.get(), ""), "no opaque type"));
  return type;
}

std::optional<DType> opaque_dtype(std::string_view attribute) {
  for (const OpaqueName& known : kOpaqueNames) {
    if (known.name == attribute) return known.dtype;
  }
  return std::nullopt;
}

std::string_view opaque_name(DType dtype) {
  for (const OpaqueName& known : kOpaqueNames) {
    if (known.dtype == dtype) return known.name;
  }
  return {};
}

}  // namespace cfck::hdf5

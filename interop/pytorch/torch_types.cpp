#include "interop/pytorch/torch_types.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace cfck::interop {
namespace {

struct TorchDType {
  std::string_view name;
  std::optional<DType> dtype;  // nullopt: not stored by cfck
  std::string_view storage = {};
};

constexpr TorchDType kDTypes[] = {
    {"float64", DType::kF64, "DoubleStorage"},
    {"float32", DType::kF32, "FloatStorage"},
    {"float16", DType::kF16, "HalfStorage"},
    {"bfloat16", DType::kBF16, "BFloat16Storage"},
    {"float8_e4m3fn", DType::kF8E4M3},
    {"float8_e5m2", DType::kF8E5M2},
    {"float8_e4m3fnuz", DType::kF8E4M3Fnuz},
    {"float8_e5m2fnuz", DType::kF8E5M2Fnuz},
    {"float8_e8m0fnu", DType::kF8E8M0},
    {"int64", DType::kI64, "LongStorage"},
    {"int32", DType::kI32, "IntStorage"},
    {"int16", DType::kI16, "ShortStorage"},
    {"int8", DType::kI8, "CharStorage"},
    {"uint8", DType::kU8, "ByteStorage"},
    {"uint16", DType::kU16},
    {"uint32", DType::kU32},
    {"uint64", DType::kU64},
    {"bool", DType::kBool, "BoolStorage"},
    {"complex64", DType::kC64, "ComplexFloatStorage"},
    {"complex128", std::nullopt, "ComplexDoubleStorage"},
    {"complex32", std::nullopt, "ComplexHalfStorage"},
    {"float4_e2m1fn_x2", std::nullopt},
    {"quint8", std::nullopt, "QUInt8Storage"},
    {"qint8", std::nullopt, "QInt8Storage"},
    {"qint32", std::nullopt, "QInt32Storage"},
    {"quint4x2", std::nullopt, "QUInt4x2Storage"},
    {"quint2x4", std::nullopt, "QUInt2x4Storage"},
};

}  // namespace

std::optional<DType> dtype_of_torch(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kDTypes), std::end(kDTypes),
                   [&](const TorchDType& known) { return known.name == name; });
  return found == std::end(kDTypes) ? std::nullopt : found->dtype;
}

bool is_torch_dtype(std::string_view name) {
  return std::any_of(std::begin(kDTypes), std::end(kDTypes),
                     [&](const TorchDType& known) { return known.name == name; });
}

std::optional<DType> dtype_of_storage(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kDTypes), std::end(kDTypes),
                   [&](const TorchDType& known) { return !name.empty() && known.storage == name; });
  return found == std::end(kDTypes) ? std::nullopt : found->dtype;
}

}  // namespace cfck::interop

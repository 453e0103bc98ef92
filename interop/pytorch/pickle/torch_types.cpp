#include "interop/pytorch/pickle/torch_types.hpp"

#include <algorithm>

namespace cfck::interop {
namespace {

constexpr TorchType kTorchTypes[] = {
    {"float64", DType::kF64, "DoubleStorage"},
    {"float32", DType::kF32, "FloatStorage"},
    {"float16", DType::kF16, "HalfStorage"},
    {"bfloat16", DType::kBF16, "BFloat16Storage"},
    {"float8_e4m3fn", DType::kF8E4M3},
    {"float8_e5m2", DType::kF8E5M2},
    {"float8_e4m3fnuz", DType::kF8E4M3Fnuz},
    {"float8_e5m2fnuz", DType::kF8E5M2Fnuz},
    {"float8_e8m0fnu", DType::kF8E8M0},
    {"float4_e2m1fn_x2", DType::kF4, {}, 2},
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
    {"complex128", DType::kF64, "ComplexDoubleStorage", 2},
    {"complex32", DType::kF16, "ComplexHalfStorage", 2},
    {"quint8", {}, "QUInt8Storage"},
    {"qint8", {}, "QInt8Storage"},
    {"qint32", {}, "QInt32Storage"},
    {"quint4x2", {}, "QUInt4x2Storage"},
    {"quint2x4", {}, "QUInt2x4Storage"},
    {"bits1x8"},
    {"bits2x4"},
    {"bits4x2"},
    {"bits8"},
    {"bits16"},
    {"int1"},
    {"int2"},
    {"int3"},
    {"int4"},
    {"int5"},
    {"int6"},
    {"int7"},
    {"uint1"},
    {"uint2"},
    {"uint3"},
    {"uint4"},
    {"uint5"},
    {"uint6"},
    {"uint7"},
};

template <class Predicate>
const TorchType* find(Predicate predicate) {
  const auto* const found = std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes), predicate);
  return found == std::end(kTorchTypes) ? nullptr : found;
}

}  // namespace

const TorchType* torch_type(std::string_view name) {
  return find([&](const TorchType& type) { return type.name == name; });
}

const TorchType* type_of_storage(std::string_view name) {
  if (name.empty()) return nullptr;
  return find([&](const TorchType& type) { return type.storage == name; });
}

}  // namespace cfck::interop

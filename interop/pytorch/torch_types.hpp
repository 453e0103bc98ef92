// The names that PyTorch gives to dtypes and storages.
#pragma once

#include <optional>
#include <string_view>

#include "cfck/dtype.hpp"

namespace cfck::interop {

// "float32" -> F32; nullopt for dtypes that cfck does not store, or that do not exist.
std::optional<DType> dtype_of_torch(std::string_view name);
// True for every name of a dtype of PyTorch, stored by cfck or not.
bool is_torch_dtype(std::string_view name);
// "FloatStorage" -> F32.
std::optional<DType> dtype_of_storage(std::string_view name);

}  // namespace cfck::interop

// The names that PyTorch gives to dtypes and storages.
#pragma once

#include <optional>
#include <string_view>

#include "cfck/dtype.hpp"

namespace cfck::interop {

// A dtype of PyTorch, and how its elements are stored.
struct TorchType {
  std::string_view name;         // "float32"
  std::optional<DType> dtype{};  // nullopt: not stored by cfck
  std::string_view storage{};    // "FloatStorage", for dtypes that had a class of their own
  // Values of `dtype` in an element: of complex numbers that cfck has no dtype for, and of F4.
  unsigned n_values = 1;

  bool is_split_complex() const { return n_values == 2 && dtype != DType::kF4; }
  // Requires: a dtype.
  unsigned elem_bytes() const { return n_values * bits_per_element(*dtype) / 8; }
};

// "float32" -> F32; nullptr for what is no dtype of PyTorch. Pointers are valid forever.
const TorchType* torch_type(std::string_view name);
// "FloatStorage" -> F32; nullptr for no storage.
const TorchType* type_of_storage(std::string_view name);

}  // namespace cfck::interop

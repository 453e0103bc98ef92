// Types of HDF5: which of them are elements of tensors, and all that can be described, in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "cfck/dtype.hpp"
#include "hdf5/library/library.hpp"

namespace cfck::hdf5 {

using Json = nlohmann::json;

// All of these need a Library.

// Returns the dtype of tensors with elements of this type, nullopt for types that no tensor has.
std::optional<DType> dtype_of(hid_t type);
// True if elements are stored as a tensor of the dtype has them: little-endian, without gaps.
bool is_stored_like(hid_t type, DType dtype);
// Returns the type in memory that gives elements of the file's type as a tensor has them.
Result<Handle> memory_type(hid_t file_type, DType dtype);
// Returns the type that datasets of the dtype get. Error: kUnsupported.
Result<Handle> file_type(DType dtype);

// Writes BF16 and some F8 as h5py and Keras do: opaque bytes, with the dtype's name in the
// attribute `dtype` of the dataset.
std::optional<DType> opaque_dtype(std::string_view attribute);
std::string_view opaque_name(DType dtype);  // empty for dtypes that HDF5 has itself, or not at all

// Describes a type; null for types that cannot be kept: references, sequences, and what has one
// inside. Errors: those of libhdf5.
Result<Json> describe(hid_t type, unsigned depth = 0);
// The inverse, for text that anybody may have written. Error: kCorrupt.
Result<Handle> build_type(const Json& description, unsigned depth = 0);

}  // namespace cfck::hdf5

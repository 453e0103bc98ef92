// Attributes, and datasets that are no tensors, in JSON: {"type", "shape", "data" or "text"}.
// "shape" is null where there are no elements at all (a null dataspace), and [] for a scalar.
// Strings are a list "text": of strings, of {"base64"} for those that are not UTF-8, and null.
// All other elements are "data", the bytes as the file has them, in base64.
#pragma once

#include "hdf5/archive/element_type.hpp"

namespace cfck::hdf5 {

// All of these need a Library.

// Bytes that all values of a file may take together, so that hostile files cannot ask for more.
struct ValueBudget {
  std::uint64_t left_bytes = std::uint64_t{64} << 20;
};

// Write what read_attributes() and read_value() of hdf5/reader return, which anybody may have
// written: kCorrupt.
Result<void> write_attribute(hid_t object, const Json& attribute);
Result<Handle> write_value(hid_t group, const std::string& name, hid_t properties,
                           const Json& value);
// Writes a scalar attribute with a string of any length, in UTF-8.
Result<void> write_text_attribute(hid_t object, const std::string& name, const std::string& text);

// Returns the text of a scalar string attribute, nullptr for any other.
const std::string* plain_text(const Json& attribute);
// Returns what strings of a fixed length are filled up with.
char padding_of(hid_t type);

}  // namespace cfck::hdf5

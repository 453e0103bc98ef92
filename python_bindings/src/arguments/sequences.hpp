// Sequences of Python, read item by item. The casters of nanobind let no exception out, so that the
// process ends where a long list does not fit into memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cfck::python {

// Tuples of name, dtype, shape and address.
using HostMemories =
    nanobind::typed<nanobind::sequence,
                    nanobind::typed<nanobind::tuple, nanobind::str, nanobind::str,
                                    nanobind::typed<nanobind::sequence, int>, int>>;

inline std::uint64_t number_of(nanobind::handle value) {
  const unsigned long long found = PyLong_AsUnsignedLongLong(value.ptr());
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
  return found;
}

inline std::vector<std::uint64_t> numbers_of(nanobind::handle values) {
  std::vector<std::uint64_t> numbers;
  for (nanobind::handle value : values) numbers.push_back(number_of(value));
  return numbers;
}

inline std::string text_of(nanobind::handle value) {
  Py_ssize_t n_bytes = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &n_bytes);
  if (text == nullptr) throw nanobind::python_error();
  return {text, static_cast<std::size_t>(n_bytes)};
}

// Checks that an item is a tuple of so many.
inline nanobind::tuple tuple_of(nanobind::handle value, std::size_t n_items) {
  if (!nanobind::isinstance<nanobind::tuple>(value) || nanobind::len(value) != n_items) {
    throw nanobind::type_error("expected tuples of another length");
  }
  return nanobind::borrow<nanobind::tuple>(value);
}

}  // namespace cfck::python

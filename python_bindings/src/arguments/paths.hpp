// Paths, which Python gives as bytes: not every file name is valid UTF-8.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace cfck::python {

inline std::string path_of(const nanobind::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

}  // namespace cfck::python

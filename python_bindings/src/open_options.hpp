// How Python's callers want files to be read.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arguments/paths.hpp"
#include "cfck/archive.hpp"
#include "cfck/base.hpp"
#include "errors.hpp"

namespace cfck::python {

// A base as Python objects hold it, which keep the memory of its tensors alive.
struct SharedBase {
  std::shared_ptr<const Base> base;
};

inline std::shared_ptr<const Base> base_of(const SharedBase* shared) {
  return shared == nullptr ? nullptr : shared->base;
}

// Limits by name.
using LimitChoices = std::map<std::string, std::uint64_t>;

inline ArchiveOptions archive_options(unsigned threads, bool verify,
                                      std::uint64_t max_decoded_bytes, const LimitChoices& limits,
                                      const SharedBase* base,
                                      const std::vector<nanobind::bytes>& base_dirs) {
  ArchiveOptions options;
  options.decode.threads = threads;
  options.decode.verify_chunks = verify;
  options.decode.limits.max_decoded_bytes = max_decoded_bytes;
  for (const auto& [name, value] : limits) {
    if (!set_limit(options.decode.limits, name, value)) {
      raise(invalid_argument("there is no limit \"" + name + "\"; limits are " +
                             std::string(limit_names())));
    }
  }
  options.decode.base = base_of(base);
  for (const nanobind::bytes& folder : base_dirs) {
    options.decode.base_dirs.push_back(path_of(folder));
  }
  return options;
}

}  // namespace cfck::python

// A base as Python objects hold it, which keep the memory of its tensors alive.
#pragma once

#include <memory>

#include "cfck/base.hpp"

namespace cfck::python {

struct SharedBase {
  std::shared_ptr<const Base> base;
};

inline std::shared_ptr<const Base> base_of(const SharedBase* shared) {
  return shared == nullptr ? nullptr : shared->base;
}

}  // namespace cfck::python

// The default floating-point environment of a program: rounding to nearest, with subnormal
// numbers.
#pragma once

#include <cfenv>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Sets the environment of this thread while it lives. Programs change the rounding, and libraries
// built for speed flush subnormal numbers to zero; threads inherit both.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&before_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace cfck::detail

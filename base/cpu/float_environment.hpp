// Floating-point arithmetic as a program begins with it: rounded to nearest, with
// subnormal numbers.
#pragma once

#include <cfenv>

namespace cfck {

// While it lives, of this thread. Programs change the rounding, and libraries that were
// built for speed take subnormal numbers for zeros; threads inherit both.
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

}  // namespace cfck

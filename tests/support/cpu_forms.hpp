// The forms in which kernels exist on this machine: CPU levels, and for the highest one whether
// kernels for VBMI2 may stand for the others. A device will be one more row.
#pragma once

#include <ostream>
#include <vector>

#include "base/cpu/level.hpp"

namespace cfck::test {

struct CpuForm {
  const char* name;
  CpuLevel level;
  bool allows_vbmi2;
};

inline constexpr CpuForm kCpuForms[] = {{"baseline", CpuLevel::kBaseline, false},
                                        {"v3", CpuLevel::kV3, false},
                                        {"v4_plain", CpuLevel::kV4, false},
                                        {"v4", CpuLevel::kV4, true}};

inline std::ostream& operator<<(std::ostream& out, const CpuForm& form) { return out << form.name; }

// The forms that this CPU has, the baseline first.
inline std::vector<CpuForm> cpu_forms() {
  std::vector<CpuForm> forms;
  for (const CpuForm& form : kCpuForms) {
    if (form.level <= cpu_level()) {
      forms.push_back(form);
    }
  }
  return forms;
}

// Uses one form while it lives, and the best one afterwards.
class UseCpuForm {
 public:
  explicit UseCpuForm(const CpuForm& form) : best_(cpu_level()) {
    set_cpu_level(form.level);
    allow_vbmi2(form.allows_vbmi2);
  }
  ~UseCpuForm() {
    set_cpu_level(best_);
    allow_vbmi2(true);
  }
  UseCpuForm(const UseCpuForm&) = delete;
  UseCpuForm& operator=(const UseCpuForm&) = delete;

 private:
  const CpuLevel best_;
};

}  // namespace cfck::test

// Parts of default_thread_count() that tests call one by one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/names/detail.hpp"

namespace cfck::detail {

// The value of CFCK_NUM_THREADS: nullopt unless it is a number from 1 to 4096.
std::optional<unsigned> parse_thread_count(std::string_view text) noexcept;

// CPUs that a cgroup allows, rounded up: "quota period" in microseconds, where
// "max" or a negative quota means no limit.
std::optional<unsigned> parse_cpu_quota(std::string_view quota, std::string_view period) noexcept;

// The smallest limit on the way from the process's cgroup to the root. `mount`
// is /sys/fs/cgroup, `membership` the text of /proc/self/cgroup.
std::optional<unsigned> cgroup_cpus(const std::string& mount, const std::string& membership);

}  // namespace cfck::detail

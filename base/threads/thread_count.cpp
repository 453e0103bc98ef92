#include "base/threads/thread_count.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/bytes.hpp"
#include "base/threads/threads.hpp"
#include "cfck/options.hpp"

namespace cfck::detail {
namespace {

std::optional<std::int64_t> parse_integer(std::string_view text) noexcept {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Version 2 has both numbers in one file.
std::optional<unsigned> quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  std::string period;
  file >> quota >> period;
  return parse_cpu_quota(quota, period);
}

std::optional<unsigned> quota_v1(const std::string& folder) {
  return parse_cpu_quota(first_word(folder + "/cpu.cfs_quota_us"),
                         first_word(folder + "/cpu.cfs_period_us"));
}

void take_smaller(std::optional<unsigned>& min, std::optional<unsigned> other) {
  if (other && (!min || *other < *min)) {
    min = other;
  }
}

unsigned affinity_cpus() noexcept {
  // 8192 CPUs are what Linux can be built for.
  constexpr std::size_t kMaxCpus = 8192;
  cpu_set_t* set = CPU_ALLOC(kMaxCpus);
  if (set == nullptr) {
    return 1;
  }
  const std::size_t n_bytes = CPU_ALLOC_SIZE(kMaxCpus);
  unsigned count = 0;
  if (sched_getaffinity(0, n_bytes, set) == 0) {
    count = static_cast<unsigned>(CPU_COUNT_S(n_bytes, set));
  }
  CPU_FREE(set);
  return count != 0 ? count : std::max(1u, std::thread::hardware_concurrency());
}

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::optional<unsigned> parse_thread_count(std::string_view text) noexcept {
  const auto value = parse_integer(text);
  if (!value || *value < 1 || *value > 4096) {
    return std::nullopt;
  }
  return static_cast<unsigned>(*value);
}

std::optional<unsigned> parse_cpu_quota(std::string_view quota, std::string_view period) noexcept {
  const auto quota_us = parse_integer(quota);
  const auto period_us = parse_integer(period);
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) {
    return std::nullopt;
  }
  const std::uint64_t cpus =
      ceil_div(static_cast<std::uint64_t>(*quota_us), static_cast<std::uint64_t>(*period_us));
  return static_cast<unsigned>(std::min<std::uint64_t>(cpus, 1u << 20));
}

std::optional<unsigned> cgroup_cpus(const std::string& mount, const std::string& membership) {
  std::optional<unsigned> min;
  std::istringstream lines(membership);
  // A line is "number:controllers:path"; version 2 has no controllers.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v1 = ("," + controllers + ",").find(",cpu,") != std::string::npos;
    if (!v1 && !controllers.empty()) {
      continue;
    }
    const std::string root = v1 ? mount + "/" + controllers : mount;
    std::string path = line.substr(second + 1);
    while (true) {
      take_smaller(min, v1 ? quota_v1(root + path) : quota_v2(root + path));
      const std::size_t slash = path.rfind('/');
      if (slash == std::string::npos) {
        break;
      }
      path.resize(slash);
    }
  }
  return min;
}

unsigned resolve_threads(unsigned threads) noexcept {
  return threads != 0 ? threads : default_thread_count();
}

}  // namespace cfck::detail

namespace cfck {

unsigned default_thread_count() noexcept {
  if (const char* value = std::getenv("CFCK_NUM_THREADS")) {
    if (const auto count = parse_thread_count(value)) {
      return *count;
    }
  }
  const unsigned cpus = affinity_cpus();
  try {
    const auto quota = cgroup_cpus("/sys/fs/cgroup", text_of("/proc/self/cgroup"));
    return quota ? std::min(cpus, *quota) : cpus;
  } catch (...) {  // no memory to read a few lines: one thread needs least
    return 1;
  }
}

}  // namespace cfck

// Memory that runs out on demand: a program that links failing_new.cpp has its operator new.
#pragma once

#include <cstdint>

namespace cfck::test {

enum class Shortage : std::uint8_t {
  kOnce,        // one allocation fails, later ones find memory again
  kFromThenOn,  // that one and all later ones
};

// The `at`-th allocation from now on, counted from 1 and over all threads, fails.
void run_out_of_memory(std::uint64_t at, Shortage shortage) noexcept;

// Ends the shortage. Returns whether an allocation failed.
bool memory_is_back() noexcept;

// The number of allocations so far, over all threads.
std::uint64_t n_allocations() noexcept;

// The maximum of bytes that new had given out at once since watch_memory(), beyond what it had
// then.
void watch_memory() noexcept;
std::uint64_t peak_bytes() noexcept;

}  // namespace cfck::test

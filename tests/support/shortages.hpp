// Operations during which memory runs out, at every allocation in turn. Programs that include this
// link failing_new.cpp.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

#include "tests/support/failing_new.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {

// An operation, and what is checked after it. Only `run` meets the shortage.
struct Operation {
  std::function<void()> prepare = [] {};
  std::function<Result<void>()> run;
  std::function<void(bool succeeded)> check = [](bool) {};
  std::uint64_t n_at_least = 20;  // allocations, without which it is not what was to be tested
};

// The next allocation to fail: all of the first ones, then about 2 % more each time.
inline std::uint64_t after(std::uint64_t at, std::uint64_t n_first) {
  return at < n_first ? at + 1 : at + 1 + at / 50;
}

inline void expect_survives(const Operation& operation, std::uint64_t n_first = 100) {
  for (const Shortage shortage : {Shortage::kOnce, Shortage::kFromThenOn}) {
    for (std::uint64_t at = 1;; at = after(at, n_first)) {
      operation.prepare();
      run_out_of_memory(at, shortage);
      const Result<void> result = operation.run();
      const bool has_failed = memory_is_back();
      operation.check(result.has_value());
      if (!has_failed) {
        expect_ok(result);
        EXPECT_GT(at, operation.n_at_least) << "not what was to be tested";
        break;
      }
      if (!result) {
        ASSERT_EQ(result.error().code, ErrorCode::kOutOfMemory)
            << "allocation " << at << ": " << result.error().to_string();
        ASSERT_FALSE(result.error().message.empty());
      }
      ASSERT_FALSE(::testing::Test::HasFailure()) << "allocation " << at;
    }
  }
}

}  // namespace cfck::test

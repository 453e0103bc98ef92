// The fake driver of the tests, and values of a model, for the benchmarks that need no device.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace cfck::bench {

// Returns how long the work of the driver took so far (tests/simt/fake_driver.cpp).
using Nanoseconds = std::uint64_t (*)();

// Has the library use the fake driver and its kernels, which the build has put there. Ends the
// program where the tests are not built.
inline Nanoseconds use_fake_driver(const char* driver_path, const char* code_folder) {
  ::setenv("CFCK_CUDA_DRIVER", driver_path, 1);
  ::setenv("CFCK_ADAPTER_PATH", code_folder, 1);
  void* const driver = ::dlopen(driver_path, RTLD_NOW);
  const auto work = driver == nullptr
                        ? nullptr
                        : reinterpret_cast<Nanoseconds>(::dlsym(driver, "cfck_fake_work_ns"));
  if (work == nullptr) {
    std::fprintf(stderr, "there is no fake driver: build the tests\n");
    std::exit(EXIT_FAILURE);
  }
  return work;
}

// Makes BF16 values of 12 exponents, with both signs.
inline std::vector<std::byte> bf16_values(std::size_t n_elems) {
  std::mt19937 random(1);
  std::vector<std::byte> values(2 * n_elems);
  for (std::size_t i = 0; i < n_elems; ++i) {
    const auto bits = static_cast<std::uint16_t>(0x3c00 - 0x80 * (random() % 12) + random() % 128 +
                                                 0x8000 * (random() % 2));
    values[2 * i] = static_cast<std::byte>(bits & 255);
    values[2 * i + 1] = static_cast<std::byte>(bits >> 8);
  }
  return values;
}

}  // namespace cfck::bench

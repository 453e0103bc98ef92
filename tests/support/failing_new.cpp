#include "tests/support/failing_new.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace cfck::test {
namespace {

std::atomic<std::uint64_t> n_asked = 0;
std::atomic<std::uint64_t> n_left = 0;  // allocations until one fails; 0: none does
std::atomic<bool> stays = false;
std::atomic<bool> has_failed = false;

std::atomic<std::int64_t> live_bytes = 0;
std::atomic<std::int64_t> bytes_before = 0;
std::atomic<std::int64_t> most_bytes = 0;

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const auto n_bytes = static_cast<std::int64_t>(::malloc_usable_size(memory));
  const std::int64_t now = live_bytes.fetch_add(n_bytes) + n_bytes;
  std::int64_t most = most_bytes.load();
  while (now > most && !most_bytes.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory != nullptr) live_bytes -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

bool fails() noexcept {
  std::uint64_t left = n_left.load();
  while (left > 1) {
    if (n_left.compare_exchange_weak(left, left - 1)) return false;
  }
  if (left == 0) return false;
  has_failed = true;
  if (!stays) n_left = 0;
  return true;
}

}  // namespace

void run_out_of_memory(std::uint64_t at, Shortage shortage) noexcept {
  has_failed = false;
  stays = shortage == Shortage::kFromThenOn;
  n_left = at;
}

bool memory_is_back() noexcept {
  n_left = 0;
  return has_failed;
}

std::uint64_t n_allocations() noexcept { return n_asked.load(); }

void watch_memory() noexcept {
  bytes_before = live_bytes.load();
  most_bytes = live_bytes.load();
}

std::uint64_t peak_bytes() noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, most_bytes - bytes_before));
}

namespace {

void* allocate(std::size_t n_bytes, std::size_t alignment) {
  ++n_asked;
  if (fails()) throw std::bad_alloc();
  const std::size_t min = std::max<std::size_t>(n_bytes, 1);
  const std::size_t rounded = (min + alignment - 1) / alignment * alignment;
  return counted(alignment == 1 ? std::malloc(min) : std::aligned_alloc(alignment, rounded));
}

}  // namespace
}  // namespace cfck::test

// The other forms of new and delete call these.
void* operator new(std::size_t n_bytes) { return cfck::test::allocate(n_bytes, 1); }
void* operator new(std::size_t n_bytes, std::align_val_t alignment) {
  return cfck::test::allocate(n_bytes, static_cast<std::size_t>(alignment));
}
// Sanitizers have one of their own otherwise, whose memory must not come to free().
void* operator new(std::size_t n_bytes, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(n_bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  cfck::test::give_back(memory);
}
void operator delete(void* memory) noexcept { cfck::test::give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { cfck::test::give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { cfck::test::give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  cfck::test::give_back(memory);
}

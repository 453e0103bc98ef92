// longjmp() between stacks is what this file does; systems that check every call would refuse it.
#undef _FORTIFY_SOURCE

#include "tests/simt/emulator.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/simt/staging.cuh"
#include "base/simt/warp.cuh"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define CFCK_ASAN_FIBERS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define CFCK_ASAN_FIBERS
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define CFCK_TSAN_FIBERS
#endif

// Sanitizers know switches by swapcontext(), which asks the system for the mask of signals each
// time.
#if defined(CFCK_ASAN_FIBERS) || defined(CFCK_TSAN_FIBERS)
#define CFCK_SWITCH_CONTEXTS
#endif

namespace cfck::simt {
namespace {

// AddressSanitizer clears what it knows of a whole stack at each switch.
#ifdef CFCK_ASAN_FIBERS
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
#else
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
#endif

enum class Wait : std::uint8_t { kNone, kWarp, kBlock, kDone };

// The stack of one lane, and where it waits.
struct Fiber {
  ucontext_t context{};
  jmp_buf jump{};
  bool is_started = false;  // its stack goes on with the next launch
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  Wait wait = Wait::kNone;
  const char* call = "";
  Site site{};
  std::uint64_t deposit = 0;
  void* fake_stack = nullptr;
#ifdef CFCK_TSAN_FIBERS
  void* tsan = __tsan_create_fiber(0);
#endif
};

// A copy into shared memory that comes as late as it may: when somebody waits for it.
struct StagedCopy {
  void* to = nullptr;
  const std::uint8_t* from = nullptr;
  std::uint32_t n_bytes = 0;
  bool is_under_way = false;
  unsigned n_done = 0;
  std::uint64_t number = 0;  // of all copies of the warp
};

struct Machine {
  ucontext_t scheduler{};
  jmp_buf scheduler_jump{};
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
#ifdef CFCK_TSAN_FIBERS
  void* scheduler_tsan = nullptr;
#endif
  std::vector<std::unique_ptr<Fiber>> fibers;
  unsigned current = 0;
  unsigned block = 0;
  unsigned warps_per_block = 1;
  // What the lanes of each warp brought to their last meeting.
  std::vector<std::uint64_t> met;
  const std::function<void(void*)>* body = nullptr;
  void* shared = nullptr;
  std::size_t shared_bytes = 0;
  std::map<const CopyBarrier*, StagedCopy> copies;  // by open barriers
  std::uint64_t n_meetings = 0;
  std::uint64_t n_copies = 0;
  std::map<unsigned, std::uint64_t> n_copies_of_warp;
};

Machine& machine() {
  static Machine machine;
  return machine;
}

Fiber& current_fiber() { return *machine().fibers[machine().current]; }

[[noreturn]] void stop(const char* what, unsigned lane_number, const Site& site,
                       const Site& other) {
  std::fprintf(stderr, "emulated device: %s: lane %u at %s:%u, another at %s:%u\n", what,
               lane_number % kWarpLanes, site.file, site.line, other.file, other.line);
  std::abort();
}

#ifndef CFCK_SWITCH_CONTEXTS
[[gnu::noinline]] void jump_to_scheduler(Machine& m, Fiber& fiber) {
  if (_setjmp(fiber.jump) == 0) {
    _longjmp(m.scheduler_jump, 1);
  }
}

[[gnu::noinline]] void jump_to_lane(Machine& m, Fiber& fiber) {
  if (_setjmp(m.scheduler_jump) != 0) {
    return;
  }
  if (fiber.is_started) {
    _longjmp(fiber.jump, 1);
  }
  fiber.is_started = true;
  setcontext(&fiber.context);
}
#endif

void to_scheduler(bool is_last) {
  Machine& m = machine();
  Fiber& fiber = current_fiber();
#ifdef CFCK_ASAN_FIBERS
  __sanitizer_start_switch_fiber(is_last ? nullptr : &fiber.fake_stack, m.scheduler_stack,
                                 m.scheduler_stack_bytes);
#else
  (void)is_last;
#endif
#ifdef CFCK_TSAN_FIBERS
  __tsan_switch_to_fiber(m.scheduler_tsan, 0);
#endif
#ifdef CFCK_SWITCH_CONTEXTS
  swapcontext(&fiber.context, &m.scheduler);
#else
  jump_to_scheduler(m, fiber);
#endif
#ifdef CFCK_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &m.scheduler_stack, &m.scheduler_stack_bytes);
#endif
}

void enter_lane() {
  Machine& m = machine();
#ifdef CFCK_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(nullptr, &m.scheduler_stack, &m.scheduler_stack_bytes);
#endif
  while (true) {  // once for each launch
    (*m.body)(m.shared);
    current_fiber().wait = Wait::kDone;
    to_scheduler(true);
  }
}

void to_lane(unsigned number) {
  Machine& m = machine();
  Fiber& fiber = *m.fibers[number];
  m.current = number;
#ifdef CFCK_ASAN_FIBERS
  __sanitizer_start_switch_fiber(&m.scheduler_fake_stack, fiber.stack.get(), kStackBytes);
#endif
#ifdef CFCK_TSAN_FIBERS
  m.scheduler_tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.tsan, 0);
#endif
#ifdef CFCK_SWITCH_CONTEXTS
  swapcontext(&m.scheduler, &fiber.context);
#else
  jump_to_lane(m, fiber);
#endif
#ifdef CFCK_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(m.scheduler_fake_stack, nullptr, nullptr);
#endif
}

void prepare_lane(Fiber& fiber) {
  fiber.wait = Wait::kNone;
  fiber.fake_stack = nullptr;
#ifndef CFCK_SWITCH_CONTEXTS
  if (fiber.is_started) {
    return;
  }
#endif
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, enter_lane, 0);
}

// Waits for the others, and returns what the lanes of the warp brought.
const std::uint64_t* meet(Wait kind, const char* call, std::uint64_t value, const Site& site) {
  Fiber& fiber = current_fiber();
  fiber.call = call;
  fiber.wait = kind;
  fiber.site = site;
  fiber.deposit = value;
  to_scheduler(false);
  return machine().met.data() + std::size_t{machine().current} / kWarpLanes * kWarpLanes;
}

// Checks that fibers [first, last) wait for each other at the same place; nothing to do for those
// that are all done.
bool all_wait(unsigned first, unsigned last, Wait kind) {
  Machine& m = machine();
  const Fiber& leader = *m.fibers[first];
  for (unsigned i = first; i < last; ++i) {
    const Fiber& fiber = *m.fibers[i];
    if (fiber.wait != leader.wait) {
      stop("lanes do not meet", i, fiber.site, leader.site);
    }
    if (leader.wait != Wait::kDone &&
        (fiber.site.line != leader.site.line || std::strcmp(fiber.call, leader.call) != 0 ||
         std::strcmp(fiber.site.file, leader.site.file) != 0)) {
      stop("lanes meet at different places", i, fiber.site, leader.site);
    }
  }
  return leader.wait == kind;
}

// Runs all lanes of a warp until they meet. False where they meet as a block, or are done.
bool run_turn(unsigned warp, const std::vector<unsigned>& lanes) {
  Machine& m = machine();
  const unsigned first = warp * kWarpLanes;
  for (const unsigned lane_number : lanes) {
    if (m.fibers[first + lane_number]->wait != Wait::kDone) {
      to_lane(first + lane_number);
    }
  }
  if (!all_wait(first, first + kWarpLanes, Wait::kWarp)) {
    return false;
  }
  ++m.n_meetings;
  for (unsigned i = first; i < first + kWarpLanes; ++i) {
    m.met[i] = m.fibers[i]->deposit;
  }
  return true;
}

// Runs warps until all of them meet as a block, or are done; shuffled, some turns of one at a time.
void run_warps(std::vector<unsigned> warps, std::vector<unsigned>& lanes, LaneOrder order,
               std::mt19937_64& random) {
  const bool is_shuffled = order == LaneOrder::kShuffled;
  while (!warps.empty()) {
    const auto warp = warps.begin() + (is_shuffled ? static_cast<int>(random() % warps.size()) : 0);
    if (is_shuffled) {
      std::shuffle(lanes.begin(), lanes.end(), random);
    }
    bool goes_on = true;
    for (auto n = random() % 64; goes_on && (n != 0 || !is_shuffled); --n) {
      goes_on = run_turn(*warp, lanes);
    }
    if (!goes_on) {
      warps.erase(warp);
    }
  }
}

void run_block(const Launch& launch, std::mt19937_64& random) {
  const unsigned n_fibers = launch.warps_per_block * kWarpLanes;
  std::vector<unsigned> lanes(kWarpLanes);
  std::vector<unsigned> warps(launch.warps_per_block);
  std::iota(lanes.begin(), lanes.end(), 0u);
  std::iota(warps.begin(), warps.end(), 0u);
  if (launch.order == LaneOrder::kDescending) {
    std::reverse(lanes.begin(), lanes.end());
    std::reverse(warps.begin(), warps.end());
  }
  do {
    run_warps(warps, lanes, launch.order, random);
  } while (all_wait(0, n_fibers, Wait::kBlock));
}

[[noreturn]] void stop_copy(const char* what, const Site& site) {
  std::fprintf(stderr, "emulated device: %s: at %s:%u\n", what, site.file, site.line);
  std::abort();
}

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

bool is_shared(const void* from, std::size_t n_bytes) {
  const Machine& m = machine();
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  const auto shared = reinterpret_cast<std::uintptr_t>(m.shared);
  return at >= shared && at - shared + n_bytes <= m.shared_bytes;
}

StagedCopy& copy_of(const CopyBarrier& barrier, const Site& site) {
  const auto found = machine().copies.find(&barrier);
  if (found == machine().copies.end()) stop_copy("a barrier is not open", site);
  return found->second;
}

// A device loads these bytes through a cache of its own memory, of which shared memory is no part.
void expect_global(const std::uint8_t* from) {
  const Machine& m = machine();
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const auto shared = reinterpret_cast<std::uintptr_t>(m.shared);
  if (address >= shared && address - shared < m.shared_bytes) {
    std::fprintf(stderr, "emulated device: lane %u loads shared memory as if it were global\n",
                 m.current % kWarpLanes);
    std::abort();
  }
}

}  // namespace

void emulate(const Launch& launch, std::size_t shared_bytes,
             const std::function<void(void* shared)>& body) {
  Machine& m = machine();
  const unsigned n_fibers = launch.warps_per_block * kWarpLanes;
  while (m.fibers.size() < n_fibers) {
    m.fibers.push_back(std::make_unique<Fiber>());
  }
  m.met.assign(n_fibers, 0);
  m.body = &body;
  m.warps_per_block = launch.warps_per_block;
  std::mt19937_64 random(launch.seed);
  for (unsigned block_number = 0; block_number < launch.n_blocks; ++block_number) {
    // Of its exact size, so that sanitizers see accesses beyond it.
    const std::unique_ptr<void, void (*)(void*)> shared(
        ::aligned_alloc(16, (std::max<std::size_t>(shared_bytes, 1) + 15) / 16 * 16), ::free);
    std::memset(shared.get(), 0xa5, shared_bytes);
    m.shared = shared.get();
    m.shared_bytes = shared_bytes;
    m.block = block_number;
    for (unsigned i = 0; i < n_fibers; ++i) {
      prepare_lane(*m.fibers[i]);
    }
    run_block(launch, random);
    if (!m.copies.empty()) stop_copy("barriers are left open", {"the end of a block", 0});
  }
}

std::uint64_t meetings() noexcept { return machine().n_meetings; }
std::uint64_t copies() noexcept { return machine().n_copies; }

unsigned lane() { return machine().current % kWarpLanes; }
unsigned warp_of_block() { return machine().current / kWarpLanes; }
unsigned warps_per_block() { return machine().warps_per_block; }
unsigned block() { return machine().block; }

void sync_warp(Site site) { meet(Wait::kWarp, "sync_warp", 0, site); }
void sync_block(Site site) { meet(Wait::kBlock, "sync_block", 0, site); }

std::uint32_t shuffle(std::uint32_t value, unsigned from, Site site) {
  return static_cast<std::uint32_t>(meet(Wait::kWarp, "shuffle", value, site)[from % kWarpLanes]);
}

std::uint32_t shuffle_xor(std::uint32_t value, unsigned mask, Site site) {
  const unsigned from = lane() ^ mask;
  return static_cast<std::uint32_t>(
      meet(Wait::kWarp, "shuffle_xor", value, site)[from % kWarpLanes]);
}

std::uint32_t ballot(bool holds, Site site) {
  const std::uint64_t* const votes = meet(Wait::kWarp, "ballot", holds ? 1 : 0, site);
  std::uint32_t bits = 0;
  for (unsigned i = 0; i < kWarpLanes; ++i) {
    bits |= static_cast<std::uint32_t>(votes[i]) << i;
  }
  return bits;
}

std::uint32_t match(std::uint32_t value, Site site) {
  const std::uint64_t* const values = meet(Wait::kWarp, "match", value, site);
  std::uint32_t bits = 0;
  for (unsigned i = 0; i < kWarpLanes; ++i) {
    bits |= static_cast<std::uint32_t>(values[i] == value) << i;
  }
  return bits;
}

bool any(bool holds, Site site) { return ballot(holds, site) != 0; }

std::uint32_t atomic_add(std::uint32_t* where, std::uint32_t value) {
  const std::uint32_t before = *where;
  *where = before + value;
  return before;
}

std::uint64_t atomic_add(std::uint64_t* where, std::uint64_t value) {
  const std::uint64_t before = *where;
  *where = before + value;
  return before;
}

std::uint32_t atomic_or(std::uint32_t* where, std::uint32_t value) {
  const std::uint32_t before = *where;
  *where = before | value;
  return before;
}

void open_barriers(CopyBarrier* barriers, unsigned n, Site site) {
  meet(Wait::kWarp, "open_barriers", 0, site);
  for (unsigned i = 0; i < n && lane() == 0; ++i) {
    if (!is_shared(barriers + i, sizeof(CopyBarrier))) stop_copy("a barrier is not shared", site);
    if (!machine().copies.emplace(barriers + i, StagedCopy{}).second) {
      stop_copy("a barrier is open already", site);
    }
  }
  meet(Wait::kWarp, "open_barriers", 1, site);
}

void close_barriers(CopyBarrier* barriers, unsigned n, Site site) {
  meet(Wait::kWarp, "close_barriers", 0, site);
  for (unsigned i = 0; i < n && lane() == 0; ++i) {
    if (copy_of(barriers[i], site).is_under_way) stop_copy("nobody waits for a copy", site);
    machine().copies.erase(barriers + i);
  }
  meet(Wait::kWarp, "close_barriers", 1, site);
}

void start_copy(CopyBarrier& barrier, void* to, const std::uint8_t* from, std::uint32_t n_bytes,
                Site site) {
  const std::uint64_t* const asked =
      meet(Wait::kWarp, "start_copy", reinterpret_cast<std::uintptr_t>(from) + n_bytes, site);
  if (asked[lane()] != asked[0]) stop_copy("lanes ask for different copies", site);
  if (lane() == 0) {
    StagedCopy& copy = copy_of(barrier, site);
    if (copy.is_under_way) stop_copy("another copy is under way", site);
    if (!is_aligned(to) || !is_aligned(from) || n_bytes % 16 != 0) {
      stop_copy("a copy is not aligned to 16 bytes", site);
    }
    if (!is_shared(to, n_bytes)) stop_copy("a copy does not go to shared memory", site);
    copy = {to, from, n_bytes, true, copy.n_done, ++machine().n_copies_of_warp[warp_of_block()]};
    std::memset(to, 0xee, n_bytes);
    ++machine().n_copies;
  }
  meet(Wait::kWarp, "start_copy", 1, site);
}

void await_copy(CopyBarrier& barrier, unsigned number, unsigned n_later, Site site) {
  meet(Wait::kWarp, "await_copy", n_later, site);
  if (lane() == 0) {
    StagedCopy& copy = copy_of(barrier, site);
    if (n_later > 1 || machine().n_copies_of_warp[warp_of_block()] - copy.number < n_later) {
      stop_copy("a later copy is not there", site);
    }
    if (copy.is_under_way) {
      std::memcpy(copy.to, copy.from, copy.n_bytes);
      copy.is_under_way = false;
      ++copy.n_done;
    }
    if (copy.n_done != number + 1) stop_copy("another copy is waited for", site);
  }
  meet(Wait::kWarp, "await_copy", 1, site);
}

std::uint32_t load_byte(const std::uint8_t* from) {
  expect_global(from);
  return *from;
}

std::uint32_t load_word(const std::uint8_t* from, const std::uint8_t* end) {
  expect_global(from);
  return load_bytes(from, static_cast<unsigned>(std::min<std::ptrdiff_t>(4, end - from)));
}

void expect_aligned(const void* to, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(to) % alignment != 0) {
    std::fprintf(stderr, "emulated device: lane %u stores to an address that is not aligned\n",
                 machine().current % kWarpLanes);
    std::abort();
  }
}

void expect_word(const std::uint8_t* from, bool is_odd) {
  if (((reinterpret_cast<std::uintptr_t>(from) & 4) != 0) != is_odd) {
    std::fprintf(stderr, "emulated device: lane %u loads other words than it says\n",
                 machine().current % kWarpLanes);
    std::abort();
  }
}

std::uint32_t load_bytes(const std::uint8_t* from, unsigned n_bytes, std::size_t offset) {
  // Bytes that are not there are arbitrary: nothing may depend on them.
  std::uint32_t word = 0xdeadbeef;
  std::memcpy(&word, from + offset, n_bytes);
  return word;
}

}  // namespace cfck::simt

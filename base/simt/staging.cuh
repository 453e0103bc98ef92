// Copies into shared memory that go on while the warp does other work: bulk copies of devices from
// 9.0 on, and copies of 16 bytes by each lane from 8.0 on. For the emulator what has not arrived is
// poison.
#pragma once

#include "base/simt/warp.cuh"

// Whether the device that is compiled for can do it.
#if !defined(__CUDACC__) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800)
#define CFCK_HAS_STAGING 1
#else
#define CFCK_HAS_STAGING 0
#endif

namespace cfck::simt {

// Counts the copies into one place. It is in shared memory, and one warp alone uses it. Devices
// before 9.0 count by themselves.
struct alignas(8) CopyBarrier {
  std::uint64_t word;
};

#ifdef __CUDACC__

#if CFCK_HAS_STAGING

CFCK_DEVICE std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

CFCK_DEVICE void open_barriers(CopyBarrier* barriers, unsigned n) {
  if (lane() == 0) {
    for (unsigned i = 0; i < n; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(barriers + i))
                   : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  // Copies write where lanes have written before.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  sync_warp();
}

CFCK_DEVICE void close_barriers(CopyBarrier* barriers, unsigned n) {
  sync_warp();
  if (lane() == 0) {
    for (unsigned i = 0; i < n; ++i) {
      asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(barriers + i))
                   : "memory");
    }
  }
  sync_warp();
}

CFCK_DEVICE void start_copy(CopyBarrier& barrier, void* to, const std::uint8_t* from,
                            std::uint32_t n_bytes) {
  if (lane() == 0) {
    const std::uint32_t counted = shared_address(&barrier);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(counted), "r"(n_bytes)
                 : "memory");
    if (n_bytes != 0) {
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
          "[%3];" ::"r"(shared_address(to)),
          "l"(from), "r"(n_bytes), "r"(counted)
          : "memory");
    }
  }
}

CFCK_DEVICE void await_copy(CopyBarrier& barrier, unsigned number, unsigned /*n_later*/) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait_%=:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra wait_%=;\n"
      "}" ::"r"(shared_address(&barrier)),
      "r"(number & 1)
      : "memory");
}

#else

CFCK_DEVICE void open_barriers(CopyBarrier*, unsigned) { sync_warp(); }
CFCK_DEVICE void close_barriers(CopyBarrier*, unsigned) { sync_warp(); }

CFCK_DEVICE void start_copy(CopyBarrier&, void* to, const std::uint8_t* from,
                            std::uint32_t n_bytes) {
  for (std::uint32_t at = 16 * lane(); at < n_bytes; at += 16 * kWarpLanes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to) + at),
                 "l"(from + at)
                 : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Each lane waits for its own pieces, and then for the other lanes.
CFCK_DEVICE void await_copy(CopyBarrier&, unsigned, unsigned n_later) {
  if (n_later == 0) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  }
  sync_warp();
}

#endif

#endif

#else

// These are called by all lanes of the warp together.

// Makes barriers ready, each for one copy at a time. Writes of all lanes come before the copies.
void open_barriers(CopyBarrier* barriers, unsigned n, CFCK_SITE);
// Requires: every copy was waited for.
void close_barriers(CopyBarrier* barriers, unsigned n, CFCK_SITE);
// Begins to copy from global memory. Requires: addresses and length are multiples of 16; the length
// may be 0. Requires also that all lanes have read what was there (sync_warp()), and that the copy
// before was waited for.
void start_copy(CopyBarrier& barrier, void* to, const std::uint8_t* from, std::uint32_t n_bytes,
                CFCK_SITE);
// Waits for copy `number` of the barrier, which is 0 for the first one; no other of this barrier
// may have begun since. n_later: how many of other barriers have, at least, 0 or 1.
void await_copy(CopyBarrier& barrier, unsigned number, unsigned n_later, CFCK_SITE);

#endif

}  // namespace cfck::simt

// Runs device code on the CPU: 32 fibers for each warp, all on the calling thread. Warps and their
// lanes go on in a chosen order, each until it meets the others; the process is aborted where lanes
// of a warp meet at different places, or some of them are done while others wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace cfck::simt {

// In which order lanes run between two meetings. Code without races gives the same results in all.
// Warps of a block run one after the other until they meet; shuffled, they take turns at their own
// meetings.
enum class LaneOrder : std::uint8_t { kAscending, kDescending, kShuffled };

struct Launch {
  unsigned n_blocks = 1;
  unsigned warps_per_block = 1;
  LaneOrder order = LaneOrder::kAscending;
  std::uint64_t seed = 1;  // of kShuffled
};

// Runs `body` in every lane of every block, one block after another. `shared` is the memory of the
// block: `shared_bytes` of it, aligned to 16 bytes and filled with arbitrary bytes. Not
// thread-safe.
void emulate(const Launch& launch, std::size_t shared_bytes,
             const std::function<void(void* shared)>& body);

// Calls `body(shared)` with a Shared of the block, which is trivial.
template <class Shared, class Body>
void emulate(const Launch& launch, Body&& body) {
  emulate(launch, sizeof(Shared), [&](void* shared) { body(*static_cast<Shared*>(shared)); });
}

// Number of times that all lanes of a warp have met, in all launches of the process.
std::uint64_t meetings() noexcept;
// Number of copies that were started (base/simt/staging.cuh), in all launches of the process.
std::uint64_t copies() noexcept;

}  // namespace cfck::simt

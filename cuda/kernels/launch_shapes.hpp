// How many warps of a kernel make a block: each has its own part of the shared memory, of which a
// block has 48 KiB at most.
#pragma once

namespace cfck::cuda {

inline constexpr unsigned kWarpsPerBlock = 4;
inline constexpr unsigned kWarpsOfTeam = 4;  // one for each lane set of a chunk
// The tables of the direct codec take 10 KiB for each warp.
inline constexpr unsigned kDirectWarpsPerBlock = 2;

}  // namespace cfck::cuda

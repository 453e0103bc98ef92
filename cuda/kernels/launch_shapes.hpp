// The blocks of kernels, as both the kernels (__launch_bounds__) and who starts them see them: how
// many warps make one, each with its own part of the shared memory, of which a block has 48 KiB at
// most; and how many of them a multiprocessor is to hold.
#pragma once

namespace cfck::cuda {

inline constexpr unsigned kWarpsPerBlock = 4;  // of kernels that work on bytes
inline constexpr unsigned kWarpsOfTeam = 4;    // one for each lane set of a chunk

// With 128 registers for each thread 16 warps fit a multiprocessor.
inline constexpr unsigned kLosslessWarpsPerBlock = 4;
inline constexpr unsigned kLosslessBlocks = 4;
// The blocks that registers are kept for: from 12.0 on a multiprocessor has 100 KiB of shared
// memory, which is enough for two of them, and before 9.0 at most 164 KiB, enough for three.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
inline constexpr unsigned kLosslessBlocksThatFit = 2;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 900
inline constexpr unsigned kLosslessBlocksThatFit = 3;
#else
inline constexpr unsigned kLosslessBlocksThatFit = kLosslessBlocks;
#endif
inline constexpr unsigned kLosslessTeamBlocks = 4;

// The tables of the direct codec take 10 KiB for each warp. With 168 registers for each thread 12
// warps fit, which on an H100 decode chunks of 2^18 values faster than 16 that have to do with 128
// (920 GB/s of F32 against 871, in a prototype). Its teams do with 128: the more of them fit, the
// more segments get one.
inline constexpr unsigned kDirectWarpsPerBlock = 2;
inline constexpr unsigned kDirectBlocks = 6;
inline constexpr unsigned kDirectTeamBlocks = 4;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr unsigned kDirectTeamBlocksThatFit = 3;
#else
inline constexpr unsigned kDirectTeamBlocksThatFit = kDirectTeamBlocks;
#endif

// A block encodes a chunk, of which one of the usual length has four segments, that are split and
// coded by a warp each; all eight of them analyse its groups. There is hardly memory for two blocks
// on each multiprocessor, a megabyte for a chunk, so that each thread may have 128 registers.
inline constexpr unsigned kEncodeWarpsPerBlock = 8;
inline constexpr unsigned kEncodeBlocks = 2;
// Codec direct takes more registers for values of 64 bits.
inline constexpr unsigned kDirectEncodeBlocksF64 = 1;
inline constexpr unsigned kDirectEncodeBlocksF32 = kEncodeBlocks;
inline constexpr unsigned kDirectEncodeBlocksBf16 = kEncodeBlocks;
inline constexpr unsigned kDirectEncodeBlocksF16 = kEncodeBlocks;

}  // namespace cfck::cuda

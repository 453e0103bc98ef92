// Every group kernel as a device kernel, one warp for each group of 128 values.
// Compiled with the tests where nvcc is found, so that the kernels stay fit for a device.
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/warp_lanes.cuh"

namespace cfck::codec {
namespace {

// Returns the group of this warp.
__device__ std::size_t group_index() {
  return (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
}

}  // namespace

template <class Format>
__global__ void analyse_groups(const typename Format::Word* values, std::size_t n_groups,
                               GroupAnalysis* found) {
  const std::size_t g = group_index();
  if (g < n_groups) {
    const GroupAnalysis analysis = analyse_group<Format, WarpLanes>(values + g * kGroupSize);
    if (WarpLanes::lane() == 0) {
      found[g] = analysis;
    }
  }
}

// Writes one byte for each value to `symbols`, and the planes of a group one after another.
template <class Format>
__global__ void split_groups(const typename Format::Word* values, const GroupCode* groups,
                             std::size_t n_groups, std::uint8_t* symbols,
                             typename Format::Word* raw, std::uint8_t* planes) {
  const std::size_t g = group_index();
  if (g < n_groups) {
    const std::size_t at = g * kGroupSize;
    split_group<Format, WarpLanes>(values + at, groups[g].scale_bin, symbols + at, raw + at);
    __syncwarp();
    for (unsigned bit = 0; bit < Format::kRawBits; ++bit) {
      std::uint8_t* const plane = planes + (g * Format::kRawBits + bit) * (kGroupSize / 8);
      pack_plane<typename Format::Word, WarpLanes>(raw + at, bit, plane);
    }
  }
}

template <class Format>
__global__ void merge_groups(const std::uint8_t* symbols, const GroupCode* groups,
                             std::size_t n_groups, const std::uint8_t* planes,
                             typename Format::Word* raw, typename Format::Word* values) {
  const std::size_t g = group_index();
  if (g < n_groups) {
    const std::size_t at = g * kGroupSize;
    WarpLanes::each([&](unsigned i) { raw[at + i] = 0; });
    for (unsigned bit = 0; bit < Format::kRawBits; ++bit) {
      const std::uint8_t* const plane = planes + (g * Format::kRawBits + bit) * (kGroupSize / 8);
      unpack_plane<typename Format::Word, WarpLanes>(plane, bit, raw + at);
    }
    merge_group<Format, WarpLanes>(symbols + at, groups[g].scale_bin, raw + at, values + at);
  }
}

#define CFCK_DEVICE_KERNELS(Format)                                                              \
  template __global__ void analyse_groups<Format>(const Format::Word*, std::size_t,              \
                                                  GroupAnalysis*);                               \
  template __global__ void split_groups<Format>(const Format::Word*, const GroupCode*,           \
                                                std::size_t, std::uint8_t*, Format::Word*,       \
                                                std::uint8_t*);                                  \
  template __global__ void merge_groups<Format>(const std::uint8_t*, const GroupCode*,           \
                                                std::size_t, const std::uint8_t*, Format::Word*, \
                                                Format::Word*);

CFCK_DEVICE_KERNELS(FormatF64)
CFCK_DEVICE_KERNELS(FormatF32)
CFCK_DEVICE_KERNELS(FormatBf16)
CFCK_DEVICE_KERNELS(FormatF16)
CFCK_DEVICE_KERNELS(FormatE5m2)
CFCK_DEVICE_KERNELS(FormatE5m2Fnuz)
CFCK_DEVICE_KERNELS(FormatE4m3)

}  // namespace cfck::codec

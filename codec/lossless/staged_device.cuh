// Long runs of plain groups on a device: their raw bits come into shared memory in bulk, two stages
// in turn, while the groups of the other stage are decoded, and the records of a run's groups are
// looked at once.
#pragma once

#include "base/simt/staging.cuh"
#include "codec/entropy/rans/word_stream_device.cuh"
#include "codec/symboliser/device/bins_device.cuh"
#include "codec/symboliser/float_format.hpp"

namespace cfck::codec {

// Devices with less shared memory for each multiprocessor have shorter runs, so that as many warps
// fit.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
inline constexpr unsigned kStageBytes = 1024;
#else
inline constexpr unsigned kStageBytes = 2976;
#endif

// What staged groups take of the shared memory of a warp.
struct StagedShared {
  StreamRing words[kMaxDeviceLaneSets];
  alignas(16) std::uint8_t bytes[2][kStageBytes];
  simt::CopyBarrier arrived[2];
};

// How plain groups of a format are laid out: whole ones with signs and without trailing zero bits.
template <class Format>
struct PlainGroups {
  static constexpr unsigned kPlanes = Format::kRawBits - Format::kLowBits;
  static constexpr unsigned kBytes = kPlanes * kGroupSize / 8 + kGroupSize * Format::kLowBits / 8;
  static_assert(kBytes % 16 == 0, "so that all runs begin at the same place of 16 bytes");
  // Groups of a run; the stage has up to 15 bytes before and after them.
  static constexpr unsigned kRun =
      (kStageBytes - 32) / kBytes < 16 ? (kStageBytes - 32) / kBytes : 16;
  static constexpr std::uint32_t kRunBytes = kRun * kBytes;
  static_assert(kRun > 0);
};

// The raw bits of n_groups plain groups from `raw` on, run by run; groups that are not plain and
// whatever follows them are copied too, but nothing from `end` on.
template <class Format>
class StagedRaw {
  using Groups = PlainGroups<Format>;

 public:
  CFCK_DEVICE StagedRaw(StagedShared& stages, const std::uint8_t* raw, const std::uint8_t* end,
                        std::uint32_t n_groups)
      : stages_(stages), raw_(raw), n_bytes_(static_cast<std::uint32_t>(end - raw)) {
    const std::uint32_t of_groups = n_groups * Groups::kBytes;
    const std::uint32_t of_runs = of_groups < n_bytes_ ? of_groups : n_bytes_;
    n_runs_ = (of_runs + Groups::kRunBytes - 1) / Groups::kRunBytes;
    simt::open_barriers(stages.arrived, 2);
    start(0);
    start(1);
  }

  // Waits for the next run. Returns where it is in shared memory, until free().
  CFCK_DEVICE const std::uint8_t* await() {
    simt::await_copy(stages_.arrived[run_ % 2], run_ / 2);
    simt::sync_warp();  // bytes that lanes have put there
    return stages_.bytes[run_ % 2] + skew();
  }
  CFCK_DEVICE void free() {
    simt::sync_warp();
    start(run_ + 2);
    ++run_;
  }
  // Waits for what is on its way.
  CFCK_DEVICE void close() {
    for (; run_ < n_started_; ++run_) {
      simt::await_copy(stages_.arrived[run_ % 2], run_ / 2);
    }
    simt::close_barriers(stages_.arrived, 2);
  }

 private:
  // Bulk copies have whole pieces of 16 bytes, of which the last one may end behind the section:
  // lanes load what is before that.
  CFCK_DEVICE void start(std::uint32_t run) {
    if (run >= n_runs_) {
      return;
    }
    const std::uint32_t at = run * Groups::kRunBytes;
    const std::uint32_t left = n_bytes_ - at;
    const std::uint32_t n_bytes = skew() + (left < Groups::kRunBytes ? left : Groups::kRunBytes);
    const std::uint32_t whole = (skew() + left) / 16 * 16;  // pieces before the end
    const std::uint32_t needed = (n_bytes + 15) / 16 * 16;
    const std::uint32_t n_bulk = needed < whole ? needed : whole;
    const std::uint8_t* const from = raw_ - skew() + at;
    std::uint8_t* const to = stages_.bytes[run % 2];
    simt::start_copy(stages_.arrived[run % 2], to, from, n_bulk);
    const std::uint32_t rest = n_bulk + simt::lane();
    if (rest < n_bytes) {
      to[rest] = static_cast<std::uint8_t>(simt::load_byte(from + rest));
    }
    n_started_ = run + 1;
  }

  CFCK_DEVICE unsigned skew() const {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(raw_) % 16);
  }

  StagedShared& stages_;
  const std::uint8_t* const raw_;
  const std::uint32_t n_bytes_;  // until the end of the section
  std::uint32_t n_runs_ = 0;
  std::uint32_t run_ = 0;
  std::uint32_t n_started_ = 0;
};

}  // namespace cfck::codec

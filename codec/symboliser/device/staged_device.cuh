// Raw bits in shared memory, run by run: while the groups of one run are decoded, the bytes of the
// next are on their way into the other of two stages. A run is some groups whose raw bits lie one
// after another.
#pragma once

#include "base/simt/staging.cuh"
#include "codec/entropy/rans/word_stream_device.cuh"

namespace cfck::codec {

// Fewer groups are not worth a stage; so many are decoded one by one after a group that ends a run
// before its time, since others may follow.
inline constexpr std::uint32_t kUnstagedGroups = 32;

// The shared memory of a warp. A stage has up to 15 bytes before and after those of a run.
template <unsigned stage_bytes>
struct StagedShared {
  static constexpr std::uint32_t kMaxRunBytes = stage_bytes - 32;

  StreamRing words[kMaxDeviceLaneSets];
  alignas(16) std::uint8_t bytes[2][stage_bytes];
  simt::CopyBarrier arrived[2];
};

#if CFCK_HAS_STAGING

// The stages of a kernel, or nothing where devices have none.
template <unsigned stage_bytes>
using StagesOf = StagedShared<stage_bytes>;

template <unsigned stage_bytes>
class StagedRaw {
 public:
  // Takes runs of the bytes from `raw` to `end`.
  CFCK_DEVICE StagedRaw(StagedShared<stage_bytes>& shared, const std::uint8_t* raw,
                        const std::uint8_t* end)
      : shared_(shared), raw_(raw), n_bytes_(static_cast<std::uint32_t>(end - raw)) {
    simt::open_barriers(shared.arrived, 2);
  }

  // Asks for the next run, of a multiple of 16 bytes, of which two may be asked for and not freed.
  // Bytes that are not in the section do not come. Bulk copies have whole pieces of 16 bytes, of
  // which the last may end behind the section: lanes load what is before that.
  CFCK_DEVICE void start(std::uint32_t run_bytes) {
    const std::uint32_t left = at_ < n_bytes_ ? n_bytes_ - at_ : 0;
    const std::uint32_t wanted = left < run_bytes ? left : run_bytes;
    const std::uint32_t skew = at_skew();
    const std::uint32_t n_bytes = wanted == 0 ? 0 : skew + wanted;
    const std::uint32_t whole = (skew + left) / 16 * 16;
    const std::uint32_t needed = (n_bytes + 15) / 16 * 16;
    const std::uint32_t n_bulk = needed < whole ? needed : whole;
    const std::uint8_t* const from = raw_ + at_ - skew;
    std::uint8_t* const to = shared_.bytes[n_started_ % 2];
    simt::start_copy(shared_.arrived[n_started_ % 2], to, from, n_bulk);
    const std::uint32_t rest = n_bulk + simt::lane();
    if (rest < n_bytes) {
      to[rest] = static_cast<std::uint8_t>(simt::load_byte(from + rest));
    }
    at_ += run_bytes;
    ++n_started_;
  }
  // Waits for the oldest run. Returns where it is in shared memory, until free().
  CFCK_DEVICE const std::uint8_t* await() {
    await_oldest();
    simt::sync_warp();  // bytes that lanes have put there
    return shared_.bytes[n_done_ % 2] + at_skew();
  }
  CFCK_DEVICE void free() {
    simt::sync_warp();
    ++n_done_;
  }
  // Waits for what is on its way.
  CFCK_DEVICE void close() {
    for (; n_done_ < n_started_; ++n_done_) {
      await_oldest();
    }
    simt::close_barriers(shared_.arrived, 2);
  }

 private:
  CFCK_DEVICE void await_oldest() {
    simt::await_copy(shared_.arrived[n_done_ % 2], n_done_ / 2, n_started_ - n_done_ - 1);
  }
  // It is the same for all runs, whose lengths are multiples of 16.
  CFCK_DEVICE unsigned at_skew() const {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(raw_) % 16);
  }

  StagedShared<stage_bytes>& shared_;
  const std::uint8_t* const raw_;
  const std::uint32_t n_bytes_;
  std::uint32_t at_ = 0;  // where the next run begins
  std::uint32_t n_started_ = 0;
  std::uint32_t n_done_ = 0;
};

#else

struct NoStages {};
template <unsigned stage_bytes>
using StagesOf = NoStages;

#endif

}  // namespace cfck::codec

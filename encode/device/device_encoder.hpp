// Chunks that a device encodes, of tensors in its memory: in passes, two of which are under way at
// the same time, so that one is copied to the host while the other is encoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "codec/lossy.hpp"
#include "device/batches.hpp"
#include "device/memory.hpp"
#include "device/queue.hpp"
#include "encode/device/encode_batch.hpp"
#include "encode/device/look.hpp"
#include "encode/device_tensor.hpp"
#include "encode/plan.hpp"

namespace cfck::encode {

// The memory of a DeviceEncoder. Workspace is of the device; copies are faster where staging, of
// the host, is pinned. Both begin at multiples of 256.
struct DeviceEncodeMemory {
  std::size_t pass_bytes = 0;     // of the values of a pass, or hardly less
  std::size_t scratch_bytes = 0;  // of the blocks that encode a pass

  static constexpr unsigned kPasses = 2;
  // A pass has so many chunks at most.
  static constexpr std::size_t kMaxChunks = 1024;
  static constexpr std::size_t kControlBytes = DeviceLook::kControlBytes;
  static constexpr std::size_t kLookBytes = DeviceLook::kResultBytes;

  std::size_t workspace_bytes() const {
    return kPasses * (pass_bytes + scratch_bytes + kControlBytes) + kControlBytes + kLookBytes;
  }
  std::size_t staging_bytes() const {
    return kPasses * (pass_bytes + 2 * kControlBytes) + kControlBytes + kLookBytes;
  }
};

// A chunk that the device has encoded. The bytes stay until the next call of take() for another.
struct MadeChunk {
  ByteView payload;
  std::uint64_t hash = 0;  // tiled, of the frame
  // A lossy codec has errors, and from decoded values what the digest needs. Leaves and bytes may
  // be of chunks behind this one, too, which have none of these then.
  codec::ErrorTotals errors = {};
  struct Leaves {
    std::uint64_t offset_bytes = 0;  // in the tensor, as what follows
    std::span<const Digest> hashes = {};
  } leaves = {};
  struct Edge {
    std::uint64_t offset_bytes = 0;
    ByteView bytes = {};
  } head = {}, tail = {};  // before and behind whole leaves
};

// Bytes of values that were on the device.
struct DeviceEncodeCounts {
  std::uint64_t device_bytes = 0;  // encoded there
  std::uint64_t host_bytes = 0;    // by the host
};

// Chunks are asked for in the order in which their tensors were added. Not thread-safe. Errors:
// those of device::Queue, after which the object can only be destroyed.
class DeviceEncoder {
 public:
  // `header` stands in front of payloads in a file. Requires: memory as `sizes` has it.
  DeviceEncoder(device::Queue& queue, Device device, const DeviceEncodeMemory& sizes,
                const device::FrameHeader& header, std::byte* workspace, MutableBytes staging);
  // Waits for work that is under way.
  ~DeviceEncoder();
  DeviceEncoder(const DeviceEncoder&) = delete;
  DeviceEncoder& operator=(const DeviceEncoder&) = delete;

  // Sets what has to be done before memory of chunks that were taken is used again.
  void set_release(std::function<Result<void>()> release) { release_ = std::move(release); }

  // Finds out what find() knows, of any number of tensors that are in the memory of the device; of
  // others and of those that are known nothing. Waits for the device once for each kLookBytes or so
  // of results. Of `plans` dtype, shape, choice, geometry, source, entropy, level and tries_others
  // are used.
  Result<void> look_at(std::span<const EncodePlan> plans);
  // Finds out what codecs want to know of the values of lossy tensors before they plan, all at
  // once. Requires: look_at() was called for each, and choices are theirs.
  Result<void> look_at_values(std::span<const EncodePlan* const> plans);
  // To be called when all of these are planned: what was found is as long as a sample of a tensor.
  void forget_values(const EncodePlan& plan);
  // nullptr where the tensor is not in the memory of the device, or was not looked at.
  const DeviceTensor* find(const EncodePlan& plan) const;
  // Whether the tensor is in the memory of the device.
  bool is_on_device(const ByteSource& source) const { return source.on_device(device_) != nullptr; }

  // Whether the device was found to have the values, aligned to one.
  bool has_values_of(const EncodePlan& plan) const;
  // Whether the device can encode chunks of this tensor without loss: it has the values, a kernel,
  // and memory.
  bool has_room_for(const EncodePlan& plan) const;
  // Whether it is to do so in advance: what the host decides on them may be otherwise.
  bool takes(const EncodePlan& plan) const;
  // Adds all chunks of a tensor, without loss. Requires: it has room for them, and nothing was
  // added for the record.
  void add(std::uint32_t record, const EncodePlan& plan);
  // Adds all chunks of a tensor, as a lossy codec has planned them, unless it cannot encode them:
  // then it adds none. Requires: nothing was added for the record.
  void try_add(std::uint32_t record, const EncodePlan& plan,
               const std::shared_ptr<const codec::LossyPlan>& lossy);
  // Whether passes are full with so many bytes of values more, without the tensors that will be
  // added.
  bool has_enough(std::uint64_t more_bytes) const {
    return waiting_bytes_ + more_bytes >= 2 * sizes_.pass_bytes;
  }
  // Waits for a chunk. Nothing where the host has to encode it. Errors of the device name the
  // tensor.
  Result<std::optional<MadeChunk>> take(std::uint32_t record, std::uint64_t chunk,
                                        const EncodePlan& plan);
  // Nobody will ask for chunks of this record any more.
  void end(std::uint32_t record);

  void count(std::uint64_t n_bytes, bool on_device) {
    (on_device ? counts_.device_bytes : counts_.host_bytes) += n_bytes;
  }
  const DeviceEncodeCounts& counts() const { return counts_; }

 private:
  // Chunks are numbered in the order in which they were added.
  struct Waiting {
    std::uint64_t number = 0;
    std::uint64_t n_bytes = 0;  // of its values
    DeviceChunk chunk;
    // A lossy codec sets these; lossy_chunk refers to `lossy`.
    std::shared_ptr<const codec::LossyPlan> lossy;
    std::optional<codec::DeviceLossyEncodePlan> lossy_chunk;
    std::uint64_t offset_bytes = 0;  // in the tensor
    std::uint64_t tensor_bytes = 0;

    std::uint64_t end_bytes() const { return offset_bytes + n_bytes; }
    bool is_followed_by(const Waiting& next) const {
      return next.lossy == lossy && next.number == number + 1;
    }
  };
  struct Pass;

  std::size_t room_bytes(std::uint64_t n_bytes) const;
  // Whether a pass has room for a chunk of n_bytes of values.
  bool has_room_for(const codec::DeviceLossyEncodePlan& planned, std::uint64_t n_bytes) const;
  // Its plan is set by the caller.
  Waiting& add_chunk(const EncodePlan& plan, std::uint64_t chunk);
  // Waits for the next pass, and has those behind it begin.
  Result<void> advance(const EncodePlan& plan);
  std::vector<Waiting> next_chunks();
  Result<void> start(Pass& pass);
  // Lossy chunks of a pass need memory for decoded values, which is not that of frames, and for
  // what is found of them; and they have leaves to be hashed.
  struct LossyWork {
    std::uint64_t decoded_at = 0;  // in the memory for frames
    std::size_t n_chunks = 0;
    std::uint32_t n_leaves = 0;
    std::vector<device::Range> ranges;
    std::size_t result_bytes = 0;  // with the frames
    device::Ranges hashes;
  };
  LossyWork place_decoded(Pass& pass) const;
  Result<void> place_results(Pass& pass, const device::Placed& frames, LossyWork& work,
                             std::vector<DeviceChunk>& chunks) const;
  Result<void> finish(Pass& pass);
  // Finds the leaves and edges of the lossy chunks that the device has made, and downloads edges.
  Result<void> find_leaves(Pass& pass);
  std::optional<MadeChunk> find_made(std::uint64_t number) const;

  device::Queue& queue_;
  const Device device_;
  const DeviceEncodeMemory sizes_;
  const device::FrameHeader header_;
  std::function<Result<void>()> release_;
  DeviceEncodeTables tables_;
  // An address may have several tensors.
  using Key = std::tuple<const std::byte*, DType, Shape>;
  std::map<Key, DeviceTensor> known_;
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> numbers_;  // begin, end
  std::deque<Waiting> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t next_number_ = 0;
  std::vector<std::unique_ptr<Pass>> passes_;
  std::deque<Pass*> under_way_;
  std::deque<Pass*> idle_;
  Pass* ready_ = nullptr;
  device::SlotMemory look_control_;
  std::byte* look_results_ = nullptr;
  MutableBytes look_staging_;
  bool is_working_ = false;  // the device may still use the memory
  DeviceEncodeCounts counts_;
};

// A pass, from the chunks that it takes to their bytes.
struct DeviceEncoder::Pass {
  Pass(unsigned its_lane, MutableBytes control_staging, std::byte* control_memory)
      : lane(its_lane), control(control_staging, control_memory) {}

  unsigned lane;
  device::SlotMemory control;
  std::byte* out = nullptr;  // of the device, as what follows: frames, one behind the other
  std::byte* scratch = nullptr;
  MutableBytes results;  // of the host: what the kernels say of frames
  MutableBytes bytes;    // likewise: the frames
  std::uint64_t mark = 0;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> frames;  // by the number of the chunk
  std::vector<Waiting> chunks;                                  // by the number of the frame
  // LossyResults says of a lossy chunk where decoded values are in the memory of frames, one chunk
  // behind the other if they are neighbours in the tensor; where results are among all of them; and
  // what find_leaves() has found.
  struct LossyResults {
    std::uint64_t decoded_at = 0;
    std::size_t errors_at = 0;
    std::uint64_t first_leaf =
        0;                      // of those that are hashed, of all chunks that follow one another
    std::size_t leaves_at = 0;  // of this leaf
    MadeChunk::Leaves leaves;
    MadeChunk::Edge head;
    MadeChunk::Edge tail;
  };
  std::vector<LossyResults> lossy;  // by the number of the frame

  device::Frame frame(std::size_t i) const;
  std::size_t end_of_run(std::size_t begin) const;
};

}  // namespace cfck::encode

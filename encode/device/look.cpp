// A DeviceEncoder looks at tensors before any of them is encoded.
#include <algorithm>
#include <cstring>
#include <span>

#include "base/bytes.hpp"
#include "encode/device/device_encoder.hpp"
#include "encode/trial/probes.hpp"

namespace cfck::encode {
namespace {

static_assert(sizeof(device::RangeHash) == sizeof(Digest));

// So many leaves of a tensor are hashed together.
constexpr std::uint64_t kMostPieces = std::uint64_t{1} << 16;

}  // namespace

// Hashes and copies that are asked for, and where on the host their results go.
class DeviceEncoder::Look {
 public:
  explicit Look(DeviceEncoder& encoder) : encoder_(encoder) {}

  Result<void> hash(device::Range range, Digest* to) {
    const std::size_t n_bytes = range.n_pieces * sizeof(Digest);
    CFCK_TRY(make_room(n_bytes));
    range.first_piece = n_pieces_;
    n_pieces_ += range.n_pieces;
    ranges_.push_back(range);
    results_.push_back({to, n_bytes, true});
    return {};
  }
  Result<void> copy(const std::byte* from, std::size_t n_bytes, void* to) {
    CFCK_TRY(make_room(n_bytes));
    copies_.push_back({.from = reinterpret_cast<const std::uint8_t*>(from), .n_bytes = n_bytes});
    results_.push_back({to, n_bytes, false});
    return {};
  }
  // Asks the device for all of it, and waits.
  Result<void> run() {
    if (results_.empty()) {
      return {};
    }
    CFCK_TRY(start());
    device::Queue& queue = encoder_.queue_;
    const MutableBytes staging = encoder_.look_staging_.first(hash_bytes() + copied_bytes());
    CFCK_TRY(queue.download(staging, encoder_.look_results_));
    CFCK_TRY_ASSIGN(const std::uint64_t mark, queue.mark());
    CFCK_TRY(queue.wait(mark));
    const std::byte* hashed = staging.data();
    const std::byte* copied = staging.data() + hash_bytes();
    for (const Wanted& result : results_) {
      const std::byte*& from = result.is_hash ? hashed : copied;
      std::memcpy(result.to, from, result.n_bytes);
      from += result.is_hash ? result.n_bytes : device::aligned_bytes(result.n_bytes);
    }
    clear();
    return {};
  }

 private:
  struct Wanted {
    void* to;
    std::size_t n_bytes;
    bool is_hash;
  };

  std::size_t hash_bytes() const { return n_pieces_ * sizeof(Digest); }
  std::size_t copied_bytes() const {
    std::size_t n_bytes = 0;
    for (const device::Copy& copy : copies_) {
      n_bytes += device::aligned_bytes(copy.n_bytes);
    }
    return n_bytes;
  }

  // Runs what was asked for so far where there is no room for more.
  Result<void> make_room(std::size_t n_bytes) {
    const std::size_t n_described =
        (ranges_.size() + 1) * sizeof(device::Range) + (copies_.size() + 1) * sizeof(device::Copy);
    const bool fits = hash_bytes() + copied_bytes() + device::aligned_bytes(n_bytes) <=
                          DeviceEncodeMemory::kLookBytes &&
                      n_described + 4 * device::kAlignment <= DeviceEncodeMemory::kControlBytes;
    return fits ? Result<void>() : run();
  }

  Result<void> start() {
    encoder_.is_working_ = true;
    device::Queue& queue = encoder_.queue_;
    queue.use_lane(0);
    device::SlotMemory& control = encoder_.look_control_;
    control.clear();
    const auto next = control.take(sizeof(std::uint32_t));
    const auto ranges = control.take(ranges_.size() * sizeof(device::Range));
    const auto copies = control.take(copies_.size() * sizeof(device::Copy));
    if (!next || !ranges || !copies) {
      return internal_error("a device has no room for what it is to look at");
    }
    std::ranges::fill(next->host, std::byte{0});
    std::ranges::copy(std::as_bytes(std::span(ranges_)), ranges->host.begin());
    device::Copies all_copies;
    place_copies(all_copies);
    std::ranges::copy(std::as_bytes(std::span(copies_)), copies->host.begin());
    CFCK_TRY(queue.upload(control.device(), control.filled()));
    if (n_pieces_ != 0) {
      const device::Ranges all{reinterpret_cast<device::Range*>(ranges->device),
                               reinterpret_cast<device::RangeHash*>(encoder_.look_results_),
                               reinterpret_cast<std::uint32_t*>(next->device),
                               static_cast<std::uint32_t>(ranges_.size()), n_pieces_};
      CFCK_TRY(queue.launch(device::launch_of(device::Kernel::kHashRanges, n_pieces_, all)));
    }
    if (all_copies.n_copies != 0) {
      all_copies.copies = reinterpret_cast<device::Copy*>(copies->device);
      CFCK_TRY(queue.launch(
          device::launch_of(device::Kernel::kCopyBytes, all_copies.n_pieces, all_copies)));
    }
    return {};
  }

  // Copies go behind the hashes.
  void place_copies(device::Copies& all) {
    std::byte* to = encoder_.look_results_ + hash_bytes();
    for (device::Copy& copy : copies_) {
      copy.to = reinterpret_cast<std::uint8_t*>(to);
      copy.first_piece = all.n_pieces;
      to += device::aligned_bytes(copy.n_bytes);
      all.n_pieces += static_cast<std::uint32_t>(
          ceil_div(copy.n_bytes, std::uint64_t{device::kCopyPieceBytes}));
    }
    all.n_copies = static_cast<std::uint32_t>(copies_.size());
  }

  void clear() {
    ranges_.clear();
    copies_.clear();
    results_.clear();
    n_pieces_ = 0;
  }

  DeviceEncoder& encoder_;
  std::vector<device::Range> ranges_;
  std::vector<device::Copy> copies_;
  std::vector<Wanted> results_;  // hashes and copies, each in their order
  std::uint32_t n_pieces_ = 0;
};

namespace {

const std::uint8_t* bytes_of(const std::byte* data) {
  return reinterpret_cast<const std::uint8_t*>(data);
}

// Asks for the rows of those chunks that some codec wants to see.
template <class Look>
Result<void> sample_rows(const EncodePlan& plan, const std::byte* data, Look& look,
                         DeviceTensor& known) {
  if (!tries_other_codecs(plan)) {
    return {};
  }
  for (const CodecId id : codec::codec_ids()) {
    const codec::Encoder* const encoder = codec::find_encoder(id);
    if (encoder == nullptr || encoder->needs_base()) {
      continue;
    }
    for (const std::uint64_t chunk : sampled_chunks(plan)) {
      const codec::RowSample rows = encoder->rows_to_sample(sampled_chunk_info(plan, chunk));
      if (rows.n_sampled == 0) {
        continue;
      }
      SampledRows& sample =
          known.samples.emplace_back(id, chunk, std::vector<Digest>(rows.n_sampled));
      CFCK_TRY(look.hash({.data = bytes_of(data + chunk * plan.geometry.chunk_bytes),
                          .n_bytes = rows.n_rows * rows.row_bytes,
                          .n_of = rows.n_rows,
                          .piece_bytes = static_cast<std::uint32_t>(rows.row_bytes),
                          .n_pieces = static_cast<std::uint32_t>(rows.n_sampled)},
                         sample.hashes.data()));
    }
  }
  return {};
}

template <class Look>
Result<void> look_at_tensor(const EncodePlan& plan, const std::byte* data, Look& look,
                            DeviceTensor& known) {
  known.n_bytes = plan.geometry.n_bytes;
  known.chunk_elems = plan.geometry.chunk_elems;
  const std::uint64_t n_leaves = ceil_div(known.n_bytes, std::uint64_t{detail::kLeafBytes});
  known.leaves.resize(n_leaves);
  for (std::uint64_t first = 0; first < n_leaves; first += kMostPieces) {
    const std::uint64_t n = std::min(kMostPieces, n_leaves - first);
    const std::uint64_t at = first * detail::kLeafBytes;
    CFCK_TRY(look.hash({.data = bytes_of(data + at),
                        .n_bytes = known.n_bytes - at,
                        .n_of = n,
                        .piece_bytes = detail::kLeafBytes,
                        .n_pieces = static_cast<std::uint32_t>(n)},
                       known.leaves.data() + first));
  }
  const std::uint64_t n_first = probed_elems(plan) * bits_per_element(plan.dtype) / 8;
  if (plan.geometry.n_chunks > 1 && n_first != 0) {
    known.first_bytes.resize(n_first);
    CFCK_TRY(look.copy(data, n_first, known.first_bytes.data()));
  }
  return sample_rows(plan, data, look, known);
}

}  // namespace

Result<void> DeviceEncoder::look_at(std::span<const EncodePlan> plans) {
  Look look(*this);
  for (const EncodePlan& plan : plans) {
    const std::byte* const memory =
        plan.source == nullptr ? nullptr : plan.source->on_device(device_);
    if (memory == nullptr || plan.geometry.n_bytes == 0) {
      continue;
    }
    const std::byte* const data = memory + plan.offset_bytes;
    const auto [place, is_new] = known_.try_emplace({data, plan.dtype, plan.shape});
    if (is_new) {
      CFCK_TRY(look_at_tensor(plan, data, look, place->second));
    }
  }
  return look.run();
}

}  // namespace cfck::encode

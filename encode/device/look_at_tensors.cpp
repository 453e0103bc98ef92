// A DeviceEncoder looks at tensors before any of them is encoded.
#include <algorithm>
#include <span>

#include "base/bytes.hpp"
#include "encode/device/device_encoder.hpp"
#include "encode/device/look.hpp"
#include "encode/trial/probes.hpp"

namespace cfck::encode {
namespace {

// So many leaves of a tensor are hashed together.
constexpr std::uint64_t kMostPieces = std::uint64_t{1} << 16;

// Asks for the rows of those chunks that some codec wants to see.
Result<void> sample_rows(const EncodePlan& plan, const std::byte* data, DeviceLook& look,
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

Result<void> look_at_tensor(const EncodePlan& plan, const std::byte* data, DeviceLook& look,
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
    KnownBytes& first = known.known.emplace_back(0, std::vector<std::byte>(n_first));
    CFCK_TRY(look.copy(data, n_first, first.bytes.data()));
  }
  return sample_rows(plan, data, look, known);
}

}  // namespace

Result<void> DeviceEncoder::look_at(std::span<const EncodePlan> plans) {
  is_working_ = true;
  DeviceLook look(queue_, look_control_, look_results_, look_staging_);
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

Result<void> DeviceEncoder::look_at_values(std::span<const EncodePlan* const> plans) {
  is_working_ = true;
  DeviceLook look(queue_, look_control_, look_results_, look_staging_);
  for (const EncodePlan* const plan : plans) {
    const std::byte* const data = plan->source->on_device(device_) + plan->offset_bytes;
    const auto found = known_.find({data, plan->dtype, plan->shape});
    if (found != known_.end()) {
      CFCK_TRY(encode::look_at_values(*plan, data, look, found->second));
    }
  }
  return look.run();
}

void DeviceEncoder::forget_values(const EncodePlan& plan) {
  const std::byte* const data = plan.source->on_device(device_) + plan.offset_bytes;
  const auto found = known_.find({data, plan.dtype, plan.shape});
  if (found != known_.end()) {
    found->second.known.clear();
    found->second.facts.clear();
  }
}

}  // namespace cfck::encode

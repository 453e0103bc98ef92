#include "tests/simt/decode_chunks.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "codec/common/chunk_shape.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/common/zero_mask.hpp"
#include "codec/device_plan.hpp"
#include "codec/direct/chunk/direct_header.hpp"
#include "codec/direct/device/device_parameters.hpp"
#include "codec/direct/device/direct_team_device.cuh"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/lossless/lossless_team_device.cuh"

namespace cfck::codec {
namespace {

// Memory of its exact size, so that sanitizers see what is beyond.
class Exact {
 public:
  Exact(std::size_t n_bytes, bool is_odd)
      : memory_(new std::byte[n_bytes + (is_odd ? 1 : 0)]),
        data_(memory_.get() + (is_odd ? 1 : 0)) {}
  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::byte* data_;
};

template <class Shared, class Body>
bool run_one(const simt::Launch& launch, Body&& body) {
  std::vector<unsigned char> fits(simt::kWarpLanes * launch.warps_per_block);
  simt::emulate<Shared>(launch, [&](Shared& shared) {
    fits[simt::warp_of_block() * simt::kWarpLanes + simt::lane()] = body(shared);
  });
  for (const unsigned char lane : fits) {
    if (lane != fits[0]) {
      std::abort();  // all lanes must agree
    }
  }
  return fits[0] != 0;
}

bool decode_lossless_emulated(const ChunkInfo& info, const DeviceChunk& chunk,
                              const simt::Launch& launch) {
  return visit_format(
      info.dtype,
      [&](auto tag) {
        using Format = With32Symbols<typename decltype(tag)::type>;
        if (launch.warps_per_block == kMaxDeviceLaneSets) {
          return run_one<LosslessTeamShared>(launch, [&](LosslessTeamShared& shared) {
            return decode_lossless_by_team<Format>(chunk, static_device_tables().data(), shared);
          });
        }
        return run_one<LosslessShared>(launch, [&](LosslessShared& shared) {
          return decode_lossless_chunk<Format>(chunk, static_device_tables().data(), shared);
        });
      },
      [] { return false; });
}

// Decompresses the mask of a chunk, where it is a Zstd frame.
bool unpack_mask(ByteView frame, std::size_t mask_bytes, std::unique_ptr<Exact>& mask,
                 DeviceChunk& chunk) {
  if (frame.size() == mask_bytes) {
    return true;
  }
  mask = std::make_unique<Exact>(mask_bytes, false);
  chunk.mask = mask->as<const std::uint8_t>();
  Scratch scratch;
  return bool(decompress_frame(frame, scratch, {mask->data(), mask_bytes}));
}

DeviceVectors vectors_of(const DirectParameters& parameters) {
  const auto data_of = [](const auto& vector) { return vector.empty() ? nullptr : vector.data(); };
  return {data_of(parameters.row_steps), data_of(parameters.coefficients),
          data_of(parameters.field.bands), data_of(parameters.field.rows),
          data_of(parameters.field.columns)};
}

bool run_direct(DType dtype, const DeviceChunk& chunk, const simt::Launch& launch) {
  const auto run = [&](auto value) {
    if (launch.warps_per_block == kMaxDeviceLaneSets) {
      return run_one<DirectTeamShared>(launch, [&](DirectTeamShared& shared) {
        return decode_direct_by_team<decltype(value)>(chunk, static_device_tables().data(), shared);
      });
    }
    return run_one<DirectShared>(launch, [&](DirectShared& shared) {
      return decode_direct_chunk<decltype(value)>(chunk, static_device_tables().data(), shared);
    });
  };
  switch (dtype) {
    case DType::kF64:
      return run(ValueF64{});
    case DType::kF32:
      return run(ValueF32{});
    case DType::kBF16:
      return run(ValueBf16{});
    default:
      return run(ValueF16{});
  }
}

bool decode_direct_emulated(const ChunkInfo& info, DeviceChunk chunk, ByteView payload,
                            const simt::Launch& launch) {
  const auto geometry = direct_geometry(info.shape);
  if (!geometry || info.first_elem >= geometry->n_values() ||
      info.n_elems > geometry->n_values() - info.first_elem) {
    return false;
  }
  // The host parses parameters; the device reads the rest of the header.
  const bool is_inline = payload[0] == std::byte{kDirectInline};
  VarintReader in(is_inline ? payload.subspan(1) : info.preamble);
  if (is_inline && has_scale_field(payload.subspan(1)) && info.n_elems != geometry->n_values()) {
    return false;
  }
  if (!is_inline && info.preamble.empty()) {
    return false;
  }
  const auto parameters = read_parameters(*geometry, in);
  if (!parameters || (!is_inline && !in.at_end())) {
    return false;
  }
  chunk.fields_at = is_inline ? static_cast<std::uint32_t>(1 + in.position()) : 1;
  const DeviceParameters on_device =
      device_parameters(*parameters, *geometry, vectors_of(*parameters), info.first_elem);
  chunk.parameters = &on_device;
  // What the host looks up in the header to set memory aside.
  DirectChunkInfo direct{info.dtype,      info.entropy, info.shape,
                         info.first_elem, info.n_elems, is_inline ? nullptr : &*parameters};
  const std::size_t n_groups = (info.n_elems + kGroupSize - 1) / kGroupSize;
  std::size_t escapes_bytes = 0;
  std::unique_ptr<Exact> mask;
  if (const auto header = parse_direct_header(direct, *geometry, payload);
      header && header->body_bytes <= payload.size()) {
    escapes_bytes = direct_escapes_bytes(
        header->n_escapes, (info.n_elems - header->n_masked + kGroupSize - 1) / kGroupSize);
    if ((header->flags & kDirectMask) != 0 &&
        !unpack_mask(payload.subspan(header->header_bytes, header->mask_bytes),
                     (info.n_elems + 7) / 8, mask, chunk)) {
      return false;
    }
  }
  const Exact escapes(escapes_bytes, false);
  chunk.escapes = escapes.as<std::int32_t>();
  const Exact indices(4 * (n_groups * kGroupSize + info.n_elems), false);
  chunk.values = indices.data();
  return run_direct(info.dtype, chunk, launch);
}

}  // namespace

bool has_device_kernel(CodecId codec, const ChunkInfo& info, ByteView payload) {
  if (info.entropy != EntropyId::kRans || payload.empty()) {
    return false;
  }
  const auto mode = static_cast<unsigned>(payload[0]);
  return (codec == CodecId::kLossless && mode == 2) ||
         (codec == CodecId::kDirect && (mode == 2 || mode == 4 || mode == 5));
}

std::optional<std::vector<std::byte>> decode_emulated(CodecId codec, const ChunkInfo& info,
                                                      ByteView payload, const simt::Launch& launch,
                                                      bool is_odd) {
  const auto shape = chunk_shape(info);
  if (!shape) {
    return std::nullopt;
  }
  const std::size_t n_groups = (shape->n_values + kGroupSize - 1) / kGroupSize;
  const Exact bytes(payload.size(), is_odd);
  std::memcpy(bytes.data(), payload.data(), payload.size());
  const Exact out(shape->n_bytes(), false);
  const Exact values(shape->n_bytes(), false);
  const Exact groups(4 * n_groups, false);
  DeviceChunk chunk;
  chunk.payload = bytes.as<const std::uint8_t>();
  chunk.payload_bytes = static_cast<std::uint32_t>(payload.size());
  chunk.out = out.data();
  chunk.values = values.data();
  chunk.groups = groups.as<std::uint32_t>();
  chunk.n_values = static_cast<std::uint32_t>(shape->n_values);
  bool fits = false;
  if (codec == CodecId::kDirect && payload[0] != std::byte{2}) {
    fits = decode_direct_emulated(info, chunk, payload, launch);
  } else {
    std::unique_ptr<Exact> mask;
    ChunkInfo lossless = info;
    lossless.preamble = {};
    const auto header = parse_chunk_header(lossless, payload);
    if (header && (header->symbols.flags & kHasMask) != 0 && header->body_bytes <= payload.size() &&
        !unpack_mask(payload.subspan(header->header_bytes, header->symbols.mask_bytes),
                     (shape->n_values + 7) / 8, mask, chunk)) {
      return std::nullopt;
    }
    const Exact rows(
        lossless_device_plan(lossless, payload, static_cast<std::uint32_t>(payload.size()))
            .needs.escapes_bytes,
        false);
    chunk.escapes = rows.as<std::int32_t>();
    fits = decode_lossless_emulated(info, chunk, launch);
  }
  if (!fits) {
    return std::nullopt;
  }
  return std::vector<std::byte>(out.data(), out.data() + shape->n_bytes());
}

std::optional<std::vector<std::byte>> decode_by_team(CodecId codec, const ChunkInfo& info,
                                                     ByteView payload, simt::LaneOrder order,
                                                     bool is_odd) {
  simt::Launch launch;
  launch.warps_per_block = kMaxDeviceLaneSets;
  launch.order = order;
  return decode_emulated(codec, info, payload, launch, is_odd);
}

}  // namespace cfck::codec

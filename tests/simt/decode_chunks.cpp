#include "tests/simt/decode_chunks.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "codec/common/chunk_shape.hpp"
#include "codec/device_plan.hpp"
#include "codec/direct/device/team_device.cuh"
#include "codec/lossless/device/team_device.cuh"
#include "codec/scratch.hpp"

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

bool run_lossless(DType dtype, const DeviceChunk& chunk, const simt::Launch& launch) {
  return visit_format(
      dtype,
      [&](auto tag) {
        using Format = With32Symbols<typename decltype(tag)::type>;
        if (launch.warps_per_block == kMaxDeviceLaneSets) {
          return run_one<LosslessTeamShared>(launch, [&](LosslessTeamShared& shared) {
            return decode_lossless_by_team<Format>(chunk, static_device_tables().data(), shared);
          });
        }
        return run_one<LosslessWarpShared>(launch, [&](LosslessWarpShared& shared) {
          return decode_lossless_chunk<Format>(chunk, static_device_tables().data(), shared);
        });
      },
      [] { return false; });
}

bool run_direct(DType dtype, const DeviceChunk& chunk, const simt::Launch& launch) {
  const auto run = [&](auto value) {
    if (launch.warps_per_block == kMaxDeviceLaneSets) {
      return run_one<DirectTeamShared>(launch, [&](DirectTeamShared& shared) {
        return decode_direct_by_team<decltype(value)>(chunk, static_device_tables().data(), shared);
      });
    }
    return run_one<DirectWarpShared>(launch, [&](DirectWarpShared& shared) {
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

// Memory of a segment, of exact sizes.
class SegmentMemory {
 public:
  explicit SegmentMemory(const DeviceMemoryNeeds& needs)
      : groups_(needs.groups_bytes, false),
        values_(needs.values_bytes, false),
        escapes_(needs.escapes_bytes, false) {}

  void give(DeviceChunk& chunk) {
    chunk.groups = groups_.as<std::uint32_t>();
    chunk.values = values_.data();
    chunk.escapes = escapes_.as<std::int32_t>();
  }

 private:
  Exact groups_;
  Exact values_;
  Exact escapes_;
};

// Does the host's part of a chunk before the device decodes it
// (format/read/device/slot.cpp), with memory of exact sizes. The payload is a copy.
class PreparedChunk {
 public:
  PreparedChunk(const DevicePlan& plan, ByteView payload, const ChunkShape& shape, bool is_odd)
      : plan_(plan),
        payload_(payload.size(), is_odd),
        out_(shape.n_bytes(), false),
        mask_(plan.mask_bytes, false),
        vectors_(plan.parameters ? plan.parameters->n_bytes() : 0, false) {
    std::memcpy(payload_.data(), payload.data(), payload.size());
  }

  // False where the host refuses the chunk's mask.
  bool unpack(ByteView payload) {
    if (plan_.mask_frame_bytes == 0) {
      return true;
    }
    Scratch scratch;
    mask_at_ = mask_.as<const std::uint8_t>();
    return bool(unpack_mask(plan_, payload, scratch, {mask_.data(), plan_.mask_bytes}));
  }

  // Calls `decode(chunk)` for each segment, until one is refused: then it returns false.
  template <class Decode>
  bool each_segment(std::uint64_t first_elem, Decode&& decode) {
    if (plan_.parameters) {
      plan_.parameters->store(vectors_.data());
    }
    return std::ranges::all_of(plan_.segments, [&](const SegmentPlan& segment) {
      SegmentMemory memory(segment.needs);
      DeviceChunk chunk;
      chunk.payload = payload_.as<const std::uint8_t>();
      chunk.out = out_.data() + std::size_t{segment.first_value} * plan_.value_bytes;
      chunk.mask = mask_at_;
      chunk.n_values = segment.n_values;
      chunk.header = segment.header;
      memory.give(chunk);
      DeviceParameters parameters;
      if (plan_.parameters) {
        parameters = plan_.parameters->at(vectors_.data(), first_elem + segment.first_value);
        chunk.parameters = &parameters;
      }
      return decode(chunk);
    });
  }

  const std::byte* out() const { return out_.data(); }

 private:
  const DevicePlan& plan_;
  Exact payload_;
  Exact out_;
  Exact mask_;
  Exact vectors_;
  const std::uint8_t* mask_at_ = nullptr;
};

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
  const Decoder& decoder = *find_decoder(codec);
  const auto shape = chunk_shape(info);
  const DevicePlan plan =
      decoder.plan_for_device(info, payload, static_cast<std::uint32_t>(payload.size()),
                              decoder.parameters_for_device(info));
  if (!shape || plan.method != DecodeMethod::kKernel) {
    return std::nullopt;  // the header is refused
  }
  PreparedChunk prepared(plan, payload, *shape, is_odd);
  if (!prepared.unpack(payload)) {
    return std::nullopt;
  }
  const bool fits = prepared.each_segment(info.first_elem, [&](const DeviceChunk& chunk) {
    return plan.parameters ? run_direct(info.dtype, chunk, launch)
                           : run_lossless(info.dtype, chunk, launch);
  });
  if (!fits) {
    return std::nullopt;
  }
  return std::vector<std::byte>(prepared.out(), prepared.out() + shape->n_bytes());
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

// Scale bins on a device, the other way: bins of groups to symbols (codec/symboliser/spec.md,
// section 4). The same as write_bin_stream().
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/groups.hpp"
#include "codec/common/put_fields_device.cuh"
#include "codec/common/varint.hpp"
#include "codec/symboliser/bin_stream.hpp"

namespace cfck::codec {

// The groups [begin, end) of a chunk: what an encoder makes a segment of.
struct DeviceGroupRange {
  std::uint32_t begin;
  std::uint32_t end;
};

struct DeviceBinStream {
  std::uint32_t first_bin;
  std::uint32_t n_escapes;
};

// The bin of the first of the groups that has one, or 0.
CFCK_DEVICE std::uint32_t first_bin_of(const GroupCode* groups, const DeviceGroupRange& range) {
  for (std::uint32_t block = range.begin; block < range.end; block += simt::kWarpLanes) {
    const std::uint32_t g = block + simt::lane();
    const bool has_bin = g < range.end && groups[g].kind == GroupKind::kValues;
    const std::uint32_t with_bin = simt::ballot(has_bin);
    if (with_bin != 0) {
      return groups[block + simt::lowest_bit(with_bin)].scale_bin;
    }
  }
  return 0;
}

// Writes the symbol of each of the groups to its place, symbols[g], 32 at a time, and the escapes,
// two bytes each; by one warp. Groups without a bin of their own get the bin before them. Calls
// `note(g, symbol)` for each group, by the lane that has it.
template <class Note>
CFCK_DEVICE DeviceBinStream write_device_bins(GroupCode* groups, const DeviceGroupRange& range,
                                              std::uint8_t* symbols, std::uint8_t* escapes,
                                              Note&& note) {
  DeviceBinStream stream{first_bin_of(groups, range), 0};
  std::uint32_t before_all = stream.first_bin;
  for (std::uint32_t block = range.begin; block < range.end; block += simt::kWarpLanes) {
    const std::uint32_t g = block + simt::lane();
    const bool is_there = g < range.end;
    const GroupCode code = groups[is_there ? g : block];
    const bool has_bin = is_there && code.kind == GroupKind::kValues;
    const std::uint32_t with_bin = simt::ballot(has_bin);
    const std::uint32_t below = with_bin & simt::lanes_below();
    const std::uint32_t neighbour =
        simt::shuffle(code.scale_bin, below != 0 ? simt::highest_bit(below) : 0);
    const std::uint32_t before = below != 0 ? neighbour : before_all;
    const std::uint32_t coded = zigzag(static_cast<std::int32_t>(code.scale_bin - before));
    const bool escapes_here = has_bin && coded >= kBinAllZero;
    const std::uint32_t without_bin = code.kind == GroupKind::kAllZero ? kBinAllZero : 0;
    const std::uint32_t symbol = escapes_here ? kBinEscape : has_bin ? coded : without_bin;
    const std::uint32_t escaping = simt::ballot(escapes_here);
    if (escapes_here) {
      const std::uint32_t at = stream.n_escapes + simt::popcount(escaping & simt::lanes_below());
      store_bytes(code.scale_bin, 2, escapes + 2 * at);
    }
    if (is_there) {
      groups[g].scale_bin = has_bin ? code.scale_bin : static_cast<std::uint16_t>(before);
      symbols[g] = static_cast<std::uint8_t>(symbol);
      note(g, symbol);
    }
    stream.n_escapes += simt::popcount(escaping);
    before_all =
        with_bin == 0 ? before_all : simt::shuffle(code.scale_bin, simt::highest_bit(with_bin));
  }
  simt::sync_warp();
  return stream;
}

}  // namespace cfck::codec

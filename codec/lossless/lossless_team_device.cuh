// Chunks of mode 2 with the stage `rans` on a device, each decoded by a team of warps: a block of
// one warp for each lane set, where there are too few chunks for one warp each to keep the device
// busy. The sets have words of their own, so that warps need each other only before the first
// group, for the raw bits that the lanes carry, and for the order of the escapes.
#pragma once

#include "codec/lossless/lossless_device.cuh"

namespace cfck::codec {

inline constexpr std::uint32_t kTeamRefused = 0;
inline constexpr std::uint32_t kTeamDone = 1;  // by the first warp alone: fewer lane sets
inline constexpr std::uint32_t kTeamGoesOn = 2;

// The shared memory of a block.
struct LosslessTeamShared {
  LosslessShared chunk;
  std::uint32_t item;  // number of the chunk
  std::uint32_t step;
  std::uint32_t tail_first_group;  // DeviceTail
  std::uint32_t tail_raw_bytes;
  std::uint32_t tail_in_lanes;
  std::uint32_t states[kMaxDeviceLaneSets][simt::kWarpLanes];
  std::uint32_t at[kMaxDeviceLaneSets];  // DeviceLanes
  std::uint32_t next[kMaxDeviceLaneSets];
  std::uint32_t end[kMaxDeviceLaneSets];
  std::uint32_t n_rows[kMaxDeviceLaneSets];  // of escapes
  std::uint32_t n_escapes[kMaxDeviceLaneSets];
  std::uint32_t fits[kMaxDeviceLaneSets];
};

// Reads up to 32 planes at a time of the values of one lane set, the lowest at bit `last`, and
// returns the lane's number (add_planes()).
template <class Word>
CFCK_DEVICE Word load_planes_of_set(const std::uint8_t* from, unsigned end, unsigned last,
                                    unsigned n, unsigned set) {
  const unsigned plane_bytes = (n + 7) / 8;
  const unsigned first_byte = set * (simt::kWarpLanes / 8);
  Word number = 0;
  while (end > last) {
    const unsigned n_planes = end - last < simt::kWarpLanes ? end - last : simt::kWarpLanes;
    end -= n_planes;
    const std::uint32_t row = load_row(from, n_planes, plane_bytes, simt::lane(), first_byte);
    from += n_planes * plane_bytes;
    number |= static_cast<Word>(static_cast<Word>(transpose_bits(row)) << end);
  }
  return number;
}

// One warp of a team, whose chunk has been opened.
template <class Format>
class LosslessTeamWarp {
  using Word = typename Format::Word;
  using OneWarp = LosslessWarp<Format, kMaxDeviceLaneSets>;

 public:
  CFCK_DEVICE LosslessTeamWarp(const DeviceChunk& chunk, const LosslessSections& sections,
                               LosslessTeamShared& shared)
      : chunk_(chunk),
        s_(sections),
        shared_(shared),
        set_(simt::warp_of_block()),
        n_values_(chunk.n_values - sections.n_masked),
        n_groups_((n_values_ + kGroupSize - 1) / kGroupSize),
        n_escapes_of_chunk_(sections.escapes.n_bytes / static_cast<std::uint32_t>(sizeof(Word))),
        max_rows_(n_escapes_of_chunk_ < n_groups_ ? n_escapes_of_chunk_ : n_groups_),
        has_signs_((sections.flags & kHasNoSigns) == 0),
        has_mask_((sections.flags & kHasMask) != 0),
        values_(static_cast<Word*>(has_mask_ ? chunk.values : chunk.out)) {
    lanes_.state[0] = shared.states[set_][simt::lane()];
    lanes_.at[0] = shared.at[set_];
    lanes_.next[0] = shared.next[set_];
    lanes_.end[0] = shared.end[set_];
    lanes_.rings = shared.chunk.rings + set_;
    lanes_.section = sections.coded;
  }

  // Returns the same in all warps.
  CFCK_DEVICE bool decode() {
    const std::uint8_t* const raw = decode_groups(0, shared_.tail_first_group, s_.raw.data);
    fill_tail(raw);
    simt::sync_block();
    (void)decode_groups(shared_.tail_first_group, n_groups_, shared_.chunk.tail);
    share_counts();
    simt::sync_block();
    place_escapes();
    simt::sync_block();
    if (has_mask_ && set_ == 0) {
      fits_ = spread_masked_values<Word>(chunk_, s_) && fits_;
    }
    const bool fits = !simt::any(!fits_);
    if (simt::lane() == 0) {
      shared_.fits[set_] = fits ? 1 : 0;
    }
    simt::sync_block();
    bool all = true;
    CFCK_UNROLL
    for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
      all = all && shared_.fits[set] != 0;
    }
    return all;
  }

 private:
  // Counts those of the n values of a group that the set has.
  CFCK_DEVICE unsigned n_of_set(unsigned n) const {
    const unsigned first = set_ * simt::kWarpLanes;
    const unsigned n_left = n > first ? n - first : 0;
    return n_left < simt::kWarpLanes ? n_left : simt::kWarpLanes;
  }

  // Decodes the set's values of groups [first, last); returns what follows their raw bits.
  CFCK_DEVICE const std::uint8_t* decode_groups(std::uint32_t first, std::uint32_t last,
                                                const std::uint8_t* raw) {
    const std::uint32_t* const groups = chunk_.groups;
    CFCK_NO_UNROLL
    for (std::uint32_t g = first; g < last; ++g) {
      const std::uint32_t group = groups[g];
      const unsigned n = size_of_group(n_values_, g);
      if (is_zero_group(group)) {
        if (simt::lane() < n_of_set(n)) {
          *place_of(g) = 0;
        }
      } else if (n == kGroupSize) {
        raw = decode_group<true>(g, group, n, raw);
      } else {
        raw = decode_group<false>(g, group, n, raw);
      }
    }
    return raw;
  }

  CFCK_DEVICE Word* place_of(std::uint32_t g) const {
    return values_ + std::size_t{g} * kGroupSize + set_ * simt::kWarpLanes + simt::lane();
  }

  template <bool is_whole>
  CFCK_DEVICE const std::uint8_t* decode_group(std::uint32_t g, std::uint32_t group, unsigned n,
                                               const std::uint8_t* raw) {
    const unsigned trailing_zero_bits = trailing_zero_bits_of(group);
    const Word bits = load_raw_bits(raw, trailing_zero_bits, n);
    const unsigned n_mine = is_whole ? simt::kWarpLanes : n_of_set(n);
    if (is_whole || n_mine != 0) {
      const bool is_active = is_whole || simt::lane() < n_mine;
      const std::uint32_t scale_bin = bin_of(group);
      fill_rings(lanes_);
      const std::uint32_t symbol =
          decode_step(lanes_, 0, shared_.chunk.tables[2 + scale_bin % kPhases], is_active);
      if (is_active) {
        *place_of(g) = OneWarp::value_of(bits, OneWarp::top_of_symbol(scale_bin, symbol));
      }
      const std::uint32_t votes = simt::ballot(symbol == Format::kSymbolEscape && is_active);
      if (votes != 0) {
        add_row(g, votes);
      }
    }
    return raw + OneWarp::group_raw_bytes(has_signs_, trailing_zero_bits, n);
  }

  CFCK_DEVICE Word load_raw_bits(const std::uint8_t* raw, unsigned trailing_zero_bits,
                                 unsigned n) const {
    const unsigned low_bits = trailing_zero_bits == 0 ? Format::kLowBits : 0;
    const unsigned n_bits = Format::kRawBits - (has_signs_ ? 0 : 1);
    const unsigned last = trailing_zero_bits + low_bits;
    Word bits = load_planes_of_set<Word>(raw, n_bits, last, n, set_);
    if constexpr (Format::kLowBits != 0) {
      constexpr unsigned kLowBytes = Format::kLowBits / 8;
      const unsigned i = set_ * simt::kWarpLanes + simt::lane();
      if (low_bits != 0 && i < n) {
        const std::uint8_t* const low = raw + (n_bits - last) * ((n + 7) / 8);
        bits |= OneWarp::template load_low<kLowBytes>(low + i * kLowBytes);
      }
    }
    return bits;
  }

  // Puts the set's part of the tail into shared memory, and what is in the section.
  CFCK_DEVICE void fill_tail(const std::uint8_t* raw) {
    constexpr std::uint32_t kSetBytes = simt::kWarpLanes * kRansStateBits / 8;
    const DeviceLanes<1> before = without_ring(lanes_);
    for (std::uint32_t g = shared_.tail_first_group; g < n_groups_; ++g) {
      const std::uint32_t group = chunk_.groups[g];
      const unsigned n_mine = n_of_set(size_of_group(n_values_, g));
      if (!is_zero_group(group) && n_mine != 0) {
        fill_rings(lanes_);
        (void)decode_step(lanes_, 0, shared_.chunk.tables[2 + bin_of(group) % kPhases],
                          simt::lane() < n_mine);
      }
    }
    const std::uint32_t in_lanes = shared_.tail_in_lanes;
    const std::uint32_t in_section = shared_.tail_raw_bytes - in_lanes;
    if (set_ == 0) {
      for (std::uint32_t i = simt::lane(); i < in_section; i += simt::kWarpLanes) {
        shared_.chunk.tail[i] = static_cast<std::uint8_t>(simt::load_byte(raw + i));
      }
    }
    const std::uint32_t at = set_ * kSetBytes;
    fits_ = finish_device_lanes(lanes_, in_lanes > at ? in_lanes - at : 0,
                                shared_.chunk.tail + in_section + at);
    lanes_ = before;
  }

  CFCK_DEVICE DeviceEscapeRow* rows_of(unsigned set) const {
    return reinterpret_cast<DeviceEscapeRow*>(chunk_.escapes) + std::size_t{set} * max_rows_;
  }

  CFCK_DEVICE void add_row(std::uint32_t g, std::uint32_t votes) {
    if (n_rows_ == max_rows_) {
      fits_ = false;  // more escapes than the chunk has
      return;
    }
    if (simt::lane() == 0) {
      rows_of(set_)[n_rows_] = {g, votes, n_escapes_};
    }
    ++n_rows_;
    n_escapes_ += simt::popcount(votes);
  }

  CFCK_DEVICE void share_counts() {
    if (simt::lane() == 0) {
      shared_.n_rows[set_] = n_rows_;
      shared_.n_escapes[set_] = n_escapes_;
    }
  }

  // Returns how many escapes of a set are in the groups before `group`.
  CFCK_DEVICE std::uint32_t escapes_before(unsigned set, std::uint32_t group) const {
    const DeviceEscapeRow* const rows = rows_of(set);
    const std::uint32_t n_rows = shared_.n_rows[set];
    std::uint32_t first = 0;
    std::uint32_t end = n_rows;
    while (first < end) {
      const std::uint32_t middle = first + (end - first) / 2;
      const bool is_before = rows[middle].group < group;
      first = is_before ? middle + 1 : first;
      end = is_before ? end : middle;
    }
    return first < n_rows ? rows[first].n_before : shared_.n_escapes[set];
  }

  // Escaped values are stored in the order of the chunk, and each set knows its own. A row in each
  // lane.
  CFCK_DEVICE void place_escapes() {
    std::uint32_t n_all = 0;
    CFCK_UNROLL
    for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
      n_all += shared_.n_escapes[set];
    }
    fits_ = fits_ && n_all == n_escapes_of_chunk_;
    for (std::uint32_t r = simt::lane(); r < n_rows_; r += simt::kWarpLanes) {
      const DeviceEscapeRow row = rows_of(set_)[r];
      std::uint32_t number = row.n_before;
      CFCK_NO_UNROLL
      for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
        number += set == set_ ? 0 : escapes_before(set, row.group + (set < set_ ? 1 : 0));
      }
      Word* const values = values_ + std::size_t{row.group} * kGroupSize + set_ * simt::kWarpLanes;
      for (std::uint32_t votes = row.votes; votes != 0; votes &= votes - 1) {
        if (number < n_escapes_of_chunk_) {
          values[simt::lowest_bit(votes)] =
              load_value<Word>(s_.escapes.data + std::size_t{number} * sizeof(Word));
        }
        ++number;
      }
    }
  }

  const DeviceChunk& chunk_;
  const LosslessSections& s_;
  LosslessTeamShared& shared_;
  const unsigned set_;
  const std::uint32_t n_values_;  // not masked
  const std::uint32_t n_groups_;
  const std::uint32_t n_escapes_of_chunk_;
  const std::uint32_t max_rows_;
  const bool has_signs_;
  const bool has_mask_;
  Word* const values_;
  DeviceLanes<1> lanes_;
  std::uint32_t n_rows_ = 0;
  std::uint32_t n_escapes_ = 0;
  bool fits_ = true;
};

// The part of the first warp: tables, states and groups; a chunk of fewer lane sets it decodes.
template <class Format>
CFCK_DEVICE std::uint32_t open_for_team(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                        const LosslessSections& sections,
                                        LosslessTeamShared& shared) {
  std::uint32_t at = 0;
  unsigned n_sets = 0;
  if (!open_device_section(sections.coded, static_tables,
                           {shared.chunk.tables, kLosslessPlaces, kLosslessValueTables.first}, at,
                           n_sets)) {
    return kTeamRefused;
  }
  if (n_sets == 1) {
    return LosslessWarp<Format, 1>(chunk, sections, shared.chunk).decode(at) ? kTeamDone
                                                                             : kTeamRefused;
  }
  if (n_sets == 2) {
    return LosslessWarp<Format, 2>(chunk, sections, shared.chunk).decode(at) ? kTeamDone
                                                                             : kTeamRefused;
  }
  LosslessWarp<Format, kMaxDeviceLaneSets> warp(chunk, sections, shared.chunk);
  if (!warp.open(at)) {
    return kTeamRefused;
  }
  const DeviceLanes<kMaxDeviceLaneSets>& lanes = warp.lanes();
  CFCK_UNROLL
  for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
    shared.states[set][simt::lane()] = lanes.state[set];
    if (simt::lane() == 0) {
      shared.at[set] = lanes.at[set];
      shared.next[set] = lanes.next[set];
      shared.end[set] = lanes.end[set];
    }
  }
  if (simt::lane() == 0) {
    shared.tail_first_group = warp.tail().first_group;
    shared.tail_raw_bytes = warp.tail().raw_bytes;
    shared.tail_in_lanes = warp.tail().in_lanes;
  }
  return kTeamGoesOn;
}

// Decodes a chunk like decode_lossless_chunk(), by all kMaxDeviceLaneSets warps of a block.
template <class Format>
CFCK_DEVICE bool decode_lossless_by_team(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                         LosslessTeamShared& shared) {
  LosslessSections sections;
  if (!read_sections_of<Format>(chunk, sections)) {
    return false;
  }
  if (simt::warp_of_block() == 0) {
    const std::uint32_t step = open_for_team<Format>(chunk, static_tables, sections, shared);
    if (simt::lane() == 0) {
      shared.step = step;
    }
  }
  simt::sync_block();
  if (shared.step != kTeamGoesOn) {
    return shared.step == kTeamDone;
  }
  return LosslessTeamWarp<Format>(chunk, sections, shared).decode();
}

}  // namespace cfck::codec

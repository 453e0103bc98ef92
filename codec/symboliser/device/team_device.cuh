// Teams: a block of one warp for each lane set decodes a chunk, where there are too few chunks for
// one warp each to keep the device busy. The sets have words of their own, so that warps need each
// other only before the first group, for the raw bits that the lanes carry, and for the order of
// the escapes.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/device_chunk.hpp"
#include "codec/entropy/rans/device.cuh"
#include "codec/symboliser/device/bins_device.cuh"
#include "codec/symboliser/device/raw_bits_device.cuh"

namespace cfck::codec {

inline constexpr std::uint32_t kTeamRefused = 0;
inline constexpr std::uint32_t kTeamDone = 1;  // by the first warp alone: fewer lane sets
inline constexpr std::uint32_t kTeamGoesOn = 2;

// The warps of a block tell each other this, in its shared memory.
struct TeamShared {
  std::uint32_t item;              // number of the chunk
  std::uint32_t step;              // kTeamRefused, ...
  std::uint32_t tail_first_group;  // DeviceTail
  std::uint32_t tail_raw_bytes;
  std::uint32_t tail_in_lanes;
  std::uint32_t states[kMaxDeviceLaneSets][simt::kWarpLanes];
  std::uint32_t at[kMaxDeviceLaneSets];      // DeviceLanes
  std::uint32_t n_rows[kMaxDeviceLaneSets];  // of escapes
  std::uint32_t n_escapes[kMaxDeviceLaneSets];
  std::uint32_t fits[kMaxDeviceLaneSets];
};

// For all warps: reads layout and tables of a section as open_device_section() does. Each warp
// makes some of the tables. Warps meet.
CFCK_DEVICE bool open_section_by_team(DeviceBytes coded, DeviceBytes apart,
                                      const DeviceTable* static_tables, DeviceTableSet set,
                                      std::uint32_t& at, unsigned& n_sets) {
  set.first_place = simt::warp_of_block();
  set.n_warps = kMaxDeviceLaneSets;
  const bool fits = open_device_section(coded, apart, static_tables, set, at, n_sets);
  simt::sync_block();
  return fits;
}

// For the first warp: the lanes and the tail of a chunk that it has opened.
CFCK_DEVICE void share_opened(const DeviceLanes<kMaxDeviceLaneSets>& lanes, const DeviceTail& tail,
                              TeamShared& team) {
  CFCK_UNROLL
  for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
    team.states[set][simt::lane()] = lanes.state[set];
    if (simt::lane() == 0) {
      team.at[set] = lanes.at[set];
    }
  }
  if (simt::lane() == 0) {
    team.tail_first_group = tail.first_group;
    team.tail_raw_bytes = tail.raw_bytes;
    team.tail_in_lanes = tail.in_lanes;
  }
}

// Returns the step of the first warp, which alone knows it, in all warps. Warps meet.
CFCK_DEVICE std::uint32_t step_of_first_warp(TeamShared& team, std::uint32_t step) {
  if (simt::warp_of_block() == 0 && simt::lane() == 0) {
    team.step = step;
  }
  simt::sync_block();
  return team.step;
}

// For each warp: the lanes of its set. `rings` are those of all sets.
CFCK_DEVICE DeviceLanes<1> lanes_of_warp(const TeamShared& team, WordRing* rings,
                                         DeviceBytes section) {
  const unsigned set = simt::warp_of_block();
  DeviceLanes<1> lanes;
  lanes.state[0] = team.states[set][simt::lane()];
  lanes.at[0] = team.at[set];
  lanes.rings = rings + set;
  lanes.section = section;
  ask_in_advance(lanes);
  return lanes;
}

// Returns whether `fits` holds in all lanes of all warps. Warps meet.
CFCK_DEVICE bool all_warps_fit(TeamShared& team, bool fits) {
  const bool warp_fits = !simt::any(!fits);
  if (simt::lane() == 0) {
    team.fits[simt::warp_of_block()] = warp_fits ? 1 : 0;
  }
  simt::sync_block();
  bool all = true;
  CFCK_UNROLL
  for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
    all = all && team.fits[set] != 0;
  }
  return all;
}

// Counts those of the n values of a group that a set has.
CFCK_DEVICE unsigned n_values_of_set(unsigned set, unsigned n) {
  const unsigned first = set * simt::kWarpLanes;
  const unsigned n_left = n > first ? n - first : 0;
  return n_left < simt::kWarpLanes ? n_left : simt::kWarpLanes;
}

// Asks for the packed bits of value i, up to eight, none if n_bits is 0, and takes them
// (load_packed()).
CFCK_DEVICE simt::PendingWord ask_packed(const std::uint8_t* from, unsigned n_bits, unsigned i) {
  const unsigned first = i * n_bits;
  return n_bits == 0 ? simt::PendingWord{}
                     : simt::ask_bytes(from + first / 8, (first % 8 + n_bits + 7) / 8);
}
CFCK_DEVICE std::uint32_t take_packed(const simt::PendingWord& asked, const std::uint8_t* from,
                                      unsigned n_bits, unsigned i) {
  const unsigned first = i * n_bits;
  return simt::take(asked, from + first / 8) >> (first % 8) & ((1u << n_bits) - 1);
}

// Goes through groups [first, last) of a chunk, which are whole, some together, and asks for the
// raw bits of the next ones before it decodes those, so that a warp that is alone does not wait for
// the memory at each group. (Loads share a counter of those under way; a warp can only wait for
// all.) Returns how many raw bytes the groups have.
//   bytes_of(group)              how many raw bytes a group has
//   ask(group, at)               asks for them; they begin with byte `at` of these groups'
//   take(group, at, asked)       returns what was asked for
//   decode(g, group, at, taken)  decodes group number g
template <class Asked, class Taken, class Bytes, class Ask, class Take, class Decode>
CFCK_DEVICE std::uint32_t go_through_groups(const std::uint32_t* groups, std::uint32_t first,
                                            std::uint32_t last, Bytes&& bytes_of, Ask&& ask,
                                            Take&& take, Decode&& decode) {
  // Registers are scarce.
  constexpr unsigned kTogether = sizeof(Asked) <= 12 ? 4 : sizeof(Asked) <= 16 ? 3 : 2;
  std::uint32_t next[kTogether] = {};
  std::uint32_t group[kTogether] = {};
  std::uint32_t at[kTogether] = {};
  Asked asked[kTogether] = {};
  std::uint32_t end = 0;  // of the raw bits that were asked for
  // Numbers of groups are in memory as well, and loaded some groups earlier still.
  const auto load_numbers = [&](std::uint32_t begin) {
    CFCK_UNROLL
    for (unsigned d = 0; d < kTogether; ++d) {
      next[d] = begin + d < last ? groups[begin + d] : 0;
    }
  };
  const auto ask_for = [&](std::uint32_t begin) {
    CFCK_UNROLL
    for (unsigned d = 0; d < kTogether; ++d) {
      if (begin + d < last) {
        group[d] = next[d];
        at[d] = end;
        asked[d] = ask(group[d], end);
        end += bytes_of(group[d]);
      }
    }
    load_numbers(begin + kTogether);
  };
  load_numbers(first);
  ask_for(first);
  CFCK_NO_UNROLL
  for (std::uint32_t begin = first; begin < last; begin += kTogether) {
    std::uint32_t own_group[kTogether];
    std::uint32_t own_at[kTogether];
    Taken taken[kTogether] = {};
    CFCK_UNROLL
    for (unsigned d = 0; d < kTogether; ++d) {
      own_group[d] = group[d];
      own_at[d] = at[d];
      if (begin + d < last) {
        taken[d] = take(group[d], at[d], asked[d]);
      }
    }
    ask_for(begin + kTogether);
    CFCK_UNROLL
    for (unsigned d = 0; d < kTogether; ++d) {
      if (begin + d < last) {
        decode(begin + d, own_group[d], own_at[d], taken[d]);
      }
    }
  }
  return end;
}

// Puts the set's part of the tail into `tail`, and what of it is in the section, at `raw`. The
// lanes are as before afterwards. `table_of(group)` is the table of a group's symbols, and
// `skip(g)` may decode those of the first groups from g on: it returns the group after them. False
// where the lanes do not end as they must.
template <class TableOf, class Skip>
CFCK_DEVICE bool fill_team_tail(DeviceLanes<1>& lanes, const TeamShared& team,
                                const std::uint32_t* groups, std::uint32_t n_values,
                                const std::uint8_t* raw, std::uint8_t* tail, TableOf&& table_of,
                                Skip&& skip) {
  constexpr std::uint32_t kSetBytes = simt::kWarpLanes * kRansStateBits / 8;
  const unsigned set = simt::warp_of_block();
  const std::uint32_t n_groups = (n_values + kGroupSize - 1) / kGroupSize;
  const LanesMark<1> before = mark_of(lanes);
  for (std::uint32_t g = skip(team.tail_first_group); g < n_groups; ++g) {
    const unsigned n_mine = n_values_of_set(set, size_of_group(n_values, g));
    if (!is_zero_group(groups[g]) && n_mine != 0) {
      fill_rings(lanes);
      (void)decode_step(lanes, 0, table_of(groups[g]), simt::lane() < n_mine);
    }
  }
  const std::uint32_t in_section = team.tail_raw_bytes - team.tail_in_lanes;
  if (set == 0) {
    for (std::uint32_t i = simt::lane(); i < in_section; i += simt::kWarpLanes) {
      tail[i] = static_cast<std::uint8_t>(simt::load_byte(raw + i));
    }
  }
  const std::uint32_t at = set * kSetBytes;
  const bool fits = finish_device_lanes(
      lanes, team.tail_in_lanes > at ? team.tail_in_lanes - at : 0, tail + in_section + at);
  go_back(lanes, before);
  return fits;
}

// The escapes of the values of one warp, whose numbers in the chunk are known when all warps have
// decoded theirs: escapes are stored in the order of the chunk.
class TeamEscapes {
 public:
  // `rows` has space for `max_rows` of each set. A chunk has n_escapes.
  CFCK_DEVICE TeamEscapes(DeviceEscapeRow* rows, std::uint32_t n_escapes, std::uint32_t n_groups)
      : rows_(rows),
        n_escapes_of_chunk_(n_escapes),
        max_rows_(n_escapes < n_groups ? n_escapes : n_groups) {}

  // Notes those of a group: bit i of `votes` is the set's value i. False where a chunk has fewer.
  CFCK_DEVICE bool add(std::uint32_t group, std::uint32_t votes) {
    if (n_rows_ == max_rows_) {
      return false;
    }
    if (simt::lane() == 0) {
      rows_of(simt::warp_of_block())[n_rows_] = {group, votes, n_escapes_};
    }
    ++n_rows_;
    n_escapes_ += simt::popcount(votes);
    return true;
  }

  // Tells the other warps, which may read it after sync_block().
  CFCK_DEVICE void share(TeamShared& team) const {
    if (simt::lane() == 0) {
      team.n_rows[simt::warp_of_block()] = n_rows_;
      team.n_escapes[simt::warp_of_block()] = n_escapes_;
    }
  }

  // Whether all warps together have as many as the chunk.
  CFCK_DEVICE bool are_all(const TeamShared& team) const {
    std::uint32_t n = 0;
    CFCK_UNROLL
    for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
      n += team.n_escapes[set];
    }
    return n == n_escapes_of_chunk_;
  }

  // Calls `put(number, i)` for the escapes of the warp, a row of them in each lane: the number in
  // the chunk, below n_escapes, and the place of the value. The first n_whole groups are whole.
  template <class Put>
  CFCK_DEVICE void each(const TeamShared& team, std::uint32_t n_whole, Put&& put) const {
    const unsigned own = simt::warp_of_block();
    for (std::uint32_t r = simt::lane(); r < n_rows_; r += simt::kWarpLanes) {
      const DeviceEscapeRow row = rows_of(own)[r];
      const bool is_whole = row.group < n_whole;
      CFCK_NO_UNROLL
      for (std::uint32_t left = row.votes; left != 0; left &= left - 1) {
        const unsigned lane = simt::lowest_bit(left);
        const std::uint32_t up_to = (1u << lane) - 1;
        std::uint32_t number = row.n_before + simt::popcount(row.votes & up_to);
        CFCK_NO_UNROLL
        for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
          // Values of the group that come before: in whole groups those of the lanes below, and of
          // the same lane in the sets below; otherwise all in the sets below.
          const std::uint32_t same = set < own ? 1u << lane : 0;
          const std::uint32_t others = is_whole ? up_to | same : set < own ? simt::kAllLanes : 0;
          number += set == own ? 0 : n_before(team, set, row.group, others);
        }
        if (number < n_escapes_of_chunk_) {
          put(number, row.group * kGroupSize + place_in_group(is_whole, own, lane));
        }
      }
    }
  }

 private:
  CFCK_DEVICE DeviceEscapeRow* rows_of(unsigned set) const {
    return rows_ + std::size_t{set} * max_rows_;
  }

  // Returns how many escapes of a set are in the groups before `group`, or in the group itself and
  // among `lanes`.
  CFCK_DEVICE std::uint32_t n_before(const TeamShared& team, unsigned set, std::uint32_t group,
                                     std::uint32_t lanes) const {
    const DeviceEscapeRow* const rows = rows_of(set);
    const std::uint32_t n_rows = team.n_rows[set];
    std::uint32_t first = 0;
    std::uint32_t end = n_rows;
    while (first < end) {
      const std::uint32_t middle = first + (end - first) / 2;
      const bool is_before = rows[middle].group < group;
      first = is_before ? middle + 1 : first;
      end = is_before ? end : middle;
    }
    if (first == n_rows) {
      return team.n_escapes[set];
    }
    const DeviceEscapeRow& row = rows[first];
    return row.n_before + (row.group == group ? simt::popcount(row.votes & lanes) : 0);
  }

  DeviceEscapeRow* rows_;
  std::uint32_t n_escapes_of_chunk_;
  std::uint32_t max_rows_;
  std::uint32_t n_rows_ = 0;
  std::uint32_t n_escapes_ = 0;
};

}  // namespace cfck::codec

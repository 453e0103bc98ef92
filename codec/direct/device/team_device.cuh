// Chunks of the direct codec with the stage `rans` on a device, each decoded by a team of warps
// (codec/symboliser/device/team_device.cuh). Passes over all values are shared out in equal parts.
#pragma once

#include "codec/direct/device/device.cuh"
#include "codec/symboliser/device/team_device.cuh"

namespace cfck::codec {

// The shared memory of a block.
struct DirectTeamShared {
  DirectShared chunk;
  TeamShared team;
  DirectStaged staged[kMaxDeviceLaneSets];                 // of each warp
  std::uint32_t counts[kMaxDeviceLaneSets][kBinCounters];  // of bins, in the part of each warp
  std::uint32_t n_exact[kMaxDeviceLaneSets];               // likewise
};

// One warp of a team, whose chunk has been opened.
template <class Value>
class DirectTeamWarp {
  using Word = typename Value::Word;

 public:
  CFCK_DEVICE DirectTeamWarp(const DeviceChunk& chunk, const std::uint8_t* mask,
                             DirectTeamShared& shared)
      : chunk_(chunk),
        s_(shared.chunk.sections),
        shared_(shared),
        parameters_(*chunk.parameters),
        mask_(mask),
        set_(simt::warp_of_block()),
        n_unmasked_(chunk.n_values - s_.n_masked),
        n_groups_((n_unmasked_ + kGroupSize - 1) / kGroupSize),
        lanes_(lanes_of_warp(shared.team, shared.chunk.rings, s_.coded)),
        escapes_(escape_rows(chunk, s_), s_.n_escapes, n_groups_) {}

  // Returns the same in all warps.
  CFCK_DEVICE bool decode() {
    const bool is_moved = parameters_.bands != nullptr || mask_ != nullptr;
    if (!is_moved && parameters_.coefficients == nullptr) {
      out_ = chunk_.out;
      decode_values<true>();
    } else {
      const DirectIndices indices = indices_of<Word>(chunk_, is_moved, n_groups_);
      out_ = indices.merged;
      decode_values<false>();
      simt::sync_block();
      pass_indices(indices);
    }
    return all_warps_fit(shared_.team, fits_);
  }

 private:
  template <bool to_values>
  CFCK_DEVICE void decode_values() {
    const std::uint32_t tail = shared_.team.tail_first_group;
    const std::uint32_t n_whole = n_unmasked_ / kGroupSize;
    const std::uint32_t last = tail < n_whole ? tail : n_whole;
    const std::uint8_t* raw = decode_whole_groups<to_values>(last);
    raw = decode_groups<to_values>(last, tail, raw);
    const auto table = [&](std::uint32_t group) -> const DeviceTable& { return table_of(group); };
    const bool ends_well =
        fill_team_tail(lanes_, shared_.team, chunk_.groups, n_unmasked_, raw, shared_.chunk.tail,
                       table, [&](std::uint32_t g) {
                         return skip_whole_groups<1>(shared_.staged[set_], lanes_, chunk_.groups, g,
                                                     n_whole, table);
                       });
    fits_ = fits_ && ends_well;
    simt::sync_block();
    decode_tail<to_values>(n_whole);
    escapes_.share(shared_.team);
    simt::sync_block();
    fits_ = fits_ && escapes_.are_all(shared_.team);
    escapes_.each(shared_.team, n_whole, [&](std::uint32_t number, std::uint32_t at) {
      put_escape<to_values>(number, at);
    });
  }

  // The first `last` groups, whose raw bits are in the section: in long runs where one step is for
  // all and they are common. Returns what follows these.
  template <bool to_values>
  CFCK_DEVICE const std::uint8_t* decode_whole_groups(std::uint32_t last) {
    const std::uint8_t* raw = s_.raw.data;
    std::uint32_t g = 0;
    CFCK_NO_UNROLL
    while (g < last) {
      std::uint32_t end = last;
#if CFCK_HAS_STAGING
      if (to_values && parameters_.row_steps == nullptr) {
        g = decode_staged_groups(g, last, raw, false);
        end = last - g > kUnstagedGroups ? g + kUnstagedGroups : last;
      }
#endif
      raw += decode_unstaged_groups<to_values>(g, end, raw);
      g = end;
    }
    return raw;
  }

  // The groups whose raw bits are in shared memory by now.
  template <bool to_values>
  CFCK_DEVICE void decode_tail([[maybe_unused]] std::uint32_t n_whole) {
    const std::uint8_t* raw = shared_.chunk.tail;
    std::uint32_t g = shared_.team.tail_first_group;
#if CFCK_HAS_STAGING
    if (to_values && parameters_.row_steps == nullptr) {
      g = decode_staged_groups(g, n_whole, raw, true);
    }
#endif
    (void)decode_groups<to_values>(g, n_groups_, raw);
  }

#if CFCK_HAS_STAGING
  CFCK_DEVICE std::uint32_t decode_staged_groups(std::uint32_t first, std::uint32_t last,
                                                 const std::uint8_t*& raw, bool is_tail) {
    const unsigned i = place_in_group(true, set_, simt::lane());
    const double step = parameters_.step;
    Word* const values = static_cast<Word*>(out_) + i;
    RunBits bits{raw, s_.raw.end(), shared_.chunk.tail, is_tail};
    first = decode_common_runs(
        shared_.staged[set_], lanes_, chunk_.groups, first, last, bits,
        [&](WordStream<1>& words, std::uint32_t g, std::uint32_t group, const std::uint8_t* stage) {
          const unsigned low_bits = low_bits_of_bin(bin_of(group));
          const auto low = bits_of_value<std::uint32_t>(stage, low_bits, kGroupSize, i);
          words.refill();
          const std::uint32_t symbol = words.step(0, table_of(group));
          const auto index = static_cast<std::int32_t>((symbol - kSymbolOfZero) << low_bits | low);
          values[std::size_t{g} * kGroupSize] =
              Value::from_double(static_cast<double>(index) * step);
          note_escapes(g, simt::ballot(symbol == kSymbolEscape));
          return stage + low_bits * (kGroupSize / 8);
        });
    raw = bits.raw;
    return first;
  }
#endif

  // Decodes groups [first, last); returns how many raw bytes they have.
  template <bool to_values>
  CFCK_DEVICE std::uint32_t decode_unstaged_groups(std::uint32_t first, std::uint32_t last,
                                                   const std::uint8_t* raw) {
    const unsigned i = place_in_group(true, set_, simt::lane());
    return go_through_groups<simt::PendingWord, std::uint32_t>(
        chunk_.groups, first, last,
        [&](std::uint32_t group) { return raw_bytes_of(group, kGroupSize); },
        [&](std::uint32_t group, std::uint32_t at) {
          const unsigned n_bits = low_bits_of_group(group);
          return n_bits <= 8 ? ask_packed(raw + at, n_bits, i) : simt::PendingWord{};
        },
        [&](std::uint32_t group, std::uint32_t at, const simt::PendingWord& asked) {
          // Few groups have more.
          const unsigned n_bits = low_bits_of_group(group);
          const std::uint8_t* const from = raw + at;
          return n_bits == 0   ? 0
                 : n_bits <= 8 ? take_packed(asked, from, n_bits, i)
                               : bits_of_value<std::uint32_t>(from, n_bits, kGroupSize, i);
        },
        [&](std::uint32_t g, std::uint32_t group, std::uint32_t, std::uint32_t low) {
          if (is_zero_group(group)) {
            store<to_values>(place_of(g, kGroupSize), 0);
          } else {
            decode_indices<to_values, true>(g, group, kGroupSize, low);
          }
        });
  }

  CFCK_DEVICE const DeviceTable& table_of(std::uint32_t group) const {
    return shared_.chunk.tables[2 + table_of_bin(bin_of(group))];
  }

  CFCK_DEVICE static unsigned low_bits_of_group(std::uint32_t group) {
    return is_zero_group(group) ? 0 : low_bits_of_bin(bin_of(group));
  }
  CFCK_DEVICE static std::uint32_t raw_bytes_of(std::uint32_t group, unsigned n) {
    return static_cast<std::uint32_t>(packed_bytes(low_bits_of_group(group), n));
  }

  // Decodes the set's values of groups [first, last); returns what follows their raw bits.
  template <bool to_values>
  CFCK_DEVICE const std::uint8_t* decode_groups(std::uint32_t first, std::uint32_t last,
                                                const std::uint8_t* raw) {
    CFCK_NO_UNROLL
    for (std::uint32_t g = first; g < last; ++g) {
      const std::uint32_t group = chunk_.groups[g];
      const unsigned n = size_of_group(n_unmasked_, g);
      const unsigned i = place_in_group(n == kGroupSize, set_, simt::lane());
      if (!is_zero_group(group)) {
        decode_indices<to_values, false>(
            g, group, n,
            i < n ? bits_of_value<std::uint32_t>(raw, low_bits_of_group(group), n, i) : 0);
      } else if (i < n) {
        store<to_values>(place_of(g, n), 0);
      }
      raw += raw_bytes_of(group, n);
    }
    return raw;
  }

  CFCK_DEVICE std::uint32_t place_of(std::uint32_t g, unsigned n) const {
    return g * kGroupSize + place_in_group(n == kGroupSize, set_, simt::lane());
  }

  template <bool to_values, bool is_whole>
  CFCK_DEVICE void decode_indices(std::uint32_t g, std::uint32_t group, unsigned n,
                                  std::uint32_t low) {
    const unsigned n_mine = is_whole ? simt::kWarpLanes : n_values_of_set(set_, n);
    if (!is_whole && n_mine == 0) {
      return;
    }
    const unsigned low_bits = low_bits_of_bin(bin_of(group));
    const bool is_active = is_whole || simt::lane() < n_mine;
    fill_rings(lanes_);
    const std::uint32_t symbol = decode_step(lanes_, 0, table_of(group), is_active);
    const bool is_escape = symbol == kSymbolEscape && is_active;
    const auto index = static_cast<std::int32_t>((symbol - kSymbolOfZero) << low_bits | low);
    if (low_bits > kMaxSafeLowBits && is_active && !is_escape) {
      fits_ = fits_ && is_index_of<to_values>(index, symbol, low_bits);
    }
    if (is_active) {
      store<to_values>(place_of(g, n), index);
    }
    note_escapes(g, simt::ballot(is_escape));
  }

  CFCK_DEVICE void note_escapes(std::uint32_t g, std::uint32_t votes) {
    if (votes != 0) {
      fits_ = escapes_.add(g, votes) && fits_;
    }
  }

  template <bool to_values>
  CFCK_DEVICE void store(std::uint32_t i, std::int32_t index) {
    if constexpr (to_values) {
      static_cast<Word*>(out_)[i] =
          Value::from_double(static_cast<double>(index) * step_of_value(parameters_, i));
    } else {
      static_cast<std::int32_t*>(out_)[i] = index;
    }
  }

  // Puts an escape over what its symbol left there.
  template <bool to_values>
  CFCK_DEVICE void put_escape(std::uint32_t number, std::uint32_t i) {
    const std::int32_t index = chunk_.escapes[number];
    if (!to_values || index != kExact) {
      fits_ = fits_ && (!to_values || is_valid_index(index));
      store<to_values>(i, index);
      return;
    }
    const std::uint32_t exact = exact_number(chunk_, s_, number);
    if (exact < s_.n_exact) {
      static_cast<Word*>(out_)[i] =
          load_value<Word>(s_.exact.data + std::size_t{exact} * sizeof(Word));
    }
  }

  // Puts the indices of all groups into the order of storage, and computes the values; each warp
  // its part.
  CFCK_DEVICE void pass_indices(const DirectIndices& indices) {
    const DevicePart part = part_of_warp(chunk_.n_values);
    if (parameters_.bands != nullptr) {
      find_own_bins();
      fetch_by_bins(parameters_, mask_, chunk_.n_values, part, shared_.counts[set_], indices.merged,
                    indices.stored);
      simt::sync_block();
    } else if (mask_ != nullptr) {
      spread_indices(mask_, chunk_.n_values, part, indices.merged, indices.stored);
      simt::sync_block();
    }
    if (parameters_.coefficients != nullptr) {
      const bool fits = restore_device_indices(parameters_, chunk_.n_values, indices.stored, set_,
                                               kMaxDeviceLaneSets);
      fits_ = fits_ && fits;
      simt::sync_block();
    }
    std::uint32_t n_exact = s_.n_exact == 0 ? 0 : exact_before(indices.stored, part);
    const bool fits = store_device_values<Value>(parameters_, part, indices.stored, s_.exact,
                                                 n_exact, static_cast<Word*>(chunk_.out));
    // The last part ends with the last exact value.
    fits_ = fits_ && fits && (set_ + 1 != kMaxDeviceLaneSets || n_exact == s_.n_exact);
  }

  // Makes of the counts of the warp's part the places of the first of each bin in it.
  CFCK_DEVICE void find_own_bins() {
    constexpr unsigned kOfLane = kBinCounters / simt::kWarpLanes;
    std::uint32_t first[kOfLane];
    CFCK_UNROLL
    for (unsigned i = 0; i < kOfLane; ++i) {
      const unsigned c = i * simt::kWarpLanes + simt::lane();
      first[i] = shared_.chunk.next_of_bin[c];
      for (unsigned set = 0; set < set_; ++set) {
        first[i] += shared_.counts[set][c];
      }
    }
    simt::sync_block();  // whoever still reads the counts
    CFCK_UNROLL
    for (unsigned i = 0; i < kOfLane; ++i) {
      shared_.counts[set_][i * simt::kWarpLanes + simt::lane()] = first[i];
    }
    simt::sync_warp();
  }

  // Returns how many exact values the parts before the warp's have. Warps meet.
  CFCK_DEVICE std::uint32_t exact_before(const std::int32_t* indices, const DevicePart& part) {
    const std::uint32_t n = count_exact(indices, part);
    if (simt::lane() == 0) {
      shared_.n_exact[set_] = n;
    }
    simt::sync_block();
    std::uint32_t before = 0;
    for (unsigned set = 0; set < set_; ++set) {
      before += shared_.n_exact[set];
    }
    return before;
  }

  const DeviceChunk& chunk_;
  const DirectSectionsOnDevice& s_;
  DirectTeamShared& shared_;
  const DeviceParameters& parameters_;
  const std::uint8_t* const mask_;
  const unsigned set_;
  const std::uint32_t n_unmasked_;  // values that are not masked
  const std::uint32_t n_groups_;
  void* out_ = nullptr;  // of the values, or of their indices
  DeviceLanes<1> lanes_;
  TeamEscapes escapes_;
  bool fits_ = true;
};

// Adds up the counts of bins of all parts.
CFCK_DEVICE void add_counts(DirectTeamShared& shared) {
  for (unsigned c = simt::lane(); c < kBinCounters; c += simt::kWarpLanes) {
    std::uint32_t sum = 0;
    CFCK_UNROLL
    for (unsigned set = 0; set < kMaxDeviceLaneSets; ++set) {
      sum += shared.counts[set][c];
    }
    shared.chunk.next_of_bin[c] = sum;
  }
  simt::sync_warp();
}

// The part of the first warp: states, groups and escapes; a chunk of fewer lane sets it decodes.
template <class Value>
CFCK_DEVICE std::uint32_t open_direct_for_team(const DeviceChunk& chunk, std::uint32_t at,
                                               unsigned n_sets, DirectTeamShared& shared) {
  if (n_sets == 1) {
    return DirectWarp<Value, 1>(chunk, shared.chunk).decode(at, shared.staged[0]) ? kTeamDone
                                                                                  : kTeamRefused;
  }
  if (n_sets == 2) {
    return DirectWarp<Value, 2>(chunk, shared.chunk).decode(at, shared.staged[0]) ? kTeamDone
                                                                                  : kTeamRefused;
  }
  if (chunk.parameters->bands != nullptr) {
    add_counts(shared);
  }
  DirectWarp<Value, kMaxDeviceLaneSets> warp(chunk, shared.chunk);
  if (!warp.open(at)) {
    return kTeamRefused;
  }
  share_opened(warp.lanes(), warp.tail(), shared.team);
  return kTeamGoesOn;
}

// Decodes a chunk like decode_direct_chunk(), by all kMaxDeviceLaneSets warps of a block.
template <class Value>
CFCK_DEVICE bool decode_direct_by_team(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                       DirectTeamShared& shared) {
  const DirectSectionsOnDevice sections = direct_sections(chunk);
  const std::uint8_t* mask = nullptr;
  if (!find_direct_mask(chunk, sections, mask)) {
    return false;
  }
  if (simt::warp_of_block() == 0 && simt::lane() == 0) {
    shared.chunk.sections = sections;
  }
  if (chunk.parameters->bands != nullptr) {
    count_bins(*chunk.parameters, mask, chunk.n_values, part_of_warp(chunk.n_values),
               shared.counts[simt::warp_of_block()]);
  }
  simt::sync_block();
  std::uint32_t at = 0;
  unsigned n_sets = 0;
  if (!open_section_by_team(
          shared.chunk.sections.coded, shared.chunk.sections.tables, static_tables,
          {shared.chunk.tables, kDirectPlaces, kDirectValueTables.first}, at, n_sets)) {
    return false;
  }
  std::uint32_t step = kTeamRefused;
  if (simt::warp_of_block() == 0) {
    step = open_direct_for_team<Value>(chunk, at, n_sets, shared);
  }
  step = step_of_first_warp(shared.team, step);
  if (step != kTeamGoesOn) {
    return step == kTeamDone;
  }
  return DirectTeamWarp<Value>(chunk, mask, shared).decode();
}

// Kernels decode such chunks (device/kernels.inc): DirectChunksF64 and so on.
template <class Value>
struct DirectChunks {
  using Shared = DirectWarpShared;
  using TeamShared = DirectTeamShared;

  CFCK_DEVICE static bool decode(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                 Shared& shared) {
    return decode_direct_chunk<Value>(chunk, static_tables, shared);
  }
  CFCK_DEVICE static bool decode_by_team(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                         TeamShared& shared) {
    return decode_direct_by_team<Value>(chunk, static_tables, shared);
  }
};
#define CFCK_DIRECT_DECODER(dtype, Dtype) using DirectChunks##Dtype = DirectChunks<Value##Dtype>;
#include "device/kernels.inc"

}  // namespace cfck::codec

// Chunks of mode 2 with the stage `rans` on a device, each decoded by a team of warps
// (codec/symboliser/device/team_device.cuh).
#pragma once

#include "codec/lossless/device/decode.cuh"
#include "codec/symboliser/device/team_device.cuh"

namespace cfck::codec {

// The shared memory of a block.
struct LosslessTeamShared {
  LosslessShared chunk;
  TeamShared team;
  LosslessStaged staged[kMaxDeviceLaneSets];  // of each warp
};

// One warp of a team, whose chunk has been opened.
template <class Format>
class LosslessTeamWarp {
  using Word = typename Format::Word;
  using Values = LosslessValues<Format>;

 public:
  CFCK_DEVICE LosslessTeamWarp(const DeviceChunk& chunk, const LosslessSections& sections,
                               LosslessTeamShared& shared)
      : chunk_(chunk),
        s_(sections),
        shared_(shared),
        set_(simt::warp_of_block()),
        n_values_(chunk.n_values - sections.n_masked),
        n_groups_((n_values_ + kGroupSize - 1) / kGroupSize),
        has_signs_((sections.flags & kHasNoSigns) == 0),
        has_mask_((sections.flags & kHasMask) != 0),
        values_(static_cast<Word*>(has_mask_ ? chunk.values : chunk.out)),
        lanes_(lanes_of_warp(shared.team, shared.chunk.rings, sections.coded)),
        escapes_(reinterpret_cast<DeviceEscapeRow*>(chunk.escapes),
                 sections.escapes.n_bytes / static_cast<std::uint32_t>(sizeof(Word)), n_groups_) {}

  // Returns the same in all warps.
  CFCK_DEVICE bool decode() {
    const std::uint32_t tail = shared_.team.tail_first_group;
    const std::uint32_t n_whole = n_values_ / kGroupSize;
    const std::uint32_t last = tail < n_whole ? tail : n_whole;
    const std::uint8_t* raw = decode_whole_groups(last);
    raw = decode_groups(last, tail, raw);
    const bool ends_well = fill_team_tail(
        lanes_, shared_.team, chunk_.groups, n_values_, raw, shared_.chunk.tail,
        [&](std::uint32_t group) -> const DeviceTable& {
          return table_of(bin_of(group) % kPhases);
        },
        [](std::uint32_t g) { return g; });
    fits_ = fits_ && ends_well;
    simt::sync_block();
    (void)decode_groups(tail, n_groups_, shared_.chunk.tail);
    escapes_.share(shared_.team);
    simt::sync_block();
    fits_ = fits_ && escapes_.are_all(shared_.team);
    escapes_.each(shared_.team, n_whole, [&](std::uint32_t number, std::uint32_t i) {
      values_[i] = load_value<Word>(s_.escapes.data + std::size_t{number} * sizeof(Word));
    });
    simt::sync_block();
    if (has_mask_) {
      fits_ = spread_masked_values<Word>(chunk_, s_, part_of_warp(chunk_.n_values)) && fits_;
    }
    return all_warps_fit(shared_.team, fits_);
  }

 private:
  // The first `last` groups, whose raw bits are in the section: in long runs where they are plain.
  // Returns what follows these.
  CFCK_DEVICE const std::uint8_t* decode_whole_groups(std::uint32_t last) {
    const std::uint8_t* raw = s_.raw.data;
    std::uint32_t g = 0;
    CFCK_NO_UNROLL
    while (g < last) {
      std::uint32_t end = last;
#if CFCK_HAS_STAGING
      if (has_signs_) {
        g = decode_staged_groups(g, last, raw);
        end = last - g > kUnstagedGroups ? g + kUnstagedGroups : last;
      }
#endif
      raw += decode_unstaged_groups(g, end, raw);
      g = end;
    }
    return raw;
  }

#if CFCK_HAS_STAGING
  CFCK_DEVICE std::uint32_t decode_staged_groups(std::uint32_t first, std::uint32_t last,
                                                 const std::uint8_t*& raw) {
    Word* value = place_of(first, kGroupSize);
    return decode_plain_runs<Format>(
        shared_.staged[set_], lanes_, chunk_.groups, first, last, raw, s_.raw.end(),
        [&](WordStream<1>& words, std::uint32_t g, std::uint32_t facts, const std::uint8_t* stage) {
          const Word bits = Values::raw_bits_of(stage, true, 0, kGroupSize, own_place());
          words.refill();
          const std::uint32_t symbol = words.step(0, table_of(table_of_facts(facts)));
          *value = Values::value_of(bits, Values::top_below(first_of_facts(facts), symbol));
          value += kGroupSize;
          note_escapes(g, simt::ballot(symbol == Format::kSymbolEscape));
        });
  }
#endif

  // Decodes groups [first, last); returns how many raw bytes they have.
  CFCK_DEVICE std::uint32_t decode_unstaged_groups(std::uint32_t first, std::uint32_t last,
                                                   const std::uint8_t* raw) {
    return go_through_groups<Asked, Word>(
        chunk_.groups, first, last,
        [&](std::uint32_t group) { return raw_bytes_of(group, kGroupSize); },
        [&](std::uint32_t group, std::uint32_t at) { return ask_raw_bits(group, raw + at); },
        [&](std::uint32_t group, std::uint32_t at, const Asked& asked) {
          return is_plain_group(group) ? take_raw_bits(asked, raw + at) : Word{0};
        },
        [&](std::uint32_t g, std::uint32_t group, std::uint32_t at, Word bits) {
          if (is_plain_group(group)) {
            decode_values<true>(g, group, kGroupSize, bits);
          } else {
            decode_group(g, group, raw + at);
          }
        });
  }

  static constexpr unsigned kLowBytes = Format::kLowBits / 8;
  // The raw bits of plain groups: fewer than eight packed, and bytes.
  static constexpr unsigned kRestBytes = kLowBytes != 0 ? kLowBytes : Format::kRawBits / 8;
  static constexpr unsigned kHighBits = Format::kRawBits - 8 * kRestBytes;
  static_assert(kHighBits > 1 && kHighBits < 8);
  struct NoBits {};
  // The raw bits of a group without trailing zero bits, on their way: the packed ones, and what
  // follows these, if anything does: an integer or a byte.
  struct Asked {
    simt::PendingWord packed;
    std::conditional_t<kRestBytes == 0, NoBits,
                       std::conditional_t<kRestBytes <= 4, simt::PendingWord, simt::PendingLong>>
        rest;
  };

  CFCK_DEVICE unsigned n_packed() const { return kHighBits - (has_signs_ ? 0 : 1); }
  CFCK_DEVICE unsigned own_place() const { return place_in_group(true, set_, simt::lane()); }
  CFCK_DEVICE const std::uint8_t* rest_of(const std::uint8_t* raw) const {
    return raw + n_packed() * (kGroupSize / 8) + own_place() * kRestBytes;
  }

  CFCK_DEVICE Asked ask_raw_bits(std::uint32_t group, const std::uint8_t* raw) const {
    Asked asked;
    if (is_plain_group(group)) {
      asked.packed = ask_packed(raw, n_packed(), own_place());
      if constexpr (kRestBytes > 4) {
        asked.rest = simt::ask_long(rest_of(raw), kRestBytes);
      } else if constexpr (kRestBytes != 0) {
        asked.rest = simt::ask_bytes(rest_of(raw), kRestBytes);
      }
    }
    return asked;
  }

  CFCK_DEVICE Word take_raw_bits(const Asked& asked, const std::uint8_t* raw) const {
    const std::uint32_t packed = take_packed(asked.packed, raw, n_packed(), own_place());
    auto bits = static_cast<Word>(static_cast<Word>(packed) << (8 * kRestBytes));
    if constexpr (kRestBytes != 0) {
      constexpr Word kMask = static_cast<Word>((std::uint64_t{1} << (8 * kRestBytes)) - 1);
      bits |= static_cast<Word>(simt::take(asked.rest, rest_of(raw))) & kMask;
    }
    return bits;
  }

  CFCK_DEVICE std::uint32_t raw_bytes_of(std::uint32_t group, unsigned n) const {
    return is_zero_group(group)
               ? 0
               : Values::group_raw_bytes(has_signs_, trailing_zero_bits_of(group), n);
  }

  // Decodes the set's values of groups [first, last); returns what follows their raw bits.
  CFCK_DEVICE const std::uint8_t* decode_groups(std::uint32_t first, std::uint32_t last,
                                                const std::uint8_t* raw) {
    CFCK_NO_UNROLL
    for (std::uint32_t g = first; g < last; ++g) {
      const std::uint32_t group = chunk_.groups[g];
      decode_group(g, group, raw);
      raw += raw_bytes_of(group, size_of_group(n_values_, g));
    }
    return raw;
  }

  CFCK_DEVICE void decode_group(std::uint32_t g, std::uint32_t group, const std::uint8_t* raw) {
    const unsigned n = size_of_group(n_values_, g);
    if (is_zero_group(group)) {
      if (simt::lane() < n_values_of_set(set_, n)) {
        *place_of(g, n) = 0;
      }
    } else {
      const unsigned i = place_in_group(n == kGroupSize, set_, simt::lane());
      decode_values<false>(
          g, group, n,
          i < n ? Values::raw_bits_of(raw, has_signs_, trailing_zero_bits_of(group), n, i) : 0);
    }
  }

  CFCK_DEVICE Word* place_of(std::uint32_t g, unsigned n) const {
    return values_ + std::size_t{g} * kGroupSize +
           place_in_group(n == kGroupSize, set_, simt::lane());
  }

  CFCK_DEVICE const DeviceTable& table_of(std::uint32_t phase) const {
    return shared_.chunk.tables[2 + phase];
  }

  template <bool is_whole>
  CFCK_DEVICE void decode_values(std::uint32_t g, std::uint32_t group, unsigned n, Word bits) {
    const unsigned n_mine = is_whole ? simt::kWarpLanes : n_values_of_set(set_, n);
    if (is_whole || n_mine != 0) {
      const bool is_active = is_whole || simt::lane() < n_mine;
      fill_rings(lanes_);
      const std::uint32_t symbol =
          decode_step(lanes_, 0, table_of(bin_of(group) % kPhases), is_active);
      if (is_active) {
        *place_of(g, n) = Values::value_of(bits, Values::top_of_symbol(bin_of(group), symbol));
      }
      note_escapes(g, simt::ballot(symbol == Format::kSymbolEscape && is_active));
    }
  }

  CFCK_DEVICE void note_escapes(std::uint32_t g, std::uint32_t votes) {
    if (votes != 0) {
      fits_ = escapes_.add(g, votes) && fits_;
    }
  }

  const DeviceChunk& chunk_;
  const LosslessSections& s_;
  LosslessTeamShared& shared_;
  const unsigned set_;
  const std::uint32_t n_values_;  // not masked
  const std::uint32_t n_groups_;
  const bool has_signs_;
  const bool has_mask_;
  Word* const values_;
  DeviceLanes<1> lanes_;
  TeamEscapes escapes_;
  bool fits_ = true;
};

// The part of the first warp: states and groups; a chunk of fewer lane sets it decodes.
template <class Format>
CFCK_DEVICE std::uint32_t open_for_team(const DeviceChunk& chunk, const LosslessSections& sections,
                                        std::uint32_t at, unsigned n_sets,
                                        LosslessTeamShared& shared) {
  if (n_sets == 1) {
    return LosslessWarp<Format, 1>(chunk, sections, shared.chunk).decode(at, shared.staged[0])
               ? kTeamDone
               : kTeamRefused;
  }
  if (n_sets == 2) {
    return LosslessWarp<Format, 2>(chunk, sections, shared.chunk).decode(at, shared.staged[0])
               ? kTeamDone
               : kTeamRefused;
  }
  LosslessWarp<Format, kMaxDeviceLaneSets> warp(chunk, sections, shared.chunk);
  if (!warp.open(at)) {
    return kTeamRefused;
  }
  share_opened(warp.lanes(), warp.tail(), shared.team);
  return kTeamGoesOn;
}

// Decodes a chunk like decode_lossless_chunk(), by all kMaxDeviceLaneSets warps of a block.
template <class Format>
CFCK_DEVICE bool decode_lossless_by_team(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                         LosslessTeamShared& shared) {
  const LosslessSections sections = lossless_sections(chunk);
  std::uint32_t at = 0;
  unsigned n_sets = 0;
  if (!open_section_by_team(sections.coded, sections.tables, static_tables,
                            {shared.chunk.tables, kLosslessPlaces, kLosslessValueTables.first}, at,
                            n_sets)) {
    return false;
  }
  std::uint32_t step = kTeamRefused;
  if (simt::warp_of_block() == 0) {
    step = open_for_team<Format>(chunk, sections, at, n_sets, shared);
  }
  step = step_of_first_warp(shared.team, step);
  if (step != kTeamGoesOn) {
    return step == kTeamDone;
  }
  return LosslessTeamWarp<Format>(chunk, sections, shared).decode();
}

// Kernels decode such chunks (device/kernels.inc): LosslessChunksF64 and so on.
template <class Format>
struct LosslessChunks {
  using Shared = LosslessWarpShared;
  using TeamShared = LosslessTeamShared;

  CFCK_DEVICE static bool decode(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                 Shared& shared) {
    return decode_lossless_chunk<Format>(chunk, static_tables, shared);
  }
  CFCK_DEVICE static bool decode_by_team(const DeviceChunk& chunk, const DeviceTable* static_tables,
                                         TeamShared& shared) {
    return decode_lossless_by_team<Format>(chunk, static_tables, shared);
  }
};
#define CFCK_LOSSLESS_DECODER(dtype, Dtype) \
  using LosslessChunks##Dtype = LosslessChunks<With32Symbols<Format##Dtype>>;
#include "device/kernels.inc"

}  // namespace cfck::codec

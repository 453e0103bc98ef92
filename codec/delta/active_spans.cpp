#include "codec/delta/active_spans.hpp"

#include <algorithm>

namespace cfck::codec {
namespace {

constexpr std::uint64_t kMinPauseBlocks = 64;
constexpr std::uint64_t kMinMissingChanges = 24;
constexpr unsigned kMostRounds = 4;

// Lists the blocks between spans of `min_blocks` without a change, and returns their number.
std::uint64_t split(const std::uint64_t* changed, std::uint64_t n_blocks, std::uint64_t min_blocks,
                    std::vector<ActiveSpan>& active) {
  active.clear();
  std::uint64_t n_active = 0;
  std::uint64_t first = 0;  // of the span
  std::uint64_t end = 0;    // behind its last change
  const auto close = [&] {
    if (end > first) {
      active.push_back({first, end - first});
      n_active += end - first;
    }
  };
  for (std::uint64_t b = 0; b < n_blocks; ++b) {
    if (changed[b] == 0) {
      continue;
    }
    if (b - end >= min_blocks) {
      close();
      first = b;
    }
    end = b + 1;
  }
  if (n_blocks - end < min_blocks) {
    end = n_blocks;
  }
  close();
  return n_active;
}

// Whether some span of kMinPauseBlocks may be without a change: any such has a whole group of half
// as many.
bool may_have_pauses(const std::uint64_t* changed, std::uint64_t n_blocks) {
  constexpr std::uint64_t kGroup = kMinPauseBlocks / 2;
  for (std::uint64_t b = 0; b + kGroup <= n_blocks; b += kGroup) {
    std::uint64_t some = 0;
    for (std::uint64_t i = 0; i < kGroup; ++i) {
      some |= changed[b + i];
    }
    if (some == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

void find_active_spans(const std::uint64_t* changed, std::uint64_t n_blocks,
                       std::uint64_t n_changed, std::vector<ActiveSpan>& active) {
  if (!may_have_pauses(changed, n_blocks)) {
    active.assign(1, {0, n_blocks});
    return;
  }
  std::uint64_t n_active = n_blocks;
  for (unsigned round = 0; round < kMostRounds; ++round) {
    const std::uint64_t min_blocks =
        std::max(kMinPauseBlocks, (kMinMissingChanges * n_active + n_changed - 1) / n_changed);
    const std::uint64_t found = split(changed, n_blocks, min_blocks, active);
    if (found == n_active) {
      break;
    }
    n_active = found;
  }
}

}  // namespace cfck::codec

#include "tools/inspect/key_selector.hpp"

#include <algorithm>

namespace cfck::tools {
namespace {

constexpr unsigned kDigitBits = 16;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
// The maximum of keys that are sorted: they take as much memory as counts do.
constexpr std::uint64_t kMaxSorted = kDigits;

}  // namespace

KeySelector::KeySelector(unsigned key_bits, std::uint64_t most_keys)
    : sorts_(most_keys <= kMaxSorted), unknown_bits_(key_bits) {
  if (sorts_) {
    sorted_.reserve(most_keys);
  } else {
    counts_.push_back({0, std::vector<std::uint64_t>(kDigits)});
  }
}

void KeySelector::add(std::span<const std::uint64_t> keys) {
  if (done()) return;
  if (sorts_) {
    sorted_.insert(sorted_.end(), keys.begin(), keys.end());
    return;
  }
  const unsigned shift = unknown_bits_ - kDigitBits;
  for (const std::uint64_t key : keys) {
    const std::uint64_t digits = key >> shift;
    for (Counts& counts : counts_) {
      if (digits >> kDigitBits == counts.prefix) {
        counts.of_next[digits % kDigits] += 1;
        break;
      }
    }
  }
}

void KeySelector::end_first_pass(std::span<const std::uint64_t> ranks) {
  for (const std::uint64_t rank : ranks) targets_.push_back({rank, 0});
  if (!sorts_) return end_pass();
  std::sort(sorted_.begin(), sorted_.end());
  for (Target& target : targets_) target.prefix = sorted_[target.rank];
  unknown_bits_ = 0;
}

void KeySelector::end_pass() {
  if (done()) return;
  for (Target& target : targets_) {
    const auto counts = std::find_if(counts_.begin(), counts_.end(), [&](const Counts& entry) {
      return entry.prefix == target.prefix;
    });
    std::uint64_t digit = 0;
    while (target.rank >= counts->of_next[digit]) target.rank -= counts->of_next[digit++];
    target.prefix = target.prefix << kDigitBits | digit;
  }
  unknown_bits_ -= kDigitBits;
  begin_pass();
}

void KeySelector::begin_pass() {
  counts_.clear();
  if (done()) return;
  for (const Target& target : targets_) {
    if (!counts_.empty() && counts_.back().prefix == target.prefix) continue;
    counts_.push_back({target.prefix, std::vector<std::uint64_t>(kDigits)});
  }
}

std::vector<std::uint64_t> KeySelector::found() const {
  std::vector<std::uint64_t> keys;
  for (const Target& target : targets_) keys.push_back(target.prefix);
  return keys;
}

}  // namespace cfck::tools

#include "codec/entropy/tree_description.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::size_t kMaxDirectWeights = 128;

// Four bits each, the first weight of a byte in its high half.
std::vector<std::byte> direct_form(std::span<const std::uint8_t> weights) {
  std::vector<std::byte> bytes;
  bytes.push_back(static_cast<std::byte>(127 + weights.size()));
  for (std::size_t i = 0; i < weights.size(); i += 2) {
    const unsigned second = i + 1 < weights.size() ? weights[i + 1] : 0;
    bytes.push_back(static_cast<std::byte>(weights[i] << 4 | second));
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> describe_weights(std::span<const std::uint8_t> weights) {
  return weights.size() <= kMaxDirectWeights ? direct_form(weights) : std::vector<std::byte>{};
}

}  // namespace cfck::codec

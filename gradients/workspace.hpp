// A GradientWorkspace holds working memory, made at first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/names/detail.hpp"
#include "cfck/gradients.hpp"
#include "cfck/message.hpp"

namespace cfck {

struct GradientWorkspace::Memory {
  MessageWorkspace messages;
  std::vector<float> floats;            // values, or gaps, as messages have them
  std::vector<float> values;            // decoded
  std::vector<std::uint32_t> integers;  // gaps, or indices
  std::vector<std::byte> bytes;
  std::vector<std::uint64_t> candidates;  // of a selection
  std::vector<std::uint64_t> keys;
};

struct GradientMemory {
  // Throws std::bad_alloc.
  static GradientWorkspace::Memory& of(GradientWorkspace& workspace) {
    if (workspace.memory_ == nullptr) {
      workspace.memory_ = std::make_unique<GradientWorkspace::Memory>();
    }
    return *workspace.memory_;
  }
};

}  // namespace cfck

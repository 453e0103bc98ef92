// A MessageWorkspace holds working memory of any kind, made at first use.
#pragma once

#include "cfck/message.hpp"
#include "codec/codec.hpp"

namespace cfck {

// The encoding half keeps its own memory as a part of the scratch memory, so that the decoding half
// needs to know nothing of it.
struct MessageWorkspace::Memory {
  codec::Scratch scratch;
};

struct MessageMemory {
  // Throws std::bad_alloc.
  static codec::Scratch& scratch_of(MessageWorkspace& workspace) {
    if (workspace.memory_ == nullptr) {
      workspace.memory_ = std::make_unique<MessageWorkspace::Memory>();
    }
    return workspace.memory_->scratch;
  }
};

}  // namespace cfck

// A RowWorkspace holds working memory, made at first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/names/detail.hpp"
#include "cfck/embeddings.hpp"
#include "cfck/message.hpp"
#include "codec/common/unique_rows.hpp"
#include "embeddings/quantise.hpp"

namespace cfck {

struct RowWorkspace::Memory {
  MessageWorkspace messages;
  codec::RowFinder finder;
  std::vector<codec::Numbering> numberings;  // of all batches
  codec::Numbering merged;
  embeddings::QuantisedRows quantised;
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> counts;
  std::vector<std::uint32_t> followed;  // by the rows of a batch that leads: their rows in another
  std::vector<float> buckets;
  std::vector<std::uint8_t> bucket_of_id;
  std::vector<float> codes;
  std::vector<std::byte> table;
  std::vector<std::byte> bits;
  std::vector<std::byte> exact;   // messages
  std::vector<std::byte> values;  // rows, one after the other
  std::vector<std::uint8_t> marks;
};

struct RowMemory {
  // Throws std::bad_alloc.
  static RowWorkspace::Memory& of(RowWorkspace& workspace) {
    if (workspace.memory_ == nullptr) {
      workspace.memory_ = std::make_unique<RowWorkspace::Memory>();
    }
    return *workspace.memory_;
  }
};

}  // namespace cfck

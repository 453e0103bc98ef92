// The tensors of a caller that a patch changes, matched with its records.
#pragma once

#include <span>
#include <vector>

#include "cfck/patch.hpp"
#include "format/read/chunks/open_file.hpp"

namespace cfck::format {

// A tensor that has all values of a record.
struct Destination {
  MutableBytes out;
  bool is_copy = false;  // PatchedTensor::is_copy
};

// Where the values of a record with data of its own go.
using Destinations = std::vector<Destination>;

// A view of a part of a record, in memory apart from that.
struct PatchedView {
  const Record* record = nullptr;
  MutableBytes out;
  bool is_copy = false;
};

struct PatchedMemory {
  std::vector<Destinations> of_record;  // by number; the first is the tensor of its name
  std::vector<PatchedView> views;
};

// Errors: those of apply_patch() about tensors.
Result<PatchedMemory> match_memory(const OpenFile& file, std::span<const PatchedTensor> tensors);

}  // namespace cfck::format

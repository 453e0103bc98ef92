// Tensors that share memory, on the way to safetensors and back: safetensors stores
// such memory once, under one name; safetensors.torch.save_model writes the names
// that it leaves out into the metadata, each with the name it kept.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "cfck/record.hpp"
#include "cfck/safetensors.hpp"

namespace cfck::format {

// Names that safetensors leaves out, each with the name it keeps for it: of tensors that
// are the same elements in the same shape, the first name in order of bytes. Views of
// another shape or of a part stay, since the metadata could not say what they are.
std::map<std::string, std::string> dropped_names(std::span<const Record> records);

// Entries of the metadata from a name that no tensor has, and that one can have, to one
// that a tensor with elements has.
std::vector<SafetensorsTie> ties_of(const std::vector<SafetensorsEntry>& entries,
                                    const Metadata& metadata);

// Whether both are the same elements, in the same order and shape. The records
// must be elements of `records`.
bool are_tied(std::span<const Record> records, const Record& a, const Record& b);

}  // namespace cfck::format

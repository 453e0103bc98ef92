// Tensors that share memory, in conversions to and from safetensors: safetensors stores such memory
// once, under one name; safetensors.torch.save_model writes the names that it leaves out into the
// metadata, each with the name it kept.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/safetensors.hpp"

namespace cfck::interop {

// The name in a header that no tensor can have.
inline constexpr std::string_view kMetadataKey = "__metadata__";
// The length of names that metadata may give: of a record, as Writer takes it.
inline constexpr std::size_t kMaxTiedNameBytes = 65535;

// Returns the names that safetensors leaves out, each with the name it keeps for it: of tensors
// with identical elements and shape, the first name in order of bytes. Views of another shape or of
// a part stay, since the metadata could not describe them.
std::map<std::string, std::string> dropped_names(std::span<const ArchiveTensor> tensors);

// Returns the entries of the metadata from a name that no tensor has, and that one can have, to one
// that a tensor with elements has.
std::vector<SafetensorsTie> ties_of(const std::vector<SafetensorsEntry>& entries,
                                    const Metadata& metadata);

// True if both have identical elements, in the same order and shape. Both must be of the same
// archive.
bool are_tied(const ArchiveTensor& a, const ArchiveTensor& b);

}  // namespace cfck::interop

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
std::vector<SafetensorsTie> possible_ties(const std::vector<SafetensorsEntry>& entries,
                                          const Metadata& metadata);
// Likewise, without those whose value is the name of a tensor by chance, as in {"title": "w"}. The
// names of a tie end alike ("lm_head.weight", "embed_tokens.weight"), or the dropped one is of a
// module that has tensors, or mark_ties() marked it.
std::vector<SafetensorsTie> ties_of(const std::vector<SafetensorsEntry>& entries,
                                    const Metadata& metadata);

// The entry of the metadata that lists, as an array in JSON, dropped names which do not look so.
inline constexpr std::string_view kTiedNamesKey = "cfck.tied_names";
// Adds that entry to the metadata of a file with these entries, where `dropped` needs it.
void mark_ties(const std::map<std::string, std::string>& dropped,
               const std::vector<SafetensorsEntry>& entries, Metadata& metadata);

// True if both have identical elements, in the same order and shape. Both must be of the same
// archive.
bool are_tied(const ArchiveTensor& a, const ArchiveTensor& b);

}  // namespace cfck::interop

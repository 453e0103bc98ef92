// Finds which of a set of tensors share memory, and plans what to store for them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cfck/record.hpp"
#include "cfck/status.hpp"
#include "format/write/sharing/covered_places.hpp"

namespace cfck::format {

// Tensors that may share elements, and the piece of memory that holds them.
struct AliasFamily {
  DType dtype = DType::kU8;
  const std::byte* data = nullptr;  // of the first element
  std::uint64_t n_elems = 0;
  // The elements that the members cover, where others are between them; nullptr: all n_elems from
  // `data` on, or those of a base that is not contiguous.
  std::shared_ptr<const CoveredPlaces> places;
  // The member that is stored; nullopt: a hidden record is.
  std::optional<std::size_t> base;
};

struct PlannedTensor {
  enum class Storage : std::uint8_t {
    kAlone,        // contiguous, shares with no other
    kGathered,     // not contiguous, shares with no other: stored contiguous
    kMissingBase,  // its elements in their order are the memory of its family
    kAlias,        // elements of its family's memory
  };
  Storage storage = Storage::kAlone;
  std::size_t family = 0;            // kMissingBase, kAlias
  std::uint64_t element_offset = 0;  // kAlias: in the family's memory
  std::vector<std::uint64_t> strides;
};

struct AliasPlan {
  std::vector<PlannedTensor> tensors;  // as given
  std::vector<AliasFamily> families;
  // Tensors that may share elements with others and are not tied to them, in the order given.
  std::vector<std::size_t> stored_apart;
};

// Tensors share only with tensors of equal dtype, whose elements are at equal distances from each
// other; a view as another dtype is stored separately.
//
// Whether two views share an element is decided conservatively: ranges that do not overlap,
// interleaved views (x[::2] and x[1::2]) and side-by-side columns of a matrix are distinguished;
// others whose ranges overlap are taken to share.
//
// Elements that no view covers are never stored: they may have been cut off on purpose. Where views
// leave elements out (x[::4] and x[::8]), the memory of the family is what they cover, one after
// the other, and the strides are those in it. Views that have no strides there (x[::2] in what
// x[::2] and x[::3] cover) are stored separately.
//
// Errors: kInvalidArgument, kLimitExceeded, kUnsupported (sub-byte views that are not contiguous);
// they name the tensor.
Result<AliasPlan> plan_aliases(std::span<const StridedTensor> tensors);

// True if the strides are those of a row-major tensor; axes of size 1 may have any. Requires: as
// many strides as dimensions.
bool is_contiguous(const Shape& shape, std::span<const std::uint64_t> strides) noexcept;

// Returns the row-major strides of a shape.
std::vector<std::uint64_t> contiguous_strides(const Shape& shape);

// Returns the strides, with one value for axes of size 1, where they are meaningless.
std::vector<std::uint64_t> normalised_strides(const Shape& shape,
                                              std::span<const std::uint64_t> strides);

// Returns the distance from the first element to the end of the last, in elements; 0 without
// elements. Errors: kInvalidArgument (number of strides), kLimitExceeded.
Result<std::uint64_t> covered_elems(const Shape& shape, std::span<const std::uint64_t> strides);

}  // namespace cfck::format

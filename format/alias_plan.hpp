// Which of a set of tensors share memory, and what to store for them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cfck/record.hpp"
#include "cfck/status.hpp"

namespace cfck::format {

// Tensors that may share elements, and the piece of memory that holds them.
struct AliasFamily {
  DType dtype = DType::kU8;
  const std::byte* data = nullptr;  // of the covered range
  std::uint64_t n_elems = 0;
  // The member that is stored; nothing: a hidden record is.
  std::optional<std::size_t> base;
};

struct PlannedTensor {
  enum class Way : std::uint8_t {
    kAlone,     // contiguous, shares with nobody
    kGathered,  // not contiguous, shares with nobody: stored contiguous
    kBase,      // contiguous, and the memory of its family
    kAlias,     // elements of its family's memory
  };
  Way way = Way::kAlone;
  std::size_t family = 0;            // kBase, kAlias
  std::uint64_t element_offset = 0;  // kAlias: in the family's memory
  std::vector<std::uint64_t> strides;
};

struct AliasPlan {
  std::vector<PlannedTensor> tensors;  // as given
  std::vector<AliasFamily> families;   // in order of their first member
};

// Tensors share only with tensors of the same dtype, whose elements lie at the
// same distance from each other; a view as another dtype is stored apart.
//
// Whether two views share an element is decided conservatively: ranges that do
// not overlap, interleaved views (x[::2] and x[1::2]) and side-by-side columns
// of a matrix are told apart; others whose ranges overlap count as sharing. At
// worst some memory between them is stored too; values are right in any case.
//
// Errors: kInvalidArgument, kLimitExceeded, kUnsupported (sub-byte views that
// are not contiguous); they name the tensor.
Result<AliasPlan> plan_aliases(std::span<const StridedTensor> tensors);

// Whether the strides are those of a row-major tensor; axes of size 1 may have
// any. Requires: as many strides as dimensions.
bool is_contiguous(const Shape& shape, std::span<const std::uint64_t> strides) noexcept;

// The row-major strides of a shape.
std::vector<std::uint64_t> contiguous_strides(const Shape& shape);

// The strides, with one value for axes of size 1, where they mean nothing.
std::vector<std::uint64_t> normalised_strides(const Shape& shape,
                                              std::span<const std::uint64_t> strides);

// Distance from the first element to the end of the last, in elements; 0 without
// elements. Errors: kInvalidArgument (number of strides), kLimitExceeded.
Result<std::uint64_t> covered_elems(const Shape& shape, std::span<const std::uint64_t> strides);

}  // namespace cfck::format

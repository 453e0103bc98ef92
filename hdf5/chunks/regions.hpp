// Copies of boxes of elements between row-major arrays that hold other boxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "interop/stored/boxes.hpp"

namespace cfck::hdf5 {

using interop::Box;

// Returns the number of elements; the largest number where it does not fit 64 bits.
std::uint64_t n_elems_of(const Box& box);
Box whole_box(const Shape& shape);
// Returns what two boxes of one rank share, nullopt for nothing.
std::optional<Box> shared_part(const Box& a, const Box& b);
bool is_inside(const Box& part, const Box& box);

// Calls `take(from, to, n_bytes)` for runs of elements of `part`: where they are in an array with
// those of `from_box`, and in one with those of `to_box`, in bytes. Requires: `part` is inside of
// both and not empty. Returns the first error of `take`.
Result<void> for_each_run(const Box& part, const Box& from_box, const Box& to_box,
                          std::size_t elem_bytes,
                          const std::function<Result<void>(std::uint64_t from, std::uint64_t to,
                                                           std::uint64_t n_bytes)>& take);

// Copies the elements of `part` from an array with those of `from` to one with those of `to`.
// Requires: `part` is inside of both and not empty; `in` and `out` have all elements of their
// boxes.
void copy_part(const Box& part, const Box& from, ByteView in, const Box& to, MutableBytes out,
               std::size_t elem_bytes);

// Fills `out` with copies of `element`. Requires: a whole number of them.
void fill_with(ByteView element, MutableBytes out);

}  // namespace cfck::hdf5

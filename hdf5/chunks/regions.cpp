#include "hdf5/chunks/regions.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace cfck::hdf5 {
namespace {

std::uint64_t length(const Box& box, std::size_t axis) {
  return box.stops[axis] - box.starts[axis];
}

// Bytes from one index of an axis to the next.
std::vector<std::uint64_t> strides_of(const Box& box, std::size_t elem_bytes) {
  std::vector<std::uint64_t> strides(box.starts.size());
  std::uint64_t stride = elem_bytes;
  for (std::size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= length(box, axis);
  }
  return strides;
}

std::uint64_t offset_of(const Box& part, const Box& box,
                        const std::vector<std::uint64_t>& strides) {
  std::uint64_t offset = 0;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    offset += (part.starts[axis] - box.starts[axis]) * strides[axis];
  }
  return offset;
}

}  // namespace

std::uint64_t n_elems_of(const Box& box) {
  std::uint64_t n_elems = 1;
  for (std::size_t axis = 0; axis < box.starts.size(); ++axis) {
    if (__builtin_mul_overflow(n_elems, length(box, axis), &n_elems)) return ~std::uint64_t{0};
  }
  return n_elems;
}

Box whole_box(const Shape& shape) { return {std::vector<std::uint64_t>(shape.size()), shape}; }

std::optional<Box> shared_part(const Box& a, const Box& b) {
  Box part = a;
  for (std::size_t axis = 0; axis < part.starts.size(); ++axis) {
    part.starts[axis] = std::max(a.starts[axis], b.starts[axis]);
    part.stops[axis] = std::min(a.stops[axis], b.stops[axis]);
    if (part.starts[axis] >= part.stops[axis]) return std::nullopt;
  }
  return part;
}

bool is_inside(const Box& part, const Box& box) {
  for (std::size_t axis = 0; axis < part.starts.size(); ++axis) {
    if (part.starts[axis] < box.starts[axis] || part.stops[axis] > box.stops[axis]) return false;
  }
  return true;
}

Result<void> for_each_run(const Box& part, const Box& from_box, const Box& to_box,
                          std::size_t elem_bytes,
                          const std::function<Result<void>(std::uint64_t from, std::uint64_t to,
                                                           std::uint64_t n_bytes)>& take) {
  const std::vector<std::uint64_t> from_strides = strides_of(from_box, elem_bytes);
  const std::vector<std::uint64_t> to_strides = strides_of(to_box, elem_bytes);
  // Axes from `outer` on are one run.
  std::size_t outer = part.starts.size();
  std::uint64_t run_bytes = elem_bytes;
  for (bool is_whole = true; outer > 0 && is_whole;) {
    --outer;
    const std::uint64_t n = length(part, outer);
    run_bytes *= n;
    is_whole = n == length(from_box, outer) && n == length(to_box, outer);
  }
  std::uint64_t from = offset_of(part, from_box, from_strides);
  std::uint64_t to = offset_of(part, to_box, to_strides);
  std::vector<std::uint64_t> index(outer);
  while (true) {
    CFCK_TRY(take(from, to, run_bytes));
    std::size_t axis = outer;
    while (axis > 0 && index[axis - 1] + 1 == length(part, axis - 1)) {
      --axis;
      from -= index[axis] * from_strides[axis];
      to -= index[axis] * to_strides[axis];
      index[axis] = 0;
    }
    if (axis == 0) return {};
    ++index[axis - 1];
    from += from_strides[axis - 1];
    to += to_strides[axis - 1];
  }
}

void copy_part(const Box& part, const Box& from, ByteView in, const Box& to, MutableBytes out,
               std::size_t elem_bytes) {
  (void)for_each_run(part, from, to, elem_bytes,
                     [&](std::uint64_t in_at, std::uint64_t out_at, std::uint64_t n_bytes) {
                       std::memcpy(out.data() + out_at, in.data() + in_at, n_bytes);
                       return Result<void>();
                     });
}

void fill_with(ByteView element, MutableBytes out) {
  if (out.empty()) return;
  const bool is_one_byte = std::all_of(element.begin(), element.end(),
                                       [&](std::byte byte) { return byte == element[0]; });
  if (is_one_byte) {
    std::memset(out.data(), static_cast<int>(element[0]), out.size());
    return;
  }
  std::memcpy(out.data(), element.data(), element.size());
  for (std::size_t done = element.size(); done < out.size(); done *= 2) {
    std::memcpy(out.data() + done, out.data(), std::min(done, out.size() - done));
  }
}

}  // namespace cfck::hdf5

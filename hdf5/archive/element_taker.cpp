#include "hdf5/archive/element_taker.hpp"

#include "base/bytes.hpp"

namespace cfck::hdf5 {
namespace {

Error bad_elements() {
  return internal_error("the program that reads HDF5 files sent elements that nobody asked for");
}

}  // namespace

ElementTaker::ElementTaker(const std::vector<Box>& boxes, std::size_t elem_bytes, MutableBytes out)
    : boxes_(boxes), elem_bytes_(elem_bytes), out_(out) {
  std::uint64_t offset = 0;
  for (const Box& box : boxes) {
    offsets_.push_back(offset);
    offset += n_elems_of(box) * elem_bytes;
  }
}

Result<void> ElementTaker::take(MessageKind kind, ByteView payload) const {
  if (kind == MessageKind::kPiece) return take_piece(payload);
  if (payload.size() != elem_bytes_) return bad_elements();
  fill_with(payload, out_);
  return {};
}

Result<void> ElementTaker::take_piece(ByteView payload) const {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (payload.size() < kWord) return bad_elements();
  const auto index = load<std::uint64_t>(payload.data());
  if (index >= boxes_.size()) return bad_elements();
  const Box& box = boxes_[index];
  const std::size_t rank = box.starts.size();
  const std::size_t head_bytes = (1 + 2 * rank) * kWord;
  if (payload.size() < head_bytes) return bad_elements();
  Box part = box;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    part.starts[axis] = load<std::uint64_t>(payload.data() + (1 + axis) * kWord);
    part.stops[axis] = load<std::uint64_t>(payload.data() + (1 + rank + axis) * kWord);
    if (part.starts[axis] >= part.stops[axis]) return bad_elements();
  }
  const ByteView elements = payload.subspan(head_bytes);
  if (!is_inside(part, box) || elements.size() != n_elems_of(part) * elem_bytes_) {
    return bad_elements();
  }
  const MutableBytes to = out_.subspan(offsets_[index], n_elems_of(box) * elem_bytes_);
  copy_part(part, part, elements, box, to, elem_bytes_);
  return {};
}

}  // namespace cfck::hdf5

// Elements as the program that reads HDF5 files sends them, put where they belong.
#pragma once

#include <vector>

#include "hdf5/archive/reader_link.hpp"

namespace cfck::hdf5 {

class ElementTaker {
 public:
  // `out` is for the elements of all boxes, one box behind the other; all must outlive this.
  ElementTaker(const std::vector<Box>& boxes, std::size_t elem_bytes, MutableBytes out);

  // Takes a message of the kind kFill or kPiece. Believes nothing of it: kInternal for what does
  // not fit the boxes.
  Result<void> take(MessageKind kind, ByteView payload) const;

 private:
  Result<void> take_piece(ByteView payload) const;

  const std::vector<Box>& boxes_;
  std::size_t elem_bytes_;
  MutableBytes out_;
  std::vector<std::uint64_t> offsets_;  // of boxes_ in out_
};

}  // namespace cfck::hdf5

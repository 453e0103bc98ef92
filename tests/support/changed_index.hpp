// Files with another index, whose hashes are right.
#pragma once

#include <functional>

#include "base/hashing/hashing.hpp"
#include "format/container/container.hpp"
#include "format/container/index/compressed_index.hpp"

namespace cfck::test {

// Returns the file with the index as `change` leaves it, stored plain. Requires: a valid file.
inline std::vector<std::byte> with_changed_index(
    ByteView file, const std::function<void(format::Index&)>& change) {
  const std::uint64_t tail_offset = file.size() - format::kTailBytes;
  format::Tail tail = *format::decode_tail(file.subspan(tail_offset), tail_offset);
  const std::uint64_t index_offset = tail.index.offset_bytes;
  format::Index index =
      *format::decode_index_of(tail, file.subspan(index_offset, tail.index.n_bytes), {});
  change(index);
  const std::vector<std::byte> frame = *format::encode_index(index);
  std::vector<std::byte> changed(file.begin(),
                                 file.begin() + static_cast<std::ptrdiff_t>(index_offset));
  changed.insert(changed.end(), frame.begin(), frame.end());
  tail.required_features &= ~format::kCompressedIndex;
  tail.index.n_bytes = frame.size();
  tail.index_hash = hash128(frame);
  tail.file_bytes = changed.size() + format::kTailBytes;
  const auto end = format::encode_tail(tail);
  changed.insert(changed.end(), end.begin(), end.end());
  return changed;
}

}  // namespace cfck::test

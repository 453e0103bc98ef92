#include <algorithm>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"

namespace cfck::detail {

LeafRange whole_leaves(std::uint64_t begin_bytes, std::uint64_t end_bytes,
                       std::uint64_t tensor_bytes) noexcept {
  const std::uint64_t begin = ceil_div(begin_bytes, kLeafBytes);
  const std::uint64_t end =
      end_bytes == tensor_bytes ? ceil_div(end_bytes, kLeafBytes) : end_bytes / kLeafBytes;
  return {begin, std::max(begin, end)};
}

DigestBuilder::DigestBuilder(std::uint64_t total_bytes)
    : total_bytes_(total_bytes), leaves_(ceil_div(total_bytes, kLeafBytes)) {}

DigestBuilder::Edges DigestBuilder::hash_whole_leaves(std::uint64_t offset_bytes,
                                                      ByteView chunk) noexcept {
  const std::uint64_t end = offset_bytes + chunk.size();
  const LeafRange whole = whole_leaves(offset_bytes, end, total_bytes_);
  if (whole.begin == whole.end) {
    return {chunk, {}};
  }
  for (std::uint64_t leaf = whole.begin; leaf < whole.end; ++leaf) {
    const std::uint64_t start = leaf * kLeafBytes - offset_bytes;
    const std::uint64_t n_bytes = std::min<std::uint64_t>(kLeafBytes, chunk.size() - start);
    leaves_[leaf] = hash128(chunk.subspan(start, n_bytes));
  }
  const std::uint64_t head = whole.begin * kLeafBytes - offset_bytes;
  const std::uint64_t tail = std::min(whole.end * kLeafBytes, end) - offset_bytes;
  return {chunk.first(head), chunk.subspan(tail)};
}

void DigestBuilder::set_leaves(std::uint64_t offset_bytes,
                               std::span<const Digest> hashes) noexcept {
  std::ranges::copy(hashes,
                    leaves_.begin() + static_cast<std::ptrdiff_t>(offset_bytes / kLeafBytes));
}

void DigestBuilder::add_edge(std::uint64_t offset_bytes, ByteView edge) {
  while (!edge.empty()) {
    const std::uint64_t leaf = offset_bytes / kLeafBytes;
    const std::uint64_t leaf_end = std::min((leaf + 1) * kLeafBytes, total_bytes_);
    const std::uint64_t n_bytes = std::min<std::uint64_t>(edge.size(), leaf_end - offset_bytes);
    pending_.insert(pending_.end(), edge.begin(),
                    edge.begin() + static_cast<std::ptrdiff_t>(n_bytes));
    offset_bytes += n_bytes;
    edge = edge.subspan(n_bytes);
    if (offset_bytes == leaf_end) {
      leaves_[leaf] = hash128(pending_);
      pending_.clear();
    }
  }
}

Digest DigestBuilder::finish() const noexcept { return digest_of_leaves(leaves_); }

Digest digest_of_leaves(std::span<const Digest> leaves) noexcept {
  return hash128(std::as_bytes(leaves));
}

Digest digest_of(ByteView bytes) {
  DigestBuilder builder(bytes.size());
  builder.hash_whole_leaves(0, bytes);
  return builder.finish();
}

}  // namespace cfck::detail

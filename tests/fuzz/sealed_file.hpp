// Corrects in a file what would have it refused before anything of interest is reached: files of a
// corpus stay useful from one version to the next, while their layout is the same.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "cfck/version.hpp"
#include "format/container/container.hpp"

namespace cfck::test {

// Returns the extent that a field of the tail names; empty if it is not in the file.
inline ByteView extent_of(const std::vector<std::byte>& bytes, std::size_t field) {
  const auto offset = load<std::uint64_t>(bytes.data() + field);
  const auto n_bytes = load<std::uint64_t>(bytes.data() + field + 8);
  if (offset > bytes.size() || n_bytes > bytes.size() - offset) {
    return {};
  }
  return ByteView(bytes).subspan(offset, n_bytes);
}

// Writes this version of the format, the length, and the hashes of tail, index and metadata.
inline void seal(std::vector<std::byte>& bytes) {
  using format::kHeadBytes;
  using format::kTailBytes;
  if (bytes.size() < kHeadBytes + kTailBytes) {
    return;
  }
  const std::size_t tail = bytes.size() - kTailBytes;
  for (const std::size_t frame : {std::size_t{0}, tail}) {
    store(bytes.data() + frame + 12, std::uint16_t{kFormatMajor});
    store(bytes.data() + frame + 14, std::uint16_t{kFormatMinor});
  }
  store(bytes.data() + tail + 64, hash128(extent_of(bytes, tail + 48)));
  store(bytes.data() + tail + 96, hash128(extent_of(bytes, tail + 80)));
  store(bytes.data() + tail + 112, std::uint64_t{bytes.size()});
  store(bytes.data() + tail + 120, hash64(ByteView(bytes).subspan(tail, 120)));
}

}  // namespace cfck::test

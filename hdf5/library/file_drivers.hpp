// The files of libhdf5 as cfck has them: a ByteSource to read, and memory to write to. Neither
// can open any file by its name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cfck/io.hpp"
#include "hdf5/library/library.hpp"

namespace cfck::hdf5 {

// What is read, and the first error of reading it, which libhdf5 cannot pass on.
struct SourceFile {
  const ByteSource* source = nullptr;
  std::optional<Error> error;
};

// What libhdf5 writes itself: metadata, and the elements of small datasets. Pages that were never
// written are zero and take no memory.
class MemoryFile {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;

  void write(std::uint64_t offset_bytes, ByteView bytes);
  void read(std::uint64_t offset_bytes, MutableBytes out) const;
  std::uint64_t end_bytes = 0;

 private:
  std::map<std::uint64_t, std::vector<std::byte>> pages_;  // by number
};

// Open a file over `file`, which must outlive it. Both need a Library.
Result<Handle> open_source(SourceFile& file);
// `properties` are those of file creation; `large_attributes` asks for a newer form of objects,
// which attributes above 64 KiB need.
Result<Handle> create_in_memory(MemoryFile& file, hid_t properties, bool large_attributes);

}  // namespace cfck::hdf5

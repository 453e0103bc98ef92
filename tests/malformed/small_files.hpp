// About 70 files of at most 2 KiB: every codec, kind of record and family of
// dtypes. Small enough to flip every bit of them. Some are stored against the tensors of
// tests/fuzz/fixed_base.hpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "format/container/container.hpp"
#include "format/read/reader_access.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {

struct SmallFile {
  std::string name;
  Bytes bytes;
};

const std::vector<SmallFile>& small_files();
const SmallFile& small_file(const std::string& name);

// Everything that a reader can read from a file.
struct Contents {
  std::map<std::string, Bytes> tensors;
  std::map<std::string, Shape> shapes;
  Metadata metadata;
  std::map<std::string, Bytes> attachments;
  bool operator==(const Contents&) const = default;
};

// Reads with one thread. `options` as for Reader::open; without a base there, with fixed_base().
Result<Contents> read_contents(const ByteSource& source, DecodeOptions options = {});
Result<Contents> read_contents(const Bytes& bytes, DecodeOptions options = {});

// The parts of a file that can be changed and put together again, with every hash
// made right.
struct FileParts {
  Bytes body;  // all that stands before the metadata
  format::Index index;
  format::MetadataFrame metadata;
  format::Tail tail;
};
FileParts parts_of(const Bytes& bytes);
// Hashes of chunks, packs and attachments are computed anew where they lie inside
// the body.
Bytes put_together(FileParts parts);
Bytes changed(const Bytes& bytes, const std::function<void(FileParts&)>& change);

}  // namespace cfck::test

// Copies stored records into a new file without encoding them again.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/reader.hpp"
#include "cfck/record.hpp"
#include "cfck/status.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

// Writes a file of generation 0 with the records and attachments of an index and metadata whose
// bytes are in `source`. Every hash is checked on the way. The bytes equal those of a Writer that
// was given these records. Returns the length of the file. Errors: kChecksum and those of source
// and sink.
Result<std::uint64_t> rewrite(const ByteSource& source, const Index& index,
                              const MetadataFrame& metadata, ByteSink& sink);

// Does the same for an open file, but encodes what is stored against a base by itself, so that the
// new file needs none. Errors: also those of Reader::check_base() and of reading.
Result<std::uint64_t> rewrite_alone(const Reader& reader, ByteSink& sink);

// Does the same for the .cfck file in `source`, with other entries of metadata. Errors: also those
// of opening it. Returns the length of the file.
Result<std::uint64_t> rewrite_with(const ByteSource& source, Metadata entries, ByteSink& sink);

// Reads the whole record `number`, chunk by chunk, and compares the hashes.
// Requires: a chunked record.
Result<void> check_chunks(const ByteSource& source, const Index& index, std::uint32_t number);

}  // namespace cfck::format

// Conversion from and to safetensors, byte-exact both ways.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/reader.hpp"
#include "cfck/record.hpp"
#include "cfck/writer.hpp"

namespace cfck {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::uint64_t offset_bytes = 0;  // from the start of the file
  std::uint64_t n_bytes = 0;
};

struct SafetensorsHeader {
  std::string json;                       // as it stands in the file, padding included
  std::vector<SafetensorsEntry> entries;  // in order of offset
  Metadata metadata;
};

// Reads and checks the header by the rules of safetensors 0.8: length, JSON,
// duplicate keys, dtypes, shapes, offsets without gaps or overlap to the very end
// of the file. Errors: kTruncated, kCorrupt, kLimitExceeded (header above 100 MB).
Result<SafetensorsHeader> read_safetensors_header(const ByteSource& source);

// Adds every tensor of the file, its metadata, and its header as the attachment
// "safetensors.header". `source` and `header` must live until writer.finish().
Result<void> add_safetensors(Writer& writer, const ByteSource& source,
                             const SafetensorsHeader& header);

// Writes a safetensors file: with the original header if the attachment is there
// and still matches every record, else with a new one (tensors by descending
// dtype alignment, then name). Every tensor is written out in full, aliases and
// duplicates too. Memory: a few chunks for each of `threads` workers (0: as in
// DecodeOptions); an alias that is not contiguous needs its own size.
Result<void> write_safetensors(const Reader& reader, ByteSink& sink,
                               const ReadProgress& progress = {}, unsigned threads = 0);

}  // namespace cfck

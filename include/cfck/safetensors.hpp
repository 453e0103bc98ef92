// Conversion from and to safetensors, byte-exact both ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/export.hpp"
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

// A name without a tensor of its own: safetensors.torch.save_model stores tensors
// that share memory once and leaves the other names in the metadata, {name: kept}.
struct SafetensorsTie {
  std::string name;
  std::size_t entry = 0;  // the tensor whose memory it shares, in SafetensorsHeader::entries
};

struct SafetensorsHeader {
  std::string json;                       // as it is in the file, padding included
  std::vector<SafetensorsEntry> entries;  // in order of offset
  Metadata metadata;
  std::vector<SafetensorsTie> ties = {};  // by name; entries of the metadata stay where they are
};

// Reads and checks the header by the rules of safetensors 0.8: length, JSON,
// duplicate keys, dtypes, shapes, offsets without gaps or overlap to the very end
// of the file. Errors: kTruncated, kCorrupt, kLimitExceeded (header above 100 MB).
CFCK_API Result<SafetensorsHeader> read_safetensors_header(const ByteSource& source);

// A tensor of a safetensors file to read, whole, into memory of the caller.
struct SafetensorsRead {
  const SafetensorsEntry* entry = nullptr;
  MutableBytes out;  // exactly entry->n_bytes, none of them of a source in memory
};

// Reads tensors as they are in the file, on as many threads as DecodeOptions would. Errors:
// kInvalidArgument for the wrong size, kIo, those of the source.
CFCK_API Result<void> read_safetensors(const ByteSource& source,
                                       std::span<const SafetensorsRead> reads,
                                       const ReadProgress& progress = {}, unsigned threads = 0);

// Reads the elements from `starts` to below `stops`, contiguous. Errors: kInvalidArgument,
// kUnsupported for parts of tensors whose elements are below one byte, kIo.
CFCK_API Result<void> read_safetensors_slice(const ByteSource& source,
                                             const SafetensorsEntry& entry,
                                             std::span<const std::uint64_t> starts,
                                             std::span<const std::uint64_t> stops,
                                             MutableBytes out);

// Adds every tensor of the file, its metadata, and its header as the attachment
// "safetensors.header". Ties become aliases, unless options of `writer` ask for another
// codec or error for the name than for its tensor. `source` and `header` must live until
// writer.finish().
CFCK_API Result<void> add_safetensors(Writer& writer, const ByteSource& source,
                                      const SafetensorsHeader& header);

// Writes a safetensors file: with the original header if the attachment is there, is no longer than
// safetensors allows, and still matches every record, else with a new one (tensors by descending
// dtype alignment, then name). With a new header, tensors with equal elements of memory and equal
// shape are written once, as by safetensors.torch.save_model: under the first of their names, with
// {name: kept} in the metadata for each other, unless it has that key. Other aliases and duplicates
// are written out in full. Memory: a few chunks for each of `threads` workers (0: as in
// DecodeOptions); an alias of a larger record that is not contiguous needs its own size. Error:
// kLimitExceeded, before anything is written, where the tensors have more bytes together than the
// reader may return in one call.
CFCK_API Result<void> write_safetensors(const Reader& reader, ByteSink& sink,
                                        const ReadProgress& progress = {}, unsigned threads = 0);

// Returns the header that write_safetensors() writes.
CFCK_API Result<SafetensorsHeader> safetensors_header_for(const Reader& reader);

}  // namespace cfck

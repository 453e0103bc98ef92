// Writes archives as safetensors files.
#pragma once

#include <cstdint>
#include <memory>

#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/safetensors.hpp"

namespace cfck::interop {

// Returns the header of a safetensors file with the tensors of `archive`: the one that it was made
// from, if that is attached and still true, else a new one.
Result<SafetensorsHeader> header_for(const TensorArchive& archive);

// Writes as cfck::write_safetensors does, with a header that header_for() made.
Result<void> write_archive(const TensorArchive& archive, const SafetensorsHeader& header,
                           ByteSink& sink, const ReadProgress& progress, unsigned threads);

// Returns the size of a file with this header.
std::uint64_t file_bytes(const SafetensorsHeader& header);

// Implements ArchiveWriter::create for safetensors.
Result<std::unique_ptr<ArchiveWriter>> create_writer(ByteSink& sink, const EncodeOptions& options);

}  // namespace cfck::interop

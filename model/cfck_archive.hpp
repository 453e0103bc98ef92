// .cfck files as archives.
#pragma once

#include <memory>

#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/reader.hpp"

namespace cfck::model {

// Returns an archive that uses a reader of the caller, which must outlive it.
Result<std::unique_ptr<TensorArchive>> borrow_reader(const Reader& reader);

// Implements ArchiveWriter::create for .cfck files.
Result<std::unique_ptr<ArchiveWriter>> create_cfck(ByteSink& sink, const EncodeOptions& options);

}  // namespace cfck::model

// .cfck files as archives.
#pragma once

#include <memory>

#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/reader.hpp"

namespace cfck::model {

// The archive of a reader of the caller, which must outlive it.
Result<std::unique_ptr<TensorArchive>> borrow_reader(const Reader& reader);

// What ArchiveWriter::create gives for .cfck files.
Result<std::unique_ptr<ArchiveWriter>> create_cfck(ByteSink& sink, const EncodeOptions& options);

}  // namespace cfck::model

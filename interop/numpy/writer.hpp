// Writes archives as files of numpy.
#pragma once

#include <memory>

#include "cfck/archive_writer.hpp"

namespace cfck::interop {

// The file has the one tensor that is added. Error of finish(): kUnsupported for any other number.
Result<std::unique_ptr<ArchiveWriter>> create_npy_writer(ByteSink& sink,
                                                         const EncodeOptions& options);
// A zip file with an array for each tensor, in the order in which they are added; tensors that
// share memory are written in full. Names that would leave the folder in which the file is
// unpacked, and dtypes that numpy does not have, are refused. Metadata and attachments are left
// out.
Result<std::unique_ptr<ArchiveWriter>> create_npz_writer(ByteSink& sink,
                                                         const EncodeOptions& options);

}  // namespace cfck::interop

// Writes archives of Keras.
#pragma once

#include <memory>

#include "cfck/archive_writer.hpp"

namespace cfck::interop {

// A zip file with the weights as HDF5, and the other members as the attachments "keras/NAME" have
// them: a file that was made of such an archive has these. Tensors are decoded twice, since sizes
// of members come first. Errors of finish(): kUnsupported without config.json and metadata.json,
// those of writing HDF5 files.
Result<std::unique_ptr<ArchiveWriter>> create_keras_writer(ByteSink& sink,
                                                           const EncodeOptions& options);

}  // namespace cfck::interop

// The states that writers of all formats have, files and folders.
#pragma once

#include <memory>

#include "cfck/archive_writer.hpp"

namespace cfck::model {

// Returns a writer that passes calls on to `format` until one fails or the writer is finished, and
// that lets no exception out: a format keeps no states and catches nothing. Tells `sink` of the
// beginning and the end of the file, unless the format has a Writer, which does so itself; nullptr
// for folders.
std::unique_ptr<ArchiveWriter> with_states(std::unique_ptr<ArchiveWriter> format, ByteSink* sink);

}  // namespace cfck::model

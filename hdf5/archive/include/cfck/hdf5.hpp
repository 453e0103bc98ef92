// HDF5 files, such as Keras writes them, as archives: read and written with libhdf5. For programs
// that link cfck::hdf5; cfck::TensorArchive::open() of other programs loads a module for them.
#pragma once

#include <memory>
#include <string>

#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/status.hpp"

namespace cfck::hdf5 {

// Opens an HDF5 file: its datasets of numbers are the tensors, by their paths without the first
// "/". The second form owns `source`. The archive may be used by many threads. libhdf5 reads in
// processes of the program cfck-hdf5-reader, which is looked for beside the program or library that
// has this function, in ../lib/cfck, in the folders of CFCK_ADAPTER_PATH, and where cfck is
// installed. No other file is opened, whatever the file asks for. Errors: those of open_file();
// kCorrupt, kTruncated; kUnsupported for links and datasets that lead to other files, filters that
// are missing, a program of another build; kNotFound and kIo where there is no program that can be
// started; kLimitExceeded.
CFCK_API Result<std::unique_ptr<TensorArchive>> open(const std::string& path,
                                                     const ArchiveOptions& options = {});
CFCK_API Result<std::unique_ptr<TensorArchive>> open(std::unique_ptr<ByteSource> source,
                                                     const ArchiveOptions& options = {});

// Returns a writer of an HDF5 file, written to `sink` in one pass when it is finished. Slashes in
// names make groups, tied tensors are hard links, metadata are attributes of the root. `options`
// gives the number of threads. `sink` must outlive the writer. Errors of finish(): kUnsupported for
// dtypes, kInvalidArgument for names that HDF5 does not have; those of the sink.
CFCK_API Result<std::unique_ptr<ArchiveWriter>> create(ByteSink& sink,
                                                       const EncodeOptions& options = {});

}  // namespace cfck::hdf5

// Formats whose libraries cfck does not link: each has a module, a shared object with a copy of
// cfck inside, which is loaded when the first of its files is opened or created.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/io.hpp"
#include "cfck/status.hpp"

namespace cfck::model {

// What a module does; no exception leaves these.
struct ArchiveAdapter {
  Result<std::unique_ptr<TensorArchive>> (*open)(std::unique_ptr<ByteSource> source,
                                                 const ArchiveOptions& options) = nullptr;
  Result<std::unique_ptr<ArchiveWriter>> (*create)(ByteSink& sink,
                                                   const EncodeOptions& options) = nullptr;
};

// Exported by a module under kAdapterEntry, as C. Sets `own` to the build that the module is of,
// and returns nullptr if that is not `build`. Both live as long as the process.
using AdapterEntry = const ArchiveAdapter* (*)(const char* build, const char** own);
inline constexpr const char* kAdapterEntry = "cfck_archive_adapter";

// To be raised when a virtual function of TensorArchive, ArchiveWriter, or the sources and sinks of
// bytes comes, goes or moves.
inline constexpr int kAdapterInterface = 3;

// Returns what a program and a module must have in common, since they exchange C++ objects: the
// version, the compiler, the interface, and the sizes of the types.
const std::string& adapter_build();

// Returns the adapter of "cfck_archive_NAME.so", which stays loaded. Errors: those of
// open_module(), and kUnsupported for a module of another build. Thread-safe.
Result<const ArchiveAdapter*> load_adapter(std::string_view name);

}  // namespace cfck::model

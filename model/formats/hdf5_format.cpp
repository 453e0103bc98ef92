// HDF5 files, which the module of hdf5/archive reads and writes.
#include <array>
#include <string>
#include <utility>

#include "model/formats/adapters.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/foreign_formats.hpp"

namespace cfck::model {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

bool begins_hdf5(std::string_view head) { return head.starts_with(kSignature); }

// Where the module comes from, for those who do not have it.
constexpr std::string_view kBuiltBy =
    " (a build with the CMake option CFCK_HDF5 has it, and installs it to lib/cfck)";

Result<std::unique_ptr<TensorArchive>> open_hdf5(std::unique_ptr<ByteSource> source,
                                                 const ArchiveOptions& options) {
  auto adapter = load_adapter("hdf5");
  if (adapter) return (*adapter)->open(std::move(source), options);
  if (adapter.error().code != ErrorCode::kNotFound) return std::move(adapter).error();
  // "this is an HDF5 file; convert it once in Python ..."
  Error error = std::move(*foreign_format(kSignature, source->name()));
  const std::size_t way = error.message.find("; ") + 2;
  error.message.insert(way, adapter.error().message + std::string(kBuiltBy) + ". Or ");
  return error;
}

Result<std::unique_ptr<ArchiveWriter>> create_hdf5(ByteSink& sink, const EncodeOptions& options) {
  auto adapter = load_adapter("hdf5");
  if (adapter) return (*adapter)->create(sink, options);
  if (adapter.error().code != ErrorCode::kNotFound) return std::move(adapter).error();
  return unsupported("an HDF5 file cannot be written: " + adapter.error().message +
                     std::string(kBuiltBy) + ". Or write another format, such as safetensors");
}

constexpr std::array<std::string_view, 1> kOtherSuffixes = {".hdf5"};
constexpr std::array<std::string_view, 1> kKeptAttachments = {"hdf5.structure"};

}  // namespace

const ArchiveFormat& hdf5_format() {
  static const ArchiveFormat kFormat = {"hdf5",
                                        ".h5",
                                        false,
                                        &begins_hdf5,
                                        &open_hdf5,
                                        &create_hdf5,
                                        nullptr,
                                        kOtherSuffixes,
                                        /*restores_bytes=*/false,
                                        kKeptAttachments};
  return kFormat;
}

}  // namespace cfck::model

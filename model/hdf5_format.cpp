// HDF5 files, which the module of hdf5/archive reads and writes.
#include <array>
#include <utility>

#include "model/adapters.hpp"
#include "model/archive_format.hpp"
#include "model/foreign_formats.hpp"

namespace cfck::model {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

bool begins_hdf5(std::string_view head) { return head.starts_with(kSignature); }

Error with_reason(Error what, Error reason) {
  if (reason.code != ErrorCode::kNotFound) return reason;
  what.message.append("\nOr use a build of cfck that reads it (CMake option CFCK_HDF5); ")
      .append(reason.message)
      .append("; CFCK_ADAPTER_PATH can name another folder");
  return what;
}

Result<std::unique_ptr<TensorArchive>> open_hdf5(std::unique_ptr<ByteSource> source,
                                                 const ArchiveOptions& options) {
  auto adapter = load_adapter("hdf5");
  if (adapter) return (*adapter)->open(std::move(source), options);
  return with_reason(std::move(*foreign_format(kSignature, source->name())),
                     std::move(adapter).error());
}

Result<std::unique_ptr<ArchiveWriter>> create_hdf5(ByteSink& sink, const EncodeOptions& options) {
  auto adapter = load_adapter("hdf5");
  if (adapter) return (*adapter)->create(sink, options);
  return with_reason(unsupported("this build of cfck has no support for HDF5 files; write another "
                                 "format, such as safetensors"),
                     std::move(adapter).error());
}

constexpr std::array<std::string_view, 1> kOtherSuffixes = {".hdf5"};

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
                                        /*restores_bytes=*/false};
  return kFormat;
}

}  // namespace cfck::model

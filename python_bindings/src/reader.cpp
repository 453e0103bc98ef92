#include "cfck/reader.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "cfck/cuda.hpp"
#include "errors.hpp"
#include "file.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

nb::bytes read_attachment(const File& file, const std::string& name) {
  const auto bytes = take(without_gil([&] { return file.archive().attachment(name); }));
  return nb::bytes(bytes.data(), bytes.size());
}

// Limits by name.
using LimitChoices = std::map<std::string, std::uint64_t>;

ArchiveOptions archive_options(unsigned threads, bool verify, std::uint64_t max_decoded_bytes,
                               const LimitChoices& limits) {
  ArchiveOptions options;
  options.decode.threads = threads;
  options.decode.verify_chunks = verify;
  options.decode.limits.max_decoded_bytes = max_decoded_bytes;
  for (const auto& [name, value] : limits) {
    if (!set_limit(options.decode.limits, name, value)) {
      raise(invalid_argument("there is no limit \"" + name + "\"; limits are " +
                             std::string(limit_names())));
    }
  }
  return options;
}

// Paths are bytes: not every file name is valid UTF-8.
std::unique_ptr<File> open_path(const nb::bytes& path_bytes, bool map, bool only_tensors,
                                unsigned threads, bool verify, std::uint64_t max_decoded_bytes,
                                const LimitChoices& limits) {
  const std::string path(path_bytes.c_str(), path_bytes.size());
  const ReadMode mode = map ? ReadMode::kMmap : ReadMode::kPread;
  ArchiveOptions options = archive_options(threads, verify, max_decoded_bytes, limits);
  options.only_tensors = only_tensors;
  auto source = take(without_gil([&] { return open_file(path, mode); }));
  return std::make_unique<File>(std::move(source), path, nb::none(), options);
}

std::unique_ptr<File> open_memory(nb::object owner, std::uintptr_t address, std::uint64_t n_bytes,
                                  unsigned threads, bool verify, std::uint64_t max_decoded_bytes,
                                  const LimitChoices& limits) {
  auto source = std::make_unique<MemorySource>(ByteView(bytes_at(address, n_bytes)));
  return std::make_unique<File>(std::move(source), "the data", std::move(owner),
                                archive_options(threads, verify, max_decoded_bytes, limits));
}

std::unique_ptr<File> open_on_device(nb::object owner, int device, std::uintptr_t address,
                                     std::uint64_t n_bytes, unsigned threads, bool verify,
                                     std::uint64_t max_decoded_bytes, const LimitChoices& limits) {
  const ArchiveOptions options = archive_options(threads, verify, max_decoded_bytes, limits);
  auto source = take(without_gil([&] {
    return cuda::DeviceSource::open(device, reinterpret_cast<const void*>(address), n_bytes);
  }));
  return std::make_unique<File>(std::move(source), "the data", std::move(owner), options);
}

// Returns an empty string for a record without digest: a tensor of a safetensors file.
std::string digest_hex(const Record& record) {
  if (record.digest == Digest{}) return {};
  return detail::hexadecimal(std::span<const std::uint8_t>(record.digest));
}

// Makes a property of the error; None for a record that is not lossy.
template <class Get>
auto of_error(Get get) {
  return [get](const Record& record) {
    using Value = decltype(get(*record.error));
    return record.error ? std::optional<Value>(get(*record.error)) : std::nullopt;
  };
}

// Makes a property of the bound, the target or the quality; None where there is none.
template <class Get>
auto of_bound(Get get) {
  return [get](const Record& record) {
    using Value = decltype(get(record.error->bound));
    const bool has_bound = record.error && record.error->bound.kind != BoundKind::kNone;
    return has_bound ? std::optional<Value>(get(record.error->bound)) : std::nullopt;
  };
}

template <class Get>
auto of_quality(Get get) {
  return [get](const Record& record) {
    using Value = decltype(get(*record.error));
    const bool has_quality = record.error && record.error->quality;
    return has_quality ? std::optional<Value>(get(*record.error)) : std::nullopt;
  };
}

template <class Get>
auto of_target(Get get) {
  return [get](const Record& record) {
    using Value = decltype(get(record.error->quality->target));
    const bool has_target = record.error && record.error->quality &&
                            record.error->quality->target.kind != TargetKind::kNone;
    return has_target ? std::optional<Value>(get(record.error->quality->target)) : std::nullopt;
  };
}

void bind_record(nb::module_& module) {
  nb::enum_<RecordKind>(module, "RecordKind", "How a record is stored.")
      .value("CHUNKED", RecordKind::kChunked)
      .value("PACKED", RecordKind::kPacked)
      .value("ALIAS", RecordKind::kAlias)
      .value("DUPLICATE", RecordKind::kDuplicate);
  nb::class_<Record>(module, "Record", "What a file says about one tensor.")
      .def_ro("name", &Record::name)
      .def_ro("hidden", &Record::hidden, "Storage behind aliases, without a name of its own.")
      .def_ro("kind", &Record::kind)
      .def_prop_ro(
          "dtype", [](const Record& record) { return std::string(dtype_name(record.dtype)); },
          "Name of the dtype, as in safetensors.")
      .def_prop_ro("codec",
                   [](const Record& record) { return std::string(codec_name(record.codec)); })
      .def_prop_ro("entropy",
                   [](const Record& record) { return std::string(entropy_name(record.entropy)); })
      .def_ro("shape", &Record::shape)
      .def_ro("base", &Record::base, "Index of the base record of an alias or a duplicate.")
      .def_ro("element_offset", &Record::element_offset, "First element of an alias in its base.")
      .def_ro("strides", &Record::strides, "Strides of an alias, in elements.")
      .def_ro("n_elems", &Record::n_elems)
      .def_ro("decoded_bytes", &Record::decoded_bytes)
      .def_ro("stored_bytes", &Record::stored_bytes)
      .def_ro("n_chunks", &Record::n_chunks)
      .def_prop_ro("digest", digest_hex, "Hash of the decoded bytes, in hexadecimal.")
      .def_prop_ro("bits_per_weight", &Record::bits_per_weight)
      .def_prop_ro("bound_kind", of_error([](const RecordError& error) {
                     return std::string(bound_kind_name(error.bound.kind));
                   }))
      .def_prop_ro("bound", of_bound([](const ErrorBound& bound) { return bound.value; }))
      .def_prop_ro("per_row", of_bound([](const ErrorBound& bound) { return bound.per_row; }))
      .def_prop_ro("max_abs_error",
                   of_error([](const RecordError& error) { return error.max_abs_error; }))
      .def_prop_ro("rmse", of_error([](const RecordError& error) { return error.rmse; }))
      .def_prop_ro("target_kind", of_target([](const Target& target) {
                     return std::string(target_kind_name(target.kind));
                   }))
      .def_prop_ro("target", of_target([](const Target& target) { return target.value; }))
      .def_prop_ro("whole_file", of_target([](const Target& target) { return target.whole_file; }))
      .def_prop_ro("rms", of_quality([](const RecordError& error) { return error.quality->rms; }))
      .def_prop_ro("nmse_db", of_quality([](const RecordError& error) {
                     return 20 * std::log10(error.rmse / error.quality->rms);
                   }));
}

}  // namespace

void bind_reader(nb::module_& module) {
  bind_record(module);
  nb::class_<File>(module, "File",
                   "An open file of any format. All methods may be called concurrently.")
      .def_static("open_path", &open_path, "path"_a, nb::kw_only(), "map"_a, "only_tensors"_a,
                  "threads"_a, "verify"_a, "max_decoded_bytes"_a, "limits"_a)
      .def_static("open_memory", &open_memory, "owner"_a, "address"_a, "n_bytes"_a, nb::kw_only(),
                  "threads"_a, "verify"_a, "max_decoded_bytes"_a, "limits"_a)
      .def_static(
          "open_device", &open_on_device, "owner"_a, "device"_a, "address"_a, "n_bytes"_a,
          nb::kw_only(), "threads"_a, "verify"_a, "max_decoded_bytes"_a, "limits"_a,
          "Opens bytes in the memory of a CUDA device, complete by now, which `owner` keeps "
          "alive.")
      .def("records", &File::records, "All records in file order, hidden ones included.")
      .def("metadata", [](const File& file) { return file.archive().metadata(); })
      .def(
          "notes",
          [](const File& file) {
            const auto notes = file.archive().notes();
            return std::vector<std::string>(notes.begin(), notes.end());
          },
          "Sentences about what the file has and was not read.")
      .def("attachments", &File::attachments,
           "Names of the attachments, and how many bytes each has.")
      .def("attachment", &read_attachment, "name"_a)
      .def_prop_ro("format", &File::format, "cfck, safetensors.")
      .def_prop_ro("file_bytes", &File::file_bytes)
      .def("check_sizes", &File::check_sizes, "sizes"_a,
           "LimitExceededError if one call may not return so much: (record index, bytes) each.")
      .def("read_many", &File::read_many, "requests"_a, "progress"_a.none(),
           "Decodes records into memory: (record index, address, bytes) each.")
      .def("read_slice", &File::read_slice, "record"_a, "starts"_a, "stops"_a, "address"_a,
           "n_bytes"_a, "Decodes a box of a record into memory.");
}

}  // namespace cfck::python

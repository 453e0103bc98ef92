// What files say about their tensors.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>
#include <string>

#include "archive.hpp"
#include "base/text.hpp"

namespace cfck::python {
namespace {

// Returns an empty string for a record without digest: a tensor of a safetensors file.
std::string digest_hex(const ListedRecord& record) {
  if (record.digest == Digest{}) return {};
  return detail::hexadecimal(std::span<const std::uint8_t>(record.digest));
}

// Makes a property of the error; None for a record that is not lossy.
template <class Get>
auto of_error(Get get) {
  return [get](const ListedRecord& record) {
    using Value = decltype(get(*record.error));
    return record.error ? std::optional<Value>(get(*record.error)) : std::nullopt;
  };
}

// Makes a property of the bound, the target or the quality; None where there is none.
template <class Get>
auto of_bound(Get get) {
  return [get](const ListedRecord& record) {
    using Value = decltype(get(record.error->bound));
    const bool has_bound = record.error && record.error->bound.kind != BoundKind::kNone;
    return has_bound ? std::optional<Value>(get(record.error->bound)) : std::nullopt;
  };
}

template <class Get>
auto of_quality(Get get) {
  return [get](const ListedRecord& record) {
    using Value = decltype(get(*record.error));
    const bool has_quality = record.error && record.error->quality;
    return has_quality ? std::optional<Value>(get(*record.error)) : std::nullopt;
  };
}

template <class Get>
auto of_target(Get get) {
  return [get](const ListedRecord& record) {
    using Value = decltype(get(record.error->quality->target));
    const bool has_target = record.error && record.error->quality &&
                            record.error->quality->target.kind != TargetKind::kNone;
    return has_target ? std::optional<Value>(get(record.error->quality->target)) : std::nullopt;
  };
}

}  // namespace

void bind_record(nb::module_& module) {
  nb::enum_<RecordKind>(module, "RecordKind", "How a record is stored.")
      .value("CHUNKED", RecordKind::kChunked)
      .value("PACKED", RecordKind::kPacked)
      .value("ALIAS", RecordKind::kAlias)
      .value("DUPLICATE", RecordKind::kDuplicate);
  nb::class_<ListedRecord>(module, "Record", "What a file says about one tensor.")
      .def_ro("name", &Record::name)
      .def_ro("hidden", &Record::hidden,
              "Storage behind aliases, or a name that is none of the model.")
      .def_ro("file", &ListedRecord::file, "Number of the file that has it.")
      .def_prop_ro(
          "format", [](const ListedRecord& record) { return std::string(record.format); },
          "Format of that file: cfck, safetensors...")
      .def_ro("kind", &Record::kind)
      .def_prop_ro(
          "dtype", [](const ListedRecord& record) { return std::string(dtype_name(record.dtype)); },
          "Name of the dtype, as in safetensors.")
      .def_prop_ro("codec",
                   [](const ListedRecord& record) { return std::string(codec_name(record.codec)); })
      .def_prop_ro(
          "entropy",
          [](const ListedRecord& record) { return std::string(entropy_name(record.entropy)); })
      .def_ro("shape", &Record::shape)
      .def_ro("base", &Record::base, "Index of the base record of an alias.")
      .def_ro("element_offset", &Record::element_offset, "First element of an alias in its base.")
      .def_ro("strides", &Record::strides, "Strides of an alias, in elements.")
      .def_ro("n_elems", &Record::n_elems)
      .def_ro("decoded_bytes", &Record::decoded_bytes)
      .def_ro("stored_bytes", &Record::stored_bytes)
      .def_ro("n_chunks", &Record::n_chunks)
      .def_prop_ro("digest", digest_hex, "Hash of the decoded bytes, in hexadecimal.")
      .def_prop_ro(
          "is_difference",
          [](const ListedRecord& record) { return record.base_digest.has_value(); },
          "Whether it is stored against the tensor of its name in the base.")
      .def_prop_ro("bits_per_weight",
                   [](const ListedRecord& record) { return record.bits_per_weight(); })
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

}  // namespace cfck::python

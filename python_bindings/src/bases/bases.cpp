// What files are stored against, and patches that are applied to it.

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/run_guarded.hpp"
#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/base.hpp"
#include "cfck/patch.hpp"
#include "model/archive_base.hpp"
#include "python_bindings/src/archive.hpp"
#include "python_bindings/src/arguments/paths.hpp"
#include "python_bindings/src/arguments/sequences.hpp"
#include "python_bindings/src/bytes_sink.hpp"
#include "python_bindings/src/errors.hpp"
#include "python_bindings/src/open_options.hpp"
#include "python_bindings/src/progress.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

// Describes a contiguous tensor on the host.
PatchedTensor tensor_of(nb::handle memory) {
  const nb::tuple items = tuple_of(memory, 4);
  const std::string dtype_text = text_of(items[1]);
  const auto dtype = dtype_from_name(dtype_text);
  if (!dtype) raise(unsupported("there is no dtype \"" + dtype_text + "\""));
  Shape shape = numbers_of(items[2]);
  const std::uint64_t size = take(n_bytes(*dtype, shape));
  return {text_of(items[0]), *dtype, std::move(shape), bytes_at(number_of(items[3]), size)};
}

SharedBase base_of_memory(const HostMemories& tensors) {
  std::vector<NamedTensor> named;
  for (nb::handle memory : tensors) {
    PatchedTensor tensor = tensor_of(memory);
    named.push_back({std::move(tensor.name), {tensor.dtype, std::move(tensor.shape), tensor.data}});
  }
  return {take(base_in_memory(named))};
}

SharedBase open_base_at(const nb::bytes& path_bytes, bool verify, std::uint64_t max_decoded_bytes,
                        const LimitChoices& limits, std::vector<nb::bytes> base_dirs) {
  const std::string path = path_of(path_bytes);
  const ArchiveOptions options =
      archive_options(1, verify, max_decoded_bytes, limits, nullptr, base_dirs);
  return {take(
      without_gil([&] { return run_guarded([&] { return model::open_base(path, options); }); }))};
}

std::vector<nb::bytes> dependents_at(const nb::bytes& path_bytes) {
  const std::string path = path_of(path_bytes);
  const auto names = take(without_gil([&] { return dependents_of(path); }));
  std::vector<nb::bytes> as_bytes;
  for (const std::string& name : names) as_bytes.emplace_back(name.data(), name.size());
  return as_bytes;
}

void check_no_dependents_at(const nb::bytes& path_bytes, const std::string& otherwise) {
  const std::string path = path_of(path_bytes);
  take(without_gil([&] { return check_no_dependents(path, otherwise); }));
}

nb::list names_of(const ApplyReport& report) {
  nb::list names;
  for (const std::string& name : report.changed) names.append(nb::str(name.data(), name.size()));
  return names;
}

void apply(std::uintptr_t address, std::uint64_t n_bytes, const HostMemories& tensors,
           const nb::typed<nb::set, nb::str>& copies, nb::object targets, unsigned threads,
           bool verify, std::uint64_t max_decoded_bytes, const LimitChoices& limits,
           nb::object progress, std::uint64_t total_bytes) {
  const ArchiveOptions options =
      archive_options(threads, verify, max_decoded_bytes, limits, nullptr, {});
  std::vector<PatchedTensor> patched;
  for (nb::handle memory : tensors) {
    patched.push_back(tensor_of(memory));
    patched.back().is_copy = copies.contains(nb::borrow<nb::tuple>(memory)[0]);
  }
  const MemorySource patch{ByteView(bytes_at(address, n_bytes))};
  Watch watch(std::move(progress), total_bytes);
  const BeforeWriting before_writing = [&](const ApplyReport& report) {
    return watch.run_with_gil([&] { targets.attr("prepare")(names_of(report)); });
  };
  watch.take(without_gil([&] {
    return apply_patch(patch, patched, options.decode, watch.listener(), before_writing);
  }));
  // Here, since a signal handler may throw as soon as Python code runs again.
  targets.attr("is_written") = true;
}

// Writes the tensors of a file or folder of any format as a .cfck file in memory.
std::pair<nb::bytes, WriteSummary> write_archive(const nb::bytes& path_bytes,
                                                 const EncodeOptions& options,
                                                 nb::object progress) {
  const std::string path = path_of(path_bytes);
  Watch watch(std::move(progress), 0);
  BytesSink sink(0);
  ArchiveSummary summary = watch.take(without_gil([&] {
    return run_guarded([&]() -> Result<ArchiveSummary> {
      ArchiveOptions reading;
      reading.decode.threads = options.threads;
      CFCK_TRY_ASSIGN(const std::unique_ptr<TensorArchive> archive,
                      TensorArchive::open(path, reading));
      CFCK_TRY_ASSIGN(const std::unique_ptr<ArchiveWriter> writer,
                      ArchiveWriter::create("cfck", sink, options));
      writer->set_progress(watch.listener());
      CFCK_TRY(writer->add_archive(*archive));
      return writer->finish();
    });
  }));
  return {sink.take(), std::move(summary)};
}

}  // namespace

void bind_bases(nb::module_& module) {
  nb::class_<SharedBase>(module, "Base", "Tensors that files are stored against.")
      .def_static(
          "of_memory",
          [](const HostMemories& tensors, const nb::object&) { return base_of_memory(tensors); },
          nb::keep_alive<0, 2>(), "tensors"_a, "owner"_a,
          "Tensors in host memory, contiguous, which `owner` keeps alive: (name, dtype, shape, "
          "address) each.")
      .def_static("open", &open_base_at, "path"_a, nb::kw_only(), "verify"_a, "max_decoded_bytes"_a,
                  "limits"_a, "base_dirs"_a, "All tensors of a file or folder of any format.")
      .def_prop_ro(
          "name", [](const SharedBase& shared) { return std::string(shared.base->name()); },
          "The name of the file; empty where it is none that another one can name.");
  module.def("dependents_of", &dependents_at, "path"_a,
             "The names of the files of its folder that are stored against a file, sorted.");
  module.def("check_no_dependents", &check_no_dependents_at, "path"_a, "otherwise"_a,
             "Raises ExistsError if there are such files. A path without a file has none.\n"
             "`otherwise` says what the caller can do, besides making them stand alone.");
  module.def("apply_patch", &apply, "address"_a, "n_bytes"_a, "tensors"_a, nb::kw_only(),
             "copies"_a, "targets"_a, "threads"_a, "verify"_a, "max_decoded_bytes"_a, "limits"_a,
             "progress"_a.none(), "total_bytes"_a,
             "Gives tensors in host memory, as Base.of_memory has them, the values of a file in "
             "memory: all of them or none. When everything is proven and those named in `copies`, "
             "of tensors elsewhere, have their values, it calls targets.prepare(changed) with the "
             "names of those that change, which may raise: then all others get theirs back. "
             "Afterwards targets.is_written is True.");
  module.def(
      "tensor_bytes",
      [](const std::string& dtype, const nb::typed<nb::sequence, int>& shape) {
        return tensor_of(nb::make_tuple("", dtype, shape, 0)).data.size();
      },
      "dtype"_a, "shape"_a, "Number of bytes of a contiguous tensor.");
  module.def("write_archive", &write_archive, "path"_a, nb::kw_only(), "options"_a,
             "progress"_a.none(),
             "Writes the tensors of a file or folder of any format as a .cfck file in memory.");
}

}  // namespace cfck::python

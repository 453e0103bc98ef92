// What files are stored against, and patches that are applied to it.

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/run_guarded.hpp"
#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/patch.hpp"
#include "model/archive_base.hpp"
#include "python_bindings/src/archive.hpp"
#include "python_bindings/src/bytes_sink.hpp"
#include "python_bindings/src/errors.hpp"
#include "python_bindings/src/open_options.hpp"
#include "python_bindings/src/paths.hpp"
#include "python_bindings/src/progress.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

// A tuple of name, dtype, shape and address of a contiguous tensor on the host.
using HostMemory = std::tuple<std::string, std::string, std::vector<std::uint64_t>, std::uintptr_t>;

PatchedTensor tensor_of(const HostMemory& memory) {
  const auto& [name, dtype_text, shape, address] = memory;
  const auto dtype = dtype_from_name(dtype_text);
  if (!dtype) raise(unsupported("there is no dtype \"" + dtype_text + "\""));
  return {name, *dtype, shape, bytes_at(address, take(n_bytes(*dtype, shape)))};
}

SharedBase base_of_memory(const std::vector<HostMemory>& tensors) {
  std::vector<NamedTensor> named;
  for (const HostMemory& memory : tensors) {
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

std::vector<std::string> apply(std::uintptr_t address, std::uint64_t n_bytes,
                               const std::vector<HostMemory>& tensors, unsigned threads,
                               bool verify, std::uint64_t max_decoded_bytes,
                               const LimitChoices& limits, nb::object progress,
                               std::uint64_t total_bytes) {
  const ArchiveOptions options =
      archive_options(threads, verify, max_decoded_bytes, limits, nullptr, {});
  std::vector<PatchedTensor> patched;
  for (const HostMemory& memory : tensors) patched.push_back(tensor_of(memory));
  const MemorySource patch{ByteView(bytes_at(address, n_bytes))};
  Watch watch(std::move(progress), total_bytes);
  return watch
      .take(without_gil(
          [&] { return apply_patch(patch, patched, options.decode, watch.listener()); }))
      .changed;
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
          [](const std::vector<HostMemory>& tensors, const nb::object&) {
            return base_of_memory(tensors);
          },
          nb::keep_alive<0, 2>(), "tensors"_a, "owner"_a,
          "Tensors in host memory, contiguous, which `owner` keeps alive: (name, dtype, shape, "
          "address) each.")
      .def_static("open", &open_base_at, "path"_a, nb::kw_only(), "verify"_a, "max_decoded_bytes"_a,
                  "limits"_a, "base_dirs"_a, "All tensors of a file or folder of any format.")
      .def_prop_ro(
          "name", [](const SharedBase& shared) { return std::string(shared.base->name()); },
          "The name of the file; empty where it is none that another one can name.");
  module.def("apply_patch", &apply, "address"_a, "n_bytes"_a, "tensors"_a, nb::kw_only(),
             "threads"_a, "verify"_a, "max_decoded_bytes"_a, "limits"_a, "progress"_a.none(),
             "total_bytes"_a,
             "Gives tensors in host memory the values of a file in memory: all of them or none. "
             "Returns the names of those that changed.");
  module.def(
      "tensor_bytes",
      [](const std::string& dtype, const std::vector<std::uint64_t>& shape) {
        return tensor_of({{}, dtype, shape, 0}).data.size();
      },
      "dtype"_a, "shape"_a, "Number of bytes of a contiguous tensor.");
  module.def("write_archive", &write_archive, "path"_a, nb::kw_only(), "options"_a,
             "progress"_a.none(),
             "Writes the tensors of a file or folder of any format as a .cfck file in memory.");
}

}  // namespace cfck::python

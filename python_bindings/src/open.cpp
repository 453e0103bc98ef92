// Files of tensors, opened, whatever their format.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "archive.hpp"
#include "arguments/paths.hpp"
#include "arguments/sequences.hpp"
#include "background_read.hpp"
#include "cfck/cuda.hpp"
#include "open_options.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

std::unique_ptr<Archive> open_path(const nb::bytes& path, bool map, bool only_tensors,
                                   unsigned threads, bool verify, std::uint64_t max_decoded_bytes,
                                   const LimitChoices& limits, const SharedBase* base,
                                   const std::vector<nb::bytes>& base_dirs) {
  ArchiveOptions options =
      archive_options(threads, verify, max_decoded_bytes, limits, base, base_dirs);
  options.mode = map ? ReadMode::kMmap : ReadMode::kPread;
  options.only_tensors = only_tensors;
  const auto given = limits.find("max_index_bytes");
  const auto max_index_bytes =
      given == limits.end() ? std::nullopt : std::optional<std::uint64_t>(given->second);
  return std::make_unique<Archive>(path_of(path), options, max_index_bytes);
}

std::unique_ptr<Archive> open_memory(nb::object owner, std::uintptr_t address,
                                     std::uint64_t n_bytes, unsigned threads, bool verify,
                                     std::uint64_t max_decoded_bytes, const LimitChoices& limits,
                                     const SharedBase* base,
                                     const std::vector<nb::bytes>& base_dirs) {
  auto source = std::make_unique<MemorySource>(ByteView(bytes_at(address, n_bytes)));
  return std::make_unique<Archive>(
      std::move(source), std::move(owner),
      archive_options(threads, verify, max_decoded_bytes, limits, base, base_dirs));
}

std::unique_ptr<Archive> open_on_device(nb::object owner, int device, std::uintptr_t address,
                                        std::uint64_t n_bytes, unsigned threads, bool verify,
                                        std::uint64_t max_decoded_bytes, const LimitChoices& limits,
                                        const SharedBase* base,
                                        const std::vector<nb::bytes>& base_dirs) {
  const ArchiveOptions options =
      archive_options(threads, verify, max_decoded_bytes, limits, base, base_dirs);
  auto source = take(without_gil([&] {
    return cuda::DeviceSource::open(device, reinterpret_cast<const void*>(address), n_bytes);
  }));
  return std::make_unique<Archive>(std::move(source), std::move(owner), options);
}

// Without the casters of nanobind: see sequences.hpp.
nb::list records_of(const Archive& archive) {
  nb::list records;
  for (const ArchiveTensor& tensor : archive.tensors().tensors()) {
    nb::object record = nb::inst_alloc(nb::type<ListedRecord>());
    if (!record.is_valid()) throw nb::python_error();
    new (nb::inst_ptr<ListedRecord>(record)) ListedRecord(archive.record(tensor));
    nb::inst_mark_ready(record);
    records.append(record);
  }
  return records;
}

// Items are tuples of numbers.
template <class... Numbers>
std::vector<std::tuple<Numbers...>> tuples_of(const nb::sequence& items) {
  std::vector<std::tuple<Numbers...>> all;
  for (nb::handle item : items) {
    const nb::tuple tuple = tuple_of(item, sizeof...(Numbers));
    all.push_back([&]<std::size_t... i>(std::index_sequence<i...>) {
      return std::tuple<Numbers...>(static_cast<Numbers>(number_of(tuple[i]))...);
    }(std::index_sequence_for<Numbers...>()));
  }
  return all;
}

using Sizes = nb::typed<nb::sequence, nb::typed<nb::tuple, int, int>>;
using Requests = nb::typed<nb::sequence, nb::typed<nb::tuple, int, int, int>>;
using Records = nb::typed<nb::list, ListedRecord>;

void check_sizes(const Archive& archive, const Sizes& sizes) {
  archive.check_sizes(tuples_of<std::size_t, std::uint64_t>(sizes));
}

void read_many(const Archive& archive, const Requests& requests, nb::object progress) {
  archive.read_many(tuples_of<std::size_t, std::uintptr_t, std::uint64_t>(requests),
                    std::move(progress));
}

std::unique_ptr<BackgroundRead> start_reading(const Archive& archive,
                                              const nb::typed<nb::sequence, Requests>& batches,
                                              nb::object owner) {
  BackgroundRead::Batches reads;
  for (nb::handle batch : batches) {
    reads.push_back(archive.reads_of(
        tuples_of<std::size_t, std::uintptr_t, std::uint64_t>(nb::cast<nb::sequence>(batch))));
  }
  return std::make_unique<BackgroundRead>(archive, std::move(reads), std::move(owner));
}

std::vector<std::optional<std::string>> base_names(const Archive& archive) {
  std::vector<std::optional<std::string>> names;
  for (const ArchiveFile& file : archive.tensors().files()) {
    names.push_back(file.reader != nullptr && file.reader->needs_base()
                        ? std::optional(std::string(file.reader->base_name()))
                        : std::nullopt);
  }
  return names;
}

}  // namespace

void bind_archive(nb::module_& module) {
  nb::class_<BackgroundRead>(module, "BackgroundRead",
                             "Batches of records that are read on a thread of its own, one after "
                             "the other, without the GIL.")
      .def("wait", &BackgroundRead::wait, "batch"_a,
           "Waits until a batch is over; True if it was read.")
      .def("stop", &BackgroundRead::stop,
           "Waits for the batch that is being read; those after it are not read.");
  nb::class_<Archive>(module, "Archive",
                      "Files of any format, opened: one, or those of a folder. All methods may be "
                      "called concurrently.")
      .def_static("open_path", &open_path, nb::keep_alive<0, 8>(), "path"_a, nb::kw_only(), "map"_a,
                  "only_tensors"_a, "threads"_a, "verify"_a, "max_decoded_bytes"_a, "limits"_a,
                  "base"_a.none(), "base_dirs"_a,
                  "Opens a file, an index of shards, or a folder with one model.")
      .def_static("open_memory", &open_memory, nb::keep_alive<0, 8>(), "owner"_a, "address"_a,
                  "n_bytes"_a, nb::kw_only(), "threads"_a, "verify"_a, "max_decoded_bytes"_a,
                  "limits"_a, "base"_a.none(), "base_dirs"_a)
      .def_static(
          "open_device", &open_on_device, nb::keep_alive<0, 9>(), "owner"_a, "device"_a,
          "address"_a, "n_bytes"_a, nb::kw_only(), "threads"_a, "verify"_a, "max_decoded_bytes"_a,
          "limits"_a, "base"_a.none(), "base_dirs"_a,
          "Opens bytes in the memory of a CUDA device, complete by now, which `owner` keeps "
          "alive.")
      .def(
          "records", [](const Archive& archive) { return Records(records_of(archive)); },
          "All records in file order, hidden ones included.")
      .def("base_of", &Archive::base_of, "record"_a,
           "The record whose bytes an alias or a duplicate uses; None for others.")
      .def(
          "metadata", [](const Archive& archive) { return archive.tensors().metadata(); },
          "User metadata; of several files, the first one that has a key counts.")
      .def("notes", &Archive::notes, "Paths, and what their files have and was not read.")
      .def("attachments", &Archive::attachments,
           "For each file the names of its attachments, and how many bytes each has.")
      .def("attachment", &Archive::attachment, "file"_a, "name"_a)
      .def("check_sizes", &check_sizes, "sizes"_a,
           "LimitExceededError if one call may not return so much of a file: (record index, bytes) "
           "each.")
      .def("read_many", &read_many, "requests"_a, "progress"_a.none(),
           "Decodes records into memory: (record index, address, bytes) each.")
      .def("start_reading", &start_reading, nb::keep_alive<0, 1>(), "batches"_a, "owner"_a,
           "Begins to decode batches of requests as read_many() has them, whose memory `owner` "
           "keeps alive.")
      .def("base_names", &base_names,
           "For each file the name of the file that it is stored against, empty for one in memory; "
           "None for a file that stands alone.")
      .def("read_slice", &Archive::read_slice, "record"_a, "starts"_a, "stops"_a, "address"_a,
           "n_bytes"_a, "Decodes a box of a record into memory.");
}

}  // namespace cfck::python

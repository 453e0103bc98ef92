#include "cfck/safetensors.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "errors.hpp"
#include "progress.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

MutableBytes bytes_at(std::uintptr_t address, std::uint64_t n_bytes) {
  return {reinterpret_cast<std::byte*>(address), n_bytes};
}

// Describes the tensor as a record that is stored raw.
Record record_of(const SafetensorsEntry& entry) {
  Record record;
  record.name = entry.name;
  record.dtype = entry.dtype;
  record.shape = entry.shape;
  record.n_elems = take(n_elems(entry.shape));
  record.decoded_bytes = record.stored_bytes = entry.n_bytes;
  record.n_chunks = entry.n_bytes > 0 ? 1 : 0;
  return record;
}

// A safetensors file, with the interface that class File has for a .cfck file.
class SafetensorsFile {
 public:
  using Request = std::tuple<std::size_t, std::uintptr_t, std::uint64_t>;

  SafetensorsFile(std::unique_ptr<ByteSource> source, nb::object owner, unsigned threads,
                  std::uint64_t max_decoded_bytes)
      : owner_(std::move(owner)),
        source_(std::move(source)),
        threads_(threads),
        max_decoded_bytes_(max_decoded_bytes),
        header_(take(without_gil([&] { return read_safetensors_header(*source_); }))) {}

  const SafetensorsHeader& header() const { return header_; }
  std::uint64_t file_bytes() const { return source_->size(); }

  // Checks sizes before the caller allocates memory: each is (index, bytes).
  void check_sizes(const std::vector<std::tuple<std::size_t, std::uint64_t>>& sizes) const {
    std::uint64_t total_bytes = 0;
    for (const auto& [index, n_bytes] : sizes) {
      total_bytes += std::min(n_bytes, std::numeric_limits<std::uint64_t>::max() - total_bytes);
      check_bytes(total_bytes, entry(index).name);
    }
  }

  void read_many(const std::vector<Request>& requests, nb::object progress) const {
    std::vector<SafetensorsRead> reads;
    std::uint64_t total_bytes = 0;
    for (const auto& [index, address, n_bytes] : requests) {
      reads.push_back({&entry(index), bytes_at(address, n_bytes)});
      total_bytes += n_bytes;
    }
    check_bytes(total_bytes);
    Watch watch(std::move(progress), total_bytes);
    watch.take(
        without_gil([&] { return read_safetensors(*source_, reads, watch.listener(), threads_); }));
  }

  void read_slice(std::size_t index, const std::vector<std::uint64_t>& starts,
                  const std::vector<std::uint64_t>& stops, std::uintptr_t address,
                  std::uint64_t n_bytes) const {
    const SafetensorsEntry& what = entry(index);
    check_bytes(n_bytes);
    take(without_gil([&] {
      return read_safetensors_slice(*source_, what, starts, stops, bytes_at(address, n_bytes));
    }));
  }

 private:
  const SafetensorsEntry& entry(std::size_t index) const {
    if (index >= header_.entries.size()) throw nb::index_error("no such tensor");
    return header_.entries[index];
  }

  // Without a limit by the caller no check is needed: the file has every byte.
  void check_bytes(std::uint64_t n_bytes, const std::string& name = {}) const {
    if (max_decoded_bytes_ == 0 || n_bytes <= max_decoded_bytes_) return;
    raise({ErrorCode::kLimitExceeded,
           "the call would read " + std::to_string(n_bytes) + " bytes, and max_decoded_bytes is " +
               std::to_string(max_decoded_bytes_),
           name,
           {}});
  }

  nb::object owner_;
  std::unique_ptr<ByteSource> source_;
  unsigned threads_;
  std::uint64_t max_decoded_bytes_;
  SafetensorsHeader header_;
};

// Paths are bytes: not every file name is valid UTF-8.
std::unique_ptr<SafetensorsFile> open_path(const nb::bytes& path_bytes, bool map, unsigned threads,
                                           bool, std::uint64_t max_decoded_bytes) {
  const std::string path(path_bytes.c_str(), path_bytes.size());
  const ReadMode mode = map ? ReadMode::kMmap : ReadMode::kPread;
  auto source = take(without_gil([&] { return open_file(path, mode); }));
  return std::make_unique<SafetensorsFile>(std::move(source), nb::none(), threads,
                                           max_decoded_bytes);
}

std::unique_ptr<SafetensorsFile> open_memory(nb::object owner, std::uintptr_t address,
                                             std::uint64_t n_bytes, unsigned threads, bool,
                                             std::uint64_t max_decoded_bytes) {
  auto source = std::make_unique<MemorySource>(ByteView(bytes_at(address, n_bytes)));
  return std::make_unique<SafetensorsFile>(std::move(source), std::move(owner), threads,
                                           max_decoded_bytes);
}

}  // namespace

void bind_safetensors(nb::module_& module) {
  nb::class_<SafetensorsFile>(module, "SafetensorsFile",
                              "An open safetensors file, with the interface of File. It has no "
                              "hashes: verify is accepted and changes nothing.")
      .def_static("open_path", &open_path, "path"_a, nb::kw_only(), "map"_a, "threads"_a,
                  "verify"_a, "max_decoded_bytes"_a)
      .def_static("open_memory", &open_memory, "owner"_a, "address"_a, "n_bytes"_a, nb::kw_only(),
                  "threads"_a, "verify"_a, "max_decoded_bytes"_a)
      .def(
          "records",
          [](const SafetensorsFile& file) {
            std::vector<Record> records;
            for (const SafetensorsEntry& entry : file.header().entries) {
              records.push_back(record_of(entry));
            }
            return records;
          },
          "All tensors in file order.")
      .def("metadata", [](const SafetensorsFile& file) { return file.header().metadata; })
      .def(
          "attachments",
          [](const SafetensorsFile&) { return std::map<std::string, std::uint64_t>(); },
          "A safetensors file has none.")
      .def_prop_ro("file_bytes", &SafetensorsFile::file_bytes)
      .def("check_sizes", &SafetensorsFile::check_sizes, "sizes"_a,
           "LimitExceededError if one call may not return so much: (index, bytes) each.")
      .def("read_many", &SafetensorsFile::read_many, "requests"_a, "progress"_a.none(),
           "Reads tensors into memory: (index, address, bytes) each.")
      .def("read_slice", &SafetensorsFile::read_slice, "record"_a, "starts"_a, "stops"_a,
           "address"_a, "n_bytes"_a, "Reads a box of a tensor into memory.");
}

}  // namespace cfck::python

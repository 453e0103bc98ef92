// Reads that are decoded on a device.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "archive.hpp"
#include "cfck/cuda.hpp"
#include "errors.hpp"
#include "progress.hpp"
#include "writer_device.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

std::optional<std::string> why_not(int device) {
  const auto available = without_gil([&] { return cuda::availability(device); });
  return available ? std::nullopt : std::optional(available.error().message);
}

// One load, of records of one file. The caller keeps the archive and all memory alive.
class DeviceLoad {
 public:
  // Record index, address and bytes of the device; the box, or two empty lists.
  using Request = std::tuple<std::size_t, std::uintptr_t, std::uint64_t, std::vector<std::uint64_t>,
                             std::vector<std::uint64_t>>;

  DeviceLoad(const Archive& archive, const std::vector<Request>& requests, int device,
             nb::object progress)
      : archive_(archive), device_(device), watch_(std::move(progress), total_bytes(requests)) {
    if (requests.empty()) throw nb::value_error("a load reads at least one record");
    first_ = &archive.tensor(std::get<0>(requests.front()));
    const ArchiveFile& file = archive.tensors().files()[first_->file];
    if (file.reader == nullptr) {
      raise(unsupported("files of the format " + std::string(file.format) +
                        " are decoded on the host"));
    }
    std::vector<cuda::Read> reads;
    for (const auto& [index, address, n_bytes, starts, stops] : requests) {
      const ArchiveTensor& tensor = archive.tensor(index);
      if (tensor.file != first_->file) throw nb::value_error("a load reads one file");
      reads.push_back({tensor.record, bytes_at(address, n_bytes), starts, stops});
    }
    decoder_.emplace(take(without_gil([&] {
      return cuda::Decoder::plan(*file.reader, reads, device,
                                 cuda::LoadOptions{.progress = watch_.listener()});
    })));
  }

  std::size_t workspace_bytes() const { return decoder_->workspace_bytes(); }
  std::size_t staging_bytes() const { return decoder_->staging_bytes(); }
  std::size_t least_staging_bytes() const { return decoder_->least_staging_bytes(); }

  // Reads, copies and decodes on the stream, and waits for the end. Returns how many bytes the
  // device has decoded, and the host.
  std::tuple<std::uint64_t, std::uint64_t> run(std::uintptr_t workspace, std::uintptr_t staging,
                                               std::uint64_t staging_bytes, std::uintptr_t stream) {
    const auto summary = watch_.take(without_gil([&]() -> Result<cuda::Summary> {
      auto asked =
          decoder_->enqueue(reinterpret_cast<void*>(workspace), bytes_at(staging, staging_bytes),
                            {device_, reinterpret_cast<void*>(stream)});
      if (!asked) {
        return archive_.checked(std::move(asked), *first_).error();
      }
      auto done = decoder_->finish();
      CFCK_TRY(archive_.checked(done ? Result<void>() : done.error(), *first_));
      return done;
    }));
    return {summary.device_bytes, summary.host_bytes};
  }

 private:
  static std::uint64_t total_bytes(const std::vector<Request>& requests) {
    std::uint64_t total = 0;
    for (const Request& request : requests) total += std::get<2>(request);
    return total;
  }

  const Archive& archive_;
  const ArchiveTensor* first_ = nullptr;
  const int device_;
  Watch watch_;
  std::optional<cuda::Decoder> decoder_;
};

}  // namespace

WriterDevice::WriterDevice(int number, std::uint64_t pass_bytes, std::uint64_t scratch_bytes)
    : number_(number), device_(take(without_gil([&] {
        return cuda::WriterDevice::open(number, {pass_bytes, scratch_bytes});
      }))) {}

void WriterDevice::close() {
  summary_ = summary();
  without_gil([&] { device_.reset(); });
}

void WriterDevice::use(std::uintptr_t workspace, std::uintptr_t staging,
                       std::uint64_t staging_bytes, std::uintptr_t stream) {
  workspace_ = reinterpret_cast<void*>(workspace);
  staging_ = bytes_at(staging, staging_bytes);
  stream_ = {number_, reinterpret_cast<void*>(stream)};
}

void bind_device(nb::module_& module) {
  module.def("why_not_cuda", &why_not, "device"_a,
             "Why the device of this number can do nothing here; None where it can.");
  nb::class_<DeviceLoad>(module, "DeviceLoad",
                         "A load of records of one file that is decoded on a device.")
      .def(nb::init<const Archive&, const std::vector<DeviceLoad::Request>&, int, nb::object>(),
           "archive"_a, "requests"_a, "device"_a, "progress"_a.none(), nb::keep_alive<1, 2>())
      .def_prop_ro("workspace_bytes", &DeviceLoad::workspace_bytes)
      .def_prop_ro("staging_bytes", &DeviceLoad::staging_bytes)
      .def_prop_ro("least_staging_bytes", &DeviceLoad::least_staging_bytes)
      .def("run", &DeviceLoad::run, "workspace"_a, "staging"_a, "staging_bytes"_a, "stream"_a,
           "Decodes everything on a stream: returns the bytes that the device has decoded, and the "
           "host.");
  nb::class_<WriterDevice>(module, "WriterDevice",
                           "A device that encodes the tensors in its memory for one file.")
      .def(nb::init<int, std::uint64_t, std::uint64_t>(), "device"_a, "pass_bytes"_a,
           "scratch_bytes"_a)
      .def_prop_ro("number", &WriterDevice::number)
      .def_prop_ro("workspace_bytes", &WriterDevice::workspace_bytes)
      .def_prop_ro("staging_bytes", &WriterDevice::staging_bytes)
      .def("use", &WriterDevice::use, "workspace"_a, "staging"_a, "staging_bytes"_a, "stream"_a,
           "Sets the memory, which the caller keeps alive, and the stream.")
      .def("close", &WriterDevice::close, "Waits for what is under way, and gives up the memory.")
      .def_prop_ro("device_bytes",
                   [](const WriterDevice& device) { return device.summary().device_bytes; })
      .def_prop_ro("host_bytes",
                   [](const WriterDevice& device) { return device.summary().host_bytes; });
}

}  // namespace cfck::python

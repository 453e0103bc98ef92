#include "cfck/writer.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arguments/paths.hpp"
#include "arguments/sequences.hpp"
#include "base/run_guarded.hpp"
#include "bytes_sink.hpp"
#include "cfck/reader.hpp"
#include "cfck/update.hpp"
#include "errors.hpp"
#include "format/update/rewrite.hpp"
#include "progress.hpp"
#include "writer_device.hpp"

namespace cfck::python {
namespace {

using namespace nb::literals;

// A tuple of name, dtype, shape, strides in elements, and address of the first element.
using HostTensor = nb::typed<nb::tuple, nb::str, nb::str, nb::typed<nb::sequence, int>,
                             nb::typed<nb::sequence, int>, int>;
// A tuple of name, dtype, shape, read(offset_bytes, address, n_bytes), address on its device, and
// the number of the CUDA device and the bytes there, if it is one and all values are there one
// after another.
using DeviceTensor = std::tuple<std::string, std::string, std::vector<std::uint64_t>, nb::callable,
                                std::uintptr_t, std::optional<std::tuple<int, std::uint64_t>>>;
constexpr std::size_t kHostItems = 5;

// Lists of tensors that may share memory.
using Units = nb::typed<nb::sequence, nb::typed<nb::sequence, nb::tuple>>;

// The bytes belong to the caller for as long as the call lasts.
using Attachments = std::map<std::string, nb::bytes>;

DType dtype_of(const std::string& name) {
  const auto dtype = dtype_from_name(name);
  if (!dtype) {
    raise(unsupported("there is no dtype \"" + name + "\""));
  }
  return *dtype;
}

StridedTensor host_tensor(const nb::tuple& items) {
  return {text_of(items[0]), dtype_of(text_of(items[1])), numbers_of(items[2]),
          numbers_of(items[3]), reinterpret_cast<const std::byte*>(number_of(items[4]))};
}

// A tensor outside of host memory, copied range by range through Python.
class DeviceSource final : public ByteSource {
 public:
  DeviceSource(nb::callable read, std::uint64_t size, Watch& watch)
      : read_(std::move(read)), size_(size), watch_(watch) {}

  std::uint64_t size() const override { return size_; }

  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    const bool done = watch_.run_with_gil(
        [&] { read_(offset_bytes, reinterpret_cast<std::uintptr_t>(out.data()), out.size()); });
    if (!done) return io_error("the tensor cannot be copied to the host");
    return {};
  }

  std::string name() const override { return "<device memory>"; }

 private:
  nb::callable read_;
  std::uint64_t size_;
  Watch& watch_;
};

// Strides of a contiguous tensor.
std::vector<std::uint64_t> contiguous_strides(const Shape& shape) {
  std::vector<std::uint64_t> strides(shape.size());
  std::uint64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    next *= shape[i];
  }
  return strides;
}

// Tensors to be written, in units whose tensors may share memory, and the sources of those that are
// not on the host. `device` may be nullptr; where it is not, tensors in its memory are encoded
// there.
class Tensors {
 public:
  Tensors(const Units& units, Watch& watch, WriterDevice* device) : watch_(watch), device_(device) {
    for (nb::handle unit : units) {
      std::vector<StridedTensor>& tensors = units_.emplace_back();
      for (nb::handle tensor : nb::borrow<nb::sequence>(unit)) {
        const auto items = nb::cast<nb::tuple>(tensor);
        tensors.push_back(items.size() == kHostItems
                              ? host_tensor(items)
                              : device_tensor(nb::cast<DeviceTensor>(items)));
      }
    }
  }

  const std::vector<std::vector<StridedTensor>>& units() const { return units_; }

  // Has the device encode for a writer. To be called before tensors are added.
  Result<void> prepare(Writer& writer) const {
    if (device_ == nullptr) return {};
    CFCK_TRY(device_->encode_for(writer));
    return device_->look_at(encoded_);
  }

 private:
  StridedTensor device_tensor(DeviceTensor tensor) {
    auto& [name, dtype, shape, read, address, cuda] = tensor;
    StridedTensor added;
    added.name = std::move(name);
    added.dtype = dtype_of(dtype);
    added.shape = std::move(shape);
    added.strides = contiguous_strides(added.shape);
    added.data = reinterpret_cast<const std::byte*>(address);
    if (cuda) added.device = {DeviceKind::kCuda, std::get<0>(*cuda)};
    const std::uint64_t size = take(n_bytes(added.dtype, added.shape));
    if (cuda && device_ != nullptr && device_->number() == added.device.index) {
      auto source = without_gil(
          [&] { return cuda::DeviceSource::open(device_->number(), added.data, size); });
      if (!source) raise(std::move(source).error().in_record(added.name));
      on_device_.push_back(*std::move(source));
      added.source = on_device_.back().get();
      encoded_.push_back({added.dtype, added.shape, added.source, 0});
    } else {
      added.source = &sources_.emplace_back(std::move(read), size, watch_);
    }
    return added;
  }

  Watch& watch_;
  WriterDevice* const device_;
  std::vector<std::vector<StridedTensor>> units_;
  std::deque<DeviceSource> sources_;
  std::vector<std::unique_ptr<cuda::DeviceSource>> on_device_;
  std::vector<TensorSource> encoded_;  // by the device
};

// The contents of a file.
class Contents {
 public:
  Contents(const Units& units, Metadata metadata, const Attachments& attachments, Watch& watch,
           WriterDevice* device)
      : tensors_(units, watch, device), metadata_(std::move(metadata)) {
    for (const auto& [name, bytes] : attachments) {
      const auto* data = reinterpret_cast<const std::byte*>(bytes.c_str());
      attachments_.emplace(name, ByteView(data, bytes.size()));
    }
  }

  Result<WriteSummary> write(ByteSink& sink, const EncodeOptions& options,
                             WriteProgress progress) const {
    CFCK_TRY_ASSIGN(Writer writer, Writer::create(sink, options));
    writer.set_progress(std::move(progress));
    CFCK_TRY(tensors_.prepare(writer));
    for (const std::vector<StridedTensor>& unit : tensors_.units()) {
      CFCK_TRY(writer.add_tensors(unit));
    }
    for (const auto& [key, value] : metadata_) CFCK_TRY(writer.set_metadata(key, value));
    for (const auto& [name, bytes] : attachments_) CFCK_TRY(writer.attach(name, bytes));
    return writer.finish();
  }

  // A size that the file hardly exceeds, if the tensors have `tensor_bytes`.
  std::size_t likely_bytes(std::uint64_t tensor_bytes) const {
    constexpr std::size_t kIndexedBytes = 256;  // for each tensor, without its name
    std::size_t n_bytes = tensor_bytes + tensor_bytes / 64 + (std::size_t{1} << 14);
    for (const std::vector<StridedTensor>& unit : tensors_.units()) {
      for (const StridedTensor& tensor : unit) n_bytes += kIndexedBytes + tensor.name.size();
    }
    for (const auto& [key, value] : metadata_) n_bytes += key.size() + value.size();
    return n_bytes;
  }

 private:
  const Tensors tensors_;
  Metadata metadata_;
  std::map<std::string, ByteView> attachments_;
};

// Decodes everything and compares with the digests that were computed from the tensors.
Result<void> verify_written(AtomicFile& file, unsigned threads, std::shared_ptr<const Base> base,
                            const ReadProgress& progress) {
  DecodeOptions options;
  options.threads = threads;
  options.base = std::move(base);
  options.limits.max_decoded_bytes = std::numeric_limits<std::uint64_t>::max();
  CFCK_TRY_ASSIGN(const auto source, file.read_back());
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*source, options));
  CFCK_TRY_ASSIGN(VerifyReport report, reader.verify(VerifyLevel::kDeep, progress));
  if (!report.problems.empty()) return report.problems.front();
  return {};
}

// Makes a file of what write(sink) writes, which appears complete or not at all; returns what that
// call does. Needs the GIL.
template <class Write>
auto write_whole(const std::string& path, unsigned threads, std::shared_ptr<const Base> base,
                 bool verify, bool sync, Watch& watch, const Write& write) {
  using Written = decltype(write(std::declval<ByteSink&>()));
  Watch verify_watch(nb::none(), 0);
  auto result = without_gil([&]() -> Written {
    CFCK_TRY_ASSIGN(const auto file, AtomicFile::create(path, {true, sync}));
    CFCK_TRY_ASSIGN(auto written, write(*file));
    if (verify) CFCK_TRY(verify_written(*file, threads, std::move(base), verify_watch.listener()));
    if (!watch.check_now()) return cancelled();
    CFCK_TRY(file->commit());
    return written;
  });
  verify_watch.rethrow_pending();
  return watch.take(std::move(result));
}

WriteSummary write_file(const nb::bytes& path_bytes, const Units& units, Metadata metadata,
                        const Attachments& attachments, const EncodeOptions& options, bool verify,
                        bool sync, nb::object progress, std::uint64_t total_bytes,
                        WriterDevice* device) {
  Watch watch(std::move(progress), total_bytes);
  const Contents contents(units, std::move(metadata), attachments, watch, device);
  return write_whole(
      path_of(path_bytes), options.threads, options.base, verify, sync, watch,
      [&](ByteSink& sink) { return contents.write(sink, options, watch.listener()); });
}

std::uint64_t write_stored(const nb::bytes& path_bytes, const nb::bytes& data,
                           const Metadata& metadata, unsigned threads, bool verify, bool sync) {
  const ByteView bytes(reinterpret_cast<const std::byte*>(data.c_str()), data.size());
  const MemorySource source(bytes);
  Watch watch(nb::none(), 0);
  return write_whole(
      path_of(path_bytes), threads, nullptr, verify, sync, watch, [&](ByteSink& sink) {
        return run_guarded([&] { return format::rewrite_with(source, metadata, sink); });
      });
}

std::pair<nb::bytes, WriteSummary> write_bytes(const Units& units, Metadata metadata,
                                               const EncodeOptions& options, nb::object progress,
                                               std::uint64_t total_bytes, WriterDevice* device) {
  Watch watch(std::move(progress), total_bytes);
  const Contents contents(units, std::move(metadata), {}, watch, device);
  BytesSink sink(contents.likely_bytes(total_bytes));
  WriteSummary summary =
      watch.take(without_gil([&] { return contents.write(sink, options, watch.listener()); }));
  return {sink.take(), std::move(summary)};
}

WriteSummary update_file(const nb::bytes& path_bytes, const Units& units,
                         std::vector<std::string> remove, Metadata metadata,
                         const EncodeOptions& options, bool force, nb::object progress,
                         std::uint64_t total_bytes, WriterDevice* device) {
  const std::string path = path_of(path_bytes);
  Watch watch(std::move(progress), total_bytes);
  const Tensors tensors(units, watch, device);
  Update changes;
  changes.force = force;
  for (const std::vector<StridedTensor>& unit : tensors.units()) {
    changes.tensors.insert(changes.tensors.end(), unit.begin(), unit.end());
  }
  changes.prepare = [&](Writer& writer) { return tensors.prepare(writer); };
  changes.remove = std::move(remove);
  changes.metadata = std::move(metadata);
  return watch.take(without_gil(
      [&] { return update(path, changes, options, {}, system_files(), watch.listener()); }));
}

// Returns names, and the reason of each.
std::vector<std::pair<std::string, std::string>> kept_lossless(const WriteSummary& summary) {
  std::vector<std::pair<std::string, std::string>> kept;
  for (const KeptLossless& tensor : summary.kept_lossless) {
    kept.emplace_back(tensor.name, lossless_reason_name(tensor.reason));
  }
  return kept;
}

void bind_summary(nb::module_& module) {
  nb::class_<WriteSummary>(module, "WriteSummary", "What became of the tensors that were written.")
      .def_ro("n_records", &WriteSummary::n_records)
      .def_ro("decoded_bytes", &WriteSummary::decoded_bytes)
      .def_ro("stored_bytes", &WriteSummary::stored_bytes)
      .def_ro("file_bytes", &WriteSummary::file_bytes)
      .def_ro("step", &WriteSummary::step)
      .def_prop_ro("kept_lossless", &kept_lossless,
                   "Tensors that were meant to have a maximum error and have none, and why.")
      .def_ro("stored_apart", &WriteSummary::stored_apart)
      .def_ro("unmatched_rules", &WriteSummary::unmatched_rules);
}

}  // namespace

void bind_writer(nb::module_& module) {
  bind_summary(module);
  module.def(
      "loss_warnings",
      [](const WriteSummary& summary, const EncodeOptions& options) {
        return loss_warnings(summary.lossy, summary.kept_lossless, options);
      },
      "summary"_a, "options"_a, "What somebody who saved with these options should be told.");
  module.def(
      "write_file", &write_file, "path"_a, "units"_a, "metadata"_a, "attachments"_a, nb::kw_only(),
      "options"_a, "verify"_a, "sync"_a, "progress"_a.none(), "total_bytes"_a,
      "device"_a.none() = nb::none(),
      "Writes a file that appears complete or not at all. A unit is a list of tensors that may\n"
      "share memory: of the host (name, dtype, shape, strides, address), or of others (name, "
      "dtype,\n"
      "shape, read, address, (device, n_bytes) or None). `device` encodes those in its memory.");
  module.def("write_stored", &write_stored, "path"_a, "data"_a, "metadata"_a, nb::kw_only(),
             "threads"_a, "verify"_a, "sync"_a,
             "Writes a .cfck file that is in memory, with this metadata in place of its own, as\n"
             "write_file would have written it; it is not encoded again. Returns its length.");
  module.def("write_bytes", &write_bytes, "units"_a, "metadata"_a, nb::kw_only(), "options"_a,
             "progress"_a.none(), "total_bytes"_a, "device"_a.none() = nb::none(),
             "The same, as bytes.");
  module.def("update_file", &update_file, "path"_a, "units"_a, "remove"_a, "metadata"_a,
             nb::kw_only(), "options"_a, "force"_a, "progress"_a.none(), "total_bytes"_a,
             "device"_a.none() = nb::none(),
             "Appends a generation to a file. Tensors that others are stored against are replaced "
             "only by force.");
}

}  // namespace cfck::python

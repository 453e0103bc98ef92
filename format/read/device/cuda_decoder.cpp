#include <algorithm>
#include <string>
#include <utility>

#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "cfck/cuda.hpp"
#include "cuda/host/cuda_device.hpp"
#include "device/memory.hpp"
#include "format/read/boxes.hpp"
#include "format/read/device/load.hpp"
#include "format/read/reader_access.hpp"

namespace cfck::cuda {

using format::DeviceLoad;
using format::DeviceMemoryPlan;
using format::OpenFile;

// Members go in the opposite order: the load waits for the queue, which needs the device.
struct Decoder::Impl {
  Impl(const OpenFile& file, CudaDevice& on, int number, LoadOptions options)
      : device(on),
        device_number(number),
        progress(std::move(options.progress)),
        load(file, progress, {options.part_bytes, options.scratch_bytes},
             file.source->on_device({DeviceKind::kCuda, number})) {}

  CudaDevice& device;
  const int device_number;
  const ReadProgress progress;
  std::vector<void*> outputs;
  DeviceMemoryPlan memory;
  std::unique_ptr<device::Queue> queue;
  DeviceLoad load;
  bool is_enqueued = false;
  bool has_failed = false;
};

namespace {

bool is_aligned(const void* address, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(address) % to == 0;
}

Result<void> check_alignment(const Record& record, const void* out) {
  const std::size_t element = std::clamp(bits_per_element(record.dtype) / 8, 1u, 8u);
  if (!is_aligned(out, element)) {
    return format::wrong_call("the memory to read into is not aligned to an element", record.name);
  }
  return {};
}

// A box of a record, or all of it where the read has no box.
Result<void> add_box(const OpenFile& file, const Record& record, const Read& read,
                     DeviceLoad& load) {
  CFCK_TRY_ASSIGN(const Shape shape, format::box_shape(record, read.starts, read.stops));
  CFCK_TRY_ASSIGN(const std::uint64_t count, n_elems(shape));
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, format::range_bytes(record, 0, count));
  CFCK_TRY(format::check_out(file, record, n_bytes, read.out));
  if (count == 0) {
    return {};
  }
  return load.wanted().add({&record, &file.base_of(record),
                            format::box_view(record, read.starts, shape), 0, count, read.out});
}

bool is_box(const Read& read) { return !read.starts.empty() || !read.stops.empty(); }

// Adds the reads, those that others can be copied from first.
Result<void> add_reads(const OpenFile& file, std::span<const Read> reads,
                       const std::vector<const Record*>& records, DeviceLoad& load) {
  for (const bool aliases : {false, true}) {
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if ((records[i]->kind == RecordKind::kAlias) != aliases) {
        continue;
      }
      if (is_box(reads[i])) {
        CFCK_TRY(add_box(file, *records[i], reads[i], load));
      } else {
        CFCK_TRY(load.wanted().add_whole(*records[i], reads[i].out));
      }
    }
  }
  return {};
}

Result<std::vector<const Record*>> check_reads(const OpenFile& file, std::span<const Read> reads) {
  std::vector<const Record*> records;
  std::uint64_t total_bytes = 0;
  for (const Read& read : reads) {
    if (read.record == nullptr) {
      return format::wrong_call("a read names no record", {});
    }
    CFCK_TRY_ASSIGN(records.emplace_back(), format::own_readable(file, *read.record));
    const Record& record = *records.back();
    if (!is_box(read)) {
      CFCK_TRY(format::check_out(file, record, record.decoded_bytes, read.out));
    }
    CFCK_TRY(check_alignment(record, read.out.data()));
    total_bytes += std::min<std::uint64_t>(read.out.size(), ~std::uint64_t{0} - total_bytes);
    CFCK_TRY(file.check_decoded_bytes(total_bytes, record.name));
  }
  return records;
}

Error too_small(const char* what, std::size_t has_bytes, std::size_t needs_bytes) {
  return invalid_argument(std::string(what) + " has " + std::to_string(has_bytes) +
                          " bytes and needs " + std::to_string(needs_bytes));
}

}  // namespace

Result<void> availability(int device) {
  return run_guarded([&]() -> Result<void> {
    CFCK_TRY(open_device(device));
    return {};
  });
}

Decoder::Decoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

Result<Decoder> Decoder::plan(const Reader& reader, std::span<const Read> reads, int device,
                              LoadOptions options) {
  return run_guarded([&]() -> Result<Decoder> {
    CFCK_TRY(format::check_open(reader));
    const OpenFile& file = ReaderAccess::file(reader);
    CFCK_TRY_ASSIGN(CudaDevice* const on, open_device(device));
    CFCK_TRY_ASSIGN(const std::vector<const Record*> records, check_reads(file, reads));
    auto impl = std::make_unique<Impl>(file, *on, device, std::move(options));
    CFCK_TRY(add_reads(file, reads, records, impl->load));
    const std::byte* const bytes = file.source->on_device({DeviceKind::kCuda, device});
    for (const Read& read : reads) {
      if (bytes != nullptr) {
        CFCK_TRY(check_apart(read.out, {bytes, file.source->size()}, "the file"));
      }
      if (!read.out.empty()) {
        impl->outputs.push_back(read.out.data());
      }
    }
    impl->memory = impl->load.plan_memory();
    return Decoder(std::move(impl));
  });
}

std::size_t Decoder::workspace_bytes() const { return impl_ ? impl_->memory.workspace_bytes() : 0; }
std::size_t Decoder::staging_bytes() const { return impl_ ? impl_->memory.staging_bytes() : 0; }
std::size_t Decoder::least_staging_bytes() const {
  return impl_ ? impl_->memory.least_staging_bytes() : 0;
}

Result<void> Decoder::enqueue(void* workspace, MutableBytes staging, Stream stream) {
  return run_guarded([&]() -> Result<void> {
    if (!impl_ || impl_->is_enqueued) {
      return invalid_argument("a decoder reads once: plan another one");
    }
    const std::size_t least_staging_bytes = impl_->memory.least_staging_bytes();
    if (staging.size() < least_staging_bytes) {
      return too_small("the staging memory", staging.size(), least_staging_bytes);
    }
    if (workspace == nullptr && impl_->memory.workspace_bytes() != 0) {
      return too_small("the workspace", 0, impl_->memory.workspace_bytes());
    }
    if (staging.data() == nullptr && least_staging_bytes != 0) {
      return too_small("the staging memory", 0, least_staging_bytes);
    }
    if (!is_aligned(workspace, 256) || !is_aligned(staging.data(), device::kAlignment)) {
      return invalid_argument(
          "the workspace must begin at a multiple of 256, and the staging memory of 16");
    }
    if (stream.device != impl_->device_number) {
      return invalid_argument(
          "the stream is of the device cuda:" + std::to_string(stream.device) +
          ", and the reads were planned for cuda:" + std::to_string(impl_->device_number));
    }
    CFCK_TRY(check_memory(impl_->device, workspace, "the workspace"));
    for (const void* const out : impl_->outputs) {
      CFCK_TRY(check_memory(impl_->device, out, "the memory to read into"));
    }
    CFCK_TRY_ASSIGN(impl_->queue, open_queue(impl_->device, stream.handle));
    impl_->is_enqueued = true;
    Result<void> done = run_guarded([&] {
      return impl_->load.enqueue(*impl_->queue, staging, static_cast<std::byte*>(workspace));
    });
    if (!done) {
      impl_->load.cancel();
      impl_->has_failed = true;
    }
    return done;
  });
}

Result<Summary> Decoder::finish() {
  return run_guarded([&]() -> Result<Summary> {
    if (!impl_ || !impl_->is_enqueued) {
      return invalid_argument("nothing was enqueued");
    }
    if (impl_->has_failed) {
      return invalid_argument("the load has failed, and there is nothing to wait for");
    }
    auto moved = run_guarded([&] { return impl_->load.finish(); });
    if (!moved) {
      impl_->load.cancel();
      impl_->has_failed = true;
      return std::move(moved).error();
    }
    return Summary{moved->device_bytes, moved->host_bytes};
  });
}

}  // namespace cfck::cuda

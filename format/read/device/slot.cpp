#include "format/read/device/slot.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/run_guarded.hpp"
#include "format/container/frame_fields.hpp"
#include "format/read/chunks/decode.hpp"
#include "format/read/chunks/frames.hpp"

namespace cfck::format {
namespace {

// Whether the chunk may have parameters of its own, of any length.
bool may_have_parameters(const ChunkPlace& place) {
  return !place.stored->has_preamble &&
         device_traits_of(place.stored->record.codec).chunks_may_have_parameters;
}

}  // namespace

std::shared_ptr<const codec::ParametersForDevice> RecordCache::parameters_of(
    const StoredRecord& stored, const codec::ChunkInfo& info) {
  if (info.preamble.empty()) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = parameters_.try_emplace(&stored);
  if (is_new) {
    place->second = codec::find_decoder(stored.record.codec)->parameters_for_device(info);
  }
  return place->second;
}

void DeviceSlot::clear() {
  memory_.clear();
  jobs_.clear();
  blocks_.clear();
  fetched_ = 0;
  kept_bytes_ = kSlotOverheadBytes;
  reserved_bytes_ = 0;
  vectors_.clear();
  done_.clear();
  moved_ = {};
  orders_.clear();
  is_under_way_ = false;
}

// Room for a mask, where there have been masks before. The first job of a slot is taken in any
// case.
std::size_t DeviceSlot::mask_reserve(const DeviceJob& job) const {
  const bool may_have_one = job.kind == JobKind::kChunk && learned_.have_masks() && !is_empty();
  return may_have_one ? device::aligned_bytes(reads_.wanted.place_of(job.wanted).n_elems / 8 + 1)
                      : 0;
}

// Extents that follow each other in the file do so in the slot; others begin at addresses that are
// as aligned as in the file.
std::optional<device::Placed> DeviceSlot::take_place(const DeviceJob& job, std::size_t kept_bytes) {
  const std::size_t n_bytes = place_bytes(reads_, job);
  if (!is_of_device(job) || reads_.on_device != nullptr) {
    return memory_.take(n_bytes, kept_bytes);
  }
  if (!is_empty() && is_of_device(jobs_.back()) &&
      job.offset_bytes == jobs_.back().offset_bytes + jobs_.back().extent_bytes) {
    return memory_.take_behind(jobs_.back().place, n_bytes, kept_bytes);
  }
  const std::size_t skipped = job.offset_bytes % device::kAlignment;
  auto place = memory_.take(skipped + n_bytes, kept_bytes);
  if (place) {
    place->host = place->host.subspan(skipped);
    place->device += skipped;
  }
  return place;
}

bool DeviceSlot::admit(DeviceJob& job) {
  if (is_of_device(job)) {
    const ExtentPlace extent = extent_of(reads_, job);
    job.offset_bytes = extent.offset_bytes;
    job.extent_bytes = extent.n_bytes;
    job.hash = extent.hash;
  }
  const std::size_t described = description_bytes(reads_.wanted, job);
  const std::size_t reserved = std::max(job.extra_bytes, mask_reserve(job));
  const auto place = take_place(job, kept_bytes_ + described + reserved_bytes_ + reserved);
  if (!place) {
    return false;
  }
  kept_bytes_ += described;
  reserved_bytes_ += reserved;
  job.place = *place;
  job.extent = reads_.on_device != nullptr ? reads_.on_device + job.offset_bytes : place->device;
  jobs_.push_back(std::move(job));
  return true;
}

void DeviceSlot::cut(bool is_first_of_load) {
  blocks_ = cut_into_blocks(jobs_, is_first_of_load);
  blocks_bytes_ = memory_.filled().size();
}

Result<void> DeviceSlot::fetch(device::Queue& device) {
  if (reads_.on_device == nullptr) {
    return {};
  }
  const MutableBytes headers = memory_.filled();
  std::vector<device::Copy> copies;
  for (const DeviceJob& job : jobs_) {
    if (is_of_device(job) && !job.place.host.empty()) {
      copies.push_back({.from = bytes_of(job.extent),
                        .to = reinterpret_cast<std::uint8_t*>(job.place.device),
                        .n_bytes = job.place.host.size()});
    }
  }
  if (copies.empty()) {
    return {};
  }
  const auto launch = place_copies(copies, memory_);
  if (!launch) {
    return internal_error("a slot is too small for a list of its chunks");
  }
  CFCK_TRY(
      device.upload(memory_.device() + headers.size(), memory_.filled().subspan(headers.size())));
  CFCK_TRY(device.launch(*launch));
  CFCK_TRY(device.download(headers, memory_.device()));
  CFCK_TRY_ASSIGN(fetched_, device.mark());
  return {};
}

Result<void> DeviceSlot::fill(std::size_t number, ReadWorker& worker, device::Queue& device) {
  JobBlock& block = blocks_[number];
  const auto jobs = std::span(jobs_).subspan(block.begin, block.end - block.begin);
  const device::Placed place = place_of(jobs);
  if (!is_of_device(jobs.front())) {
    CFCK_TRY(fill_all(block, jobs, worker));
    return device.upload(place.device, place.host);
  }
  if (reads_.on_device == nullptr) {
    block.failure = read_extents(reads_, jobs);
    if (block.failure) {
      return copy_of(block.failure->error);
    }
    CFCK_TRY(device.upload(place.device, place.host));
  }
  return fill_all(block, jobs, worker);
}

Result<void> DeviceSlot::fill_all(JobBlock& block, std::span<DeviceJob> jobs, ReadWorker& worker) {
  for (DeviceJob& job : jobs) {
    if (Result<void> done = fill_job(job, worker); !done) {
      Error error = std::move(done).error();
      if (is_of_device(job)) {
        error = placed_error(reads_, job, std::move(error));
      }
      block.failure = JobFailure{job.order, copy_of(error)};
      return error;
    }
  }
  return {};
}

std::optional<JobFailure> DeviceSlot::take_failure() {
  const auto failed = std::ranges::find_if(
      blocks_, [](const JobBlock& block) { return block.failure.has_value(); });
  return failed == blocks_.end() ? std::nullopt : std::exchange(failed->failure, std::nullopt);
}

Result<void> DeviceSlot::fill_job(DeviceJob& job, ReadWorker& worker) {
  switch (job.kind) {
    case JobKind::kChunk:
      return fill_chunk(job, worker);
    case JobKind::kPack:
      return fill_pack(job, worker);
    case JobKind::kHostChunk:
      return fill_host_chunk(job, worker);
    case JobKind::kHostPacked:
      return fill_host_packed(job, worker);
    case JobKind::kBytes:
      std::memcpy(job.place.host.data(), job.bytes.data(), job.bytes.size());
      return {};
    case JobKind::kGather:
      return {};
  }
  return {};
}

Result<bool> DeviceSlot::place_mask(DeviceTask& task, ByteView payload, codec::Scratch& scratch) {
  if (task.plan.mask_frame_bytes == 0) {
    return true;
  }
  const auto place = memory_.take(task.plan.mask_bytes, kept_bytes_);
  if (!place) {
    learned_.note_masks();
    task.lacks_space = true;
    return false;
  }
  std::vector<std::byte> fetched;
  if (reads_.on_device != nullptr) {
    fetched.resize(task.plan.mask_at + std::size_t{task.plan.mask_frame_bytes});
    const auto at = static_cast<std::uint64_t>(task.payload - reads_.on_device);
    CFCK_TRY(reads_.file.source->read_at(at, fetched));
    payload = fetched;
  }
  task.mask = place->device;
  return bool(codec::unpack_mask(task.plan, payload, scratch, place->host));
}

bool DeviceSlot::place_vectors(DeviceTask& task) {
  if (!task.plan.parameters || task.plan.parameters->n_bytes() == 0) {
    return true;
  }
  const std::lock_guard lock(vectors_mutex_);
  const auto [found, is_new] = vectors_.try_emplace(task.plan.parameters.get());
  if (is_new) {
    const auto place = memory_.take(task.plan.parameters->n_bytes(), kept_bytes_);
    if (!place) {
      vectors_.erase(found);
      task.lacks_space = true;
      return false;
    }
    task.plan.parameters->store(place->host.data());
    found->second = place->device;
  }
  task.vectors = found->second;
  return true;
}

Result<void> DeviceSlot::plan(DeviceTask& task, const StoredRecord& stored,
                              const codec::ChunkInfo& info, ByteView payload,
                              codec::Scratch& scratch) {
  task.n_elems = info.n_elems;
  task.first_elem = info.first_elem;
  task.plan = codec::find_decoder(stored.record.codec)
                  ->plan_for_device(info, payload, task.payload_bytes,
                                    learned_.parameters_of(stored, info));
  if (task.plan.method == codec::DecodeMethod::kHost) {
    return {};
  }
  CFCK_TRY_ASSIGN(const bool has_mask, place_mask(task, payload, scratch));
  const bool is_described = task.plan.segments.size() <= most_segments(stored.record, info.n_elems);
  if (!has_mask || !is_described || !place_vectors(task)) {
    task.plan.method = codec::DecodeMethod::kHost;
  }
  return {};
}

Result<void> DeviceSlot::fill_chunk(DeviceJob& job, ReadWorker& worker) {
  const ChunkPlace place = reads_.wanted.place_of(job.wanted);
  const ByteView front = job.place.host;  // of the extent, or all of it
  DeviceTask& task = job.tasks.emplace_back();
  task.wanted = job.wanted;
  task.order = job.order;
  if (place.stored->record.codec == CodecId::kRaw) {
    const RawFrame frame = raw_frame_of(place);
    task.n_elems = place.n_elems;
    task.first_elem = place.chunk * place.stored->record.chunk_elems;
    if (!frame.starts_here || check_raw_start(front, place, frame)) {
      task.payload = job.extent + (frame.starts_here ? frame.start_bytes : 0);
      task.plan.method = codec::DecodeMethod::kCopy;
    }
    return {};
  }
  // Chunks with a Zstd frame behind their CHNK frame are the host's.
  if (!check_frame_header(front, kChunkTag, job.extent_bytes, place.offset_bytes)) {
    return {};
  }
  task.payload = job.extent + kFrameHeaderBytes;
  task.payload_bytes = job.extent_bytes - static_cast<std::uint32_t>(kFrameHeaderBytes);
  CFCK_TRY(plan(task, *place.stored, info_of(place), front.subspan(kFrameHeaderBytes),
                worker.scratch()));
  const bool is_host = task.plan.method == codec::DecodeMethod::kHost && !task.lacks_space;
  if (!is_host || front.size() == job.extent_bytes || !may_have_parameters(place)) {
    return {};
  }
  // Its header was longer than what has been fetched of it.
  std::vector<std::byte> extent(job.extent_bytes);
  CFCK_TRY(reads_.file.source->read_at(place.offset_bytes, extent));
  return plan(task, *place.stored, info_of(place), ByteView(extent).subspan(kFrameHeaderBytes),
              worker.scratch());
}

Result<void> DeviceSlot::fill_pack(DeviceJob& job, ReadWorker& worker) {
  const WantedPack& pack = reads_.wanted.packs()[job.pack];
  const PackEntry& entry = reads_.file.index.packs[pack.pack];
  const ByteView frame = job.place.host;
  const bool is_valid =
      bool(check_frame_header(frame, kPackTag, entry.n_bytes, entry.offset_bytes));
  for (const std::size_t number : pack.reads) {
    const ViewRead& read = reads_.wanted.reads()[number];
    const StoredRecord& stored = *read.stored;
    DeviceTask& task = job.tasks.emplace_back();
    task.wanted = {number, 0, 0, read.first, read.first + read.n_elems};
    task.order = {job.order.job, job.tasks.size() - 1};
    const bool is_whole = read.n_elems == stored.record.n_elems;
    if (!is_valid || (!is_whole && !can_gather(read))) {
      continue;  // the host's
    }
    task.payload = job.extent + stored.pack_offset;
    task.payload_bytes = stored.payload_bytes;
    if (stored.record.codec == CodecId::kRaw) {
      task.n_elems = stored.record.n_elems;
      task.plan.method = codec::DecodeMethod::kCopy;
      continue;
    }
    CFCK_TRY(plan(task, stored, info_of_packed(stored.record),
                  frame.subspan(stored.pack_offset, stored.payload_bytes), worker.scratch()));
  }
  return {};
}

Result<void> DeviceSlot::fill_host_chunk(DeviceJob& job, ReadWorker& worker) {
  const ChunkPlace place = reads_.wanted.place_of(job.wanted);
  const Verify verify{reads_.file.options.verify_chunks};
  if (job.wanted.end - job.wanted.begin == place.n_elems) {
    return decode_chunk(reads_.file, place, verify, worker, job.place.host);
  }
  const MutableBytes decoded = worker.decoded(place.decoded_bytes);
  CFCK_TRY(decode_chunk(reads_.file, place, verify, worker, decoded));
  ViewRead part = reads_.wanted.reads()[job.wanted.read];
  part.first = job.wanted.begin;
  copy_runs(part, job.wanted, decoded, place.chunk * place.stored->record.chunk_elems,
            job.place.host);
  return {};
}

Result<void> DeviceSlot::fill_host_packed(DeviceJob& job, ReadWorker& worker) {
  const ViewRead& read = reads_.wanted.reads()[job.wanted.read];
  const StoredRecord& stored = *read.stored;
  const auto pack = reads_.file.read_pack(stored.pack);
  if (!pack) {
    return place_error(pack.error(), read.asked->name, 0);
  }
  const bool is_whole = read.n_elems == stored.record.n_elems;
  const MutableBytes decoded =
      is_whole ? job.place.host : worker.decoded(stored.record.decoded_bytes);
  CFCK_TRY(decode_packed(reads_.file, stored, read.asked->name, **pack, worker, decoded));
  if (!is_whole) {
    copy_runs(read, job.wanted, decoded, 0, job.place.host);
  }
  return {};
}

void DeviceSlot::describe(DeviceJob& job, DevicePasses& passes) {
  if (is_of_device(job)) {
    if (reads_.file.options.verify_chunks) {
      passes.add_extent(
          job.order, {.data = bytes_of(job.extent), .hash = job.hash, .n_bytes = job.extent_bytes});
    }
    for (DeviceTask& task : job.tasks) {
      if (task.plan.method == codec::DecodeMethod::kHost || !passes.add_task(task)) {
        const bool is_deferred = task.lacks_space && job.kind == JobKind::kChunk &&
                                 job.extra_bytes == 0 && jobs_.size() > 1;
        left_jobs_.push_back(is_deferred ? deferred_job(job, task) : host_job(job, task));
        continue;
      }
      moved_.device_bytes += wanted_bytes(reads_.wanted, task.wanted);
      moved_.host_bytes += task.plan.mask_frame_bytes == 0 ? 0 : task.plan.mask_bytes;
      done_.push_back({reads_.wanted.reads()[task.wanted.read].asked,
                       wanted_bytes(reads_.wanted, task.wanted)});
    }
    return;
  }
  if (job.kind == JobKind::kGather) {
    const ViewRead& read = job.deferred->read;
    passes.add_gather(read, read.first, read.first + read.n_elems, job.deferred->from.data(), 0);
    done_.push_back({read.asked, read.out.size()});
    return;
  }
  const std::uint64_t n_bytes = job.place.host.size();
  std::byte* const to =
      job.kind == JobKind::kBytes ? job.to : destination_of(reads_.wanted, job.wanted).data();
  passes.add_copy(to, job.place.device, n_bytes);
  moved_.host_bytes += n_bytes;
  done_.push_back({job.deferred != nullptr ? job.deferred->read.asked
                                           : reads_.wanted.reads()[job.wanted.read].asked,
                   n_bytes});
}

Result<void> DeviceSlot::launch(device::Queue& device, device::Scratch& scratch,
                                const codec::DeviceTable* tables) {
  DevicePasses passes(reads_.wanted, scratch);
  scratch.clear();
  for (DeviceJob& job : jobs_) {
    describe(job, passes);
  }
  const auto launches = passes.place(memory_, tables);
  if (!launches) {
    return internal_error("a slot is too small for what describes it to the device");
  }
  CFCK_TRY(
      device.upload(memory_.device() + blocks_bytes_, memory_.filled().subspan(blocks_bytes_)));
  is_under_way_ = true;
  for (const device::Launch& launch : *launches) {
    CFCK_TRY(device.launch(launch));
  }
  statuses_ = passes.statuses();
  orders_ = passes.orders();
  CFCK_TRY(device.download(statuses_.host, statuses_.device));
  CFCK_TRY_ASSIGN(mark_, device.mark());
  return {};
}

std::vector<DeviceJob> DeviceSlot::take_left_jobs() { return std::exchange(left_jobs_, {}); }

std::optional<JobOrder> DeviceSlot::failed() const {
  std::optional<JobOrder> lowest;
  for (std::size_t i = 0; i < orders_.size(); ++i) {
    const auto status = load<std::uint32_t>(statuses_.host.data() + i * sizeof(std::uint32_t));
    if (orders_[i] && status != device::kOk && (!lowest || *orders_[i] < *lowest)) {
      lowest = orders_[i];
    }
  }
  return lowest;
}

}  // namespace cfck::format

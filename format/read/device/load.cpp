#include "format/read/device/load.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "base/threads/threads.hpp"
#include "codec/entropy/rans/device_tables.hpp"
#include "format/read/chunks/decode.hpp"
#include "format/read/plan.hpp"

namespace cfck::format {
namespace {

// One slot is filled, one copied, and two decoded side by side: few chunks leave a device idle,
// also while it decodes the last of them.
constexpr std::size_t kSlots = 4;
// More threads read no faster, since copies to the device take time of the memory too.
constexpr unsigned kReadThreads = 8;
constexpr unsigned kReadThreadsOfMany = 12;  // where there are twice as many CPUs
// Small loads are cut into so many parts, so that these overlap, but not into smaller ones than
// this, which would leave a device idle.
constexpr std::size_t kParts = 4;
constexpr std::size_t kMinPartBytes = std::size_t{4} << 20;
// So many chunks keep a device busy. A file on the device is cut into parts by their number; the
// first part is small, so that the rest is planned while it is decoded.
constexpr std::size_t kMinPartJobs = 600;
constexpr std::size_t kFirstPart = 10;  // one of so many
constexpr std::size_t kMemoryAlignment = 256;
// Any load takes as much scratch memory, for masks and partial reads.
constexpr std::uint64_t kMinScratchBytes = std::uint64_t{8} << 20;
// Planning so many chunks takes as long as a thread takes to start, several times over.
constexpr std::size_t kPlansPerThread = 200;
// The host sends values that it has whole in pieces of this size.
constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

std::size_t rounded(std::size_t n_bytes) {
  return ceil_div(n_bytes, kMemoryAlignment) * kMemoryAlignment;
}

// Returns what the chunks of a read are likely to take of the scratch memory together: for a group
// of 128 values a number and rows of escapes; for values what the codec says.
std::uint64_t likely_scratch_bytes(const ViewRead& read, std::uint64_t limit) {
  const Record& record = read.stored->record;
  const std::uint64_t n = std::min(record.n_elems, read.n_elems + 2 * record.chunk_elems);
  const std::uint64_t of_groups = n / 16 + 4096;
  const std::uint64_t of_values =
      device_traits_of(record.codec).scratch_bytes_per_value * std::min(n, limit);
  return std::min(of_groups + of_values, limit);
}

}  // namespace

DeviceMemoryPlan DeviceLoad::plan_memory() {
  auto jobs = device_jobs(wanted_);
  std::size_t largest = 0;
  std::size_t total = kSlotOverheadBytes;
  const std::size_t enough = kParts * limits_.slot_bytes + kSlotOverheadBytes;
  for (const DeviceJob& job : jobs) {
    largest = std::max(largest, most_slot_bytes(reads_, job));
    total = std::min(total + likely_slot_bytes(reads_, job), enough);
  }
  if (!wanted_.deferred().empty()) {
    DeviceJob gather_job;
    gather_job.kind = JobKind::kGather;
    largest = std::max(largest, kPieceBytes + description_bytes(wanted_, gather_job));
  }
  jobs_.assign(std::make_move_iterator(jobs.begin()), std::make_move_iterator(jobs.end()));
  const std::size_t part = part_bytes(total);
  memory_.slot_bytes =
      rounded(std::max(std::min({total, part, limits_.slot_bytes}), largest + kSlotOverheadBytes));
  memory_.n_slots = std::clamp<std::size_t>(ceil_div(total, memory_.slot_bytes), 1, kSlots);
  plan_scratch();
  return memory_;
}

std::size_t DeviceLoad::part_bytes(std::size_t total) {
  if (reads_.on_device == nullptr) {
    return std::max(total / kParts + kSlotOverheadBytes, kMinPartBytes);
  }
  const std::size_t n_parts = std::clamp<std::size_t>(jobs_.size() / kMinPartJobs, 1, kParts);
  if (n_parts == 1) {
    return total;
  }
  first_jobs_ = std::max(jobs_.size() / kFirstPart, kMinPartJobs);
  const std::size_t jobs_of_others = ceil_div(jobs_.size() - first_jobs_, n_parts - 1);
  return ceil_div(total * jobs_of_others, jobs_.size()) + kSlotOverheadBytes;
}

void DeviceLoad::plan_scratch() {
  std::uint64_t likely = 0;
  std::uint64_t most = 0;           // of all that could be wanted
  std::uint64_t most_of_chunk = 0;  // of one
  for (const ViewRead& read : wanted_.reads()) {
    const Record& record = read.stored->record;
    const std::uint64_t n = std::min(record.n_elems, kMaxBytes / 32);
    most_of_chunk = std::max(most_of_chunk, 16 * std::min(n, record.chunk_elems) + 4096);
    likely = std::min<std::uint64_t>(limits_.scratch_bytes,
                                     likely + likely_scratch_bytes(read, limits_.scratch_bytes));
    most = std::min<std::uint64_t>(kMaxBytes, most + 16 * n + 4096);
  }
  likely = std::max(likely, std::min(kMinScratchBytes, most));
  memory_.scratch_bytes = rounded(std::min<std::uint64_t>(likely, limits_.scratch_bytes));
  // A chunk that fits the memory of one lane alone would be the host's.
  const std::size_t lane_bytes = rounded(memory_.scratch_bytes / device::Queue::kLanes);
  if (memory_.n_slots > 1 && most_of_chunk <= lane_bytes) {
    memory_.n_lanes = device::Queue::kLanes;
    memory_.scratch_bytes = memory_.n_lanes * lane_bytes;
  }
}

unsigned DeviceLoad::threads_for(std::span<const DeviceJob> jobs) {
  const bool is_for_device = std::ranges::all_of(jobs, is_of_device);
  const bool has_only_plans = is_for_device && reads_.on_device != nullptr;
  const auto n_plans = static_cast<unsigned>(jobs.size() / kPlansPerThread);
  if (has_only_plans && n_plans <= 1) {
    return 1;
  }
  if (most_threads_ == 0) {
    most_threads_ = resolve_threads(file_.options.threads);
  }
  if (has_only_plans) {
    return std::min(n_plans, most_threads_);
  }
  if (is_for_device && file_.options.threads == 0) {
    return std::min(most_threads_,
                    most_threads_ < 2 * kReadThreads ? kReadThreads : kReadThreadsOfMany);
  }
  return most_threads_;
}

Result<void> DeviceLoad::enqueue(device::Queue& device, MutableBytes staging,
                                 std::byte* workspace) {
  if (jobs_.empty() && wanted_.deferred().empty()) {
    return {};
  }
  device_ = &device;
  CFCK_TRY_ASSIGN(const std::byte* const tables,
                  device.keep(std::as_bytes(codec::static_device_tables())));
  tables_ = reinterpret_cast<const codec::DeviceTable*>(tables);
  const std::size_t lane_bytes = memory_.scratch_bytes / memory_.n_lanes;
  for (std::size_t i = 0; i < memory_.n_lanes; ++i) {
    scratch_[i] = device::Scratch(workspace + i * lane_bytes, lane_bytes);
  }
  workspace += memory_.scratch_bytes;
  const std::size_t n_slots = std::min(memory_.n_slots, staging.size() / memory_.slot_bytes);
  for (std::size_t i = 0; i < n_slots; ++i) {
    slots_.push_back(std::make_unique<DeviceSlot>(
        reads_, learned_, staging.subspan(i * memory_.slot_bytes, memory_.slot_bytes),
        workspace + i * memory_.slot_bytes));
  }
  team_.emplace();
  Result<void> done = run_all();
  team_.reset();
  return done;
}

Result<void> DeviceLoad::run_all() {
  CFCK_TRY(run_jobs());
  CFCK_TRY(run_deferred());
  return device_->join_lanes();  // work of the caller comes after all of this
}

Result<void> DeviceLoad::run_jobs() {
  while (!jobs_.empty() || !filling_.empty()) {
    CFCK_TRY(is_to_start() ? start_slot() : finish_slot());
  }
  return {};
}

// With a slot in advance threads never wait for the last block of a slot. Where there are few slots
// the device would have to empty it first, while the one before it is not launched. Of a file on
// the device headers are asked for as early as possible, since kernels that decode leave no room
// for the one that brings them.
bool DeviceLoad::is_to_start() {
  if (jobs_.empty() || filling_.empty()) {
    return !jobs_.empty();
  }
  if (reads_.on_device != nullptr) {
    return filling_.size() < slots_.size() && !next_slot().is_under_way();
  }
  return slots_.size() > 2 && filling_.size() < 2;
}

Result<void> DeviceLoad::start_slot() {
  DeviceSlot& slot = next_slot();
  const auto lane = static_cast<unsigned>(n_started_ % memory_.n_lanes);
  CFCK_TRY(await_slot(slot));
  slot.clear();
  admit_jobs(slot);
  if (slot.is_empty()) {
    return internal_error("a slot is too small for a chunk");
  }
  slot.cut(n_started_ == 0);
  ++n_started_;
  device_->use_lane(lane);
  CFCK_TRY(slot.fetch(*device_));
  const unsigned threads = threads_for(slot.jobs());
  Filling& filling = filling_.emplace_back(slot, lane, threads, file_.idle_workers());
  if (reads_.on_device == nullptr) {
    start_blocks(filling);
  }
  return {};
}

void DeviceLoad::start_blocks(Filling& filling) {
  filling.blocks =
      &team_->start(filling.slot.n_blocks(), filling.n_threads,
                    [this, &filling](std::size_t block, unsigned worker) {
                      return filling.slot.fill(block, filling.workers[worker], *device_);
                    });
}

void DeviceLoad::admit_jobs(DeviceSlot& slot) {
  const std::size_t n_most = n_started_ == 0 ? first_jobs_ : kAllJobs;
  while (!jobs_.empty() && slot.jobs().size() < n_most && slot.admit(jobs_.front())) {
    jobs_.pop_front();
  }
  // Without a slot that has room for what it lacked in the first one, a chunk is the host's.
  if (slot.is_empty() && jobs_.front().extra_bytes != 0) {
    jobs_.front() = host_job(jobs_.front());
    (void)slot.admit(jobs_.front());
    jobs_.pop_front();
  }
}

Result<void> DeviceLoad::finish_slot() {
  Filling& filling = filling_.front();
  DeviceSlot& slot = filling.slot;
  if (filling.blocks == nullptr) {
    CFCK_TRY(slot.await_fetched(*device_));
    start_blocks(filling);
  }
  Result<void> filled = team_->finish(*std::exchange(filling.blocks, nullptr));
  if (!filled) {
    auto failure = slot.take_failure();
    if (!failure) {
      return filled;  // of no job: memory, say, or the device
    }
    record_failure(failure->order, std::move(failure->error));
    return first_error();
  }
  device_->use_lane(filling.lane);
  CFCK_TRY(slot.launch(*device_, scratch_[filling.lane], tables_));
  filling_.pop_front();
  std::vector<DeviceJob> left = slot.take_left_jobs();
  jobs_.insert(jobs_.begin(), std::make_move_iterator(left.begin()),
               std::make_move_iterator(left.end()));
  return {};
}

void DeviceLoad::stop_filling() {
  for (; !filling_.empty(); filling_.pop_back()) {
    Filling& filling = filling_.back();
    if (filling.blocks != nullptr) {
      (void)team_->stop(*filling.blocks);
    }
    if (auto failure = filling.slot.take_failure()) {
      record_failure(failure->order, std::move(failure->error));
    }
    jobs_.insert(jobs_.begin(), filling.slot.jobs().begin(), filling.slot.jobs().end());
  }
}

void DeviceLoad::record_failure(const JobOrder& order, Error error) {
  if (!failure_ || order < failure_->order) {
    failure_ = JobFailure{order, std::move(error)};
  }
}

Result<void> DeviceLoad::wait_for(DeviceSlot& slot) {
  if (!slot.is_under_way()) {
    return {};
  }
  CFCK_TRY(device_->wait(slot.mark()));
  slot.set_done();
  if (const auto failed = slot.failed()) {
    record_failure(*failed, reproduce_on_host(*failed));
    return {};
  }
  moved_.device_bytes += slot.moved().device_bytes;
  moved_.host_bytes += slot.moved().host_bytes;
  for (const DeviceSlot::Done& done : slot.done()) {
    CFCK_TRY(progress_.advance(done.n_bytes, done.asked->name));
  }
  return {};
}

Result<void> DeviceLoad::await_slot(DeviceSlot& slot) {
  CFCK_TRY(wait_for(slot));
  return failure_ ? first_error() : Result<void>();
}

Error DeviceLoad::first_error() {
  stop_filling();
  for (const auto& slot : slots_) {
    if (Result<void> waited = wait_for(*slot); !waited) {
      return std::move(waited).error();
    }
  }
  for (const DeviceJob& job : jobs_) {
    const bool is_late = job.kind == JobKind::kBytes || job.kind == JobKind::kGather;
    if (!is_late && job.order < failure_->order) {
      if (Result<void> done = decode_on_host(job.order); !done) {
        record_failure(job.order, std::move(done).error());
      }
    }
  }
  return std::move(failure_->error);
}

Error DeviceLoad::reproduce_on_host(const JobOrder& order) {
  Result<void> decoded = decode_on_host(order);
  if (!decoded) {
    return std::move(decoded).error();
  }
  return internal_error(
             "the device and the host disagree about a chunk, which the host decodes without an "
             "error")
      .in_record(name_of(order));
}

const std::string& DeviceLoad::name_of(const JobOrder& order) const {
  const std::size_t n_chunks = wanted_.chunks().size();
  const std::size_t read = order.job < n_chunks
                               ? wanted_.chunks()[order.job].read
                               : wanted_.packs()[order.job - n_chunks].reads[order.part];
  return wanted_.reads()[read].asked->name;
}

Result<void> DeviceLoad::decode_on_host(const JobOrder& order) {
  ReadWorker worker;
  const Verify verify{file_.options.verify_chunks};
  if (order.job < wanted_.chunks().size()) {
    const ChunkPlace place = wanted_.place_of(wanted_.chunks()[order.job]);
    return decode_chunk(file_, place, verify, worker, worker.decoded(place.decoded_bytes));
  }
  const WantedPack& wanted = wanted_.packs()[order.job - wanted_.chunks().size()];
  const ViewRead& read = wanted_.reads()[wanted.reads[order.part]];
  const auto pack = file_.load_pack(wanted.pack, file_.options.verify_chunks);
  if (!pack) {
    return place_error(pack.error(), read.asked->name, 0);
  }
  return decode_packed(file_, *read.stored, read.asked->name, **pack, worker,
                       worker.decoded(read.stored->record.decoded_bytes));
}

Result<void> DeviceLoad::run_deferred() {
  if (wanted_.deferred().empty()) {
    return {};
  }
  CFCK_TRY(device_->join_lanes());  // they copy what any of the slots so far has decoded
  for (std::size_t i = 0; i < wanted_.deferred().size(); ++i) {
    const DeferredRead& deferred = wanted_.deferred()[i];
    if (deferred.from.empty() || !can_gather(deferred.read)) {
      CFCK_TRY(run_deferred_on_host(deferred));
      continue;
    }
    DeviceJob& job = jobs_.emplace_back();
    job.kind = JobKind::kGather;
    job.order = {wanted_.chunks().size() + wanted_.packs().size() + i, 0};
    job.deferred = &deferred;
  }
  return run_jobs();
}

Result<void> DeviceLoad::run_deferred_on_host(const DeferredRead& deferred) {
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(deferred.read.out.size());
  const MutableBytes bytes(memory.get(), deferred.read.out.size());
  ViewRead on_host = deferred.read;
  on_host.out = bytes;
  const ReadProgress silent;
  ReadPlan plan(file_, silent);
  CFCK_TRY(plan.wanted().add(std::move(on_host)));
  CFCK_TRY(plan.run());
  // In pieces, so that slots need not be larger for it.
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    DeviceJob& job = jobs_.emplace_back();
    job.kind = JobKind::kBytes;
    job.deferred = &deferred;
    job.bytes = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    job.to = deferred.read.out.data() + at;
  }
  return run_jobs();
}

Result<SlotBytes> DeviceLoad::finish() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {  // the oldest first
    CFCK_TRY(await_slot(*slots_[(n_started_ + i) % slots_.size()]));
  }
  device_ = nullptr;  // nothing is under way
  return moved_;
}

void DeviceLoad::cancel() noexcept {
  team_.reset();
  filling_.clear();
  if (device_ != nullptr) {
    device_->wait_for_all();
    slots_.clear();
    device_ = nullptr;
  }
}

}  // namespace cfck::format

// A driver without a device: the functions that cuda/host/driver.hpp looks for, whose kernels run
// on the emulator. Any memory of the process is memory of its devices. What was asked for is done
// when somebody waits for it and not before, so that memory that is used again too early shows;
// with "eager" at once.
//
// The environment variable CFCK_FAKE_CUDA has words that change what it is:
//   devices=N      number of devices; 1
//   version=N      of CUDA, as 13000
//   capability=N   of the devices, as 90
//   multiprocessors=N  of the devices; 1
//   fitting=N      blocks of a kernel that a multiprocessor holds; 4
//   eager          work is done at once
//   fail=NAME:N:R  the N-th call of a function (without "cu", from 1; 0: every call) gives the
//                  error R; counted anew when the variable changes
//   start_ms=N     how long the driver takes to start
//   damage=N       the N-th kernel is started on arguments that fail every chunk
//   idle           kernels that decode or hash do nothing, for measurements of the host; those that
//                  decode take chunk_ns=N for each chunk, one after another. Bytes are copied
//                  without the emulator
//   copy_gbps=X    nothing is done at all, but takes time: copies to the device, one after another,
//                  at this rate, and kernels that decode kernel_us=N each, beside those of other
//                  streams
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/host/device_code.hpp"
#include "cuda/host/driver.hpp"
#include "device/batches.hpp"
#include "tests/simt/fake_kernels.hpp"

namespace cfck::cuda {
namespace {

using Work = std::function<void()>;

struct FakeEvent;

// Work in order; some of it waits for events of other streams.
struct FakeStream {
  DriverContext context = nullptr;
  std::deque<Work> work;
  std::int64_t ready_ns = 0;  // with copy_gbps: when all that was asked for is done
};

struct FakeEvent {
  FakeStream* stream = nullptr;
  std::shared_ptr<bool> is_done;  // of the last record
  std::int64_t time_ns = 0;
};

struct Settings {
  std::string text;
  int n_devices = 1;
  int version = kOldestDriver;
  int capability = 90;
  int n_multiprocessors = 1;
  int n_fitting = 4;
  bool is_eager = false;
  std::map<std::string, std::pair<int, int>> failures;  // call and error by function
  std::map<std::string, int> calls;
  int start_ms = 0;
  int damaged_kernel = 0;
  bool is_idle = false;
  double copy_gbps = 0;  // 0: work is done and takes what it takes
  std::int64_t kernel_ns = 0;
  std::int64_t chunk_ns = 0;
  int n_kernels = 0;
};

constexpr std::align_val_t kMemoryAlignment{256};
constexpr const char* kHashKernel = "cfck_hash_extents";
constexpr const char* kCopyKernel = "cfck_copy_bytes";

std::recursive_mutex mutex;
std::uint64_t work_ns = 0;  // what all work took so far; with copy_gbps, all copies
// What was made and not destroyed.
std::int64_t n_streams = 0;
std::int64_t n_events = 0;
std::int64_t n_allocations = 0;
std::int64_t link_ready_ns = 0;
std::int64_t kernels_ready_ns = 0;  // with chunk_ns
FakeStream default_stream;

Settings read_settings(const std::string& text) {
  Settings settings;
  settings.text = text;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const std::string name = word.substr(0, equals);
    if (name == "devices") settings.n_devices = std::atoi(value.c_str());
    if (name == "version") settings.version = std::atoi(value.c_str());
    if (name == "capability") settings.capability = std::atoi(value.c_str());
    if (name == "multiprocessors") settings.n_multiprocessors = std::atoi(value.c_str());
    if (name == "fitting") settings.n_fitting = std::atoi(value.c_str());
    if (name == "eager") settings.is_eager = true;
    if (name == "start_ms") settings.start_ms = std::atoi(value.c_str());
    if (name == "idle") settings.is_idle = true;
    if (name == "copy_gbps") settings.copy_gbps = std::atof(value.c_str());
    if (name == "kernel_us") settings.kernel_ns = 1000 * std::atoll(value.c_str());
    if (name == "chunk_ns") settings.chunk_ns = std::atoll(value.c_str());
    if (name == "damage") settings.damaged_kernel = std::atoi(value.c_str());
    if (name == "fail") {
      const std::size_t first = value.find(':');
      const std::size_t second = value.find(':', first + 1);
      settings.failures[value.substr(0, first)] = {std::atoi(value.c_str() + first + 1),
                                                   std::atoi(value.c_str() + second + 1)};
    }
  }
  return settings;
}

Settings& settings() {
  static Settings current;
  const char* const given = std::getenv("CFCK_FAKE_CUDA");
  const std::string text = given == nullptr ? "" : given;
  if (current.text != text) {
    current = read_settings(text);
  }
  return current;
}

// Counts a call; returns the error that it is to give, if any.
DriverResult begin(const char* function) {
  Settings& now = settings();
  const int call = ++now.calls[function];
  const auto found = now.failures.find(function);
  if (found == now.failures.end()) {
    return 0;
  }
  const auto [failing, error] = found->second;
  return failing == 0 || failing == call ? error : 0;
}

void do_first(FakeStream& stream) {
  const Work work = std::move(stream.work.front());
  stream.work.pop_front();
  const auto start = std::chrono::steady_clock::now();
  work();
  work_ns += static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
}

void finish_stream(FakeStream& stream) {
  while (!stream.work.empty()) {
    do_first(stream);
  }
}

void add_work(FakeStream& stream, Work work) {
  stream.work.push_back(std::move(work));
  if (settings().is_eager) {
    finish_stream(stream);
  }
}

// Goes on with the stream of an event until the event has come.
void wait_for(FakeStream& stream, const std::shared_ptr<bool>& is_done) {
  while (!*is_done && !stream.work.empty()) {
    do_first(stream);
  }
}

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Whether an image is one of fake_code.cpp, and made from other sources than these kernels.
bool is_of_another_build(const void* image) {
  const auto* const build = static_cast<const char*>(image);
  return std::strncmp(build, "cfck ", 5) == 0 && std::strcmp(build, device_code_build()) != 0;
}

bool is_timed() { return settings().copy_gbps > 0; }

// Work that begins when its stream is ready, and not before.
void take_time(FakeStream& stream, std::int64_t n_ns) {
  stream.ready_ns = std::max(stream.ready_ns, now_ns()) + n_ns;
}

void take_time_of_chunks(FakeStream& stream, std::int64_t n_ns) {
  stream.ready_ns = std::max({stream.ready_ns, kernels_ready_ns, now_ns()}) + n_ns;
  kernels_ready_ns = stream.ready_ns;
}

void take_time_of_copy(FakeStream& stream, std::size_t n_bytes) {
  const auto n_ns = static_cast<std::int64_t>(static_cast<double>(n_bytes) / settings().copy_gbps);
  stream.ready_ns = std::max({stream.ready_ns, link_ready_ns, now_ns()}) + n_ns;
  link_ready_ns = stream.ready_ns;
  work_ns += static_cast<std::uint64_t>(n_ns);
}

// Other threads go on meanwhile.
void sleep_until(std::int64_t time_ns, std::unique_lock<std::recursive_mutex>& lock) {
  const std::int64_t left = time_ns - now_ns();
  if (left > 0) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::nanoseconds(left));
    lock.lock();
  }
}

FakeStream& stream_of(DriverStream stream) {
  return stream == nullptr ? default_stream : *reinterpret_cast<FakeStream*>(stream);
}

FakeEvent& event_of(DriverEvent event) { return *reinterpret_cast<FakeEvent*>(event); }

DriverContext context_of(int device) {
  return reinterpret_cast<DriverContext>(static_cast<std::uintptr_t>(device) + 1);
}

void fail_all(const codec::DeviceBatch& batch) {
  std::fill_n(batch.statuses, batch.n_chunks, device::kFailed);
}

void copy_all(const device::Copies& copies) {
  for (const device::Copy& copy : std::span(copies.copies, copies.n_copies)) {
    const std::size_t step = copy.value_bytes == 0 ? copy.n_bytes : copy.value_bytes;
    for (std::uint64_t at = 0; at < copy.n_bytes; at += step) {
      std::memcpy(copy.to + at, copy.from, std::min(step, copy.n_bytes - at));
    }
  }
}

}  // namespace

std::vector<FakeFunction>& fake_functions() {
  static std::vector<FakeFunction> functions;
  return functions;
}

}  // namespace cfck::cuda

using namespace cfck::cuda;

#define FAKE(name, ...) \
  extern "C" __attribute__((visibility("default"))) DriverResult cu##name(__VA_ARGS__)
#define BEGIN(name)                                            \
  std::unique_lock lock(mutex);                                \
  if (const DriverResult failed = begin(#name); failed != 0) { \
    return failed;                                             \
  }

// For measurements: how long the work of all streams took, in nanoseconds.
extern "C" __attribute__((visibility("default"))) std::uint64_t cfck_fake_work_ns() {
  const std::lock_guard lock(mutex);
  return work_ns;
}

// For tests: the numbers of streams, events and pieces of memory that were not given back.
extern "C" __attribute__((visibility("default"))) void cfck_fake_counts(std::int64_t* counts) {
  const std::lock_guard lock(mutex);
  counts[0] = n_streams;
  counts[1] = n_events;
  counts[2] = n_allocations;
}

// For tests: how often a function was called since the words changed.
extern "C" __attribute__((visibility("default"))) int cfck_fake_calls(const char* function) {
  const std::lock_guard lock(mutex);
  return settings().calls[function];
}

FAKE(Init, unsigned) {
  BEGIN(Init)
  ::usleep(1000u * static_cast<unsigned>(settings().start_ms));
  return settings().n_devices == 0 ? kDriverNoDevice : 0;
}
FAKE(DriverGetVersion, int* version) {
  BEGIN(DriverGetVersion)
  *version = settings().version;
  return 0;
}
FAKE(DeviceGetCount, int* count) {
  BEGIN(DeviceGetCount)
  *count = settings().n_devices;
  return 0;
}
FAKE(DeviceGet, DriverDevice* device, int ordinal) {
  BEGIN(DeviceGet)
  *device = ordinal;
  return 0;
}
FAKE(DeviceGetAttribute, int* value, int attribute, DriverDevice) {
  BEGIN(DeviceGetAttribute)
  *value = attribute == kCapabilityMajor   ? settings().capability / 10
           : attribute == kCapabilityMinor ? settings().capability % 10
                                           : settings().n_multiprocessors;
  return 0;
}
FAKE(DevicePrimaryCtxRetain, DriverContext* context, DriverDevice device) {
  BEGIN(DevicePrimaryCtxRetain)
  *context = context_of(device);
  return 0;
}
FAKE(CtxPushCurrent_v2, DriverContext) {
  BEGIN(CtxPushCurrent)
  return 0;
}
FAKE(CtxPopCurrent_v2, DriverContext*) {
  BEGIN(CtxPopCurrent)
  return 0;
}
FAKE(ModuleLoadData, DriverModule* module, const void* image) {
  BEGIN(ModuleLoadData)
  if (is_of_another_build(image)) {
    return 200;  // an invalid image
  }
  *module = reinterpret_cast<DriverModule>(const_cast<void*>(image));
  return 0;
}
FAKE(ModuleGetFunction, DriverFunction* function, DriverModule, const char* name) {
  BEGIN(ModuleGetFunction)
  for (FakeFunction& one : fake_functions()) {
    if (std::strcmp(one.name, name) == 0) {
      *function = reinterpret_cast<DriverFunction>(&one);
      return 0;
    }
  }
  return 500;  // not found
}
FAKE(OccupancyMaxActiveBlocksPerMultiprocessor, int* n_blocks, DriverFunction, int, std::size_t) {
  BEGIN(OccupancyMaxActiveBlocksPerMultiprocessor)
  *n_blocks = settings().n_fitting;
  return 0;
}
FAKE(LaunchKernel, DriverFunction function, unsigned grid_x, unsigned, unsigned, unsigned block_x,
     unsigned, unsigned, unsigned, DriverStream stream, void** parameters, void**) {
  BEGIN(LaunchKernel)
  const auto& kernel = *reinterpret_cast<const FakeFunction*>(function);
  ++settings().calls[kernel.name];
  const auto* const first = static_cast<const std::byte*>(parameters[0]);
  std::vector<std::byte> argument(first, first + kernel.argument_bytes);
  if (is_timed()) {
    take_time(stream_of(stream), kernel.has_chunks ? settings().kernel_ns : 0);
    return 0;
  }
  if (settings().is_idle && kernel.has_chunks) {
    const auto& batch = *reinterpret_cast<const cfck::codec::DeviceBatch*>(argument.data());
    take_time_of_chunks(stream_of(stream), settings().chunk_ns * batch.n_chunks);
    return 0;
  }
  if (settings().is_idle && std::strcmp(kernel.name, kHashKernel) == 0) {
    return 0;
  }
  if (settings().is_idle && std::strcmp(kernel.name, kCopyKernel) == 0) {
    add_work(stream_of(stream), [argument] {
      copy_all(*reinterpret_cast<const cfck::device::Copies*>(argument.data()));
    });
    return 0;
  }
  const bool is_damaged = ++settings().n_kernels == settings().damaged_kernel;
  add_work(stream_of(stream), [&kernel, grid_x, block_x, is_damaged, argument] {
    if (is_damaged && kernel.has_chunks) {
      fail_all(*reinterpret_cast<const cfck::codec::DeviceBatch*>(argument.data()));
      return;
    }
    kernel.run(grid_x, block_x / 32, argument.data());
  });
  return 0;
}
FAKE(StreamCreate, DriverStream* stream, unsigned) {
  BEGIN(StreamCreate)
  *stream = reinterpret_cast<DriverStream>(new FakeStream{context_of(0), {}, 0});
  ++n_streams;
  return 0;
}
FAKE(StreamDestroy_v2, DriverStream stream) {
  BEGIN(StreamDestroy)
  finish_stream(stream_of(stream));
  delete &stream_of(stream);
  --n_streams;
  return 0;
}
FAKE(StreamGetCtx, DriverStream stream, DriverContext* context) {
  BEGIN(StreamGetCtx)
  *context = stream_of(stream).context;
  return 0;
}
FAKE(StreamWaitEvent, DriverStream stream, DriverEvent event, unsigned) {
  BEGIN(StreamWaitEvent)
  FakeStream* const other = event_of(event).stream;
  const auto is_done = event_of(event).is_done;
  stream_of(stream).ready_ns = std::max(stream_of(stream).ready_ns, event_of(event).time_ns);
  if (other != nullptr && !is_timed()) {
    add_work(stream_of(stream), [other, is_done] { wait_for(*other, is_done); });
  }
  return 0;
}
FAKE(StreamSynchronize, DriverStream stream) {
  BEGIN(StreamSynchronize)
  sleep_until(stream_of(stream).ready_ns, lock);
  finish_stream(stream_of(stream));
  return 0;
}
FAKE(EventCreate, DriverEvent* event, unsigned) {
  BEGIN(EventCreate)
  *event = reinterpret_cast<DriverEvent>(new FakeEvent);
  ++n_events;
  return 0;
}
FAKE(EventRecord, DriverEvent event, DriverStream stream) {
  BEGIN(EventRecord)
  const auto is_done = std::make_shared<bool>(false);
  event_of(event) = {&stream_of(stream), is_done, stream_of(stream).ready_ns};
  add_work(stream_of(stream), [is_done] { *is_done = true; });
  return 0;
}
FAKE(EventSynchronize, DriverEvent event) {
  BEGIN(EventSynchronize)
  sleep_until(event_of(event).time_ns, lock);
  if (event_of(event).stream != nullptr) {
    wait_for(*event_of(event).stream, event_of(event).is_done);
  }
  return 0;
}
FAKE(EventDestroy_v2, DriverEvent event) {
  BEGIN(EventDestroy)
  delete &event_of(event);
  --n_events;
  return 0;
}
FAKE(MemcpyHtoDAsync_v2, DriverPointer to, const void* from, std::size_t n_bytes,
     DriverStream stream) {
  BEGIN(MemcpyHtoDAsync)
  if (is_timed()) {
    take_time_of_copy(stream_of(stream), n_bytes);
    return 0;
  }
  add_work(stream_of(stream),
           [to, from, n_bytes] { std::memcpy(reinterpret_cast<void*>(to), from, n_bytes); });
  return 0;
}
FAKE(MemcpyDtoHAsync_v2, void* to, DriverPointer from, std::size_t n_bytes, DriverStream stream) {
  BEGIN(MemcpyDtoHAsync)
  if (is_timed()) {
    return 0;
  }
  add_work(stream_of(stream),
           [to, from, n_bytes] { std::memcpy(to, reinterpret_cast<void*>(from), n_bytes); });
  return 0;
}
FAKE(MemAlloc_v2, DriverPointer* address, std::size_t n_bytes) {
  BEGIN(MemAlloc)
  *address = reinterpret_cast<std::uintptr_t>(::operator new(n_bytes, kMemoryAlignment));
  ++n_allocations;
  return 0;
}
FAKE(MemFree_v2, DriverPointer address) {
  const std::lock_guard lock(mutex);
  --n_allocations;
  ::operator delete(reinterpret_cast<void*>(address), kMemoryAlignment);
  return 0;
}
// Only tests call these, for memory that tensors are in.
FAKE(CtxSynchronize) { return 0; }
FAKE(MemcpyHtoD_v2, DriverPointer to, const void* from, std::size_t n_bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, n_bytes);
  return 0;
}
FAKE(MemcpyDtoH_v2, void* to, DriverPointer from, std::size_t n_bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from), n_bytes);
  return 0;
}
FAKE(PointerGetAttribute, void* value, int, DriverPointer) {
  BEGIN(PointerGetAttribute)
  *static_cast<int*>(value) = 0;
  return 0;
}
FAKE(GetErrorString, int error, const char** text) {
  BEGIN(GetErrorString)
  *text = error == kDriverOutOfMemory ? "out of memory" : "an error of the fake driver";
  return 0;
}

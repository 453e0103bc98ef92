#include "tests/simt/fake_device.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/host/driver.hpp"

namespace cfck::test {
namespace {

class RealDevice : public testing::Environment {
 public:
  void SetUp() override {
    if (const auto result = cuda::availability(0); !result) {
      GTEST_SKIP() << "needs a CUDA device: " << result.error().message;
    }
  }
};

// Before anything asks for a driver.
const bool is_set = [] {
  if (std::getenv("CFCK_TEST_REAL_DEVICE") != nullptr) {
    testing::AddGlobalTestEnvironment(new RealDevice);
  } else {
    ::setenv("CFCK_CUDA_DRIVER", CFCK_FAKE_DRIVER, 1);
    ::setenv("CFCK_ADAPTER_PATH", CFCK_FAKE_CODE_FOLDER, 1);
  }
  return true;
}();

void check(cuda::DriverResult result, const char* what) {
  if (result != 0) {
    throw std::runtime_error("the driver cannot " + std::string(what) + ": error " +
                             std::to_string(result));
  }
}

// The library leaves these functions to its caller.
struct MemoryDriver {
  cuda::DriverResult (*Init)(unsigned flags);
  cuda::DriverResult (*DevicePrimaryCtxRetain)(cuda::DriverContext* context,
                                               cuda::DriverDevice device);
  cuda::DriverResult (*CtxPushCurrent)(cuda::DriverContext context);
  cuda::DriverResult (*CtxSynchronize)();
  cuda::DriverResult (*MemAlloc)(cuda::DriverPointer* address, std::size_t n_bytes);
  cuda::DriverResult (*MemFree)(cuda::DriverPointer address);
  cuda::DriverResult (*MemcpyHtoD)(cuda::DriverPointer to, const void* from, std::size_t n_bytes);
  cuda::DriverResult (*MemcpyDtoH)(void* to, cuda::DriverPointer from, std::size_t n_bytes);
};

MemoryDriver open_memory_driver() {
  (void)is_set;
  const char* const given = std::getenv("CFCK_CUDA_DRIVER");
  void* const library = ::dlopen(given == nullptr ? "libcuda.so.1" : given, RTLD_NOW);
  const auto find = [library]<class F>(F*& function, const char* name) {
    function = library == nullptr ? nullptr : reinterpret_cast<F*>(::dlsym(library, name));
    if (function == nullptr) {
      throw std::runtime_error(::dlerror());
    }
  };
  MemoryDriver driver{};
  find(driver.Init, "cuInit");
  find(driver.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(driver.CtxPushCurrent, "cuCtxPushCurrent_v2");
  find(driver.CtxSynchronize, "cuCtxSynchronize");
  find(driver.MemAlloc, "cuMemAlloc_v2");
  find(driver.MemFree, "cuMemFree_v2");
  find(driver.MemcpyHtoD, "cuMemcpyHtoD_v2");
  find(driver.MemcpyDtoH, "cuMemcpyDtoH_v2");
  return driver;
}

// The driver, and the primary context of device 0.
struct OpenedDevice {
  MemoryDriver driver;
  cuda::DriverContext context = nullptr;
};

const OpenedDevice& opened_device() {
  static const OpenedDevice opened = [] {
    OpenedDevice device{open_memory_driver()};
    check(device.driver.Init(0), "start");
    check(device.driver.DevicePrimaryCtxRetain(&device.context, 0), "use the device");
    return device;
  }();
  return opened;
}

// The driver, with that context current on the calling thread.
const MemoryDriver& memory_driver() {
  thread_local const MemoryDriver& driver = [&]() -> const MemoryDriver& {
    const OpenedDevice& opened = opened_device();
    check(opened.driver.CtxPushCurrent(opened.context), "use the device");
    return opened.driver;
  }();
  return driver;
}

cuda::DriverPointer address_of(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

template <class Function>
Function* fake_function(const char* name) {
  void* const library = ::dlopen(CFCK_FAKE_DRIVER, RTLD_NOW);
  auto* const found = library == nullptr ? nullptr : ::dlsym(library, name);
  if (found == nullptr) {
    throw std::runtime_error(::dlerror());
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace

FakeCounts fake_counts() {
  static auto* const count = fake_function<void(std::int64_t*)>("cfck_fake_counts");
  std::int64_t counts[3] = {};
  count(counts);
  return {counts[0], counts[1], counts[2]};
}

int fake_calls(const std::string& function) {
  static auto* const count = fake_function<int(const char*)>("cfck_fake_calls");
  return count(function.c_str());
}

// The driver has no memory of 0 bytes.
DeviceMemory::DeviceMemory(std::size_t n_bytes) : n_bytes_(n_bytes) {
  cuda::DriverPointer address = 0;
  check(memory_driver().MemAlloc(&address, std::max<std::size_t>(n_bytes, 1)), "get memory");
  data_ = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

DeviceMemory::~DeviceMemory() { (void)memory_driver().MemFree(address_of(data_)); }

// The copy may still be under way when the driver returns from it, and loads have a stream that
// does not wait for it.
void DeviceMemory::put(ByteView values) const {
  if (!values.empty()) {
    check(memory_driver().MemcpyHtoD(address_of(data_), values.data(), n_bytes_), "copy");
    check(memory_driver().CtxSynchronize(), "wait");
  }
}

Bytes DeviceMemory::values() const {
  Bytes values(n_bytes_);
  if (!values.empty()) {
    check(memory_driver().MemcpyDtoH(values.data(), address_of(data_), n_bytes_), "copy");
  }
  return values;
}

PlacedFile::PlacedFile(const Bytes& bytes, FileIn place) {
  if (place == FileIn::kDeviceMemory) {
    device_memory_ = std::make_unique<DeviceMemory>(bytes);
    source_ = take(cuda::DeviceSource::open(0, device_memory_->bytes().data(), bytes.size()));
  } else {
    host_memory_ = bytes;
    source_ = std::make_unique<MemorySource>(host_memory_);
  }
}

Result<cuda::Summary> run(const Reader& reader, std::span<const cuda::Read> reads,
                          const cuda::LoadOptions& options) {
  CFCK_TRY_ASSIGN(cuda::Decoder decoder, cuda::Decoder::plan(reader, reads, 0, options));
  const DeviceMemory workspace(decoder.workspace_bytes());
  Bytes staging(decoder.staging_bytes());
  CFCK_TRY(decoder.enqueue(workspace.bytes().data(), staging, {}));
  return decoder.finish();
}

Result<void> read_all(const Reader& reader, std::map<std::string, Bytes>& values) {
  std::vector<ReadRequest> requests;
  for (const Record& record : reader.records()) {
    if (!record.hidden) {
      requests.push_back({&record, values[record.name] = Bytes(record.decoded_bytes)});
    }
  }
  return reader.read_many(requests);
}

DeviceLoadResult load_all(const Reader& reader, const cuda::LoadOptions& options) {
  DeviceLoadResult loaded;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<cuda::Read> reads;
  for (const Record& record : reader.records()) {
    if (!record.hidden) {
      memory.push_back(std::make_unique<DeviceMemory>(record.decoded_bytes));
      memory.back()->put(Bytes(record.decoded_bytes, std::byte{0xcd}));
      reads.push_back({&record, memory.back()->bytes()});
    }
  }
  auto summary = run(reader, reads, options);
  if (!summary) {
    loaded.result = std::move(summary).error();
    return loaded;
  }
  loaded.summary = *summary;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    loaded.tensors[reads[i].record->name] = memory[i]->values();
  }
  return loaded;
}

Result<Bytes> load_box(const Reader& reader, const Record& record,
                       const std::vector<std::uint64_t>& starts,
                       const std::vector<std::uint64_t>& stops) {
  Shape shape;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    shape.push_back(stops[i] - starts[i]);
  }
  const DeviceMemory memory(*n_elems(shape) * bits_per_element(record.dtype) / 8);
  const cuda::Read read{&record, memory.bytes(), starts, stops};
  CFCK_TRY(run(reader, {&read, 1}));
  return memory.values();
}

void expect_as_on_host(const Reader& reader, const cuda::LoadOptions& options) {
  const DeviceLoadResult loaded = load_all(reader, options);
  expect_ok(loaded.result);
  for (const auto& [name, bytes] : all_tensors(reader)) {
    const auto found = loaded.tensors.find(name);
    ASSERT_NE(found, loaded.tensors.end()) << name;
    EXPECT_EQ(found->second, bytes) << name;
  }
}

}  // namespace cfck::test

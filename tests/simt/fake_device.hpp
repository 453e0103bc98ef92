// Reads on the fake driver (fake_driver.cpp): the library's own code for devices, from the file to
// the kernels on the emulator. Where the environment variable CFCK_TEST_REAL_DEVICE is set, the
// same on device 0 of NVIDIA's driver; where that cannot decode, all tests of the program are
// skipped.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cfck/cuda.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {

// Settings of the fake driver, as long as the object lives.
class FakeSettings {
 public:
  explicit FakeSettings(const std::string& words) { ::setenv("CFCK_FAKE_CUDA", words.c_str(), 1); }
  ~FakeSettings() { ::unsetenv("CFCK_FAKE_CUDA"); }
  FakeSettings(const FakeSettings&) = delete;
  FakeSettings& operator=(const FakeSettings&) = delete;
};

// What the fake driver gave out and did not get back.
struct FakeCounts {
  std::int64_t streams = 0;
  std::int64_t events = 0;
  std::int64_t allocations = 0;
};
FakeCounts fake_counts();
// How often a function of the fake driver was called since its settings changed, or a kernel
// started.
int fake_calls(const std::string& function);

// Memory of the driver, of its exact size, which only the device may touch.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t n_bytes);
  explicit DeviceMemory(ByteView values) : DeviceMemory(values.size()) { put(values); }
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  MutableBytes bytes() const { return {data_, n_bytes_}; }
  // Copies all of it.
  void put(ByteView values) const;
  Bytes values() const;

 private:
  std::size_t n_bytes_;
  std::byte* data_ = nullptr;
};

// Where the file of a test is.
enum class FileIn { kHostMemory, kDeviceMemory };

// A file, open for reading, in memory of the host or of the device.
class PlacedFile {
 public:
  PlacedFile(const Bytes& bytes, FileIn place);
  // Opening it may fail.
  Result<Reader> open(const DecodeOptions& options = {}) const {
    return Reader::open(*source_, options);
  }

 private:
  Bytes host_memory_;
  std::unique_ptr<DeviceMemory> device_memory_;
  std::unique_ptr<ByteSource> source_;
};

struct DeviceLoadResult {
  Result<void> result;
  cuda::Summary summary;
  std::map<std::string, Bytes> tensors;
};

// Reads all named records in one load.
DeviceLoadResult load_all(const Reader& reader, const cuda::LoadOptions& options = {});
// Reads boxes of one record.
Result<Bytes> load_box(const Reader& reader, const Record& record,
                       const std::vector<std::uint64_t>& starts,
                       const std::vector<std::uint64_t>& stops);
// Runs one load.
Result<cuda::Summary> run(const Reader& reader, std::span<const cuda::Read> reads,
                          const cuda::LoadOptions& options = {});
// All named records as the host reads them, in one call.
Result<void> read_all(const Reader& reader, std::map<std::string, Bytes>& values);

// Checks that a load on the device gives what the host reads.
void expect_as_on_host(const Reader& reader, const cuda::LoadOptions& options = {});

}  // namespace cfck::test

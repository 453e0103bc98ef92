#include "tests/simt/fake_device.hpp"

#include <algorithm>
#include <cstring>

namespace cfck::test {
namespace {

// Before anything asks for a driver.
const bool is_set = [] {
  ::setenv("CFCK_CUDA_DRIVER", CFCK_FAKE_DRIVER, 1);
  ::setenv("CFCK_ADAPTER_PATH", CFCK_FAKE_CODE_FOLDER, 1);
  return true;
}();

}  // namespace

PlacedFile::PlacedFile(const Bytes& bytes, FileIn place) : memory_(bytes.size()) {
  (void)is_set;
  std::ranges::copy(bytes, memory_.bytes().begin());
  if (place == FileIn::kDeviceMemory) {
    source_ = take(cuda::DeviceSource::open(0, memory_.bytes().data(), bytes.size()));
  } else {
    source_ = std::make_unique<MemorySource>(memory_.bytes());
  }
}

Result<cuda::Summary> run(const Reader& reader, std::span<const cuda::Read> reads,
                          const cuda::LoadOptions& options) {
  (void)is_set;
  CFCK_TRY_ASSIGN(cuda::Decoder decoder, cuda::Decoder::plan(reader, reads, 0, options));
  const DeviceMemory workspace(decoder.workspace_bytes());
  const DeviceMemory staging(decoder.staging_bytes());
  CFCK_TRY(decoder.enqueue(workspace.bytes().data(), staging.bytes(), {}));
  return decoder.finish();
}

DeviceLoadResult load_all(const Reader& reader, const cuda::LoadOptions& options) {
  DeviceLoadResult loaded;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<cuda::Read> reads;
  for (const Record& record : reader.records()) {
    if (!record.hidden) {
      memory.push_back(std::make_unique<DeviceMemory>(record.decoded_bytes));
      std::memset(memory.back()->bytes().data(), 0xcd, record.decoded_bytes);
      reads.push_back({&record, memory.back()->bytes()});
    }
  }
  auto summary = run(reader, reads, options);
  if (!summary) {
    loaded.result = std::move(summary).error();
    return loaded;
  }
  loaded.summary = *summary;
  for (const cuda::Read& read : reads) {
    loaded.tensors[read.record->name] = Bytes(read.out.begin(), read.out.end());
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
  return Bytes(memory.bytes().begin(), memory.bytes().end());
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

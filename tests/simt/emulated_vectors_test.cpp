// Every file of spec/vectors, record by record on the device: values and errors are the
// host's.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/simt/fake_device.hpp"

namespace cfck::test {
namespace {

std::vector<std::string> vector_files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(CFCK_VECTORS)) {
    // Many of the broken ones cannot be opened.
    if (entry.path().extension() == ".cfck" && Reader::open(entry.path().string())) {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Files are in memory here, and have no folder in which their bases are found.
DecodeOptions options_of(const std::string& path) {
  DecodeOptions options{.threads = 1, .base_dirs = {CFCK_VECTORS}};
  const Reader reader = take(Reader::open(path));
  if (reader.needs_base() && reader.base_name().empty()) {
    options.base = take(open_base(CFCK_VECTORS "/base.cfck"));
  }
  return options;
}

class DeviceVectors : public testing::TestWithParam<std::string> {};

void expect_same_record(const Reader& reader, const Record& record) {
  Bytes on_host(record.decoded_bytes);
  const Result<void> expected = reader.read(record, on_host);
  const DeviceMemory memory(record.decoded_bytes);
  const cuda::Read read{&record, memory.bytes()};
  const auto loaded = run(reader, {&read, 1});
  ASSERT_EQ(bool(expected), bool(loaded))
      << record.name << ": "
      << (expected ? loaded.error().to_string() : expected.error().to_string());
  if (!expected) {
    EXPECT_EQ(loaded.error().to_string(), expected.error().to_string());
    return;
  }
  EXPECT_EQ(memory.values(), on_host) << record.name;
}

void expect_same_file(const Reader& reader, bool is_broken) {
  for (const Record& record : reader.records()) {
    // A record that claims more than the file can hold is not allocated here.
    if (record.decoded_bytes <= (std::uint64_t{1} << 26)) {
      expect_same_record(reader, record);
    }
  }
  // All of them together, which share what they can.
  if (!is_broken) {
    expect_as_on_host(reader);
  }
}

TEST_P(DeviceVectors, RecordsAreThoseOfTheHost) {
  const bool is_broken = GetParam().find("/broken/") != std::string::npos;
  for (const FileIn place : {FileIn::kHostMemory, FileIn::kDeviceMemory}) {
    const PlacedFile file(bytes_of(GetParam()), place);
    expect_same_file(take(file.open(options_of(GetParam()))), is_broken);
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  const bool is_broken = info.param.find("/broken/") != std::string::npos;
  return is_broken ? "broken_" + name : name;
}

INSTANTIATE_TEST_SUITE_P(Files, DeviceVectors, testing::ValuesIn(vector_files()), name_of);

}  // namespace
}  // namespace cfck::test

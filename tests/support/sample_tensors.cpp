#include "tests/support/sample_tensors.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/hashing/hashing.hpp"

namespace cfck::test {

std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

Bytes noise(std::uint64_t seed, std::size_t n_bytes) {
  Random random(seed);
  Bytes bytes(n_bytes + 8);
  for (std::size_t i = 0; i < n_bytes; i += 8) {
    const std::uint64_t value = random.next();
    std::memcpy(bytes.data() + i, &value, 8);
  }
  bytes.resize(n_bytes);
  return bytes;
}

Bytes weights(std::uint64_t seed, std::size_t n_values) {
  Random random(seed);
  Bytes bytes(n_values * 4);
  for (std::size_t i = 0; i < n_values; ++i) {
    const std::uint64_t bits = random.next();
    // Sign and mantissa at random, one of four exponents.
    const auto value =
        static_cast<std::uint32_t>((bits & 0x807fffffU) | (120U + (bits >> 62)) << 23);
    std::memcpy(bytes.data() + 4 * i, &value, 4);
  }
  return bytes;
}

Bytes constant(unsigned char value, std::size_t n_bytes) {
  return Bytes(n_bytes, std::byte{value});
}

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void expect_ok(const Result<void>& result) {
  EXPECT_TRUE(result) << (result ? std::string() : result.error().to_string());
}

Bytes write_file(const std::function<void(Writer&)>& fill, EncodeOptions options) {
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  fill(writer);
  const WriteSummary summary = take(writer.finish());
  EXPECT_EQ(summary.file_bytes, sink.bytes().size());
  return sink.take();
}

OpenFile::OpenFile(Bytes bytes, DecodeOptions options)
    : bytes_(std::move(bytes)),
      source_(bytes_),
      reader_(take(Reader::open(source_, std::move(options)))) {}

const Record& OpenFile::record(const std::string& name) const {
  const Record* record = reader_.find(name);
  if (record == nullptr) {
    ADD_FAILURE() << "no record " << name;
    throw std::runtime_error("no record");
  }
  return *record;
}

Bytes OpenFile::tensor(const std::string& name) const {
  const Record& found = record(name);
  Bytes bytes(found.decoded_bytes);
  expect_ok(reader_.read(found, bytes));
  return bytes;
}

void expect_sound(const Reader& reader) {
  const VerifyReport report = take(reader.verify(VerifyLevel::kDeep));
  for (const Error& problem : report.problems) {
    ADD_FAILURE() << problem.to_string();
  }
}

std::map<std::string, Bytes> all_tensors(const Reader& reader) {
  std::map<std::string, Bytes> tensors;
  for (const Record& record : reader.records()) {
    if (!record.hidden) {
      Bytes& bytes = tensors[record.name];
      bytes.resize(record.decoded_bytes);
      expect_ok(reader.read(record, bytes));
      EXPECT_EQ(digest_of(bytes), record.digest) << record.name;
    }
  }
  return tensors;
}

TemporaryFolder::TemporaryFolder() {
  // In memory where possible: these tests sync thousands of files.
  const std::filesystem::path memory = "/dev/shm";
  const bool use_memory = ::access(memory.c_str(), W_OK) == 0;
  std::string pattern =
      ((use_memory ? memory : std::filesystem::temp_directory_path()) / "cfck-test-XXXXXX")
          .string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot make a temporary folder");
  }
  folder_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Bytes bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const ByteView view = std::as_bytes(std::span(text));
  return Bytes(view.begin(), view.end());
}

void put_bytes(const std::string& path, ByteView bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out) {
    throw std::runtime_error("cannot write " + path);
  }
}

}  // namespace cfck::test

// Tensors made from seeds, and short ways to write and read files of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cfck/cfck.hpp"

namespace cfck::test {

using Bytes = std::vector<std::byte>;

// A generator that gives equal numbers on every machine, unlike <random>.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // Returns a number below `n`, which is not 0.
  std::uint64_t below(std::uint64_t n) { return next() % n; }

 private:
  std::uint64_t state_;
};

// Bytes that no codec shrinks.
Bytes noise(std::uint64_t seed, std::size_t n_bytes);
// F32 values of a narrow range: every lossless codec of floats shrinks them.
Bytes weights(std::uint64_t seed, std::size_t n_values);
// Repeats one byte.
Bytes constant(unsigned char value, std::size_t n_bytes);
Bytes joined(const std::vector<Bytes>& parts);

// Fails the current test, with the error's text, if there is no value.
void expect_ok(const Result<void>& result);
template <class T>
T take(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().to_string();
    throw std::runtime_error("no value");
  }
  return std::move(result).value();
}

// Calls `fill` and finishes the file.
Bytes write_file(const std::function<void(Writer&)>& fill, EncodeOptions options = {});

// A file in memory, opened.
class OpenFile {
 public:
  explicit OpenFile(Bytes bytes, DecodeOptions options = {});
  const Reader* operator->() const { return &reader_; }
  const Reader& reader() const { return reader_; }
  const Record& record(const std::string& name) const;
  Bytes tensor(const std::string& name) const;
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  MemorySource source_;
  Reader reader_;
};

// Checks that every hash and every digest is right.
void expect_sound(const Reader& reader);
// Returns all visible tensors by name.
std::map<std::string, Bytes> all_tensors(const Reader& reader);

// A new empty folder, removed with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> names() const;  // of the files in it, sorted

 private:
  std::string folder_;
};

Bytes bytes_of(const std::string& path);
void put_bytes(const std::string& path, ByteView bytes);

}  // namespace cfck::test

// Runs the real programs, and makes files for them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cfck::test {

struct Outcome {
  int code = -1;  // 128 + n if a signal ended the program
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

struct RunOptions {
  std::string program = "cfck";                   // or cfck-convert, cfck-inspect
  std::vector<std::string> environment;           // "NAME=value", added to the usual
  std::string folder;                             // to run in
  std::string stdout_path;                        // instead of a pipe
  std::string stdin_path;                         // instead of the tests' own
  bool terminal = false;                          // out and err are one terminal; see Outcome::out
  std::optional<std::uint64_t> max_file_bytes;    // a full disk, more or less
  std::optional<std::uint64_t> max_memory_bytes;  // address space
  // Called again and again while the program runs.
  std::function<void(int process)> meanwhile;
};

Outcome run(const std::vector<std::string>& arguments, const RunOptions& options = {});

// A folder of its own for each test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  // Names of all files below, sorted.
  std::vector<std::string> files() const;

 private:
  std::string path_;
};

void write_file(const std::string& path, std::string_view bytes);
std::string read_file(const std::string& path);

// A small safetensors file with tensors of several kinds, two of them equal.
std::string small_model();
// One tensor "w" of n F32 values.
std::string one_tensor(std::uint64_t n_elems);
// A file with this header and these data.
std::string with_header(std::string_view json, std::string_view data = {});
// A file with these tensors. Shapes are JSON.
struct TestTensor {
  std::string name;
  std::string dtype;
  std::string shape;
  std::string data;
};
std::string model_of(const std::vector<TestTensor>& tensors, const std::string& metadata = {});
// The values as they lie in a file.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
// Deterministic values around 0 with a deviation of 0.58 * `scale`.
std::vector<float> weights(std::size_t count, std::uint64_t seed, float scale);
// A file with tensors that maximum errors reach, and some that they do not reach:
// "a.weight" and "b.weight" [64,64], "norm.bias" [64], "ids" [64,64] of I32,
// "optimizer.state" [64,64], "tiny" [64,64] with values near 1e-6.
std::string weights_model();
// Deterministic bytes that do not compress.
std::string noise(std::size_t n_bytes, std::uint64_t seed);

}  // namespace cfck::test

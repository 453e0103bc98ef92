#include "tests/tools/program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace cfck::test {
namespace {

namespace fs = std::filesystem;

std::string program_path(const std::string& name) {
  return std::string(CFCK_PROGRAM_FOLDER) + "/" + name;
}

struct Channel {
  int read = -1;
  int write = -1;
};

Channel open_channel(bool terminal) {
  Channel channel;
  int ends[2];
  if (terminal) {
    winsize size{};
    size.ws_col = 100;
    size.ws_row = 30;
    EXPECT_EQ(::openpty(&channel.read, &channel.write, nullptr, nullptr, &size), 0);
  } else {
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    channel = {ends[0], ends[1]};
  }
  return channel;
}

[[noreturn]] void become_program(const std::vector<std::string>& arguments,
                                 const RunOptions& options, int out, int err) {
  std::vector<char*> argv;
  std::string name = options.program;
  argv.push_back(name.data());
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "xterm", 1);
  std::vector<std::string> environment = options.environment;
  for (std::string& variable : environment) ::putenv(variable.data());
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
  if (!options.stdout_path.empty()) out = ::open(options.stdout_path.c_str(), O_WRONLY);
  if (!options.stdin_path.empty()) {
    ::dup2(::open(options.stdin_path.c_str(), O_RDONLY), STDIN_FILENO);
  }
  if (options.max_file_bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{*options.max_file_bytes, *options.max_file_bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (options.max_memory_bytes) {
    const rlimit limit{*options.max_memory_bytes, *options.max_memory_bytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv(program_path(options.program).c_str(), argv.data());
  ::_exit(127);
}

// False at the end of the stream.
bool take(int descriptor, std::string& text) {
  char buffer[65536];
  const ssize_t n_bytes = ::read(descriptor, buffer, sizeof buffer);
  // A terminal whose last writer is gone reports EIO.
  if (n_bytes <= 0) return n_bytes < 0 && errno == EINTR;
  text.append(buffer, static_cast<std::size_t>(n_bytes));
  return true;
}

void collect(int process, const RunOptions& options, int out, int err, Outcome& outcome) {
  pollfd ends[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    ::poll(ends, 2, options.meanwhile ? 1 : -1);
    if (options.meanwhile) options.meanwhile(process);
    if (ends[0].fd >= 0 && ends[0].revents != 0 && !take(out, outcome.out)) ends[0].fd = -1;
    if (ends[1].fd >= 0 && ends[1].revents != 0 && !take(err, outcome.err)) ends[1].fd = -1;
  }
}

}  // namespace

Outcome run(const std::vector<std::string>& arguments, const RunOptions& options) {
  const Channel out = open_channel(options.terminal);
  const Channel err = options.terminal ? Channel{-1, out.write} : open_channel(false);
  const int process = ::fork();
  if (process == 0) become_program(arguments, options, out.write, err.write);
  ::close(out.write);
  if (!options.terminal) ::close(err.write);
  Outcome outcome;
  collect(process, options, out.read, err.read, outcome);
  ::close(out.read);
  if (err.read >= 0) ::close(err.read);
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "cfck-test-XXXXXX").string();
  EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryFolder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), path_).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void write_file(const std::string& path, std::string_view bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string noise(std::size_t n_bytes, std::uint64_t seed) {
  std::string text(n_bytes, '\0');
  for (char& c : text) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    c = static_cast<char>(seed >> 56);
  }
  return text;
}

std::vector<float> weights(std::size_t count, std::uint64_t seed, float scale) {
  const std::string bytes = noise(16 * count, seed);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (std::size_t part = 0; part < 4; ++part) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + 16 * i + 4 * part, 4);
      sum += static_cast<float>(bits) * 0x1p-32F - 0.5F;
    }
    values[i] = sum * scale;
  }
  return values;
}

std::string weights_model() {
  return model_of({{"a.weight", "F32", "[64,64]", bytes_of(weights(4096, 1, 0.1F))},
                   {"b.weight", "F32", "[64,64]", bytes_of(weights(4096, 2, 0.1F))},
                   {"norm.bias", "F32", "[64]", bytes_of(weights(64, 3, 0.1F))},
                   {"ids", "I32", "[64,64]", noise(16384, 4)},
                   {"optimizer.state", "F32", "[64,64]", bytes_of(weights(4096, 5, 0.1F))},
                   {"tiny", "F32", "[64,64]", bytes_of(weights(4096, 6, 1e-6F))}});
}

std::string with_header(std::string_view json, std::string_view data) {
  const std::uint64_t length = json.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file.append(json).append(data);
}

std::string model_of(const std::vector<TestTensor>& tensors, const std::string& metadata) {
  std::string header = "{\"__metadata__\":{" + metadata + "}";
  std::string data;
  for (const TestTensor& tensor : tensors) {
    header += ",\"" + tensor.name + R"(":{"dtype":")" + tensor.dtype + R"(","shape":)" +
              tensor.shape + R"(,"data_offsets":[)" + std::to_string(data.size()) + ",";
    data += tensor.data;
    header += std::to_string(data.size()) + "]}";
  }
  return with_header(header + "}", data);
}

std::string one_tensor(std::uint64_t n_elems) {
  // Floats of one sign around 1, as weights are in their upper bits.
  std::string data = noise(4 * n_elems, 5);
  for (std::size_t i = 0; i < data.size(); i += 4) {
    data[i + 2] = static_cast<char>(data[i + 2] | '\x80');
    data[i + 3] = 0x3F;
  }
  const std::string count = std::to_string(n_elems);
  return with_header(R"({"w":{"dtype":"F32","shape":[)" + count + R"(],"data_offsets":[0,)" +
                         std::to_string(4 * n_elems) + "]}}",
                     data);
}

std::string small_model() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("layer.weight":{"dtype":"F32","shape":[40,50],"data_offsets":[0,8000]},)"
      R"( "layer.twin":{"dtype":"F32","shape":[40,50],"data_offsets":[8000,16000]},)"
      R"("ids":{"dtype":"I64","shape":[1,64],"data_offsets":[16000,16512]},)"
      R"("empty":{"dtype":"BF16","shape":[0,7],"data_offsets":[16512,16512]},)"
      R"("scale":{"dtype":"F16","shape":[],"data_offsets":[16512,16514]}}    )";
  std::string ids(512, '\0');
  for (std::size_t i = 0; i < 64; ++i) ids[8 * i] = static_cast<char>(i);
  const std::string weight = one_tensor(2000).substr(one_tensor(2000).size() - 8000);
  return with_header(header, weight + weight + ids + "\x01\x3C");
}

}  // namespace cfck::test

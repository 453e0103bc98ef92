// Measures what the host does in a load of small tensors on a device, beside the kernels: a model
// of 45 MB of BF16 in 100 tensors whose file is in the memory of the device already. The driver is
// the fake one of the tests, which does not run the kernels that decode and hash; what its copies
// take is taken off. With CHUNK_ELEMS the file has chunks of so many values, and with CHUNK_NS
// kernels take so long for each of them.
//
//   build/bench/device_host_bench [REPEATS [THREADS [CHUNK_ELEMS [CHUNK_NS]]]]     101 repeats; as
//   many threads as there are CPUs; one chunk a tensor; 0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/native/fake_device.hpp"
#include "cfck/cuda.hpp"
#include "cfck/io.hpp"
#include "cfck/reader.hpp"
#include "cfck/writer.hpp"

namespace {

using namespace cfck;

constexpr std::size_t kTensors = 100;
constexpr std::size_t kElems = 224256;

using bench::Nanoseconds;

double milliseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

// The file of a model whose rows have different spreads.
std::vector<std::byte> make_file(std::uint64_t chunk_elems) {
  std::vector<std::byte> values = bench::bf16_values(kElems);
  MemorySink sink;
  EncodeOptions options;
  options.entropy = EntropyId::kRans;
  options.chunk_elems = chunk_elems;
  Writer writer = Writer::create(sink, options).value();
  for (std::size_t i = 0; i < kTensors; ++i) {
    values[0] = static_cast<std::byte>(i);  // none equals another
    writer.add("layer" + std::to_string(i), TensorView{DType::kBF16, {kElems / 64, 64}, values, {}})
        .value();
  }
  writer.finish().value();
  return sink.take();
}

struct Load {
  double open = 0;
  double plan = 0;
  double enqueue = 0;
  double finish = 0;
  double all = 0;
};

// Memory of the host is memory of the fake device.
struct Memory {
  explicit Memory(std::uint64_t chunk_elems) : file(make_file(chunk_elems)) {}

  std::vector<std::byte> file;
  std::vector<std::byte> outputs = std::vector<std::byte>(kTensors * 2 * kElems);
  std::vector<std::byte> workspace;
  std::vector<std::byte> staging;
};

std::byte* aligned(std::vector<std::byte>& memory, std::size_t n_bytes) {
  memory.resize(std::max(memory.size(), n_bytes + 256));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (256 - at % 256) % 256;
}

Load run(Memory& memory, unsigned threads, Nanoseconds work) {
  Load load;
  const std::uint64_t work_before = work();
  const double start = milliseconds();
  auto source = cuda::DeviceSource::open(0, memory.file.data(), memory.file.size()).value();
  DecodeOptions options;
  options.threads = threads;
  const Reader reader = Reader::open(*source, options).value();
  const double opened = milliseconds();
  std::vector<cuda::Read> reads;
  for (std::size_t i = 0; i < kTensors; ++i) {
    reads.push_back(
        {&reader.records()[i], MutableBytes(memory.outputs).subspan(2 * kElems * i, 2 * kElems)});
  }
  auto decoder = cuda::Decoder::plan(reader, reads, 0).value();
  const double planned = milliseconds();
  std::byte* const workspace = aligned(memory.workspace, decoder.workspace_bytes());
  std::byte* const staging = aligned(memory.staging, decoder.staging_bytes());
  const double before = milliseconds();
  decoder.enqueue(workspace, {staging, decoder.staging_bytes()}, {}).value();
  const double enqueued = milliseconds();
  const cuda::Summary summary = decoder.finish().value();
  const double finished = milliseconds();
  if (summary.device_bytes != kTensors * 2 * kElems) {
    std::fprintf(stderr, "the device decoded %llu bytes\n",
                 static_cast<unsigned long long>(summary.device_bytes));
    std::exit(EXIT_FAILURE);
  }
  load = {opened - start, planned - opened, enqueued - before, finished - enqueued, 0};
  load.all =
      finished - start - (before - planned) - static_cast<double>(work() - work_before) * 1e-6;
  return load;
}

void print(const char* what, const std::vector<Load>& loads, double Load::*part) {
  std::vector<double> times;
  for (const Load& load : loads) {
    times.push_back(load.*part);
  }
  std::printf("%-44s %8.3f ms\n", what, median(times));
}

}  // namespace

int main(int n_arguments, char** arguments) {
  const Nanoseconds work = bench::use_fake_driver(CFCK_FAKE_DRIVER, CFCK_FAKE_CODE_FOLDER);
  const int repeats = n_arguments > 1 ? std::atoi(arguments[1]) : 101;
  const unsigned threads = n_arguments > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0;
  const std::uint64_t chunk_elems =
      n_arguments > 3 ? std::strtoull(arguments[3], nullptr, 10) : EncodeOptions().chunk_elems;
  const std::string chunk_ns = n_arguments > 4 ? arguments[4] : "0";
  ::setenv("CFCK_FAKE_CUDA", ("idle chunk_ns=" + chunk_ns).c_str(), 1);
  Memory memory(chunk_elems);
  std::vector<Load> loads;
  for (int i = 0; i < repeats + 3; ++i) {
    loads.push_back(run(memory, threads, work));
  }
  loads.erase(loads.begin(), loads.begin() + 3);  // warm by then
  std::printf("45 MB of BF16 in 100 tensors, on the device already; medians of %d, threads: %u\n",
              repeats, threads);
  print("open", loads, &Load::open);
  print("plan", loads, &Load::plan);
  print("enqueue, with the fake device's copies", loads, &Load::enqueue);
  print("finish, with the fake device's copies", loads, &Load::finish);
  print("all, without the fake device's work", loads, &Load::all);
  return EXIT_SUCCESS;
}

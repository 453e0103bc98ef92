// Measures how well loads from files keep the way to a device busy, without a device: the driver is
// the fake one of the tests, whose copies and kernels only take time. Copies get a part of the rate
// at which eight threads read the file here, half of it unless told otherwise (1: as on an H100,
// whose copies are as fast as eight threads read); kernels take what was measured for a part of a
// load there, 1.06 ms where copies had 54 GB/s (teams, chunks of 2^18), in proportion to that rate.
//
//   build/bench/device_pipeline_bench FOLDER [GB [REPEATS [PART]]]     a file of 4 GB of BF16 in
//   FOLDER; 7; 0.5
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/native/fake_device.hpp"
#include "cfck/cuda.hpp"
#include "cfck/io.hpp"
#include "cfck/reader.hpp"
#include "cfck/writer.hpp"

namespace {

using namespace cfck;

constexpr std::size_t kElems = std::size_t{1} << 24;  // of a tensor
constexpr double kMeasuredGbps = 54;
constexpr double kMeasuredKernelUs = 1060;

using bench::Nanoseconds;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void make_file(const std::string& path, std::size_t n_tensors) {
  std::vector<std::byte> values = bench::bf16_values(kElems);
  auto file = AtomicFile::create(path).value();
  Writer writer = Writer::create(*file, {.entropy = EntropyId::kRans}).value();
  for (std::size_t i = 0; i < n_tensors; ++i) {
    values[0] = static_cast<std::byte>(i);  // none equals another
    writer
        .add("layer" + std::to_string(i),
             TensorView{DType::kBF16, {kElems / 4096, 4096}, values, {}})
        .value();
  }
  writer.finish().value();
  file->commit().value();
}

// GB/s of eight threads that read the file once, in blocks of 4 MiB.
double read_rate(const std::string& path) {
  constexpr std::size_t kBlock = std::size_t{4} << 20;
  const std::size_t n_bytes = std::filesystem::file_size(path);
  const int file = ::open(path.c_str(), O_RDONLY);
  std::atomic<std::size_t> next{0};
  const double start = seconds();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      std::vector<std::byte> block(kBlock);
      for (std::size_t at = next.fetch_add(kBlock); at < n_bytes; at = next.fetch_add(kBlock)) {
        if (::pread(file, block.data(), kBlock, static_cast<off_t>(at)) <= 0) std::abort();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const double rate = static_cast<double>(n_bytes) / (seconds() - start) * 1e-9;
  ::close(file);
  return rate;
}

struct Run {
  double seconds = 0;
  double copy_share = 0;
};

Run load(const Reader& reader, std::vector<std::byte>& memory, Nanoseconds copies) {
  std::vector<cuda::Read> reads;
  for (const Record& record : reader.records()) {
    // Nothing is written there: all tensors may have the same place.
    reads.push_back({&record, MutableBytes(memory).first(record.decoded_bytes)});
  }
  const std::uint64_t copies_before = copies();
  const double start = seconds();
  auto decoder = cuda::Decoder::plan(reader, reads, 0).value();
  const std::size_t n_staging = decoder.staging_bytes();
  static std::vector<std::byte> staging;
  static std::vector<std::byte> workspace(512);
  const double planned = seconds();
  staging.resize(std::max(staging.size(), n_staging + 256));
  std::byte* const aligned =
      staging.data() + (256 - reinterpret_cast<std::uintptr_t>(staging.data()) % 256) % 256;
  std::byte* const nowhere =
      workspace.data() + (256 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 256) % 256;
  const double ready = seconds();
  decoder.enqueue(nowhere, {aligned, n_staging}, {}).value();
  decoder.finish().value();
  const double took = seconds() - start - (ready - planned);
  return {took, static_cast<double>(copies() - copies_before) * 1e-9 / took};
}

}  // namespace

int main(int n_arguments, char** arguments) {
  if (n_arguments < 2) {
    std::fprintf(stderr, "usage: device_pipeline_bench FOLDER [GB [REPEATS [PART]]]\n");
    return EXIT_FAILURE;
  }
  const double gigabytes = n_arguments > 2 ? std::atof(arguments[2]) : 4;
  const int repeats = n_arguments > 3 ? std::atoi(arguments[3]) : 7;
  const double part = n_arguments > 4 ? std::atof(arguments[4]) : 0.5;
  const Nanoseconds copies = bench::use_fake_driver(CFCK_FAKE_DRIVER, CFCK_FAKE_CODE_FOLDER);
  const auto n_tensors = static_cast<std::size_t>(gigabytes * 1e9 / (2 * kElems));
  const std::string path =
      std::string(arguments[1]) + "/pipeline-" + std::to_string(n_tensors) + ".cfck";
  if (!std::filesystem::exists(path)) {
    make_file(path, n_tensors);
  }
  (void)read_rate(path);  // into the page cache
  const Reader reader = Reader::open(path).value();
  std::vector<std::byte> memory(2 * kElems);
  std::printf("%zu bytes of %.1f GB, in the page cache, %u CPUs\n",
              static_cast<std::size_t>(std::filesystem::file_size(path)),
              static_cast<double>(n_tensors * 2 * kElems) * 1e-9, default_thread_count());
  std::vector<Run> runs;
  for (int i = 0; i < repeats; ++i) {
    const double read = read_rate(path);
    const double link = read * part;
    const std::string words =
        "copy_gbps=" + std::to_string(link) +
        " kernel_us=" + std::to_string(static_cast<int>(kMeasuredKernelUs * kMeasuredGbps / link));
    ::setenv("CFCK_FAKE_CUDA", words.c_str(), 1);
    runs.push_back(load(reader, memory, copies));
    std::printf("reads %.1f GB/s, copies %.1f: %.3f s, a copy under way %.3f of the time\n", read,
                link, runs.back().seconds, runs.back().copy_share);
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.copy_share < b.copy_share; });
  std::printf("median %.3f of the time, best %.3f\n", runs[runs.size() / 2].copy_share,
              runs.back().copy_share);
  return EXIT_SUCCESS;
}

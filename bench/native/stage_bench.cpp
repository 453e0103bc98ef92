// Where the time goes: cycles per value of each stage on the tensors of a safetensors
// file, one thread. Prints JSON; bench/entropy makes a table of it.
//
//   build/bench/stage_bench [--entropy E] [--level L] [--rel BOUND] [--repetitions N] FILE
//   CFCK_CPU=v3 build/bench/stage_bench FILE     another CPU level
//
// Without --rel the codec is lossless, over the tensors of two or more dimensions that
// have the type of the file's last tensor; with it direct, for F32. Each stage is
// measured twice: in chunks of 2^18 values, as files have them, so that values come from
// memory; and in chunks of 2^16 that are in the cache already. A cycle is one of the
// clock found after that by a chain of dependent instructions.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/cpu/level.hpp"
#include "bench/native/arguments.hpp"
#include "bench/native/stages.hpp"

namespace {

using namespace cfck;

constexpr std::size_t kFileChunk = std::size_t{1} << 18;
constexpr std::size_t kCachedChunk = std::size_t{1} << 16;

// Cycles in a second: exclusive ors that wait for each other take one each.
double clock_frequency() {
  constexpr unsigned kRuns = 200;
  constexpr unsigned kSteps = 100000;
  double best = 1;
  std::uint64_t x = 1;
  std::uint64_t y = 3;
  for (unsigned run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < kSteps; i += 20) {
      for (unsigned k = 0; k < 20; ++k) {
        x ^= y;
        asm volatile("" : "+r"(x), "+r"(y));
      }
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return kSteps / best;
}

std::size_t value_bytes(const bench::Tensor& tensor) { return bits_per_element(tensor.dtype) / 8; }

// Takes half of the chunks that stay in the cache, which is enough.
std::vector<bench::Tensor> part_of(const std::vector<bench::Tensor>& tensors) {
  std::vector<bench::Tensor> part;
  for (const bench::Tensor& tensor : tensors) {
    const std::size_t chunk_bytes = kCachedChunk * value_bytes(tensor);
    for (std::size_t at = 0; at + chunk_bytes <= tensor.values.size(); at += 2 * chunk_bytes) {
      part.push_back({tensor.name,
                      tensor.dtype,
                      {128, kCachedChunk / 128},
                      tensor.values.subspan(at, chunk_bytes)});
    }
  }
  return part;
}

bool time_stages(const std::vector<bench::Tensor>& tensors, const bench::StageOptions& options,
                 unsigned repetitions, bench::StageClock& best) {
  for (unsigned i = 0; i < repetitions; ++i) {
    bench::StageClock clock(options.warm);
    const bool good = options.rel_bound > 0 ? bench::time_direct_stages(tensors, options, clock)
                                            : bench::time_lossless_stages(tensors, options, clock);
    if (!good) {
      return false;
    }
    best.keep_best(clock);
  }
  return true;
}

double n_values(const std::vector<bench::Tensor>& tensors) {
  double total = 0;
  for (const bench::Tensor& tensor : tensors) {
    total += static_cast<double>(tensor.values.size() / value_bytes(tensor));
  }
  return total;
}

int measure(const bench::Arguments& arguments) {
  const auto weights = bench::read_weights(arguments.path);
  if (!weights) {
    std::fprintf(stderr, "stage_bench: %s\n", weights.error().message.c_str());
    return 1;
  }
  std::vector<bench::Tensor> tensors;
  for (const bench::Tensor& tensor : weights->tensors) {
    if (tensor.dtype == weights->tensors.back().dtype && tensor.shape.size() >= 2 &&
        (arguments.rel_bound == 0 || tensor.dtype == DType::kF32)) {
      tensors.push_back(tensor);
    }
  }
  const std::vector<bench::Tensor> part = part_of(tensors);
  if (part.empty()) {
    std::fprintf(stderr, "stage_bench: no tensor of a type that can be measured\n");
    return 1;
  }
  bench::StageClock streamed(false);
  bench::StageClock cached(true);
  bench::StageOptions options;
  options.entropy = arguments.entropy;
  options.level = arguments.level;
  options.rel_bound = arguments.rel_bound;
  options.chunk_values = kFileChunk;
  bool good = time_stages(tensors, options, arguments.repetitions, streamed);
  options.chunk_values = kCachedChunk;
  options.warm = true;
  good = good && time_stages(part, options, arguments.repetitions, cached);
  if (!good) {
    std::fprintf(stderr, "stage_bench: what was decoded is not what was encoded\n");
    return 1;
  }
  const char* const levels[] = {"baseline", "v3", "v4"};
  const double frequency = clock_frequency();
  nlohmann::json stages = nlohmann::json::array();
  for (std::size_t i = 0; i < streamed.stages().size(); ++i) {
    const bench::Stage& stage = streamed.stages()[i];
    stages.push_back(
        {{"stage", stage.name},
         {"cycles", stage.seconds() * frequency / n_values(tensors)},
         {"cycles_cached", cached.stages()[i].seconds() * frequency / n_values(part)},
         {"gb_per_s",
          1e-9 * n_values(tensors) * static_cast<double>(value_bytes(part[0])) / stage.seconds()}});
  }
  const nlohmann::json report = {{"cpu", levels[static_cast<unsigned>(cpu_level())]},
                                 {"entropy", entropy_name(arguments.entropy)},
                                 {"frequency_ghz", 1e-9 * frequency},
                                 {"values", n_values(tensors)},
                                 {"value_bytes", value_bytes(part[0])},
                                 {"stages", stages}};
  std::printf("%s\n", report.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments;
  arguments.repetitions = 5;
  const auto take = [&](std::string_view name, const char* value) {
    return bench::take_option(name, value, arguments);
  };
  if (!bench::read_arguments(argc, argv, arguments, take)) {
    std::fprintf(stderr,
                 "usage: stage_bench [--entropy E] [--level L] [--rel BOUND] "
                 "[--repetitions N] FILE\n");
    return 2;
  }
  return measure(arguments);
}

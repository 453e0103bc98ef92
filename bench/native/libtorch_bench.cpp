// Saves and loads a module of about 1 GB with torch::save and with cfck::torch, in turns.
//
//   libtorch_bench WEIGHTS FOLDER REPETITIONS    seconds of each, as JSON
//   libtorch_bench WEIGHTS FOLDER memory         how much loading takes besides the parameters
//
// WEIGHTS is a file of float tensors, which are repeated with other scales until there are enough.
#include <fcntl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cfck/torch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

constexpr std::int64_t kModuleBytes = 1'000'000'000;
constexpr int kThreads = 2;

struct Large : torch::nn::Module {
  explicit Large(const cfck::libtorch::Tensors& weights) {
    std::int64_t n_bytes = 0;
    for (int copy = 0; n_bytes < kModuleBytes; ++copy) {
      for (const auto& item : weights) {
        if (!item.value().is_floating_point()) continue;
        std::string name = "copy" + std::to_string(copy) + "_" + item.key();
        std::replace(name.begin(), name.end(), '.', '_');
        register_parameter(name, item.value() * (1 + copy / 37.0));
        n_bytes += static_cast<std::int64_t>(item.value().nbytes());
      }
    }
    size_bytes = n_bytes;
  }
  std::int64_t size_bytes = 0;
};

template <class T>
T value_of(cfck::Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
  std::exit(1);
}

template <class Action>
double seconds(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// "VmHWM" or "VmRSS", in bytes.
std::int64_t memory_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == key + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// What cfck does before a file gets its name: the bytes are on the device.
void sync(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  if (file < 0 || ::fsync(file) != 0) std::exit(1);
  ::close(file);
}

void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

bool equal(const Large& a, const Large& b) {
  const auto one = a.parameters();
  const auto other = b.parameters();
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (!torch::equal(one[i], other[i])) return false;
  }
  return one.size() == other.size();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  at::set_num_threads(kThreads);
  const std::string folder = argv[2];
  const auto module = std::make_shared<Large>(value_of(cfck::libtorch::load_tensors(argv[1])));
  const std::string pt = folder + "/large.pt";
  const std::string packed = folder + "/large.cfck";
  cfck::libtorch::SaveOptions save_options;
  save_options.encode.threads = kThreads;
  cfck::libtorch::LoadOptions load_options;
  load_options.decode.threads = kThreads;
  if (std::string(argv[3]) == "memory") {
    value_of(cfck::libtorch::save(*module, packed, save_options));
    reset_peak();
    const std::int64_t before = memory_bytes("VmRSS");
    value_of(cfck::libtorch::load(*module, packed, load_options));
    std::printf("{\"extra_bytes\": %lld}\n",
                static_cast<long long>(memory_bytes("VmHWM") - before));
    return 0;
  }
  const auto other = std::make_shared<Large>(value_of(cfck::libtorch::load_tensors(argv[1])));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : other->parameters()) parameter.zero_();
  // The first round finds memory for files and is not counted.
  for (int i = -1; i < std::atoi(argv[3]); ++i) {
    // Both write new files: memory of an old one is not used again.
    std::remove(pt.c_str());
    std::remove(packed.c_str());
    const double torch_save = seconds([&] { torch::save(module, pt); });
    const double torch_sync = seconds([&] { sync(pt); });
    const double cfck_save =
        seconds([&] { value_of(cfck::libtorch::save(*module, packed, save_options)); });
    const double torch_load = seconds([&] {
      auto target = other;
      torch::load(target, pt);
    });
    const double cfck_load =
        seconds([&] { value_of(cfck::libtorch::load(*other, packed, load_options)); });
    if (!equal(*module, *other)) return 1;
    if (i < 0) continue;
    std::ifstream one(pt, std::ios::ate | std::ios::binary);
    std::ifstream two(packed, std::ios::ate | std::ios::binary);
    std::printf(
        "{\"module_bytes\": %lld, \"pt_bytes\": %lld, \"cfck_bytes\": %lld, \"torch_save\": %.4f, "
        "\"torch_sync\": %.4f, \"cfck_save\": %.4f, \"torch_load\": %.4f, \"cfck_load\": %.4f}\n",
        static_cast<long long>(module->size_bytes), static_cast<long long>(one.tellg()),
        static_cast<long long>(two.tellg()), torch_save, torch_sync, cfck_save, torch_load,
        cfck_load);
    std::fflush(stdout);
  }
  return 0;
}

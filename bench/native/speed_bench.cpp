// Speed of whole files, one thread, memory to memory, through the public interface:
// every tensor of a safetensors file is encoded by a Writer into memory that is
// reused, decoded by a Reader, hashes checked, into memory that is reused, and copied
// by memcpy, taking turns. Prints JSON; bench/entropy makes tables of it.
//
//   build/bench/speed_bench [--codec C] [--entropy E] [--level L] [--rel BOUND]
//                           [--repetitions N] FILE
//   CFCK_CPU=v3 build/bench/speed_bench FILE     another CPU level
//
// --rel is a maximum error relative to each tensor's range, for F32 alone. What was
// decoded is compared once before anything is timed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/bytes.hpp"
#include "base/cpu/level.hpp"
#include "bench/native/arguments.hpp"
#include "bench/native/weights.hpp"
#include "cfck/cfck.hpp"

namespace {

using namespace cfck;

class ReusedSink final : public ByteSink {
 public:
  Result<void> write(ByteView bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  void clear() { bytes_.clear(); }
  ByteView bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

using Outputs = std::vector<std::vector<std::byte>>;

Result<WriteSummary> encode(const bench::Weights& weights, const EncodeOptions& options,
                            ReusedSink& sink) {
  sink.clear();
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(sink, options));
  for (const bench::Tensor& tensor : weights.tensors) {
    CFCK_TRY(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.values}));
  }
  return writer.finish();
}

Result<void> decode(const bench::Weights& weights, ByteView file, Outputs& outputs) {
  const MemorySource source(file);
  DecodeOptions options;
  options.threads = 1;
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(source, options));
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    requests.push_back({reader.find(weights.tensors[i].name), outputs[i]});
  }
  return reader.read_many(requests);
}

void copy(const bench::Weights& weights, Outputs& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::memcpy(outputs[i].data(), weights.tensors[i].values.data(), outputs[i].size());
  }
}

// The largest |x - y| as a part of the bound; of lossless tensors 0, or infinity.
double largest_error(const bench::Weights& weights, const Outputs& outputs, double rel_bound) {
  double largest = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bench::Tensor& tensor = weights.tensors[i];
    if (rel_bound == 0) {
      const bool same = std::equal(outputs[i].begin(), outputs[i].end(), tensor.values.begin());
      largest = same ? largest : INFINITY;
      continue;
    }
    const double bound = rel_bound * bench::value_range(tensor);
    for (std::size_t at = 0; at < outputs[i].size(); at += sizeof(float)) {
      const double x = load<float>(tensor.values.data() + at);
      largest = std::max(largest, std::fabs(x - load<float>(outputs[i].data() + at)) / bound);
    }
  }
  return largest;
}

template <class Action>
double seconds_of(Action&& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Samples {
  std::vector<double> memcpy;
  std::vector<double> encode;
  std::vector<double> decode;
};

nlohmann::json speed_of(const std::vector<double>& seconds, const std::vector<double>& copying,
                        double n_bytes) {
  std::vector<double> fractions;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    fractions.push_back(copying[i] / seconds[i]);
  }
  return {{"seconds", seconds},
          {"best_gb_per_s", 1e-9 * n_bytes / *std::min_element(seconds.begin(), seconds.end())},
          {"median_gb_per_s", 1e-9 * n_bytes / median(seconds)},
          {"fraction_of_memcpy", median(fractions)}};
}

nlohmann::json report(const bench::Arguments& arguments, const bench::Weights& weights,
                      const WriteSummary& summary, double largest, const Samples& samples) {
  const char* const levels[] = {"baseline", "v3", "v4"};
  const auto n_bytes = static_cast<double>(weights.n_bytes());
  return {{"cpu", levels[static_cast<unsigned>(cpu_level())]},
          {"entropy", entropy_name(arguments.entropy)},
          {"level", encode_level_name(arguments.level)},
          {"tensors", weights.tensors.size()},
          {"decoded_bytes", weights.n_bytes()},
          {"stored_bytes", summary.stored_bytes},
          {"file_bytes", summary.file_bytes},
          {"largest_error_by_bound", largest},
          {"memcpy", speed_of(samples.memcpy, samples.memcpy, n_bytes)},
          {"encode", speed_of(samples.encode, samples.memcpy, n_bytes)},
          {"decode", speed_of(samples.decode, samples.memcpy, n_bytes)}};
}

Result<nlohmann::json> measure(const bench::Arguments& arguments, const EncodeOptions& options) {
  CFCK_TRY_ASSIGN(const bench::Weights weights, bench::read_weights(arguments.path));
  Outputs outputs;
  for (const bench::Tensor& tensor : weights.tensors) {
    if (arguments.rel_bound != 0 && tensor.dtype != DType::kF32) {
      return invalid_argument("--rel is for F32; not so " + tensor.name);
    }
    outputs.emplace_back(tensor.values.size());
  }
  ReusedSink sink;
  CFCK_TRY_ASSIGN(const WriteSummary summary, encode(weights, options, sink));
  CFCK_TRY(decode(weights, sink.bytes(), outputs));
  const double largest = largest_error(weights, outputs, arguments.rel_bound);
  if (largest > (arguments.rel_bound == 0 ? 0.0 : 1.0)) {
    return corrupt("what was decoded is not what was encoded");
  }
  Samples samples;
  for (unsigned i = 0; i < arguments.repetitions; ++i) {
    samples.memcpy.push_back(seconds_of([&] { copy(weights, outputs); }));
    Result<void> done;
    samples.encode.push_back(seconds_of([&] {
      auto written = encode(weights, options, sink);
      done = written ? Result<void>() : Result<void>(std::move(written).error());
    }));
    CFCK_TRY(std::move(done));
    samples.decode.push_back(seconds_of([&] { done = decode(weights, sink.bytes(), outputs); }));
    CFCK_TRY(std::move(done));
  }
  return report(arguments, weights, summary, largest, samples);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments;
  arguments.repetitions = 15;
  EncodeOptions options;
  options.threads = 1;
  const auto take = [&](std::string_view name, const char* value) {
    const auto codec = codec_choice_from_name(value);
    if (name == "--codec" && codec) {
      options.codec = *codec;
      return true;
    }
    return bench::take_option(name, value, arguments);
  };
  if (!bench::read_arguments(argc, argv, arguments, take)) {
    std::fprintf(stderr,
                 "usage: speed_bench [--codec C] [--entropy E] [--level L] [--rel BOUND] "
                 "[--repetitions N] FILE\n");
    return 2;
  }
  options.entropy = arguments.entropy;
  options.level = arguments.level;
  if (arguments.rel_bound > 0) {
    TensorOptions every;
    every.max_rel_error = arguments.rel_bound;
    options.rules.push_back({"*", every, /*force=*/true});
  }
  const auto found = measure(arguments, options);
  if (!found) {
    std::fprintf(stderr, "speed_bench: %s\n", found.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", found->dump().c_str());
  return 0;
}

// Bits per weight and speed of the direct codec, one thread, on the float tensors of
// two or more dimensions of a safetensors file, or on a file of raw F32.
//
//   build/bench/direct_bench FILE...
//
// Or the seconds that one matrix takes, a file of raw F32, as JSON; bench/bounds.py
// puts them beside those of its peers:
//
//   build/bench/direct_bench --seconds ROWS COLUMNS BOUND FILE
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "codec/direct/plan.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;

struct Tensor {
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> values;
  double range = 0;
  std::uint64_t n_elems() const { return values.size() * 8 / bits_per_element(dtype); }
};

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

void set_range(Tensor& tensor) {
  if (tensor.dtype != DType::kF32) {
    return;
  }
  double low = INFINITY;
  double high = -INFINITY;
  for (std::size_t i = 0; i < tensor.values.size(); i += 4) {
    const double x = load<float>(tensor.values.data() + i);
    low = std::min(low, x);
    high = std::max(high, x);
  }
  tensor.range = high - low;
}

std::vector<Tensor> read_tensors(const std::string& path) {
  const std::vector<std::byte> file = read_file(path);
  std::vector<Tensor> tensors;
  if (!path.ends_with(".safetensors")) {
    tensors.push_back({DType::kF32, {file.size() / 4}, file});
    set_range(tensors.back());
    return tensors;
  }
  const auto header_bytes = load<std::uint64_t>(file.data());
  const char* const text = reinterpret_cast<const char*>(file.data()) + 8;
  const auto header = nlohmann::json::parse(text, text + header_bytes);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || entry["dtype"] != "F32" || entry["shape"].size() < 2) {
      continue;
    }
    Tensor tensor;
    tensor.shape = entry["shape"].get<std::vector<std::uint64_t>>();
    const std::size_t begin = 8 + header_bytes + entry["data_offsets"][0].get<std::size_t>();
    const std::size_t end = 8 + header_bytes + entry["data_offsets"][1].get<std::size_t>();
    tensor.values.assign(file.begin() + static_cast<std::ptrdiff_t>(begin),
                         file.begin() + static_cast<std::ptrdiff_t>(end));
    set_range(tensor);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

struct Cost {
  double bits = 0;
  double plan_seconds = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;
  unsigned kinds[4] = {};  // plain, prediction, field, both
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool measure(const Tensor& tensor, double bound, Scratch& scratch, Cost& cost) {
  DirectRecord record{tensor.dtype, EntropyId::kZstd, tensor.shape, std::uint64_t{1} << 18};
  const std::size_t value_bytes = bits_per_element(tensor.dtype) / 8;
  const auto chunk_values = [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
    return Result<ByteView>(ByteView(tensor.values).subspan(first * value_bytes, n * value_bytes));
  };
  double start = seconds();
  auto plan = plan_direct(record, {bound, {}}, chunk_values, scratch);
  cost.plan_seconds += seconds() - start;
  if (!plan) {
    std::fprintf(stderr, "%s\n", plan.error().message.c_str());
    return false;
  }
  cost.kinds[(plan->parameters.coefficients.empty() ? 0 : 1) +
             (plan->parameters.field.empty() ? 0 : 2)] += 1;
  DirectChunkInfo info{tensor.dtype, EntropyId::kZstd, tensor.shape, 0, 0, nullptr};
  const bool in_preamble = plan->place == ParameterPlace::kPreamble;
  info.parameters = in_preamble ? &plan->parameters : nullptr;
  std::vector<std::byte> preamble;
  if (in_preamble) {
    append_parameters(plan->parameters, preamble);
    cost.bits += 8.0 * static_cast<double>(preamble.size());
  }
  DirectChunk chunk;
  std::vector<std::byte> decoded;
  std::vector<std::byte> back;
  for (std::uint64_t first = 0; first < tensor.n_elems(); first += record.chunk_elems) {
    info.first_elem = first;
    info.n_elems = std::min(record.chunk_elems, tensor.n_elems() - first);
    std::vector<std::byte> unused;
    const ByteView values = *chunk_values(first, info.n_elems, unused);
    decoded.resize(values.size());
    back.resize(values.size());
    start = seconds();
    if (!encode_direct(info, plan->parameters, plan->place, {bound, {}}, values, scratch, decoded,
                       chunk)) {
      return false;
    }
    const double middle = seconds();
    const auto done = decode_direct(info, chunk.encoded.payload, scratch, back);
    cost.decode_seconds += seconds() - middle;
    if (!done || back != decoded) {
      std::fprintf(stderr, "decoding failed\n");
      return false;
    }
    cost.encode_seconds += middle - start;
    cost.bits += 8.0 * static_cast<double>(chunk.encoded.payload.size());
  }
  return true;
}

// A whole tensor at a time, as a program would code it: chunks of `kTimedChunk` values
// one behind the other, then all of them into one array.
inline constexpr std::uint64_t kTimedChunk = std::uint64_t{1} << 18;

struct CodedTensor {
  DirectPlan plan;
  std::vector<std::byte> payloads;
  std::vector<std::size_t> ends;
};

DirectChunkInfo timed_chunk(const Tensor& tensor, const DirectPlan& plan, std::uint64_t first) {
  return {tensor.dtype,
          EntropyId::kZstd,
          tensor.shape,
          first,
          std::min(kTimedChunk, tensor.n_elems() - first),
          plan.place == ParameterPlace::kPreamble ? &plan.parameters : nullptr};
}

bool encode_tensor(const Tensor& tensor, double bound, Scratch& scratch, CodedTensor& coded,
                   double& plan_seconds) {
  const auto values_of = [&](std::uint64_t first, std::uint64_t n) {
    return ByteView(tensor.values).subspan(first * sizeof(float), n * sizeof(float));
  };
  const DirectRecord record{tensor.dtype, EntropyId::kZstd, tensor.shape, kTimedChunk};
  const double start = seconds();
  auto plan = plan_direct(
      record, {bound, {}},
      [&](std::uint64_t first, std::uint64_t n, std::vector<std::byte>&) {
        return Result<ByteView>(values_of(first, n));
      },
      scratch);
  plan_seconds = seconds() - start;
  if (!plan) {
    return false;
  }
  coded.plan = *std::move(plan);
  coded.payloads.clear();
  coded.ends.clear();
  std::vector<std::byte> decoded(kTimedChunk * sizeof(float));
  DirectChunk chunk;
  for (std::uint64_t first = 0; first < tensor.n_elems(); first += kTimedChunk) {
    const DirectChunkInfo info = timed_chunk(tensor, coded.plan, first);
    const ByteView values = values_of(first, info.n_elems);
    if (!encode_direct(info, coded.plan.parameters, coded.plan.place, {bound, {}}, values, scratch,
                       MutableBytes(decoded).first(values.size()), chunk)) {
      return false;
    }
    const std::vector<std::byte>& payload = chunk.encoded.payload;
    coded.payloads.insert(coded.payloads.end(), payload.begin(), payload.end());
    coded.ends.push_back(coded.payloads.size());
  }
  return true;
}

bool decode_tensor(const Tensor& tensor, const CodedTensor& coded, Scratch& scratch,
                   std::vector<std::byte>& back) {
  std::uint64_t first = 0;
  std::size_t begin = 0;
  for (const std::size_t end : coded.ends) {
    const ByteView payload = ByteView(coded.payloads).subspan(begin, end - begin);
    const DirectChunkInfo info = timed_chunk(tensor, coded.plan, first);
    if (!decode_direct(
            info, payload, scratch,
            MutableBytes(back).subspan(first * sizeof(float), info.n_elems * sizeof(float)))) {
      return false;
    }
    first += info.n_elems;
    begin = end;
  }
  return true;
}

bool beyond_bound(const Tensor& tensor, const std::vector<std::byte>& back, double bound) {
  for (std::size_t i = 0; i < back.size(); i += sizeof(float)) {
    const double x = load<float>(tensor.values.data() + i);
    if (std::fabs(x - load<float>(back.data() + i)) > bound) {
      return true;
    }
  }
  return false;
}

// The second of two passes: memory is there, and caches are as warm as they get.
int print_seconds(std::uint64_t rows, std::uint64_t columns, double bound, const char* path) {
  Tensor tensor{DType::kF32, {rows, columns}, read_file(path)};
  if (rows * columns == 0 || tensor.n_elems() != rows * columns) {
    std::fprintf(stderr, "%s does not have rows * columns values\n", path);
    return 1;
  }
  Scratch scratch;
  CodedTensor coded;
  std::vector<std::byte> back(tensor.values.size());
  double plan_seconds = 0;
  double times[3] = {};
  for (int pass = 0; pass < 2; ++pass) {
    times[0] = seconds();
    bool done = encode_tensor(tensor, bound, scratch, coded, plan_seconds);
    times[1] = seconds();
    done = done && decode_tensor(tensor, coded, scratch, back);
    times[2] = seconds();
    if (!done || beyond_bound(tensor, back, bound)) {
      std::fprintf(stderr, "coding failed\n");
      return 1;
    }
  }
  std::printf("%s\n", nlohmann::json{{"bytes", coded.payloads.size()},
                                     {"plan", plan_seconds},
                                     {"encode", times[1] - times[0]},
                                     {"decode", times[2] - times[1]}}
                          .dump()
                          .c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "--seconds") {
    return print_seconds(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10),
                         std::strtod(argv[4], nullptr), argv[5]);
  }
  Scratch scratch;
  for (int i = 1; i < argc; ++i) {
    const std::vector<Tensor> tensors = read_tensors(argv[i]);
    std::printf("%s: %zu tensors\n", argv[i], tensors.size());
    for (const auto& [name, factor] :
         {std::pair{"ABS 1e-4", 0.0}, {"REL 1e-2", 1e-2}, {"REL 1e-3", 1e-3}, {"REL 1e-4", 1e-4}}) {
      Cost cost;
      double n_weights = 0;
      double n_bytes = 0;
      for (const Tensor& tensor : tensors) {
        if (!measure(tensor, factor == 0 ? 1e-4 : factor * tensor.range, scratch, cost)) {
          return 1;
        }
        n_weights += static_cast<double>(tensor.n_elems());
        n_bytes += static_cast<double>(tensor.values.size());
      }
      std::printf(
          "  %s %7.3f bits per weight; encode %.2f GB/s, decode %.2f GB/s, plan %.2f GB/s; "
          "plain %u, prediction %u, field %u, both %u\n",
          name, cost.bits / n_weights, 1e-9 * n_bytes / cost.encode_seconds,
          1e-9 * n_bytes / cost.decode_seconds, 1e-9 * n_bytes / cost.plan_seconds, cost.kinds[0],
          cost.kinds[1], cost.kinds[2], cost.kinds[3]);
    }
  }
  return 0;
}

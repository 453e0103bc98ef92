// Bits per weight and speed of the direct codec, one thread, on the float tensors of
// two or more dimensions of safetensors files, and the choices of its plans.
//
//   build/bench/direct_bench [--entropy E] FILE...
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

#include "bench/native/weights.hpp"
#include "codec/direct/plan/plan.hpp"

namespace {

using namespace cfck;
using namespace cfck::codec;

using bench::Tensor;

std::uint64_t n_elems(const Tensor& tensor) {
  return tensor.values.size() * 8 / bits_per_element(tensor.dtype);
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

bool measure(const Tensor& tensor, double bound, EntropyId entropy, Scratch& scratch, Cost& cost) {
  DirectRecord record{tensor.dtype, entropy, tensor.shape, std::uint64_t{1} << 18};
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
  DirectChunkInfo info{tensor.dtype, entropy, tensor.shape, 0, 0, nullptr};
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
  for (std::uint64_t first = 0; first < n_elems(tensor); first += record.chunk_elems) {
    info.first_elem = first;
    info.n_elems = std::min(record.chunk_elems, n_elems(tensor) - first);
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

// Prints a line for every bound.
bool print_file(const char* path, EntropyId entropy, Scratch& scratch) {
  const auto weights = bench::read_weights(path);
  if (!weights) {
    std::fprintf(stderr, "%s\n", weights.error().message.c_str());
    return false;
  }
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : weights->tensors) {
    if (tensor.dtype == DType::kF32 && tensor.shape.size() >= 2) {
      tensors.push_back(tensor);
    }
  }
  std::printf("%s: %zu tensors\n", path, tensors.size());
  for (const auto& [name, factor] :
       {std::pair{"ABS 1e-4", 0.0}, {"REL 1e-2", 1e-2}, {"REL 1e-3", 1e-3}, {"REL 1e-4", 1e-4}}) {
    Cost cost;
    double n_weights = 0;
    for (const Tensor& tensor : tensors) {
      const double bound = factor == 0 ? 1e-4 : factor * bench::value_range(tensor);
      if (!measure(tensor, bound, entropy, scratch, cost)) {
        return false;
      }
      n_weights += static_cast<double>(n_elems(tensor));
    }
    const double n_bytes = sizeof(float) * n_weights;
    std::printf(
        "  %s %7.3f bits per weight; encode %.2f GB/s, decode %.2f GB/s, plan %.2f GB/s; "
        "plain %u, prediction %u, field %u, both %u\n",
        name, cost.bits / n_weights, 1e-9 * n_bytes / cost.encode_seconds,
        1e-9 * n_bytes / cost.decode_seconds, 1e-9 * n_bytes / cost.plan_seconds, cost.kinds[0],
        cost.kinds[1], cost.kinds[2], cost.kinds[3]);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  EntropyId entropy = kDefaultEntropy;
  int first = 1;
  if (argc > 2 && std::string_view(argv[1]) == "--entropy") {
    const auto asked = entropy_choice_from_name(argv[2]);
    if (!asked) {
      std::fprintf(stderr, "no such entropy stage: %s\n", argv[2]);
      return 2;
    }
    entropy = *asked;
    first = 3;
  }
  Scratch scratch;
  for (int i = first; i < argc; ++i) {
    if (!print_file(argv[i], entropy, scratch)) {
      return 1;
    }
  }
  return 0;
}

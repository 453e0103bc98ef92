// Two checkpoints, a step of training apart.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cfck/base.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {

struct Tensor {
  DType dtype = DType::kBF16;
  Shape shape;
  Bytes values;
};
using Tensors = std::map<std::string, Tensor>;

// Changes one of `every` values of two bytes, by one unit in the last place.
inline Bytes stepped(const Bytes& values, std::uint64_t seed, std::uint64_t every) {
  Bytes changed = values;
  Random random(seed);
  for (std::size_t at = 0; at + 2 <= changed.size(); at += 2) {
    if (random.below(every) == 0) {
      std::uint16_t value = 0;
      std::memcpy(&value, changed.data() + at, 2);
      value ^= 1;
      std::memcpy(changed.data() + at, &value, 2);
    }
  }
  return changed;
}

// Tensors of several chunks, of one, of a few values, without a change and of integers.
inline Tensors old_tensors() {
  Tensors tensors;
  tensors["large"] = {DType::kBF16, {1000, 700}, {}};
  tensors["middle"] = {DType::kBF16, {300, 200}, {}};
  tensors["small"] = {DType::kBF16, {48}, {}};
  tensors["same"] = {DType::kF32, {700, 500}, {}};
  tensors["steps"] = {DType::kI64, {}, {}};
  std::uint64_t seed = 1;
  for (auto& [name, tensor] : tensors) {
    const std::uint64_t n_bytes = cfck::n_bytes(tensor.dtype, tensor.shape).value();
    tensor.values = weights(seed++, (n_bytes + 3) / 4);
    tensor.values.resize(n_bytes);
  }
  return tensors;
}

inline Tensors new_tensors(const Tensors& old, std::uint64_t seed = 7, std::uint64_t every = 50) {
  Tensors tensors = old;
  for (const char* name : {"large", "middle", "small"}) {
    tensors[name].values = stepped(old.at(name).values, seed++, every);
  }
  tensors["steps"].values[0] ^= std::byte{1};
  return tensors;
}

inline void add_to(Writer& writer, const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    expect_ok(writer.add(name, TensorView{tensor.dtype, tensor.shape, tensor.values}));
  }
}

inline std::shared_ptr<const Base> base_of(const Tensors& tensors) {
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) {
    named.push_back({name, {tensor.dtype, tensor.shape, tensor.values}});
  }
  return take(base_in_memory(named));
}

inline Bytes file_of(const Tensors& tensors, std::shared_ptr<const Base> base = nullptr) {
  EncodeOptions options;
  options.base = std::move(base);
  return write_file([&](Writer& writer) { add_to(writer, tensors); }, options);
}

// Saves `tensors` at folder/name, against folder/base_name if there is one.
inline void save(const std::string& path, const Tensors& tensors,
                 const std::string& base_path = {}) {
  put_bytes(path, file_of(tensors, base_path.empty() ? nullptr : take(open_base(base_path))));
}

inline std::map<std::string, Bytes> values_of(const Tensors& tensors) {
  std::map<std::string, Bytes> values;
  for (const auto& [name, tensor] : tensors) {
    values[name] = tensor.values;
  }
  return values;
}

}  // namespace cfck::test

// The quality of tensors in a file, computed from the values alone.
#pragma once

#include <algorithm>

#include "tests/support/bounded_tensors.hpp"

namespace cfck::test {

inline EncodeOptions small_chunks() {
  EncodeOptions options;
  options.chunk_elems = 1 << 16;
  return options;
}

struct Quality {
  double squared_errors = 0;
  double squares = 0;
  double range = 0;
  double n = 0;
  double bits = 0;

  double nmse() const { return squared_errors / squares; }
  double psnr() const { return 10 * std::log10(range * range / (squared_errors / n)); }
  double bits_per_weight() const { return bits / n; }
};

// Computes the quality from the values alone.
inline Quality quality_of(const OpenFile& file, const std::vector<Named>& tensors,
                          const std::vector<std::string>& names) {
  Quality quality;
  double min = kInfinity;
  double max = -kInfinity;
  for (const Named& tensor : tensors) {
    if (std::find(names.begin(), names.end(), tensor.name) == names.end()) continue;
    const std::vector<float> before = values_of<float>(tensor.bytes);
    const std::vector<float> after = values_of<float>(file.tensor(tensor.name));
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double x = before[i];
      quality.squared_errors += (x - after[i]) * (x - after[i]);
      quality.squares += x * x;
      min = std::min(min, x);
      max = std::max(max, x);
    }
    quality.n += static_cast<double>(before.size());
    quality.bits += 8 * static_cast<double>(file.record(tensor.name).stored_bytes);
  }
  quality.range = max - min;
  return quality;
}

}  // namespace cfck::test

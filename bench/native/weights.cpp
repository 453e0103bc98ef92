#include "bench/native/weights.hpp"

#include <algorithm>
#include <cmath>

#include "base/bytes.hpp"
#include "cfck/safetensors.hpp"

namespace cfck::bench {

std::size_t Weights::n_bytes() const {
  std::size_t total = 0;
  for (const Tensor& tensor : tensors) {
    total += tensor.values.size();
  }
  return total;
}

Result<Weights> read_weights(const std::string& path) {
  CFCK_TRY_ASSIGN(const std::unique_ptr<ByteSource> source, open_file(path));
  CFCK_TRY_ASSIGN(const SafetensorsHeader header, read_safetensors_header(*source));
  Weights weights;
  weights.file.resize(source->size());
  CFCK_TRY(source->read_at(0, weights.file));
  for (const SafetensorsEntry& entry : header.entries) {
    weights.tensors.push_back({entry.name, entry.dtype, entry.shape,
                               ByteView(weights.file).subspan(entry.offset_bytes, entry.n_bytes)});
  }
  return weights;
}

double value_range(const Tensor& tensor) {
  double low = INFINITY;
  double high = -INFINITY;
  for (std::size_t i = 0; i < tensor.values.size(); i += sizeof(float)) {
    const double x = load<float>(tensor.values.data() + i);
    if (std::isfinite(x)) {
      low = std::min(low, x);
      high = std::max(high, x);
    }
  }
  return high - low;
}

}  // namespace cfck::bench

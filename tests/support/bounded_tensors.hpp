// Tensors with maximum errors, and short ways to write them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/sample_tensors.hpp"

namespace cfck::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Sums of four uniform numbers, which resemble weights.
inline std::vector<float> bell(std::uint64_t seed, std::size_t n, double scale) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      sum += static_cast<double>(random.next() >> 11) * 0x1p-53 - 0.5;
    }
    value = static_cast<float>(sum * scale);
  }
  return values;
}

inline Bytes bytes_from(const std::vector<float>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return Bytes(first, first + values.size() * sizeof(float));
}

struct Named {
  std::string name;
  Shape shape;
  Bytes bytes;
  DType dtype = DType::kF32;
};

struct Written {
  Bytes file;
  WriteSummary summary;
};

inline Written write_all(const std::vector<Named>& tensors, const EncodeOptions& options) {
  Written written;
  MemorySink sink;
  Writer writer = take(Writer::create(sink, options));
  for (const Named& tensor : tensors) {
    expect_ok(writer.add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes}));
  }
  written.summary = take(writer.finish());
  written.file = sink.take();
  return written;
}

inline ErrorCode code_of(const std::vector<Named>& tensors, const EncodeOptions& options) {
  MemorySink sink;
  Result<Writer> writer = Writer::create(sink, options);
  if (!writer) {
    return writer.error().code;
  }
  for (const Named& tensor : tensors) {
    const auto added =
        writer->add(tensor.name, TensorView{tensor.dtype, tensor.shape, tensor.bytes});
    if (!added) {
      EXPECT_EQ(added.error().record, tensor.name);
      return added.error().code;
    }
  }
  return writer->finish() ? ErrorCode{} : ErrorCode::kIo;
}

inline std::map<std::string, std::string> reasons(const WriteSummary& summary) {
  std::map<std::string, std::string> found;
  for (const KeptLossless& kept : summary.kept_lossless) {
    found[kept.name] = lossless_reason_name(kept.reason);
  }
  return found;
}

inline EncodeOptions abs_options(double bound) {
  EncodeOptions options;
  options.max_abs_error = bound;
  return options;
}

inline double largest_error(const std::vector<float>& x, const std::vector<float>& y) {
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    // The difference of two F32 of similar size is exact in binary64.
    largest = std::max(largest, std::fabs(static_cast<double>(x[i]) - y[i]));
  }
  return largest;
}

}  // namespace cfck::test

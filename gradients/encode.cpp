#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "gradients/layout.hpp"
#include "gradients/rescale.hpp"
#include "gradients/workspace.hpp"

namespace cfck {
namespace gradients {
namespace {

// Gaps are integers, so that rounding a decoded one gives it back.
constexpr double kGapError = 0.49;
// By how much divisions and products of binary32 may be off, as a fraction of the value.
constexpr double kRounding = 0x1p-22;

Result<std::uint64_t> count_values(std::span<const SparseTensor> tensors) {
  std::uint64_t n_values = 0;
  for (const SparseTensor& tensor : tensors) {
    n_values += tensor.indices.size();
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max() / 8;
  if (tensors.size() > kMost / kTensorBytes || n_values > kMost) {
    return limit_exceeded("a packet has at most " + std::to_string(kMost) + " values");
  }
  return n_values;
}

Error wrong_tensor(std::size_t number, const std::string& what) {
  return invalid_argument("tensor " + std::to_string(number) + " of the packet " + what);
}

Result<void> check(std::span<const SparseTensor> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SparseTensor& tensor = tensors[i];
    if (tensor.indices.size() != tensor.values.size()) {
      return wrong_tensor(i, "has " + std::to_string(tensor.indices.size()) + " indices and " +
                                 std::to_string(tensor.values.size()) + " values");
    }
    std::uint64_t lowest = 0;
    for (const std::uint32_t index : tensor.indices) {
      if (index < lowest || index >= tensor.n_elems) {
        return wrong_tensor(i, "has indices that do not ascend, or are not below its " +
                                   std::to_string(tensor.n_elems) + " elements");
      }
      lowest = std::uint64_t{index} + 1;
    }
  }
  return {};
}

// Encodes a vector as a message at `at` of `out`; returns its length.
template <class T>
Result<std::uint32_t> append(const std::vector<T>& items, DType dtype, std::optional<double> error,
                             EncodeLevel level, MutableBytes out, std::size_t at,
                             MessageWorkspace& workspace) {
  MessageOptions options;
  options.level = level;
  if (error) {
    options.codec = CodecChoice::kDirect;
    options.max_abs_error = error;
  }
  const TensorView view{dtype, {items.size()}, std::as_bytes(std::span(items)), {}};
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes,
                  encode_message(view, options, out.subspan(at), workspace));
  return static_cast<std::uint32_t>(n_bytes);
}

class PacketEncoder {
 public:
  PacketEncoder(std::span<const SparseTensor> tensors, const GradientPacketOptions& options,
                MutableBytes out, std::span<float> decoded, GradientWorkspace::Memory& memory)
      : tensors_(tensors), options_(options), out_(out), decoded_(decoded), memory_(memory) {}

  Result<std::uint64_t> encode() {
    const std::size_t gaps_at = kHeaderBytes + kTensorBytes * tensors_.size();
    CFCK_TRY_ASSIGN(const std::uint32_t gap_bytes, write_gaps(gaps_at));
    const std::size_t values_at = gaps_at + gap_bytes;
    CFCK_TRY_ASSIGN(std::uint32_t value_bytes, write_values(options_.value_error, values_at));
    if (options_.value_error > 0 && !is_within_error()) {
      CFCK_TRY_ASSIGN(value_bytes, write_values(0, values_at));
    }
    write_header(static_cast<std::uint32_t>(tensors_.size()), gap_bytes, value_bytes, out_.data());
    const std::size_t n_bytes = values_at + value_bytes;
    store<std::uint64_t>(out_.data() + n_bytes, tiled_hash64(out_.first(n_bytes)));
    return n_bytes + kHashBytes;
  }

 private:
  Result<std::uint32_t> write_gaps(std::size_t at) {
    memory_.integers.clear();
    std::uint32_t largest = 0;
    for (const SparseTensor& tensor : tensors_) {
      std::uint32_t next = 0;
      for (const std::uint32_t index : tensor.indices) {
        memory_.integers.push_back(index - next);
        largest = std::max(largest, index - next);
        next = index + 1;
      }
    }
    if (memory_.integers.empty()) {
      return 0U;
    }
    if (largest >= kMaxFloatGap) {
      return append(memory_.integers, DType::kU32, std::nullopt, options_.level, out_, at,
                    memory_.messages);
    }
    memory_.floats.assign(memory_.integers.begin(), memory_.integers.end());
    return append(memory_.floats, DType::kF32, kGapError, options_.level, out_, at,
                  memory_.messages);
  }

  // Writes the table, too, and puts what is decoded into `decoded`.
  Result<std::uint32_t> write_values(double error, std::size_t at) {
    memory_.floats.clear();
    double largest = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const SparseTensor& tensor = tensors_[i];
      const float scale = error > 0 ? scale_of(tensor.values) : 1.0F;
      write_tensor({tensor.n_elems, static_cast<std::uint32_t>(tensor.values.size())}, scale,
                   out_.data() + kHeaderBytes + kTensorBytes * i);
      for (const float value : tensor.values) {
        const float unit = to_unit(value, scale);
        memory_.floats.push_back(unit);
        largest = std::isfinite(unit) ? std::max(largest, std::abs(double{unit})) : largest;
      }
    }
    if (memory_.floats.empty()) {
      return 0U;
    }
    const double of_units = error - kRounding * largest;
    const auto bound = of_units > 0 ? std::optional<double>(of_units) : std::nullopt;
    CFCK_TRY_ASSIGN(
        const std::uint32_t n_bytes,
        append(memory_.floats, DType::kF32, bound, options_.level, out_, at, memory_.messages));
    CFCK_TRY(decode_message(out_.subspan(at, n_bytes), std::as_writable_bytes(decoded_),
                            memory_.messages));
    std::size_t value = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const float scale = load<float>(out_.data() + kHeaderBytes + kTensorBytes * i + 8);
      for (std::size_t n = tensors_[i].values.size(); n > 0; --n, ++value) {
        decoded_[value] = from_unit(decoded_[value], scale);
      }
    }
    return n_bytes;
  }

  // The root mean square of the finite values.
  static float scale_of(std::span<const float> values) {
    double squares = 0;
    std::size_t n = 0;
    for (const float value : values) {
      if (std::isfinite(value)) {
        squares += double{value} * value;
        ++n;
      }
    }
    const auto scale = static_cast<float>(n == 0 ? 0 : std::sqrt(squares / double(n)));
    return scale > 0 && std::isfinite(scale) ? scale : 1.0F;
  }

  // The bound is checked on what is decoded: differences of two binary32 are rounded in binary64 by
  // less than what `kSlack` leaves.
  bool is_within_error() const {
    constexpr double kSlack = 1 - 0x1p-50;
    std::size_t at = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const double scale = load<float>(out_.data() + kHeaderBytes + kTensorBytes * i + 8);
      const double bound = options_.value_error * scale * kSlack;
      for (const float value : tensors_[i].values) {
        const float found = decoded_[at++];
        if (std::isfinite(value) && !(std::abs(double{found} - value) <= bound)) {
          return false;
        }
      }
    }
    return true;
  }

  const std::span<const SparseTensor> tensors_;
  const GradientPacketOptions& options_;
  const MutableBytes out_;
  const std::span<float> decoded_;
  GradientWorkspace::Memory& memory_;
};

Result<std::uint64_t> most_bytes(std::size_t n_tensors, std::uint64_t n_values) {
  const std::uint64_t fixed = kHeaderBytes + kTensorBytes * n_tensors + kHashBytes;
  if (n_values == 0) {
    return fixed;
  }
  CFCK_TRY_ASSIGN(const std::uint64_t of_message,
                  max_message_bytes(MessageOptions(), DType::kF32, {n_values}));
  return fixed + 2 * of_message;
}

}  // namespace
}  // namespace gradients

Result<std::uint64_t> max_gradient_packet_bytes(std::span<const SparseTensor> tensors) {
  return detail::run_guarded([&]() -> Result<std::uint64_t> {
    CFCK_TRY_ASSIGN(const std::uint64_t n_values, gradients::count_values(tensors));
    return gradients::most_bytes(tensors.size(), n_values);
  });
}

Result<std::uint64_t> encode_gradients(std::span<const SparseTensor> tensors,
                                       const GradientPacketOptions& options, MutableBytes out,
                                       std::span<float> decoded, GradientWorkspace& workspace) {
  return detail::run_guarded([&]() -> Result<std::uint64_t> {
    if (!(options.value_error >= 0 && std::isfinite(options.value_error))) {
      return invalid_argument("value_error is 0 or a positive number");
    }
    CFCK_TRY_ASSIGN(const std::uint64_t n_values, gradients::count_values(tensors));
    CFCK_TRY(gradients::check(tensors));
    CFCK_TRY_ASSIGN(const std::uint64_t most, gradients::most_bytes(tensors.size(), n_values));
    if (out.size() < most) {
      return invalid_argument("the packet may take " + std::to_string(most) +
                              " bytes, and there is space for " + std::to_string(out.size()) +
                              "; ask max_gradient_packet_bytes()");
    }
    if (decoded.size() != n_values) {
      return invalid_argument("the packet has " + std::to_string(n_values) +
                              " values, and there is space for " + std::to_string(decoded.size()) +
                              " decoded ones");
    }
    const ByteView packet = out.first(most);
    CFCK_TRY(check_apart(std::as_bytes(decoded), packet, "the packet"));
    for (const SparseTensor& tensor : tensors) {
      for (const ByteView result : {packet, ByteView(std::as_bytes(decoded))}) {
        CFCK_TRY(check_apart(result, std::as_bytes(tensor.indices), "the indices"));
        CFCK_TRY(check_apart(result, std::as_bytes(tensor.values), "the values"));
      }
    }
    return gradients::PacketEncoder(tensors, options, out, decoded, GradientMemory::of(workspace))
        .encode();
  });
}

}  // namespace cfck

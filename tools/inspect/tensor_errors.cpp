#include "tools/inspect/tensor_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/measure/values.hpp"

namespace cfck::tools {

// Processes the two tensors leaf by leaf.
class ErrorScan {
 public:
  ErrorScan(DType dtype, TensorErrors& sums)
      : decoder_(dtype),
        bits_(bits_per_element(dtype)),
        is_integer_(is_integer(dtype)),
        part_bytes_(bits_per_element(dtype) / (8 * decoder_.parts())),
        sums_(sums) {
    const std::size_t most = kLeafElems * decoder_.parts();
    for (auto* list : {&values_, &reference_, &errors_}) list->resize(most);
    for (auto* list : {&keys_, &reference_keys_}) list->resize(most);
  }

  void add_leaves(ByteView bytes, ByteView reference_bytes, std::uint64_t n_elems) {
    const unsigned bits = bits_;
    for (std::uint64_t done = 0; done < n_elems; done += kLeafElems) {
      const std::uint64_t part = std::min(kLeafElems, n_elems - done);
      const std::size_t at = done * bits / 8;
      const std::size_t part_bytes = (part * bits + 7) / 8;
      add(bytes.subspan(at, part_bytes), reference_bytes.subspan(at, part_bytes), part);
    }
  }

 private:
  void add(ByteView bytes, ByteView reference_bytes, std::size_t n_elems) {
    const std::size_t n_values = n_elems * decoder_.parts();
    decoder_.decode(bytes, first(values_, n_values), first(keys_, n_values));
    decoder_.decode(reference_bytes, first(reference_, n_values), first(reference_keys_, n_values));
    sums_.n_values_ += n_values;
    const std::size_t n_finite = keep_finite(bytes, reference_bytes, n_values);
    for (std::size_t i = 0; i < n_finite; ++i) {
      sums_.min_ = std::min(sums_.min_, reference_[i]);
      sums_.most_ = std::max(sums_.most_, reference_[i]);
    }
    sums_.n_finite_ += n_finite;
    const auto values = first(values_, n_finite);
    const auto reference = first(reference_, n_finite);
    sums_.product_.add_products(values, reference);
    sums_.norm_.add_products(values, values);
    sums_.reference_norm_.add_products(reference, reference);
    add_errors(n_finite);
  }

  template <class T>
  static std::span<T> first(std::vector<T>& list, std::size_t count) {
    return std::span(list).first(count);
  }

  // Moves the pairs of finite values to the front. The range of the reference is
  // that of all its finite values.
  std::size_t keep_finite(ByteView bytes, ByteView reference_bytes, std::size_t n_values) {
    std::size_t n_finite = 0;
    for (std::size_t i = 0; i < n_values; ++i) {
      if (std::isfinite(values_[i]) && std::isfinite(reference_[i])) {
        values_[n_finite] = values_[i];
        reference_[n_finite] = reference_[i];
        keys_[n_finite] = keys_[i];
        reference_keys_[n_finite] = reference_keys_[i];
        ++n_finite;
        continue;
      }
      const std::size_t at = i * part_bytes_;
      if (std::memcmp(bytes.data() + at, reference_bytes.data() + at, part_bytes_) != 0) {
        sums_.n_special_mismatches_ += 1;
      }
      if (std::isfinite(reference_[i])) {
        sums_.min_ = std::min(sums_.min_, reference_[i]);
        sums_.most_ = std::max(sums_.most_, reference_[i]);
      }
    }
    return n_finite;
  }

  void add_errors(std::size_t count) {
    double largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_integer_) {
        const auto [low, high] = std::minmax(keys_[i], reference_keys_[i]);
        errors_[i] = static_cast<double>(high - low);
      } else {
        errors_[i] = std::fabs(values_[i] - reference_[i]);
      }
      largest = std::max(largest, errors_[i]);
    }
    sums_.max_abs_ = std::max(sums_.max_abs_, largest);
    const auto errors = first(errors_, count);
    if (std::isfinite(largest)) {
      sums_.squares_.add_products(errors, errors);
      return;
    }
    // The difference of two doubles may be too large for one; half of it is not.
    for (std::size_t i = 0; i < count; ++i) errors_[i] = values_[i] / 2 - reference_[i] / 2;
    ScaledSum quarter;
    quarter.add_products(errors, errors);
    for (int i = 0; i < 4; ++i) sums_.squares_.add(quarter);
  }

  ValueDecoder decoder_;
  unsigned bits_;
  bool is_integer_;
  std::size_t part_bytes_;  // of types that have NaN or infinities
  TensorErrors& sums_;
  std::vector<double> values_, reference_, errors_;
  std::vector<std::uint64_t> keys_, reference_keys_;
};

Result<TensorErrors> TensorErrors::measure(const TensorSet& set, const StoredTensor& tensor,
                                           const TensorSet& reference_set,
                                           const StoredTensor& reference, BoundCheck* check) {
  TensorErrors sums;
  const unsigned bits = bits_per_element(tensor.dtype);
  if (bits == 0) {
    return unsupported("a dtype of a newer version of cfck").in_record(tensor.name);
  }
  ErrorScan scan(tensor.dtype, sums);
  if (check == nullptr && tensor.repeats() && tensor.once_shape == reference.once_shape) {
    CFCK_TRY(measure_once(set, tensor, reference_set, reference, scan));
    return finished(sums);
  }
  CFCK_TRY(set.check_alias_bytes(tensor, tensor.n_bytes));
  CFCK_TRY(reference_set.check_alias_bytes(reference, reference.n_bytes));
  const std::uint64_t most = std::min(piece_elems(tensor), tensor.n_elems);
  std::vector<std::byte> buffers[2];
  for (auto& buffer : buffers) buffer.resize((most * bits + 7) / 8);
  for (std::uint64_t first = 0; first < tensor.n_elems; first += most) {
    CFCK_TRY(check_interrupt());
    const std::uint64_t count = std::min(most, tensor.n_elems - first);
    const std::size_t n_bytes = (count * bits + 7) / 8;
    CFCK_TRY(set.read(tensor, first, count, std::span(buffers[0]).first(n_bytes)));
    CFCK_TRY(reference_set.read(reference, first, count, std::span(buffers[1]).first(n_bytes)));
    if (check != nullptr) {
      CFCK_TRY(
          check->add(std::span(buffers[0]).first(n_bytes), std::span(buffers[1]).first(n_bytes)));
    }
    scan.add_leaves(buffers[0], buffers[1], count);
  }
  return finished(sums);
}

// For two tensors that repeat equal elements, measures those that are stored.
Result<void> TensorErrors::measure_once(const TensorSet& set, const StoredTensor& tensor,
                                        const TensorSet& reference_set,
                                        const StoredTensor& reference, ErrorScan& scan) {
  const unsigned bits = bits_per_element(tensor.dtype);
  CFCK_TRY(set.check_alias_bytes(tensor, tensor.n_once / 8 * bits));
  const std::uint64_t most = std::min(piece_elems(tensor), tensor.n_once);
  std::vector<std::byte> buffers[2];
  for (auto& buffer : buffers) buffer.resize((most * bits + 7) / 8);
  return for_each_box(
      tensor.once_shape, most,
      [&](std::span<const std::uint64_t> starts, std::span<const std::uint64_t> stops,
          std::uint64_t n) -> Result<void> {
        CFCK_TRY(check_interrupt());
        const std::size_t n_bytes = (n * bits + 7) / 8;
        CFCK_TRY(set.read_box(tensor, starts, stops, std::span(buffers[0]).first(n_bytes)));
        CFCK_TRY(
            reference_set.read_box(reference, starts, stops, std::span(buffers[1]).first(n_bytes)));
        scan.add_leaves(buffers[0], buffers[1], n);
        return {};
      });
}

TensorErrors TensorErrors::finished(TensorErrors sums) {
  if (sums.max_abs_ > 0) {
    const double range = sums.most_ - sums.min_;
    sums.max_rel_ = std::isfinite(range) ? sums.max_abs_ / range
                                         : sums.max_abs_ / 2 / (sums.most_ / 2 - sums.min_ / 2);
  }
  return sums;
}

void TensorErrors::add(const TensorErrors& other) {
  n_values_ += other.n_values_;
  n_finite_ += other.n_finite_;
  n_special_mismatches_ += other.n_special_mismatches_;
  max_abs_ = std::max(max_abs_, other.max_abs_);
  max_rel_ = std::max(max_rel_, other.max_rel_);
  min_ = std::min(min_, other.min_);
  most_ = std::max(most_, other.most_);
  squares_.add(other.squares_);
  product_.add(other.product_);
  norm_.add(other.norm_);
  reference_norm_.add(other.reference_norm_);
}

double TensorErrors::rmse() const { return n_finite_ == 0 ? 0 : squares_.root_mean(n_finite_); }

double TensorErrors::psnr() const {
  if (squares_.is_zero()) return std::numeric_limits<double>::infinity();
  const double range = most_ - min_;
  const double log_range =
      std::isfinite(range) ? std::log10(range) : std::log10(most_ / 2 - min_ / 2) + std::log10(2);
  return 20 * (log_range - std::log10(rmse()));
}

double TensorErrors::nmse() const {
  if (squares_.is_zero()) return -std::numeric_limits<double>::infinity();
  if (reference_norm_.is_zero()) return std::numeric_limits<double>::infinity();
  return 20 * (std::log10(rmse()) - std::log10(reference_norm_.root_mean(n_finite_)));
}

double TensorErrors::cosine() const {
  if (norm_.is_zero() || reference_norm_.is_zero()) {
    return norm_.is_zero() == reference_norm_.is_zero() ? 1 : 0;
  }
  return std::clamp(ScaledSum::cosine(product_, norm_, reference_norm_), -1.0, 1.0);
}

nlohmann::ordered_json TensorErrors::json() const {
  return {{"n_values", n_values_},
          {"n_special_mismatches", n_special_mismatches_},
          {"max_abs_error", number_json(max_abs())},
          {"max_rel_error", number_json(max_rel())},
          {"rmse", number_json(rmse())},
          {"psnr", number_json(psnr())},
          {"nmse_db", number_json(nmse())},
          {"cosine", number_json(cosine())}};
}

std::string TensorErrors::text() const {
  std::string text = fmt::format(
      "max abs {:.6g}  max rel {:.6g}  RMSE {:.6g}  PSNR {:.2f} dB  NMSE {:.2f} dB  "
      "cosine {:.9f}",
      max_abs(), max_rel(), rmse(), psnr(), nmse(), cosine());
  if (n_special_mismatches_ > 0) {
    text += fmt::format("  NaN or Inf differ {}", n_special_mismatches_);
  }
  return text;
}

nlohmann::ordered_json number_json(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

}  // namespace cfck::tools

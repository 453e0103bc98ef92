#include "tools/inspect/tensor_stats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/inspect/key_selector.hpp"
#include "tools/measure/scaled_sum.hpp"

namespace cfck::tools {
namespace {

// Tensors up to this size are kept between passes.
constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxBins = 20;
// The end of the histogram: one outlier should not hide the rest.
constexpr double kShownDeviations = 4;

class StatsScan {
 public:
  StatsScan(const TensorSet& set, const StoredTensor& tensor)
      : set_(set),
        tensor_(tensor),
        decoder_(tensor.dtype),
        selector_(decoder_.key_bits(), tensor.n_once * decoder_.parts()),
        values_(kLeafElems * decoder_.parts()),
        keys_(values_.size()) {}

  Result<TensorStats> run() {
    CFCK_TRY(for_each_leaf([&](std::size_t n_values) { count_leaf(n_values); }));
    if (stats_.n_finite == 0) return stats_;
    finish_counts();
    if (min_key_ == most_key_) {
      finish_constant();
      return stats_;
    }
    CFCK_TRY(for_each_leaf([&](std::size_t n_values) { second_leaf(n_values); }));
    selector_.end_pass();
    stats_.standard_deviation = squares_.root_mean(stats_.n_finite, scale_.exponent());
    choose_bins();
    CFCK_TRY(for_each_leaf([&](std::size_t n_values) { third_leaf(n_values); }));
    selector_.end_pass();
    while (!selector_.done()) {
      CFCK_TRY(for_each_leaf(
          [&](std::size_t n_values) { selector_.add(finite_keys(keep_finite(n_values))); }));
      selector_.end_pass();
    }
    finish_quantiles();
    return stats_;
  }

 private:
  template <class TakeLeaf>
  Result<void> for_each_leaf(const TakeLeaf& take_leaf) {
    const unsigned bits = bits_per_element(tensor_.dtype);
    const std::size_t leaf_bytes = kLeafElems * bits / 8;
    const auto take = [&](ByteView bytes) {
      for (std::size_t at = 0; at < bytes.size(); at += leaf_bytes) {
        const ByteView leaf = bytes.subspan(at, std::min(leaf_bytes, bytes.size() - at));
        const std::size_t n_values = leaf.size() * 8 / bits * decoder_.parts();
        decoder_.decode(leaf, std::span(values_).first(n_values), std::span(keys_).first(n_values));
        take_leaf(n_values);
      }
    };
    if (!kept_.empty()) {
      take(kept_);
      return {};
    }
    const std::uint64_t n_bytes = tensor_.n_once / 8 * bits + tensor_.n_once % 8 * bits / 8;
    const bool keeps = n_bytes <= kMaxKeptBytes;
    if (keeps) kept_.reserve(n_bytes);
    return set_.read_once(tensor_, [&](ByteView bytes) -> Result<void> {
      if (keeps) kept_.insert(kept_.end(), bytes.begin(), bytes.end());
      take(bytes);
      return {};
    });
  }

  // Moves finite values and their keys to the front.
  std::size_t keep_finite(std::size_t n_values) {
    std::size_t n_finite = 0;
    for (std::size_t i = 0; i < n_values; ++i) {
      if (!std::isfinite(values_[i])) continue;
      values_[n_finite] = values_[i];
      keys_[n_finite++] = keys_[i];
    }
    return n_finite;
  }
  std::span<const double> finite_values(std::size_t count) const {
    return std::span(values_).first(count);
  }
  std::span<const std::uint64_t> finite_keys(std::size_t count) const {
    return std::span(keys_).first(count);
  }

  void count_leaf(std::size_t n_values) {
    for (const double value : finite_values(n_values)) {
      stats_.n_zeros += value == 0;
      stats_.n_nan += std::isnan(value);
      stats_.n_positive_inf += value == std::numeric_limits<double>::infinity();
      stats_.n_negative_inf += value == -std::numeric_limits<double>::infinity();
    }
    const std::size_t n_finite = keep_finite(n_values);
    stats_.n_finite += n_finite;
    for (const std::uint64_t key : finite_keys(n_finite)) {
      min_key_ = std::min(min_key_, key);
      most_key_ = std::max(most_key_, key);
    }
    sum_.add_values(finite_values(n_finite));
    selector_.add(finite_keys(n_finite));
  }

  void finish_counts() {
    stats_.min = decoder_.number_of(min_key_);
    stats_.max = decoder_.number_of(most_key_);
    stats_.mean = std::clamp(sum_.mean(stats_.n_finite), stats_.min.real, stats_.max.real);
    scale_ = Scale(std::max(std::fabs(stats_.min.real), std::fabs(stats_.max.real)));
    const std::uint64_t last = stats_.n_finite - 1;
    std::vector<std::uint64_t> ranks;
    for (const unsigned percent : kPercents) {
      // percent / 100 * last, without overflow.
      const std::uint64_t rest = last % 100 * percent;
      const std::uint64_t rank = last / 100 * percent + rest / 100;
      fractions_.push_back(static_cast<double>(rest % 100) / 100);
      ranks.push_back(rank);
      ranks.push_back(std::min(rank + 1, last));
    }
    // Ranks of neighbours may overlap; the selector wants them ascending.
    ranks_ = ranks;
    std::sort(ranks.begin(), ranks.end());
    sorted_ranks_ = ranks;
    selector_.end_first_pass(ranks);
  }

  void finish_constant() {
    stats_.mean = stats_.min.real;
    stats_.quantiles.fill(stats_.min);
    stats_.histogram = {stats_.min.real, stats_.max.real, {stats_.n_finite}};
  }

  void second_leaf(std::size_t n_values) {
    const std::size_t n_finite = keep_finite(n_values);
    selector_.add(finite_keys(n_finite));
    const double mean = scale_(stats_.mean);
    for (std::size_t i = 0; i < n_finite; ++i) values_[i] = scale_(values_[i]) - mean;
    squares_.add_products(finite_values(n_finite), finite_values(n_finite));
  }

  void choose_bins() {
    Histogram& histogram = stats_.histogram;
    const double margin = kShownDeviations * stats_.standard_deviation;
    histogram.low = std::max(stats_.min.real, stats_.mean - margin);
    histogram.high = std::min(stats_.max.real, stats_.mean + margin);
    std::size_t n_bins = kMaxBins;
    if (is_integer(tensor_.dtype)) {
      // There is a bin for each integer where they are few.
      histogram.low = std::floor(histogram.low);
      histogram.high = std::floor(histogram.high) + 1;
      const double n_integers = histogram.high - histogram.low;
      // Above 2^53 one more is not another number.
      const double n_wanted = std::max(1.0, n_integers);
      if (n_wanted < static_cast<double>(n_bins)) n_bins = static_cast<std::size_t>(n_wanted);
    }
    histogram.counts.assign(n_bins, 0);
  }

  void third_leaf(std::size_t n_values) {
    const std::size_t n_finite = keep_finite(n_values);
    selector_.add(finite_keys(n_finite));
    Histogram& histogram = stats_.histogram;
    const double low = scale_(histogram.low);
    const double width = scale_(histogram.high) - low;
    const auto n_bins = static_cast<double>(histogram.counts.size());
    for (const double value : finite_values(n_finite)) {
      const double place = width > 0 ? (scale_(value) - low) / width * n_bins : 0;
      const double bin = std::clamp(std::floor(place), 0.0, n_bins - 1);
      histogram.counts[static_cast<std::size_t>(bin)] += 1;
    }
  }

  void finish_quantiles() {
    const std::vector<std::uint64_t> found = selector_.found();
    const auto key_at = [&](std::uint64_t rank) {
      const auto place = std::lower_bound(sorted_ranks_.begin(), sorted_ranks_.end(), rank);
      return found[static_cast<std::size_t>(place - sorted_ranks_.begin())];
    };
    for (std::size_t i = 0; i < kPercents.size(); ++i) {
      const Number lower = decoder_.number_of(key_at(ranks_[2 * i]));
      const Number upper = decoder_.number_of(key_at(ranks_[2 * i + 1]));
      const double fraction = fractions_[i];
      stats_.quantiles[i] = lower;
      if (fraction == 0 || lower.real == upper.real) continue;
      const double between = lower.real * (1 - fraction) + upper.real * fraction;
      stats_.quantiles[i] = {Number::Kind::kReal, between, 0};
    }
  }

  const TensorSet& set_;
  const StoredTensor& tensor_;
  ValueDecoder decoder_;
  KeySelector selector_;
  std::vector<double> values_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::byte> kept_;
  TensorStats stats_;
  std::uint64_t min_key_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most_key_ = 0;
  ScaledSum sum_;
  ScaledSum squares_;
  Scale scale_{1.0};
  std::vector<std::uint64_t> ranks_;  // two for each of kPercents
  std::vector<std::uint64_t> sorted_ranks_;
  std::vector<double> fractions_;
};

}  // namespace

Result<TensorStats> tensor_stats(const TensorSet& set, const StoredTensor& tensor) {
  if (bits_per_element(tensor.dtype) == 0) {
    return unsupported("a dtype of a newer version of cfck").in_record(tensor.name);
  }
  return StatsScan(set, tensor).run();
}

}  // namespace cfck::tools

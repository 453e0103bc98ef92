#include "tools/report/contents/value_scan.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "tools/measure/values.hpp"

namespace cfck::tools::report {
namespace {

class Scan {
 public:
  Scan(DType dtype, const TensorStats& stats, bool has_reference)
      : decoder_(dtype),
        bits_(bits_per_element(dtype)),
        has_reference_(has_reference),
        mean_(stats.mean),
        deviation_(stats.standard_deviation) {
    const double margin = kShownDeviations * deviation_;
    found_.low = std::max(stats.min.real, mean_ - margin);
    found_.high = std::min(stats.max.real, mean_ + margin);
    found_.after.assign(kBins, 0);
    if (has_reference_) found_.before.assign(kBins, 0);
    const std::size_t most = kLeafElems * decoder_.parts();
    for (auto* list : {&after_, &before_}) list->resize(most);
    keys_.resize(most);
  }

  // `before` is empty without a reference.
  void add_leaves(ByteView after, ByteView before, std::uint64_t n_elems) {
    for (std::uint64_t done = 0; done < n_elems; done += kLeafElems) {
      const std::uint64_t part = std::min(kLeafElems, n_elems - done);
      const std::size_t at = done * bits_ / 8;
      const std::size_t n_bytes = (part * bits_ + 7) / 8;
      const std::size_t n_values = part * decoder_.parts();
      decode(after.subspan(at, n_bytes), after_, n_values);
      if (has_reference_) decode(before.subspan(at, n_bytes), before_, n_values);
      add(n_values);
      position_ += n_values;
    }
  }

  ValueScan finish() { return std::move(found_); }

 private:
  void decode(ByteView bytes, std::vector<double>& values, std::size_t n_values) {
    decoder_.decode(bytes, std::span(values).first(n_values), std::span(keys_).first(n_values));
  }

  void add(std::size_t n_values) {
    const std::vector<double>& original = has_reference_ ? before_ : after_;
    for (std::size_t i = 0; i < n_values; ++i) {
      count(after_[i], found_.after);
      if (has_reference_) {
        count(before_[i], found_.before);
        add_error(i);
      }
      if (!std::isfinite(original[i])) continue;
      const double distance = std::fabs(original[i] / deviation_ - mean_ / deviation_);
      found_.farthest = std::max(found_.farthest, distance);
      found_.n_far += distance > kFarDeviations ? 1 : 0;
    }
  }

  // Halves do not overflow where differences might.
  void count(double value, std::vector<std::uint64_t>& counts) const {
    if (!(value >= found_.low && value <= found_.high)) return;
    const double width = found_.high / 2 - found_.low / 2;
    const double place = (value / 2 - found_.low / 2) / width * static_cast<double>(kBins);
    counts[std::min(static_cast<std::size_t>(place), kBins - 1)] += 1;
  }

  void add_error(std::size_t i) {
    const double error = std::fabs(after_[i] - before_[i]);
    if (!(error > smallest_kept_)) return;  // NaN too
    const auto size = [](const PointError& some) { return std::fabs(some.after - some.before); };
    auto& errors = found_.largest_errors;
    const auto place = std::find_if(errors.begin(), errors.end(),
                                    [&](const PointError& some) { return error > size(some); });
    errors.insert(place, {position_ + i, before_[i], after_[i]});
    if (errors.size() > kMaxErrors) errors.pop_back();
    if (errors.size() == kMaxErrors) smallest_kept_ = size(errors.back());
  }

  ValueDecoder decoder_;
  const unsigned bits_;
  const bool has_reference_;
  const double mean_;
  const double deviation_;
  ValueScan found_;
  std::vector<double> after_, before_;
  std::vector<std::uint64_t> keys_;
  std::uint64_t position_ = 0;
  double smallest_kept_ = 0;
};

}  // namespace

Result<ValueScan> scan_values(const TensorSet& set, const StoredTensor& tensor,
                              const TensorSet* reference_set, const StoredTensor* reference,
                              const TensorStats& stats) {
  Scan scan(tensor.dtype, stats, reference != nullptr);
  const unsigned bits = bits_per_element(tensor.dtype);
  CFCK_TRY(set.check_alias_bytes(tensor, tensor.n_bytes));
  if (reference != nullptr) {
    CFCK_TRY(reference_set->check_alias_bytes(*reference, reference->n_bytes));
  }
  const std::uint64_t most = std::min(piece_elems(tensor), tensor.n_elems);
  std::vector<std::byte> after((most * bits + 7) / 8);
  std::vector<std::byte> before(reference != nullptr ? after.size() : 0);
  for (std::uint64_t first = 0; first < tensor.n_elems; first += most) {
    CFCK_TRY(check_interrupt());
    const std::uint64_t count = std::min(most, tensor.n_elems - first);
    const std::size_t n_bytes = (count * bits + 7) / 8;
    CFCK_TRY(set.read(tensor, first, count, std::span(after).first(n_bytes)));
    if (reference != nullptr) {
      CFCK_TRY(reference_set->read(*reference, first, count, std::span(before).first(n_bytes)));
    }
    scan.add_leaves(after, before, count);
  }
  return scan.finish();
}

}  // namespace cfck::tools::report

#include "format/write/sharing/covered_places.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/bytes.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kWordBits = 64;
// A number of bits that is always allowed: 256 MiB of them.
constexpr std::uint64_t kBitsAlwaysAllowed = std::uint64_t{1} << 31;

using Axis = StridedRange::Axis;

// Returns the axes of the same places in units of `step`, innermost first. Axes are joined where
// one reaches over the other's steps, so that a matrix or its windows become one run.
std::vector<Axis> joined_axes(const StridedRange& view, std::uint64_t step) {
  std::vector<Axis> axes = view.axes;
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  std::vector<Axis> joined;
  for (Axis axis : axes) {
    axis.stride /= step;
    if (!joined.empty() && axis.stride % joined.back().stride == 0) {
      Axis& inner = joined.back();
      const std::uint64_t n_steps = axis.stride / inner.stride;
      // A run may be continued where it ends. The places between the steps of longer strides may
      // differ there, so these have to overlap.
      if (n_steps < inner.size || (inner.stride == 1 && n_steps == inner.size)) {
        inner.size += (axis.size - 1) * n_steps;
        continue;
      }
    }
    joined.push_back(axis);
  }
  return joined;
}

std::uint64_t common_step(std::span<const StridedRange* const> views, std::uint64_t start) {
  std::uint64_t step = 0;
  for (const StridedRange* view : views) {
    step = std::gcd(step, view->start - start);
    for (const Axis& axis : view->axes) {
      step = std::gcd(step, axis.stride);
    }
  }
  return std::max<std::uint64_t>(step, 1);
}

// True if views that are a single run cover everything up to `end`.
bool runs_cover(std::span<const StridedRange* const> views, std::uint64_t start,
                std::uint64_t end) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
  for (const StridedRange* view : views) {
    const std::vector<Axis> axes = joined_axes(*view, 1);
    if (axes.empty() || (axes.size() == 1 && axes[0].stride == 1)) {
      runs.emplace_back(view->start, view->start + view->covered);
    }
  }
  std::sort(runs.begin(), runs.end());
  std::uint64_t reached = start;
  for (const auto& [first, last] : runs) {
    if (first > reached) {
      return false;
    }
    reached = std::max(reached, last);
  }
  return reached == end;
}

// Calls `at(place, sums)` for the first place of each run of a view, whose axes are joined, and
// for the number of its step along each axis.
template <class Function>
bool for_each_run(std::span<const Axis> outer, std::uint64_t first, const Function& at) {
  std::vector<std::uint64_t> index(outer.size());
  std::uint64_t place = first;
  while (true) {
    if (!at(place, index)) {
      return false;
    }
    std::size_t i = 0;
    for (; i < outer.size(); ++i) {
      place += outer[i].stride;
      if (++index[i] < outer[i].size) {
        break;
      }
      place -= outer[i].size * outer[i].stride;
      index[i] = 0;
    }
    if (i == outer.size()) {
      return true;
    }
  }
}

// Splits off the run: returns its length, and leaves the axes outside of it.
std::uint64_t take_run(std::vector<Axis>& axes) {
  if (axes.empty() || axes.front().stride != 1) {
    return 1;
  }
  const std::uint64_t length = axes.front().size;
  axes.erase(axes.begin());
  return length;
}

}  // namespace

std::optional<CoveredPlaces> CoveredPlaces::of(std::span<const StridedRange* const> views,
                                               std::uint64_t elem_bytes) {
  CoveredPlaces places;
  std::uint64_t end = 0;
  places.start_ = views.front()->start;
  for (const StridedRange* view : views) {
    places.start_ = std::min(places.start_, view->start);
    end = std::max(end, view->start + view->covered);
  }
  if (runs_cover(views, places.start_, end)) {
    places.is_dense_ = true;
    places.n_places_ = end - places.start_;
    return places;
  }
  places.step_ = common_step(views, places.start_);
  const std::uint64_t n_steps = (end - 1 - places.start_) / places.step_ + 1;
  if (n_steps > kBitsAlwaysAllowed) {
    std::uint64_t view_bytes = 0;
    for (const StridedRange* view : views) {
      std::uint64_t n_bytes = elem_bytes;
      for (const Axis& axis : joined_axes(*view, places.step_)) {
        if (!checked_mul(n_bytes, axis.size, n_bytes)) {
          n_bytes = std::numeric_limits<std::uint64_t>::max() / 2;
        }
      }
      if (!checked_add(view_bytes, n_bytes, view_bytes)) {
        view_bytes = std::numeric_limits<std::uint64_t>::max();
      }
    }
    if (n_steps > view_bytes) {
      return std::nullopt;
    }
  }
  places.bits_.resize((n_steps - 1) / kWordBits + 1);
  for (const StridedRange* view : views) {
    places.mark(*view);
  }
  places.count();
  places.is_dense_ = places.step_ == 1 && places.n_places_ == n_steps;
  return places;
}

void CoveredPlaces::mark(const StridedRange& view) {
  std::vector<Axis> axes = joined_axes(view, step_);
  const std::uint64_t length = take_run(axes);
  for_each_run(axes, (view.start - start_) / step_, [&](std::uint64_t first, const auto&) {
    for (std::uint64_t place = first; place < first + length;) {
      const std::uint64_t bit = place % kWordBits;
      const std::uint64_t n = std::min(kWordBits - bit, first + length - place);
      bits_[place / kWordBits] |= (~std::uint64_t{0} >> (kWordBits - n)) << bit;
      place += n;
    }
    return true;
  });
}

void CoveredPlaces::count() {
  before_.reserve(bits_.size());
  for (const std::uint64_t word : bits_) {
    before_.push_back(n_places_);
    n_places_ += static_cast<unsigned>(std::popcount(word));
  }
}

std::uint64_t CoveredPlaces::rank(std::uint64_t place) const {
  const std::uint64_t word = bits_[place / kWordBits];
  const std::uint64_t below = word & ((std::uint64_t{1} << place % kWordBits) - 1);
  return before_[place / kWordBits] + static_cast<unsigned>(std::popcount(below));
}

std::optional<CompactView> CoveredPlaces::compact(const StridedRange& view) const {
  CompactView result;
  const std::uint64_t first = (view.start - start_) / step_;
  if (bits_.empty()) {
    result.start = first;
    for (const Axis& axis : view.axes) {
      result.strides.push_back(axis.stride);
    }
    return result;
  }
  result.start = rank(first);
  std::vector<Axis> axes = joined_axes(view, step_);
  take_run(axes);
  std::vector<std::uint64_t> steps;
  for (const Axis& axis : axes) {
    steps.push_back(rank(first + axis.stride) - result.start);
  }
  const bool is_even =
      for_each_run(axes, first, [&](std::uint64_t place, std::span<const std::uint64_t> index) {
        std::uint64_t expected = result.start;
        for (std::size_t i = 0; i < index.size(); ++i) {
          expected += index[i] * steps[i];
        }
        return rank(place) == expected;
      });
  if (!is_even) {
    return std::nullopt;
  }
  for (const Axis& axis : view.axes) {
    result.strides.push_back(rank(first + axis.stride / step_) - result.start);
  }
  return result;
}

void CoveredPlaces::copy(const std::byte* data, std::uint64_t elem_bytes, std::uint64_t first,
                         std::uint64_t n, std::byte* out) const {
  if (n == 0) {
    return;
  }
  if (bits_.empty()) {
    std::memcpy(out, data + first * elem_bytes, n * elem_bytes);
    return;
  }
  std::size_t i = static_cast<std::size_t>(std::upper_bound(before_.begin(), before_.end(), first) -
                                           before_.begin() - 1);
  std::uint64_t word = bits_[i];
  for (std::uint64_t skip = first - before_[i]; skip > 0; --skip) {
    word &= word - 1;
  }
  while (true) {
    for (; word == 0; word = bits_[i]) {
      ++i;
    }
    const auto bit = static_cast<unsigned>(std::countr_zero(word));
    const auto length =
        std::min<std::uint64_t>(n, static_cast<unsigned>(std::countr_one(word >> bit)));
    const std::byte* from = data + (i * kWordBits + bit) * step_ * elem_bytes;
    if (step_ == 1) {
      std::memcpy(out, from, length * elem_bytes);
    } else {
      for (std::uint64_t k = 0; k < length; ++k) {
        std::memcpy(out + k * elem_bytes, from + k * step_ * elem_bytes, elem_bytes);
      }
    }
    out += length * elem_bytes;
    n -= length;
    if (n == 0) {
      return;
    }
    word &= ~((~std::uint64_t{0} >> (kWordBits - length)) << bit);
  }
}

Result<void> CompactSource::read_at(std::uint64_t offset_bytes, MutableBytes out) const {
  if (offset_bytes > size() || out.size() > size() - offset_bytes ||
      offset_bytes % elem_bytes_ != 0 || out.size() % elem_bytes_ != 0) {
    return internal_error("read outside of the covered places").at_byte(offset_bytes);
  }
  places_->copy(data_, elem_bytes_, offset_bytes / elem_bytes_, out.size() / elem_bytes_,
                out.data());
  return {};
}

}  // namespace cfck::format

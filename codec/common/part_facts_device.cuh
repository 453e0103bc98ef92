// Statistics of parts of tensors on a device: the same as codec/direct/plan/derived_bounds.cpp, by
// one warp for a part.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/fixed_sums.hpp"
#include "codec/common/float_values.hpp"
#include "codec/common/shuffle_device.cuh"
#include "device/batches.hpp"

namespace cfck::codec {

template <class Value>
CFCK_DEVICE bool is_finite_value(typename Value::Word word) {
  return magnitude_of<Value>(word) < Value::kInfinity;
}

// The smallest and the largest finite value of n.
template <class Value>
CFCK_DEVICE device::PartFacts range_of_part(const typename Value::Word* values, std::uint64_t n) {
  using Word = typename Value::Word;
  constexpr double kInfinity = __builtin_huge_val();
  constexpr unsigned kAtOnce = 8;  // of each lane, since the memory takes its time
  double least = kInfinity;
  double most = -kInfinity;
  for (std::uint64_t first = 0; first < n; first += kAtOnce * simt::kWarpLanes) {
    Word words[kAtOnce];
    CFCK_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const std::uint64_t i = first + k * simt::kWarpLanes + simt::lane();
      words[k] = i < n ? values[i] : Value::kInfinity;
    }
    CFCK_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const double value = Value::to_double(words[k]);
      const bool is_finite = is_finite_value<Value>(words[k]);
      least = is_finite && value < least ? value : least;
      most = is_finite && value > most ? value : most;
    }
  }
  CFCK_UNROLL
  for (unsigned half = simt::kWarpLanes / 2; half > 0; half /= 2) {
    const double other_least = shuffle_double(least, simt::lane() ^ half);
    const double other_most = shuffle_double(most, simt::lane() ^ half);
    least = other_least < least ? other_least : least;
    most = other_most > most ? other_most : most;
  }
  return {static_cast<double>(n), least, most};
}

// The finite values of a piece as doubles, 32 at a time: number r of them is given to lane r
// mod 32. Where all are finite, which nearly all pieces are, they stay in registers; of another
// piece they are read again, by a loop that is short.
template <class Value>
class FinitePiece {
  using Word = typename Value::Word;
  static constexpr unsigned kBlocks = kPieceValues / simt::kWarpLanes;

 public:
  CFCK_DEVICE FinitePiece(const Word* values, std::uint32_t n) : values_(values), n_(n) {
    bool are_finite = true;
    CFCK_UNROLL
    for (unsigned k = 0; k < kBlocks; ++k) {
      words_[k] = word(k);
      are_finite = are_finite && is_finite_value<Value>(words_[k]);
    }
    are_finite_ = !simt::any(!are_finite);
  }

  // Calls `add(value)` in the lanes that get a value of a block, and returns how many there are.
  template <class Add>
  CFCK_DEVICE std::uint32_t each(Add&& add) const {
    if (!are_finite_) {
      return each_finite(add);
    }
    CFCK_UNROLL
    for (unsigned k = 0; k < kBlocks; ++k) {
      if (is_there(k)) {
        add(Value::to_double(words_[k]));
      }
    }
    return n_;
  }

 private:
  // Whether block k has a value for this lane.
  CFCK_DEVICE bool is_there(unsigned k) const { return k * simt::kWarpLanes + simt::lane() < n_; }
  CFCK_DEVICE Word word(unsigned k) const {
    return is_there(k) ? values_[k * simt::kWarpLanes + simt::lane()] : Word{0};
  }

  template <class Add>
  CFCK_DEVICE std::uint32_t each_finite(Add&& add) const {
    std::uint32_t n_finite = 0;
    CFCK_NO_UNROLL
    for (unsigned k = 0; k < kBlocks; ++k) {
      const Word own = word(k);
      const std::uint32_t finite = simt::ballot(is_there(k) && is_finite_value<Value>(own));
      // The lane's value is number `wanted` of those of the block.
      const std::uint32_t wanted = (simt::lane() - n_finite) % simt::kWarpLanes;
      std::uint32_t left = finite;
      for (std::uint32_t i = 0; i < wanted && left != 0; ++i) {
        left &= left - 1;
      }
      const double given =
          shuffle_double(Value::to_double(own), left != 0 ? simt::lowest_bit(left) : 0);
      const std::uint32_t n = simt::popcount(finite);
      if (wanted < n) {
        add(given);
      }
      n_finite += n;
    }
    return n_finite;
  }

  const Word* values_;
  std::uint32_t n_;
  Word words_[kBlocks];
  bool are_finite_;
};

// The first finite value from `row` on, before `end`, or 0.
template <class Value>
CFCK_DEVICE double first_finite(const typename Value::Word* row, const typename Value::Word* end) {
  for (const auto* block = row; block < end; block += simt::kWarpLanes) {
    const auto* const own = block + simt::lane();
    const auto word = own < end ? *own : Value::kInfinity;
    const std::uint32_t finite = simt::ballot(is_finite_value<Value>(word));
    if (finite != 0) {
      return shuffle_double(Value::to_double(word), simt::lowest_bit(finite));
    }
  }
  return 0;
}

// Number, mean and squared deviations of the finite values of a part of n, less the first of the
// row: those of pieces, combined in order.
template <class Value>
CFCK_DEVICE device::PartFacts moments_of_part(const typename Value::Word* values, std::uint64_t n,
                                              const typename Value::Word* row) {
  const double origin = first_finite<Value>(row, values + n);
  double n_all = 0;
  double mean_of_all = 0;
  double squares_of_all = 0;
  CFCK_NO_UNROLL
  for (std::uint64_t first = 0; first < n; first += kPieceValues) {
    const std::uint64_t left = n - first;
    const FinitePiece<Value> piece(
        values + first, static_cast<std::uint32_t>(left < kPieceValues ? left : kPieceValues));
    double sum = 0;
    const std::uint32_t n_finite = piece.each([&](double value) { sum += value - origin; });
    if (n_finite == 0) {
      continue;
    }
    const double count = n_finite;
    const double mean = sum_of_lanes(sum) / count;
    double squares = 0;
    piece.each([&](double value) {
      const double off = value - origin - mean;
      squares += off * off;
    });
    squares = sum_of_lanes(squares);
    const double both = n_all + count;
    const double step = mean - mean_of_all;
    squares_of_all += squares + step * step * (n_all * count / both);
    mean_of_all += step * (count / both);
    n_all = both;
  }
  return {n_all, mean_of_all, squares_of_all};
}

}  // namespace cfck::codec

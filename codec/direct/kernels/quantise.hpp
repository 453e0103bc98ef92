// Turns values into indices and back (codec/direct/spec.md, section 4). The encoder does what the
// decoder will do and compares without rounding.
#pragma once

#include "codec/common/float_values.hpp"
#include "codec/direct/kernels/kernels.hpp"
#include "codec/direct/kernels/quantise_value.hpp"
#include "codec/indices/double_lanes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Values are processed in blocks of as many as there are sums of errors.
inline constexpr unsigned kBlock = 32;

// The steps of a block's values.
struct BlockSteps {
  double step[kBlock];
  double inverse[kBlock];
  double bound[kBlock];

  void set(unsigned i, double value_step, double value_bound) {
    step[i] = value_step;
    inverse[i] = value_step == 0 ? 0 : 1 / value_step;
    bound[i] = value_bound;
  }
  void set_all(double value_step, double value_bound) {
    set(0, value_step, value_bound);
    for (unsigned i = 1; i < kBlock; ++i) {
      step[i] = step[0];
      inverse[i] = inverse[0];
      bound[i] = bound[0];
    }
  }
};

// Iterates over the steps of one block after the other.
class StepWalk {
 public:
  explicit StepWalk(const ValueSteps& steps) : steps_(steps) {
    if (steps.row_steps == nullptr) {
      block_.set_all(steps.step, steps.bound);
    } else {
      row_ = steps.first_value / steps.row_values;
      left_ = steps.row_values - steps.first_value % steps.row_values;
      block_.set_all(row_step(), row_bound());
    }
  }

  // Returns the steps of the next n values; n is kBlock except at the end.
  const BlockSteps& next(unsigned n) {
    if (steps_.row_steps == nullptr) {
      return block_;
    }
    if (left_ > n) {
      if (is_mixed_) {
        block_.set_all(row_step(), row_bound());
        is_mixed_ = false;
      }
      left_ -= n;
      return block_;
    }
    is_mixed_ = true;
    for (unsigned i = 0; i < n; ++i) {
      block_.set(i, row_step(), row_bound());
      if (--left_ == 0) {
        ++row_;
        left_ = steps_.row_values;
        if (row_ == steps_.n_rows) {
          left_ = ~std::uint64_t{0};  // the chunk ends here
          row_ = 0;
        }
      }
    }
    return block_;
  }

 private:
  double row_step() const {
    return same_bits<float>(static_cast<std::uint32_t>(steps_.row_steps[row_]) << 16);
  }
  double row_bound() const { return steps_.row_bounds == nullptr ? 0 : steps_.row_bounds[row_]; }

  const ValueSteps& steps_;
  std::uint64_t row_ = 0;
  std::uint64_t left_ = 0;  // values of the row
  bool is_mixed_ = false;
  BlockSteps block_;
};

template <class Value>
inline typename Value::Word load_word(const std::byte* from) {
  typename Value::Word word;
  __builtin_memcpy(&word, from, sizeof(word));
  return word;
}

template <class Value>
inline void store_word(typename Value::Word word, std::byte* to) {
  __builtin_memcpy(to, &word, sizeof(word));
}

struct BlockErrors {
  double errors[kBlock];
  double value_squares[kValueSums];
};

struct BlockCounts {
  unsigned n_zeros = 0;
  unsigned n_exact = 0;
  unsigned n_special = 0;  // neither finite
};

// Quantises a block value by value: the reference that the lanes must equal.
template <class Value>
inline BlockCounts quantise_block(const std::byte* values, const BlockSteps& steps,
                                  std::int32_t* indices, std::byte* decoded, BlockErrors& errors) {
  BlockCounts counts;
  for (double& sum : errors.value_squares) {
    sum = 0;
  }
  for (unsigned i = 0; i < kBlock; ++i) {
    const auto word = load_word<Value>(values + i * sizeof(typename Value::Word));
    const auto quantised =
        quantise_value<Value>(word, {steps.step[i], steps.inverse[i], steps.bound[i]});
    const double x = Value::to_double(word);
    const bool is_exact = quantised.index == kExact;
    indices[i] = quantised.index;
    errors.errors[i] = is_exact ? 0 : magnitude(x - Value::to_double(quantised.back));
    counts.n_exact += is_exact ? 1u : 0u;
    store_word<Value>(quantised.back, decoded + i * sizeof(word));
    counts.n_zeros += x == 0 ? 1u : 0u;
    const bool is_finite = magnitude_of<Value>(word) < Value::kInfinity;
    errors.value_squares[i % kValueSums] += is_finite ? x * x : 0;
    counts.n_special += is_finite ? 0u : 1u;
  }
  return counts;
}

#if defined(CFCK_HAS_DOUBLE_LANES)

class ErrorSums {
 public:
  ErrorSums() {
    for (unsigned v = 0; v < kVectors; ++v) {
      squares_[v] = max_[v] = DoubleLanes::all(0);
    }
    for (DoubleLanes& sum : value_squares_) {
      sum = DoubleLanes::all(0);
    }
  }
  // `value_squares` are the sums of this block.
  void add(const DoubleLanes* errors, const DoubleLanes* value_squares) {
    for (unsigned v = 0; v < kVectors; ++v) {
      squares_[v] = squares_[v] + errors[v] * errors[v];
      max_[v] = errors[v].above(max_[v]);
    }
    for (unsigned v = 0; v < kValueVectors; ++v) {
      value_squares_[v] = value_squares_[v] + value_squares[v];
    }
  }
  void add(const BlockErrors& block) {
    DoubleLanes errors[kVectors];
    DoubleLanes value_squares[kValueVectors];
    load(block.errors, errors, kVectors);
    load(block.value_squares, value_squares, kValueVectors);
    add(errors, value_squares);
  }
  void store(double* squares, double* max, double* value_squares) const {
    for (unsigned v = 0; v < kVectors; ++v) {
      squares_[v].store(squares + v * kDoubleLanes);
      max_[v].store(max + v * kDoubleLanes);
    }
    for (unsigned v = 0; v < kValueVectors; ++v) {
      value_squares_[v].store(value_squares + v * kDoubleLanes);
    }
  }

  static constexpr unsigned kVectors = kBlock / kDoubleLanes;
  static constexpr unsigned kValueVectors = kValueSums / kDoubleLanes;

 private:
  static void load(const double* from, DoubleLanes* to, unsigned n_vectors) {
    for (unsigned v = 0; v < n_vectors; ++v) {
      to[v] = DoubleLanes::load(from + v * kDoubleLanes);
    }
  }

  DoubleLanes squares_[kVectors];
  DoubleLanes max_[kVectors];
  DoubleLanes value_squares_[kValueVectors];
};

// Counts the values of a block that are +0 or -0.
template <class Value>
inline unsigned zeros_of_block(const std::byte* values) {
  using Word = typename Value::Word;
  Word words[kBlock];
  __builtin_memcpy(words, values, sizeof(words));
  Word n_zeros = 0;
  for (unsigned i = 0; i < kBlock; ++i) {
    n_zeros = static_cast<Word>(n_zeros + (magnitude_of<Value>(words[i]) == 0 ? 1 : 0));
  }
  return static_cast<unsigned>(n_zeros);
}

// Handles the common case, in which all values keep the bound with a margin. In others it adds
// nothing and returns false.
template <class Value>
inline bool try_block(const std::byte* values, const BlockSteps& steps, std::int32_t* indices,
                      std::byte* decoded, ErrorSums& sums, std::size_t& n_zeros) {
  constexpr unsigned kBytes = kDoubleLanes * sizeof(typename Value::Word);
  const DoubleLanes round = DoubleLanes::all(kRound);
  DoubleLanes errors[ErrorSums::kVectors];
  DoubleLanes value_squares[ErrorSums::kValueVectors];
  DoubleLanes max = DoubleLanes::all(0);
  AllBelow below;
  AnyZero zeros;
  for (unsigned v = 0; v < ErrorSums::kVectors; ++v) {
    const DoubleLanes x = ValueLanes<Value>::load(values + v * kBytes);
    zeros.add(x);
    DoubleLanes& sum = value_squares[v % ErrorSums::kValueVectors];
    sum = v < ErrorSums::kValueVectors ? x * x : sum + x * x;
    const DoubleLanes scaled = x * DoubleLanes::load(steps.inverse + v * kDoubleLanes);
    // A NaN is not the maximum, but neither are errors below a bound.
    max = scaled.magnitude().above(max);
    const DoubleLanes index = (scaled + round) - round;
    const DoubleLanes y = ValueLanes<Value>::store(
        index * DoubleLanes::load(steps.step + v * kDoubleLanes), decoded + v * kBytes);
    index.store_indices(indices + v * kDoubleLanes);
    errors[v] = (x - y).magnitude();
    below.add(errors[v], DoubleLanes::load(steps.bound + v * kDoubleLanes));
  }
  if (!below.holds() || !max.are_at_most(DoubleLanes::all(kMaxIndex))) {
    return false;
  }
  sums.add(errors, value_squares);
  n_zeros += zeros.holds() ? zeros_of_block<Value>(values) : 0;
  return true;
}

#else

class ErrorSums {
 public:
  void add(const BlockErrors& block) {
    for (unsigned i = 0; i < kBlock; ++i) {
      squares_[i] += block.errors[i] * block.errors[i];
      max_[i] = block.errors[i] > max_[i] ? block.errors[i] : max_[i];
    }
    for (unsigned i = 0; i < kValueSums; ++i) {
      value_squares_[i] += block.value_squares[i];
    }
  }
  void store(double* squares, double* max, double* value_squares) const {
    __builtin_memcpy(squares, squares_, sizeof(squares_));
    __builtin_memcpy(max, max_, sizeof(max_));
    __builtin_memcpy(value_squares, value_squares_, sizeof(value_squares_));
  }

 private:
  double squares_[kBlock] = {};
  double max_[kBlock] = {};
  double value_squares_[kValueSums] = {};
};

template <class Value>
inline bool try_block(const std::byte* values, const BlockSteps& steps, std::int32_t* indices,
                      std::byte* decoded, ErrorSums& sums, std::size_t& n_zeros) {
  using Word = typename Value::Word;
  Word words[kBlock];
  __builtin_memcpy(words, values, sizeof(words));
  Word back[kBlock];
  BlockErrors block = {};
  unsigned n_bad = 0;
  unsigned zeros = 0;
  for (unsigned i = 0; i < kBlock; ++i) {
    const double x = Value::to_double(words[i]);
    const double scaled = x * steps.inverse[i];
    const bool in_range = magnitude(scaled) <= kMaxIndex;
    const double index = ((in_range ? scaled : 0) + kRound) - kRound;
    back[i] = Value::from_double(index * steps.step[i]);
    indices[i] = static_cast<std::int32_t>(index);
    block.errors[i] = magnitude(x - Value::to_double(back[i]));
    block.value_squares[i % kValueSums] += x * x;
    n_bad += in_range && block.errors[i] < steps.bound[i] ? 0u : 1u;
    zeros += x == 0 ? 1u : 0u;
  }
  if (n_bad != 0) {
    return false;
  }
  __builtin_memcpy(decoded, back, sizeof(back));
  sums.add(block);
  n_zeros += zeros;
  return true;
}

#endif

inline void finish_totals(const ErrorSums& sums, ErrorTotals& totals) {
  double squares[kBlock];
  double max[kBlock];
  double value_squares[kValueSums];
  sums.store(squares, max, value_squares);
  for (unsigned half = kBlock / 2; half > 0; half /= 2) {
    for (unsigned i = 0; i < half; ++i) {
      squares[i] += squares[i + half];
      max[i] = max[i + half] > max[i] ? max[i + half] : max[i];
    }
  }
  totals.max_error = max[0];
  totals.sum_of_squares = squares[0];
  for (const double sum : value_squares) {
    totals.sum_of_value_squares += sum;
  }
}

// Quantises the values of a chunk, some at a time.
template <class Value>
class Quantiser {
 public:
  explicit Quantiser(const ValueSteps& steps) : walk_(steps) {}

  // n_values is a multiple of kBlock except at the end.
  void add(const std::byte* values, std::size_t n_values, std::int32_t* indices,
           std::byte* decoded) {
    totals_.errors.n_finite += n_values;
    std::size_t first = 0;
    ErrorSums sums = sums_;  // in registers
    BlockErrors errors;
    std::size_t n_zeros = 0;
    for (; first + kBlock <= n_values; first += kBlock) {
      const BlockSteps& block = walk_.next(kBlock);
      const std::byte* const from = values + first * kBytes;
      std::byte* const back = decoded + first * kBytes;
      if (!try_block<Value>(from, block, indices + first, back, sums, n_zeros)) {
        settle(from, block, indices + first, back, errors);
        sums.add(errors);
      }
    }
    totals_.n_zeros += n_zeros;
    if (first < n_values) {
      // The block is filled up with zeros, which have no errors.
      const auto n = static_cast<unsigned>(n_values - first);
      std::byte from[kBlock * kBytes] = {};
      std::byte back[kBlock * kBytes];
      std::int32_t to[kBlock];
      __builtin_memcpy(from, values + first * kBytes, n * kBytes);
      settle(from, walk_.next(n), to, back, errors);
      sums.add(errors);
      totals_.n_zeros -= kBlock - n;
      __builtin_memcpy(indices + first, to, n * sizeof(std::int32_t));
      __builtin_memcpy(decoded + first * kBytes, back, n * kBytes);
    }
    sums_ = sums;
  }

  std::uint64_t n_exact() const { return totals_.errors.n_exact; }
  QuantisedTotals finish() {
    finish_totals(sums_, totals_.errors);
    return totals_;
  }

 private:
  static constexpr std::size_t kBytes = sizeof(typename Value::Word);

  [[gnu::noinline]] void settle(const std::byte* from, const BlockSteps& block, std::int32_t* to,
                                std::byte* back, BlockErrors& errors) {
    const BlockCounts counts = quantise_block<Value>(from, block, to, back, errors);
    totals_.n_zeros += counts.n_zeros;
    totals_.errors.n_exact += counts.n_exact;
    totals_.errors.n_finite -= counts.n_special;
  }

  StepWalk walk_;
  ErrorSums sums_;
  QuantisedTotals totals_{};
};

template <class Value>
QuantisedTotals quantise_values(const std::byte* values, std::size_t n_values,
                                const ValueSteps& steps, std::int32_t* indices,
                                std::byte* decoded) {
  Quantiser<Value> quantiser(steps);
  quantiser.add(values, n_values, indices, decoded);
  return quantiser.finish();
}

template <class Value, class Code>
inline void dequantise_block(const Code* indices, const BlockSteps& steps, std::byte* values) {
  constexpr unsigned kBytes = sizeof(typename Value::Word);
#if defined(CFCK_HAS_DOUBLE_LANES)
  for (unsigned i = 0; i < kBlock; i += kDoubleLanes) {
    ValueLanes<Value>::store(
        DoubleLanes::of_indices(indices + i) * DoubleLanes::load(steps.step + i),
        values + i * kBytes);
  }
#else
  for (unsigned i = 0; i < kBlock; ++i) {
    store_word<Value>(Value::from_double(indices[i] * steps.step[i]), values + i * kBytes);
  }
#endif
}

template <class Value>
void dequantise_values(const std::int32_t* indices, std::size_t n_values, const ValueSteps& steps,
                       std::byte* values) {
  constexpr std::size_t kBytes = sizeof(typename Value::Word);
  StepWalk walk(steps);
  std::size_t first = 0;
  for (; first + kBlock <= n_values; first += kBlock) {
    dequantise_block<Value>(indices + first, walk.next(kBlock), values + first * kBytes);
  }
  if (first < n_values) {
    const auto n = static_cast<unsigned>(n_values - first);
    std::int32_t from[kBlock] = {};
    std::byte to[kBlock * kBytes];
    __builtin_memcpy(from, indices + first, n * sizeof(std::int32_t));
    dequantise_block<Value>(from, walk.next(n), to);
    __builtin_memcpy(values + first * kBytes, to, n * kBytes);
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

#include "tests/hdf5/filter/written_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/common/float_values.hpp"

namespace cfck::hdf5 {
namespace {

// Differences and sums that a double would round.
using Wide = long double;
constexpr Wide kRounding = 1 + 0x1p-60L;

template <class Function>
auto with_type(DType dtype, Function function) {
  switch (dtype) {
    case DType::kF64:
      return function(codec::ValueF64{});
    case DType::kBF16:
      return function(codec::ValueBf16{});
    case DType::kF16:
      return function(codec::ValueF16{});
    default:
      return function(codec::ValueF32{});
  }
}

double rounded(DType dtype, double value) {
  return with_type(dtype, [&](auto traits) {
    using Value = decltype(traits);
    return Value::to_double(Value::from_double(value));
  });
}

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

std::vector<std::byte> bytes_of(DType dtype, const std::vector<double>& values) {
  return with_type(dtype, [&](auto traits) {
    using Value = decltype(traits);
    using Word = typename Value::Word;
    std::vector<std::byte> bytes(values.size() * sizeof(Word));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Word word = Value::from_double(values[i]);
      std::memcpy(bytes.data() + i * sizeof(Word), &word, sizeof(Word));
    }
    return bytes;
  });
}

std::vector<double> values_of(DType dtype, const std::vector<std::byte>& bytes) {
  return with_type(dtype, [&](auto traits) {
    using Value = decltype(traits);
    using Word = typename Value::Word;
    std::vector<double> values(bytes.size() / sizeof(Word));
    for (std::size_t i = 0; i < values.size(); ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof(Word));
      values[i] = Value::to_double(word);
    }
    return values;
  });
}

std::uint64_t bits_of(DType dtype, double value) {
  std::uint64_t bits = 0;
  const std::vector<std::byte> bytes = bytes_of(dtype, {value});
  std::memcpy(&bits, bytes.data(), bytes.size());
  return bits;
}

WrittenValues::WrittenValues(DType dtype, FilterRequest request, double fill)
    : dtype_(dtype),
      request_(std::move(request)),
      fill_(fill),
      values_(kRows * kColumns, fill),
      ranges_(kRows * kColumns, 0) {}

Part WrittenValues::random_part(std::mt19937_64& random) const {
  Part part;
  part.first_row = random() % kRows;
  part.n_rows = 1 + random() % (kRows - part.first_row);
  part.first_column = random() % 3 == 0 ? random() % kColumns : 0;
  part.n_columns = part.first_column == 0 && random() % 2 == 0
                       ? kColumns
                       : 1 + random() % (kColumns - part.first_column);
  // Values of a 16-bit type reach 65504.
  const double size = std::ldexp(1.0, static_cast<int>(random() % 24) - 10);
  const double offset = random() % 4 == 0 ? size * 50 : 0;
  std::normal_distribution<double> normal(offset, size);
  for (std::size_t i = 0; i < part.n_rows * part.n_columns; ++i) {
    double value = rounded(dtype_, normal(random));
    if (random() % 200 == 0) {
      const double special[] = {std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity(), 0.0, fill_, size * 64};
      value = rounded(dtype_, special[random() % 5]);
    }
    part.values.push_back(value);
  }
  return part;
}

Part WrittenValues::rows(std::mt19937_64& random, std::size_t first, std::size_t n) const {
  Part part{first, n, 0, kColumns, {}};
  std::normal_distribution<double> normal(0, 1);
  for (std::size_t i = 0; i < n * kColumns; ++i) {
    part.values.push_back(rounded(dtype_, normal(random)));
  }
  return part;
}

void WrittenValues::write(const Part& part) {
  std::size_t i = 0;
  for (std::size_t row = part.first_row; row < part.first_row + part.n_rows; ++row) {
    for (std::size_t column = part.first_column; column < part.first_column + part.n_columns;
         ++column) {
      values_[row * kColumns + column] = part.values[i++];
      ranges_[row * kColumns + column] = 0;
    }
  }
  note_encoding();
}

bool WrittenValues::counts(double value) const {
  return std::isfinite(value) && value != fill_ && !(fill_ == 0 && value == 0);
}

void WrittenValues::note_encoding() {
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  double energy = 0;
  for (const double value : values_) {
    if (counts(value)) {
      min = std::min(min, value);
      max = std::max(max, value);
      energy += value * value;
    }
  }
  energy_ = std::max(energy_, energy);
  for (double& range : ranges_) {
    range = min < max ? std::max(range, max - min) : range;
  }
}

std::string WrittenValues::problem_of(const std::vector<double>& read) const {
  Wide squares = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto describe = [&](const std::string& what) {
      return "value " + std::to_string(i) + " was written as " + std::to_string(values_[i]) +
             " and read as " + std::to_string(read[i]) + ": " + what;
    };
    if (!std::isfinite(values_[i]) || (values_[i] == fill_ && fill_ != 0)) {
      if (!is_same(values_[i], read[i])) {
        return describe("it must not change");
      }
      continue;
    }
    const Wide error = std::abs(Wide{values_[i]} - Wide{read[i]});
    squares += error * error;
    double allowed = request_.max_abs_error > 0 ? request_.max_abs_error
                                                : std::numeric_limits<double>::infinity();
    allowed = request_.mode == Mode::kMaxAbsError ? request_.value : allowed;
    allowed = request_.mode == Mode::kMaxRelError ? request_.value * ranges_[i] : allowed;
    if (error > allowed * kRounding) {
      return describe("more than " + std::to_string(allowed));
    }
  }
  if (request_.mode == Mode::kNmse && squares > Wide{request_.value} * energy_ * kRounding) {
    return "the NMSE is " + std::to_string(static_cast<double>(squares / energy_));
  }
  return "";
}

}  // namespace cfck::hdf5

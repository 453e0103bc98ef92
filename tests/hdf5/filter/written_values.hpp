// The values that were written to a dataset of one chunk, by parts and in any order, and how far
// off each may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cfck/dtype.hpp"
#include "hdf5/filter/values.hpp"

namespace cfck::hdf5 {

// The chunk has kRows x kColumns values.
inline constexpr std::size_t kRows = 24;
inline constexpr std::size_t kColumns = 40;

// Values as doubles; the bytes are those of the type.
std::vector<std::byte> bytes_of(DType dtype, const std::vector<double>& values);
std::vector<double> values_of(DType dtype, const std::vector<std::byte>& bytes);
std::uint64_t bits_of(DType dtype, double value);

// A part of the chunk, and the values that are written there, row by row.
struct Part {
  std::size_t first_row = 0, n_rows = 0, first_column = 0, n_columns = 0;
  std::vector<double> values;
};

class WrittenValues {
 public:
  WrittenValues(DType dtype, FilterRequest request, double fill);

  const std::vector<double>& values() const { return values_; }
  // A random part with values of a random size, some of them special. Sizes grow and shrink.
  Part random_part(std::mt19937_64& random) const;
  // The next rows; values of one size.
  Part rows(std::mt19937_64& random, std::size_t first, std::size_t n) const;
  // Takes note of values that were written, and of a chunk that was encoded with them.
  void write(const Part& part);

  // Returns what is wrong with values that were read; empty: nothing.
  std::string problem_of(const std::vector<double>& read) const;

 private:
  void note_encoding();
  bool counts(double value) const;

  const DType dtype_;
  const FilterRequest request_;
  const double fill_;
  std::vector<double> values_;
  // For each value: the largest range since it was written.
  std::vector<double> ranges_;
  double energy_ = 0;  // the largest so far
};

}  // namespace cfck::hdf5

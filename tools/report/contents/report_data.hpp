// A report holds these data before it becomes a page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/inspect/bands/report.hpp"
#include "tools/inspect/tensor_errors.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/inspect/tensor_stats.hpp"
#include "tools/report/contents/value_scan.hpp"

namespace cfck::tools::report {

// A number that the user gives, measured elsewhere: "cosine", "0.991".
struct Figure {
  std::string name;
  std::string value;
};

struct ValueReport {
  std::optional<TensorStats> before;  // of the reference
  TensorStats after;
  std::optional<ValueScan> scan;  // of tensors with pictures only
};

// Squares of errors and of values, over the tensors that are not bit for bit the same.
struct ErrorSums {
  double squared_errors = 0;
  double squares = 0;
  std::uint64_t n_tensors = 0;

  void add(const ErrorSums& other);
  // Minus infinity without errors. Requires: n_tensors > 0
  double nmse_decibels() const;
};

struct RecordReport {
  const StoredTensor* tensor = nullptr;
  std::string codec;
  std::string shares_with;             // the name of the tensor whose bytes it uses
  std::optional<ValueReport> values;   // nullopt with index_only, and after a failure
  std::optional<TensorErrors> errors;  // against the reference
  std::optional<bool> bound_kept;      // of lossy records, against the reference
  std::vector<CodingFigures> codings;  // of codec spectral
  std::optional<ErrorSums> sums;       // nullopt: bit for bit the same, or not known
  std::optional<Error> failure;        // the tensor cannot be read
  std::string problem;                 // why it cannot be compared, or what is wrong

  double bits_per_weight() const;
  // By measurement, else by what the file says; nullopt for a lossless tensor.
  std::optional<double> nmse_decibels() const;
};

// Tensors whose names begin alike.
struct Layer {
  std::string name;
  std::vector<std::size_t> records;  // in ReportData::records; the largest first
  std::uint64_t n_elems = 0;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t stored_bytes = 0;
  ErrorSums sums;

  double bits_per_weight() const;
};

struct CodecShare {
  std::string codec;
  std::uint64_t n_records = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t stored_bytes = 0;
};

struct ReportData {
  std::string title;
  std::string path;
  std::string reference;  // empty: there is none
  std::string_view format;
  std::string format_version;
  std::uint64_t n_files = 0;
  std::uint64_t file_bytes = 0;
  bool index_only = false;
  Metadata metadata;
  std::vector<Figure> figures;
  std::vector<RecordReport> records;  // in file order
  std::vector<Layer> layers;          // the largest first
  std::vector<CodecShare> codecs;     // the largest first
  std::vector<std::string> asked;     // bounds and targets that occur
  std::vector<Error> problems;        // also those of tensors that only the reference has
  std::optional<TensorErrors> total;  // of floats, against the reference
  std::size_t n_pictures = 0;

  std::uint64_t n_elems = 0;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t stored_bytes = 0;  // of tensors; the rest of the files is index and metadata
  ErrorSums sums;

  double ratio() const;  // of the whole files; 0 where nothing is stored
  double bits_per_weight() const;
};

}  // namespace cfck::tools::report

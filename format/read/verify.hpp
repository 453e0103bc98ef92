// The checks of Reader::verify.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "format/read/chunks/open_file.hpp"
#include "format/read/shared_progress.hpp"

namespace cfck::format {

Result<VerifyReport> verify_file(const OpenFile& file, VerifyLevel level,
                                 const ReadProgress& progress);

// The results of one verification so far. Thread-safe.
class Findings {
 public:
  explicit Findings(const ReadProgress& progress) : progress_(progress) {}

  // Adds a problem; those of a smaller `order` come first in the report. Running out of memory is
  // not a problem of the file: that error is returned.
  Result<void> add(std::uint64_t order, Error error);
  // Counts bytes of the file as checked. kCancelled if the caller cancels.
  Result<void> count(std::uint64_t n_bytes, const std::string& name);
  VerifyReport take_report(std::uint64_t n_records);

 private:
  SharedProgress progress_;
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, Error>> problems_;
};

// True if the values of a record with data of its own can be decoded here.
bool is_readable(const OpenFile& file, const Record& record);

// Decodes every record and compares digests; reports records that cannot be decoded.
Result<void> verify_values(const OpenFile& file, Findings& findings);

}  // namespace cfck::format

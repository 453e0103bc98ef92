// `-` on the command line: standard input and output in place of files.
#pragma once

#include <memory>
#include <string>

#include "cfck/status.hpp"

namespace cfck::tools {

// This word stands for standard input or output on the command line and in messages.
inline constexpr const char* kStandardStream = "-";

// A folder in the folder for temporary files (TMPDIR), which is removed with all it has.
class TemporaryDirectory {
 public:
  // Error: kIo.
  static Result<std::unique_ptr<TemporaryDirectory>> create();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// Copies standard input to the end into a new file: formats are read from their ends, and more
// than once. Errors: kInvalidArgument for a terminal, kIo, kCancelled after interrupt_signal().
Result<void> store_standard_input(const std::string& path);

// Error: kInvalidArgument where standard output is a terminal, which is not for bytes.
Result<void> check_standard_output();

// Copies a whole file to standard output. Returns false if who reads it has stopped.
// Errors: kIo, kCancelled.
Result<bool> copy_to_standard_output(const std::string& path);

}  // namespace cfck::tools

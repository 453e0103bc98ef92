// Text of pages: what comes from a file, escaped, and numbers as people read them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cfck/status.hpp"

namespace cfck::tools::report {

// For text and attributes of HTML and SVG: characters that cannot be seen are shown as on a
// terminal (base/text.hpp), the others as they are.
std::string html(std::string_view text);
// Likewise for Markdown, in tables too: a code span, or HTML that shows the same where the text has
// characters that mean something to Markdown.
std::string markdown_code(std::string_view text);
// For running text.
std::string markdown_text(std::string_view text);

// The end of a text, after an ellipsis, in at most `most` characters. Names differ at their ends.
std::string shortened(std::string_view text, std::size_t most);
// The name of a tensor or layer for a small place: its last parts, without ".weight", or else what
// shortened() leaves of them.
std::string label(std::string_view name, std::size_t most);

std::string decibels(double number);  // "-20.3 dB"; "exact" for minus infinity
std::string number(double value);     // four digits
std::string ratio(double value);      // "10.6x", with a multiplication sign
std::string percent(double part, double whole);
std::string grouped(std::uint64_t number);  // "1,234,567"
// "1 tensor", "1,234 tensors".
std::string counted(std::uint64_t number, std::string_view one, std::string_view many);

// Collects a page, and passes it on piece by piece. After an error it takes text, but drops it.
class Page {
 public:
  using Write = std::function<Result<void>(std::string_view)>;
  explicit Page(Write write) : write_(std::move(write)) {}

  void add(std::string_view text);
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    add(fmt::format(format, std::forward<Args>(args)...));
  }
  // Writes the rest. Returns the number of bytes, or the first error.
  Result<std::uint64_t> finish();

 private:
  void flush();

  Write write_;
  std::string pending_;
  std::uint64_t n_bytes_ = 0;
  Result<void> state_;
};

}  // namespace cfck::tools::report

// Values that pickles of protocol 0 and 1 write as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cfck/status.hpp"

namespace cfck::interop {

// A decimal integer, as "-0x1f" for any size.
struct DecimalInteger {
  bool fits = false;  // 64 bits
  std::int64_t value = 0;
  std::string digits;  // where it does not fit
};
// nullopt for other text, and for more than 4300 digits, which Python does not read either.
std::optional<DecimalInteger> decimal_integer(std::string_view text);

// A float as Python prints it; nullopt for other text.
std::optional<double> decimal_float(std::string_view text);

// The characters of a literal of Python 2 in quotes; nullopt for other text.
std::optional<std::string> quoted_text(std::string_view text);

// UTF-8 for text in which bytes are characters and \u0041 and \U00000041 stand for others; nullopt
// for bad escapes.
std::optional<std::string> raw_unicode(std::string_view text);

}  // namespace cfck::interop

// JSON as a tree that keeps what spec/checkpoint.md distinguishes: whether a number is an integer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/status.hpp"

namespace cfck::model {

// JSON has the numbers of binary64: larger integers are not exact.
inline constexpr std::int64_t kMaxInteger = (std::int64_t{1} << 53) - 1;

struct JsonNode {
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kNumber, kText, kArray, kObject };
  Kind kind = Kind::kNull;
  bool flag = false;
  std::int64_t integer = 0;        // within +-(2^53 - 1)
  double number = 0;               // with a fraction or an exponent, finite
  std::string text;                // kText: its characters
  std::vector<std::string> names;  // kObject: one for each of `items`, all different
  std::vector<JsonNode> items;
};

// Called with each element of the top-level array of this name, as soon as it is complete.
struct JsonElements {
  std::string_view name;
  std::function<Result<void>(JsonNode&&)> take;
};

// Parses a document whose top is an object. The array that `elements` names is empty in the
// result. Errors: kCorrupt, with the byte; those of `elements.take`.
Result<JsonNode> parse_json_object(std::string_view json, const JsonElements& elements);

}  // namespace cfck::model

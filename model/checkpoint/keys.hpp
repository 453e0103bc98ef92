// Integers and keys of checkpoints: one form for all values that Python takes for the same key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cfck/checkpoint.hpp"

namespace cfck::model {

inline constexpr int kMaxKeyDepth = 16;

// Returns the integer that "-0x1f" stands for, as std::int64_t where it fits and else as a
// BigInteger without leading zeros; nullopt for other text.
std::optional<CheckpointValue> integer_of_hex(std::string_view digits);
// Returns "-0x1f".
std::string hex_of_integer(std::int64_t integer);

// Returns a text that is equal for two keys exactly where Python takes them for the same key, and
// nullopt for a key that equals none: one with a NaN.
std::optional<std::string> canonical_key(const CheckpointValue& key);

// True for a value that a key may be, other than a tuple.
bool is_plain_key(const CheckpointValue& key);

// True for the dtypes that TensorReference::dtype may have.
bool is_split_complex(std::string_view dtype);
// True where there is a stride for each dimension, and none of either is negative.
bool is_meta_tensor(const MetaTensor& tensor);

// Returns the text of a double as Python prints it: the fewest digits that read back as the same
// double.
std::string python_float(double value);

}  // namespace cfck::model

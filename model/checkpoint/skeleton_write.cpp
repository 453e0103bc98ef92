// Values of a checkpoint as JSON, in the form in which Python writes them.
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/base64.hpp"
#include "base/text.hpp"
#include "model/checkpoint/keys.hpp"
#include "model/checkpoint/numpy_dtypes.hpp"
#include "model/checkpoint/skeleton_values.hpp"

namespace cfck::model {
namespace {

Result<void> append_text(std::string& json, const std::string& text) {
  if (!valid_utf8(text)) return invalid_argument("has a string that is not valid UTF-8");
  json += nlohmann::json(text).dump();
  return {};
}

void append_double(std::string& json, double value) {
  if (std::isfinite(value)) {
    json += python_float(value);
    return;
  }
  json += '"';
  for (int shift = 60; shift >= 0; shift -= 4) {
    json += kHexDigits[std::bit_cast<std::uint64_t>(value) >> shift & 15];
  }
  json += '"';
}

void append_integer(std::string& json, std::int64_t value) {
  if (value >= -kMaxInteger && value <= kMaxInteger) {
    json += std::to_string(value);
  } else {
    json += "{\"int\":\"" + hex_of_integer(value) + "\"}";
  }
}

void append_integers(std::string& json, const std::vector<std::int64_t>& values) {
  json += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) json += ',';
    append_integer(json, values[i]);
  }
  json += ']';
}

// Ends an array and its tag.
void append_class(std::string& json, bool is_parameter, bool requires_grad) {
  json += is_parameter ? ",\"parameter\"," : ",\"tensor\",";
  json += requires_grad ? "true]}" : "false]}";
}

// Appends {"tag":"text"}.
Result<void> append_tagged(std::string& json, const char* tag, const std::string& text) {
  json.append("{\"").append(tag).append("\":");
  CFCK_TRY(append_text(json, text));
  json += '}';
  return {};
}

// One overload for each alternative of CheckpointValue.
struct Appender {
  std::string& json;

  Result<void> operator()(std::monostate) const {
    json += "null";
    return {};
  }
  Result<void> operator()(bool value) const {
    json += value ? "true" : "false";
    return {};
  }
  Result<void> operator()(std::int64_t value) const {
    append_integer(json, value);
    return {};
  }
  Result<void> operator()(const BigInteger& value) const {
    const auto integer = integer_of_hex(value.digits);
    if (!integer) return invalid_argument("has an integer that is not of the form -0x1f");
    if (const auto* small = std::get_if<std::int64_t>(&integer->value)) return (*this)(*small);
    return append_tagged(json, "int", std::get<BigInteger>(integer->value).digits);
  }
  Result<void> operator()(double value) const {
    json += "{\"float\":";
    append_double(json, value);
    json += '}';
    return {};
  }
  Result<void> operator()(const std::complex<double>& value) const {
    json += "{\"complex\":[";
    append_double(json, value.real());
    json += ',';
    append_double(json, value.imag());
    json += "]}";
    return {};
  }
  Result<void> operator()(const std::string& value) const { return append_text(json, value); }
  Result<void> operator()(const CheckpointBytes& value) const {
    return append_tagged(json, value.is_bytearray ? "bytearray" : "bytes", base64(value.bytes));
  }
  Result<void> operator()(const NumpyScalar& value) const {
    if (!is_numpy_scalar(value)) {
      return invalid_argument("has a numpy scalar whose bytes are not those of its dtype");
    }
    json += "{\"numpy.scalar\":[\"" + value.dtype + "\",\"" +
            hexadecimal(std::span<const char>(value.bytes)) + "\"]}";
    return {};
  }
  Result<void> operator()(const TorchSize& value) const {
    json += "{\"torch.Size\":";
    append_integers(json, value.sizes);
    json += '}';
    return {};
  }
  Result<void> operator()(const TorchLayout& value) const {
    return append_tagged(json, "torch.layout", value.name);
  }
  Result<void> operator()(const MetaTensor& value) const {
    if (!is_meta_tensor(value)) {
      return invalid_argument("has a tensor without values whose shape is not valid");
    }
    json += "{\"torch.meta\":[";
    CFCK_TRY(append_text(json, value.dtype));
    json += ',';
    append_integers(json, value.shape);
    json += ',';
    append_integers(json, value.strides);
    append_class(json, value.is_parameter, value.requires_grad);
    return {};
  }
  Result<void> operator()(const TorchDType& value) const {
    return append_tagged(json, "torch.dtype", value.name);
  }
  Result<void> operator()(const TorchDevice& value) const {
    return append_tagged(json, "torch.device", value.name);
  }
  Result<void> operator()(const TensorReference& value) const {
    if (value.kind == TensorReference::Kind::kArray)
      return append_tagged(json, "array", value.record);
    const bool is_parameter = value.kind == TensorReference::Kind::kParameter;
    if (!value.dtype.empty() || (value.requires_grad && !is_parameter)) {
      return append_torch_tensor(value, is_parameter);
    }
    if (!is_parameter) return append_tagged(json, "tensor", value.record);
    json += "{\"parameter\":[";
    CFCK_TRY(append_text(json, value.record));
    json += value.requires_grad ? ",true]}" : ",false]}";
    return {};
  }
  Result<void> append_torch_tensor(const TensorReference& value, bool is_parameter) const {
    if (!value.dtype.empty() && !is_split_complex(value.dtype)) {
      return invalid_argument("has a tensor of dtype '" + escaped(value.dtype) +
                              "', which its record has or which is not stored");
    }
    json += "{\"torch.tensor\":[";
    CFCK_TRY(append_text(json, value.record));
    json += value.dtype.empty() ? ",null" : ",\"" + value.dtype + "\"";
    append_class(json, is_parameter, value.requires_grad);
    return {};
  }
  Result<void> operator()(ContainerReference value) const {
    json += "{\"at\":" + std::to_string(value.index) + "}";
    return {};
  }
  Result<void> operator()(const TupleKey&) const {
    return invalid_argument("has a tuple key as a value; tuples are containers");
  }
};

}  // namespace

Result<void> append_value(std::string& json, const CheckpointValue& value) {
  return std::visit(Appender{json}, value.value);
}

Result<void> append_key(std::string& json, const CheckpointValue& key, int depth) {
  if (const auto* tuple = std::get_if<TupleKey>(&key.value)) {
    if (depth == kMaxKeyDepth) return invalid_argument("has a key of more than 16 nested tuples");
    json += "{\"tuple\":[";
    for (std::size_t i = 0; i < tuple->items.size(); ++i) {
      if (i > 0) json += ',';
      CFCK_TRY(append_key(json, tuple->items[i], depth + 1));
    }
    json += "]}";
    return {};
  }
  if (!is_plain_key(key)) {
    return invalid_argument(
        "has a key that is none; keys may be strings, numbers, bools, None, bytes, dtypes, "
        "devices, "
        "sizes and tuples of these");
  }
  return append_value(json, key);
}

}  // namespace cfck::model

// Values of a checkpoint from their JSON.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "base/text.hpp"
#include "model/checkpoint/keys.hpp"
#include "model/checkpoint/numpy_dtypes.hpp"
#include "model/checkpoint/skeleton_values.hpp"

namespace cfck::model {
namespace {

using Kind = JsonNode::Kind;

Error no_value(const char* what) { return corrupt(std::string("a value is not ") + what); }

Result<std::string> text_of(JsonNode&& node) {
  if (node.kind != Kind::kText) return no_value("a string");
  return std::move(node.text);
}

Result<void> expect_items(const JsonNode& node, std::size_t n_items) {
  if (node.kind == Kind::kArray && node.items.size() == n_items) return {};
  return corrupt("a value is not an array of " + std::to_string(n_items));
}

std::optional<std::uint64_t> bits_of_hex(std::string_view digits) {
  if (digits.find_first_not_of("0123456789abcdef") != digits.npos) return std::nullopt;
  std::uint64_t bits = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  return bits;
}

Result<double> double_of(const JsonNode& node) {
  if (node.kind == Kind::kInteger) return static_cast<double>(node.integer);
  if (node.kind == Kind::kNumber) return node.number;
  if (node.kind == Kind::kText && node.text.size() == 16) {
    if (const auto bits = bits_of_hex(node.text)) return std::bit_cast<double>(*bits);
  }
  return no_value("a number, or 16 hexadecimal digits of its bits");
}

Result<CheckpointValue> hex_integer(JsonNode&& node) {
  CFCK_TRY_ASSIGN(const std::string digits, text_of(std::move(node)));
  auto integer = integer_of_hex(digits);
  if (!integer) return no_value("a hexadecimal integer");
  return std::move(*integer);
}

Result<CheckpointValue> complex_of(const JsonNode& node) {
  CFCK_TRY(expect_items(node, 2));
  CFCK_TRY_ASSIGN(const double real, double_of(node.items[0]));
  CFCK_TRY_ASSIGN(const double imaginary, double_of(node.items[1]));
  return CheckpointValue{std::complex<double>(real, imaginary)};
}

Result<CheckpointValue> bytes_of(JsonNode&& node, bool is_bytearray) {
  CFCK_TRY_ASSIGN(const std::string text, text_of(std::move(node)));
  auto bytes = bytes_of_base64(text);
  if (!bytes) return corrupt("bytes are not valid base64");
  return CheckpointValue{CheckpointBytes{std::move(*bytes), is_bytearray}};
}

Result<CheckpointValue> scalar_of(JsonNode&& node) {
  CFCK_TRY(expect_items(node, 2));
  NumpyScalar scalar;
  CFCK_TRY_ASSIGN(scalar.dtype, text_of(std::move(node.items[0])));
  CFCK_TRY_ASSIGN(const std::string digits, text_of(std::move(node.items[1])));
  const std::size_t n_bytes = numpy_scalar_bytes(scalar.dtype);
  if (n_bytes == 0) {
    return unsupported(
        "the checkpoint was written by a newer version of cfck: there is no numpy "
        "scalar of dtype '" +
        escaped(scalar.dtype) + "'");
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    const auto byte = bits_of_hex(std::string_view(digits).substr(i, 2));
    if (!byte) break;
    scalar.bytes += static_cast<char>(*byte);
  }
  if (digits.size() != 2 * n_bytes || !is_numpy_scalar(scalar)) {
    return corrupt("'" + escaped(digits) + "' is no " + scalar.dtype);
  }
  return CheckpointValue{std::move(scalar)};
}

Result<std::vector<std::int64_t>> sizes_of(JsonNode&& node) {
  if (node.kind != Kind::kArray) return no_value("an array");
  std::vector<std::int64_t> sizes;
  for (JsonNode& item : node.items) {
    CFCK_TRY_ASSIGN(const CheckpointValue value, value_of(std::move(item)));
    const auto* integer = std::get_if<std::int64_t>(&value.value);
    if (integer == nullptr)
      return corrupt("a torch.Size has something that is no integer of 64 bits");
    sizes.push_back(*integer);
  }
  return sizes;
}

// Reads the last two items of a tensor of PyTorch: what it is, and whether it requires a gradient.
Result<void> read_class(const JsonNode& name, const JsonNode& flag, bool& is_parameter,
                        bool& requires_grad) {
  if (name.kind != Kind::kText || (name.text != "tensor" && name.text != "parameter")) {
    return no_value("\"tensor\" or \"parameter\"");
  }
  if (flag.kind != Kind::kBool) return corrupt("requires_grad of a tensor is no bool");
  is_parameter = name.text == "parameter";
  requires_grad = flag.flag;
  return {};
}

Result<CheckpointValue> meta_of(JsonNode&& node) {
  CFCK_TRY(expect_items(node, 5));
  MetaTensor tensor;
  CFCK_TRY_ASSIGN(tensor.dtype, text_of(std::move(node.items[0])));
  CFCK_TRY_ASSIGN(tensor.shape, sizes_of(std::move(node.items[1])));
  CFCK_TRY_ASSIGN(tensor.strides, sizes_of(std::move(node.items[2])));
  CFCK_TRY(read_class(node.items[3], node.items[4], tensor.is_parameter, tensor.requires_grad));
  if (!is_meta_tensor(tensor)) return corrupt("a tensor without values has no valid shape");
  return CheckpointValue{std::move(tensor)};
}

Result<CheckpointValue> torch_tensor_of(JsonNode&& node) {
  CFCK_TRY(expect_items(node, 4));
  TensorReference reference;
  CFCK_TRY_ASSIGN(reference.record, text_of(std::move(node.items[0])));
  if (node.items[1].kind != Kind::kNull) {
    CFCK_TRY_ASSIGN(reference.dtype, text_of(std::move(node.items[1])));
    if (!is_split_complex(reference.dtype)) {
      return unsupported(
          "the checkpoint was written by a newer version of cfck: no tensor is stored as '" +
          escaped(reference.dtype) + "'; load it with that version");
    }
  }
  bool is_parameter = false;
  CFCK_TRY(read_class(node.items[2], node.items[3], is_parameter, reference.requires_grad));
  if (is_parameter) reference.kind = TensorReference::Kind::kParameter;
  return CheckpointValue{std::move(reference)};
}

Result<CheckpointValue> reference_of(std::string_view tag, JsonNode&& node) {
  TensorReference reference;
  if (tag == "parameter") {
    CFCK_TRY(expect_items(node, 2));
    if (node.items[1].kind != Kind::kBool)
      return corrupt("requires_grad of a parameter is no bool");
    reference.kind = TensorReference::Kind::kParameter;
    reference.requires_grad = node.items[1].flag;
    CFCK_TRY_ASSIGN(reference.record, text_of(std::move(node.items[0])));
    return CheckpointValue{std::move(reference)};
  }
  if (tag == "array") reference.kind = TensorReference::Kind::kArray;
  CFCK_TRY_ASSIGN(reference.record, text_of(std::move(node)));
  return CheckpointValue{std::move(reference)};
}

Result<CheckpointValue> tagged_value(std::string_view tag, JsonNode&& node) {
  if (tag == "at") {
    if (node.kind != Kind::kInteger || node.integer < 0)
      return no_value("the index of a container");
    return CheckpointValue{ContainerReference{static_cast<std::size_t>(node.integer)}};
  }
  if (tag == "int") return hex_integer(std::move(node));
  if (tag == "float") {
    CFCK_TRY_ASSIGN(const double number, double_of(node));
    return CheckpointValue{number};
  }
  if (tag == "complex") return complex_of(node);
  if (tag == "bytes" || tag == "bytearray") return bytes_of(std::move(node), tag == "bytearray");
  if (tag == "numpy.scalar") return scalar_of(std::move(node));
  if (tag == "torch.Size") {
    CFCK_TRY_ASSIGN(std::vector<std::int64_t> sizes, sizes_of(std::move(node)));
    return CheckpointValue{TorchSize{std::move(sizes)}};
  }
  if (tag == "torch.dtype") {
    CFCK_TRY_ASSIGN(std::string name, text_of(std::move(node)));
    return CheckpointValue{TorchDType{std::move(name)}};
  }
  if (tag == "torch.device") {
    CFCK_TRY_ASSIGN(std::string name, text_of(std::move(node)));
    return CheckpointValue{TorchDevice{std::move(name)}};
  }
  if (tag == "torch.layout") {
    CFCK_TRY_ASSIGN(std::string name, text_of(std::move(node)));
    return CheckpointValue{TorchLayout{std::move(name)}};
  }
  if (tag == "torch.meta") return meta_of(std::move(node));
  if (tag == "torch.tensor") return torch_tensor_of(std::move(node));
  if (tag == "tensor" || tag == "parameter" || tag == "array") {
    return reference_of(tag, std::move(node));
  }
  return unsupported(
      "the checkpoint was written by a newer version of cfck: there is no value of "
      "type '" +
      escaped(tag) + "'; load it with that version");
}

// True for the values that are objects of JSON and may be keys.
bool is_key_tag(std::string_view tag) {
  constexpr std::array<std::string_view, 7> kTags = {
      "int", "float", "complex", "bytes", "torch.Size", "torch.dtype", "torch.device"};
  return std::find(kTags.begin(), kTags.end(), tag) != kTags.end();
}

Result<CheckpointValue> tuple_key(JsonNode&& node, int depth) {
  if (node.kind != Kind::kArray) return no_value("an array");
  if (depth == kMaxKeyDepth) return corrupt("a key has more than 16 nested tuples");
  TupleKey tuple;
  for (JsonNode& item : node.items) {
    CFCK_TRY_ASSIGN(CheckpointValue key, key_of(std::move(item), depth + 1));
    tuple.items.push_back(std::move(key));
  }
  return CheckpointValue{std::move(tuple)};
}

}  // namespace

Result<CheckpointValue> value_of(JsonNode&& node) {
  switch (node.kind) {
    case Kind::kNull:
      return CheckpointValue{};
    case Kind::kBool:
      return CheckpointValue{node.flag};
    case Kind::kInteger:
      return CheckpointValue{node.integer};
    case Kind::kText:
      return CheckpointValue{std::move(node.text)};
    case Kind::kNumber:
      return corrupt("a number with a fraction or an exponent is not a value by itself");
    case Kind::kArray:
      return corrupt("an array is not a value");
    case Kind::kObject:
      break;
  }
  if (node.items.size() != 1) return corrupt("an object does not have exactly one member");
  return tagged_value(node.names[0], std::move(node.items[0]));
}

Result<CheckpointValue> key_of(JsonNode&& node, int depth) {
  if (node.kind == Kind::kObject && node.items.size() == 1) {
    if (node.names[0] == "tuple") return tuple_key(std::move(node.items[0]), depth);
    if (!is_key_tag(node.names[0])) {
      return corrupt("a key has the type '" + escaped(node.names[0]) + "'");
    }
  }
  return value_of(std::move(node));
}

}  // namespace cfck::model

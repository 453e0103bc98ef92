#include "interop/pytorch/pickle/calls.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "interop/pytorch/pickle/torch_types.hpp"

namespace cfck::interop {
namespace {

constexpr std::size_t kMaxArguments = 16;

// What call() understands besides the dtypes and storages of torch.
constexpr std::array<std::string_view, 23> kFunctions = {
    "collections OrderedDict",
    "collections Counter",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_parameter_with_state",
    "torch._utils _rebuild_meta_tensor_no_storage",
    "torch._utils _rebuild_sparse_tensor",
    "torch._tensor _rebuild_from_type_v2",
    "torch.serialization _get_layout",
    "torch.nn.parameter Parameter",
    "torch Tensor",
    "torch Size",
    "torch device",
    "torch.storage UntypedStorage",
    "builtins complex",
    "builtins set",
    "builtins frozenset",
    "builtins bytearray",
    "_codecs encode",
    "builtins bytes",
    "torch._tensor Tensor",
};

}  // namespace

Error bad_arguments(std::string_view function) {
  return corrupt("the pickle gives " + std::string(function) +
                 " other arguments than PyTorch does");
}

Error too_many_values() {
  return limit_exceeded("the pickle has more than " + std::to_string(kMaxPickledValues) +
                        " values; store long lists as tensors");
}

Result<void> PickleCalls::check_size() const {
  if (pickle_.nodes.size() > kMaxPickledValues) return too_many_values();
  if (left_ > 0) return {};
  return limit_exceeded(
      "the pickle repeats its values more often than files of PyTorch do; load it with torch.load "
      "in Python if you trust it");
}

NodeId PickleCalls::add(Node node) {
  spend(node.items.size() + node.text.size() + 1);
  pickle_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(pickle_.nodes.size() - 1);
}

NodeId PickleCalls::add(NodeKind kind, std::vector<NodeId> items) {
  Node node;
  node.kind = kind;
  node.items = std::move(items);
  return add(std::move(node));
}

NodeId PickleCalls::add_listed(NodeKind kind, std::size_t index) {
  Node node;
  node.kind = kind;
  node.integer = static_cast<std::int64_t>(index);
  return add(std::move(node));
}

const Node* PickleCalls::argument(const Node& arguments, std::size_t index, NodeKind kind) const {
  if (index >= arguments.items.size()) return nullptr;
  const Node& node = at(arguments.items[index]);
  return node.kind == kind ? &node : nullptr;
}

Result<NodeId> PickleCalls::global(std::string_view module, std::string_view name,
                                   std::uint64_t at_byte) {
  // The names of Python 2, which protocols below 3 write.
  if (module == "__builtin__") module = "builtins";
  Node node;
  node.kind = NodeKind::kGlobal;
  node.text.append(module).append(" ").append(name);
  if (module == "torch" && torch_type(name) != nullptr) {
    node.kind = NodeKind::kDType;
    node.text = name;
    return add(std::move(node));
  }
  const bool known = std::find(kFunctions.begin(), kFunctions.end(), node.text) != kFunctions.end();
  if (known || (module == "torch" && name.ends_with("Storage"))) return add(std::move(node));
  node.kind = NodeKind::kClass;
  node.text[module.size()] = '.';
  node.integer = static_cast<std::int64_t>(at_byte);
  const NodeId id = add(std::move(node));
  if (!pickle_.unknown) pickle_.unknown = id;
  return id;
}

NodeId PickleCalls::refused(std::string text, std::vector<NodeId> parts) {
  Node node;
  node.kind = NodeKind::kRefused;
  node.text = std::move(text);
  node.items = std::move(parts);
  return add(std::move(node));
}

// Makes an object that stands for what an unknown function would return. Some functions make an
// object of the class that is their first argument.
NodeId PickleCalls::object_of(NodeId function, NodeId arguments) {
  Node object;
  object.kind = NodeKind::kObject;
  object.text = at(function).text;
  object.integer = at(function).integer;
  if (at(arguments).kind == NodeKind::kTuple) object.items = at(arguments).items;
  const bool makes_first = object.text == "copyreg._reconstructor" ||
                           object.text == "copy_reg._reconstructor" ||
                           object.text == "copyreg.__newobj__";
  if (makes_first && !object.items.empty() && at(object.items[0]).kind == NodeKind::kClass) {
    object.text = at(object.items[0]).text;
  } else if (object.text.ends_with("multiarray._reconstruct")) {
    object.text = "numpy.ndarray";
  } else if (object.text.ends_with("multiarray.scalar")) {
    object.text = "numpy scalar";
  }
  // Classes among the arguments, such as the base of an object, are no parts of it.
  std::erase_if(object.items, [&](NodeId item) {
    return at(item).kind == NodeKind::kClass || at(item).kind == NodeKind::kGlobal;
  });
  return add(std::move(object));
}

Result<NodeId> PickleCalls::call(NodeId function, NodeId arguments) {
  const NodeKind kind = at(function).kind;
  if (kind == NodeKind::kClass || kind == NodeKind::kObject) return object_of(function, arguments);
  if (kind != NodeKind::kGlobal || at(arguments).kind != NodeKind::kTuple) {
    return corrupt("the pickle calls something that is no function");
  }
  if (at(arguments).items.size() > kMaxArguments) return bad_arguments("a function");
  const std::string name = at(function).text;
  spend(name.size());
  const Node copy = at(arguments);  // the list of nodes grows
  auto made = known(name, copy);
  if (made || made.error().code != ErrorCode::kUnsupported) return made;
  return refused(std::move(made).error().message, copy.items);
}

Result<NodeId> PickleCalls::known(const std::string& name, const Node& arguments) {
  constexpr std::string_view kUtils = "torch._utils _rebuild_";
  if (name == "collections OrderedDict") return ordered_dict(arguments);
  if (name == "collections Counter") return counter(arguments);
  if (name == "torch._utils _rebuild_parameter") return parameter(arguments, false);
  if (name == "torch._utils _rebuild_parameter_with_state") return parameter(arguments, true);
  if (name == "torch._utils _rebuild_meta_tensor_no_storage") return meta_tensor(arguments);
  if (name == "torch._utils _rebuild_sparse_tensor") return sparse_tensor(arguments);
  if (name == "torch._tensor _rebuild_from_type_v2") return typed_tensor(arguments);
  if (name.starts_with(kUtils)) return tensor(arguments, name.substr(kUtils.size()));
  if (name == "torch.serialization _get_layout") return layout(arguments);
  if (name == "torch Size") return size(arguments);
  if (name == "torch device") return device(arguments);
  if (name == "builtins complex") return complex(arguments);
  if (name == "builtins set") return set(arguments, NodeKind::kSet);
  if (name == "builtins frozenset") return set(arguments, NodeKind::kFrozenset);
  if (name == "builtins bytearray") return bytearray(arguments);
  if (name == "_codecs encode") return encoded(arguments);
  if (name == "builtins bytes" && arguments.items.empty()) {
    Node bytes;
    bytes.kind = NodeKind::kBytes;
    return add(std::move(bytes));
  }
  return unsupported("is what " + escaped(name) + " would return, which cfck does not call");
}

Result<NodeId> PickleCalls::ordered_dict(const Node& arguments) {
  Node dict;
  dict.kind = NodeKind::kOrderedDict;
  if (arguments.items.size() > 1) return bad_arguments("OrderedDict");
  if (arguments.items.size() == 1) {
    const Node* const pairs = argument(arguments, 0, NodeKind::kList);
    if (pairs == nullptr) return bad_arguments("OrderedDict");
    for (const NodeId pair : pairs->items) {
      if (at(pair).items.size() != 2 ||
          (at(pair).kind != NodeKind::kList && at(pair).kind != NodeKind::kTuple)) {
        return bad_arguments("OrderedDict");
      }
      CFCK_TRY(check_key(at(pair).items[0]));
      dict.items.insert(dict.items.end(), at(pair).items.begin(), at(pair).items.end());
    }
  }
  return add(std::move(dict));
}

Result<NodeId> PickleCalls::counter(const Node& arguments) {
  Node counter;
  counter.kind = NodeKind::kCounter;
  if (arguments.items.size() > 1) return bad_arguments("Counter");
  if (arguments.items.size() == 1) {
    const Node* const dict = argument(arguments, 0, NodeKind::kDict);
    if (dict == nullptr) return bad_arguments("Counter");
    counter.items = dict->items;
  }
  return add(std::move(counter));
}

Result<NodeId> PickleCalls::set(const Node& arguments, NodeKind kind) {
  std::vector<NodeId> items;
  if (arguments.items.size() > 1) return bad_arguments("set");
  if (arguments.items.size() == 1) {
    const Node& list = at(arguments.items[0]);
    if (list.kind != NodeKind::kList && list.kind != NodeKind::kTuple) return bad_arguments("set");
    items = list.items;
  }
  for (const NodeId item : items) CFCK_TRY(check_key(item));
  return add(kind, std::move(items));
}

Result<NodeId> PickleCalls::size(const Node& arguments) {
  if (arguments.items.size() != 1) return bad_arguments("torch.Size");
  const Node& list = at(arguments.items[0]);
  if (list.kind != NodeKind::kList && list.kind != NodeKind::kTuple)
    return bad_arguments("torch.Size");
  for (const NodeId item : list.items) {
    if (at(item).kind != NodeKind::kInteger) return bad_arguments("torch.Size");
  }
  return add(NodeKind::kSize, std::vector<NodeId>(list.items));
}

Result<NodeId> PickleCalls::device(const Node& arguments) {
  const Node* const name = argument(arguments, 0, NodeKind::kText);
  const Node* const index = argument(arguments, 1, NodeKind::kInteger);
  if (name == nullptr || arguments.items.size() > 2 ||
      (arguments.items.size() == 2 && index == nullptr)) {
    return bad_arguments("torch.device");
  }
  Node device;
  device.kind = NodeKind::kDevice;
  device.text = name->text + (index == nullptr ? "" : ":" + std::to_string(index->integer));
  return add(std::move(device));
}

Result<NodeId> PickleCalls::complex(const Node& arguments) {
  const Node* const real = argument(arguments, 0, NodeKind::kFloat);
  const Node* const imaginary = argument(arguments, 1, NodeKind::kFloat);
  if (arguments.items.size() != 2 || real == nullptr || imaginary == nullptr) {
    return bad_arguments("complex");
  }
  Node number;
  number.kind = NodeKind::kComplex;
  number.real = real->real;
  number.imaginary = imaginary->real;
  return add(std::move(number));
}

// Protocol 2 writes bytes as text: each character is a byte.
Result<NodeId> PickleCalls::encoded(const Node& arguments) {
  const Node* const text = argument(arguments, 0, NodeKind::kText);
  const Node* const encoding = argument(arguments, 1, NodeKind::kText);
  if (arguments.items.size() != 2 || text == nullptr || encoding == nullptr ||
      (encoding->text != "latin1" && encoding->text != "latin-1")) {
    return bad_arguments("_codecs.encode");
  }
  Node bytes;
  bytes.kind = NodeKind::kBytes;
  for (std::size_t i = 0; i < text->text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text->text[i]);
    if (lead < 0x80) {
      bytes.text += static_cast<char>(lead);
    } else if ((lead == 0xC2 || lead == 0xC3) && i + 1 < text->text.size()) {
      const auto next = static_cast<unsigned char>(text->text[++i]);
      bytes.text += static_cast<char>((lead & 3U) << 6 | (next & 0x3FU));
    } else {
      return bad_arguments("_codecs.encode");
    }
  }
  return add(std::move(bytes));
}

// Bytes as text, each character a byte, with the name of that encoding; or bytes.
Result<NodeId> PickleCalls::bytearray(const Node& arguments) {
  Node array;
  array.kind = NodeKind::kBytearray;
  if (arguments.items.size() == 1) {
    const Node* const bytes = argument(arguments, 0, NodeKind::kBytes);
    if (bytes == nullptr) return bad_arguments("bytearray");
    array.text = bytes->text;
  } else if (!arguments.items.empty()) {
    CFCK_TRY_ASSIGN(const NodeId bytes, encoded(arguments));
    array.text = at(bytes).text;
  }
  return add(std::move(array));
}

Result<void> PickleCalls::build(NodeId object, NodeId state) {
  const NodeKind kind = at(object).kind;
  if (is_unknown(kind)) {
    at(object).items.push_back(state);
    return {};
  }
  if (kind == NodeKind::kOrderedDict) return set_attributes(object, state);
  return unsupported(
      "the pickle sets the state of a value that has none; load it with torch.load in Python and "
      "store what you need of it");
}

Result<void> PickleCalls::set_attributes(NodeId object, NodeId state) {
  const auto bad = [] {
    return corrupt("the pickle sets attributes of an object by something that is no dict");
  };
  Node all;
  all.kind = NodeKind::kDict;
  if (at(object).has_attributes) all.items = at(at(object).attributes).items;
  std::vector<NodeId> dicts = {state};
  if (at(state).kind == NodeKind::kTuple && at(state).items.size() == 2) dicts = at(state).items;
  for (const NodeId dict : dicts) {
    if (at(dict).kind == NodeKind::kNone) continue;
    if (at(dict).kind != NodeKind::kDict) return bad();
    for (std::size_t i = 0; i + 1 < at(dict).items.size(); i += 2) {
      if (at(at(dict).items[i]).kind != NodeKind::kText) return bad();
    }
    all.items.insert(all.items.end(), at(dict).items.begin(), at(dict).items.end());
  }
  if (all.items.empty()) return {};
  const NodeId attributes = add(std::move(all));
  at(object).has_attributes = true;
  at(object).attributes = attributes;
  return {};
}

Result<void> PickleCalls::check_key(NodeId key, int depth) const {
  const Node& node = at(key);
  spend(1);
  CFCK_TRY(check_size());
  switch (node.kind) {
    case NodeKind::kNone:
    case NodeKind::kBool:
    case NodeKind::kInteger:
    case NodeKind::kBigInteger:
    case NodeKind::kFloat:
    case NodeKind::kText:
    case NodeKind::kComplex:
    case NodeKind::kBytes:
    case NodeKind::kSize:
    case NodeKind::kDType:
    case NodeKind::kDevice:
    case NodeKind::kClass:  // refused where it is
    case NodeKind::kObject:
    case NodeKind::kRefused:
      return {};
    case NodeKind::kTuple:
      if (depth == kMaxKeyDepth) break;
      for (const NodeId item : node.items) CFCK_TRY(check_key(item, depth + 1));
      return {};
    default:
      break;
  }
  return unsupported(
      "a dict or a set has a key that is no string, number, bool, None, bytes, dtype, device, size "
      "or tuple of these");
}

}  // namespace cfck::interop

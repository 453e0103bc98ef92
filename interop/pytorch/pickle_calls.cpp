#include "interop/pytorch/pickle_calls.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "interop/pytorch/torch_types.hpp"

namespace cfck::interop {
namespace {

constexpr int kMaxKeyDepth = 16;
constexpr std::size_t kMaxDimensions = 64;  // of torch
constexpr std::size_t kMaxArguments = 16;

// What call() understands besides the dtypes and storages of torch.
constexpr std::array<std::string_view, 19> kFunctions = {
    "collections OrderedDict",
    "collections Counter",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_parameter_with_state",
    "torch Size",
    "torch device",
    "torch.storage UntypedStorage",
    "torch UntypedStorage",
    "builtins complex",
    "__builtin__ complex",
    "builtins set",
    "__builtin__ set",
    "builtins frozenset",
    "__builtin__ frozenset",
    "_codecs encode",
    "builtins bytes",
};

Error bad_arguments(std::string_view function) {
  return corrupt("the pickle gives " + std::string(function) +
                 " other arguments than PyTorch does");
}

bool is_empty_or_none(const Node& node) {
  return node.kind == NodeKind::kNone || node.items.empty();
}

// Returns the number of elements from the first to the end of the last of a view, or false where it
// does not fit 64 bits.
bool reach(const PickledTensor& tensor, std::uint64_t& n_elems) {
  n_elems = 1;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::uint64_t distance = 0;
    if (tensor.shape[i] == 0) {
      n_elems = 0;
      return true;
    }
    if (!checked_mul(tensor.shape[i] - 1, tensor.strides[i], distance) ||
        !checked_add(n_elems, distance, n_elems)) {
      return false;
    }
  }
  return true;
}

}  // namespace

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

const Node* PickleCalls::argument(const Node& arguments, std::size_t index, NodeKind kind) const {
  if (index >= arguments.items.size()) return nullptr;
  const Node& node = at(arguments.items[index]);
  return node.kind == kind ? &node : nullptr;
}

Result<NodeId> PickleCalls::global(std::string_view module, std::string_view name) {
  Node node;
  node.kind = NodeKind::kGlobal;
  node.text = std::string(module) + " " + std::string(name);
  if (module == "torch" && is_torch_dtype(name)) {
    node.kind = NodeKind::kDType;
    node.text = name;
    return add(std::move(node));
  }
  const bool known = std::find(kFunctions.begin(), kFunctions.end(), node.text) != kFunctions.end();
  if (known || (module == "torch" && name.ends_with("Storage"))) return add(std::move(node));
  return unsupported(
      "the pickle names " + escaped(std::string(module) + "." + std::string(name)) +
      ", which cfck does not know and so never calls; if you trust the file, load it with "
      "torch.load in Python and store what you need of it with cfck.torch.save_checkpoint");
}

Result<NodeId> PickleCalls::call(NodeId function, NodeId arguments_id) {
  if (at(function).kind != NodeKind::kGlobal || at(arguments_id).kind != NodeKind::kTuple) {
    return corrupt("the pickle calls something that is no function");
  }
  if (at(arguments_id).items.size() > kMaxArguments) return bad_arguments("a function");
  const std::string name = at(function).text;
  const Node arguments = at(arguments_id);  // a copy: the list of nodes grows
  if (name == "collections OrderedDict") return ordered_dict(arguments);
  if (name == "collections Counter") return counter(arguments);
  if (name.starts_with("torch._utils _rebuild_tensor")) {
    return tensor(arguments, std::string_view(name).substr(name.find("tensor")));
  }
  if (name == "torch._utils _rebuild_parameter") return parameter(arguments, false);
  if (name == "torch._utils _rebuild_parameter_with_state") return parameter(arguments, true);
  if (name == "torch Size") return size(arguments);
  if (name == "torch device") return device(arguments);
  if (name.ends_with(" complex")) return complex(arguments);
  if (name.ends_with(" set")) return set(arguments, NodeKind::kSet);
  if (name.ends_with(" frozenset")) return set(arguments, NodeKind::kFrozenset);
  if (name == "_codecs encode") return encoded(arguments);
  if (name == "builtins bytes" && arguments.items.empty()) {
    Node bytes;
    bytes.kind = NodeKind::kBytes;
    return add(std::move(bytes));
  }
  return unsupported("the pickle calls " + escaped(name) + ", which cfck does not do");
}

Result<NodeId> PickleCalls::storage(NodeId persistent_id) {
  const Node& id = at(persistent_id);
  const auto bad = [] {
    return corrupt("the pickle has a reference that is no storage of PyTorch");
  };
  if (id.kind != NodeKind::kTuple || id.items.size() < 5) return bad();
  const Node* const word = argument(id, 0, NodeKind::kText);
  const Node* const type = argument(id, 1, NodeKind::kGlobal);
  const Node* const key = argument(id, 2, NodeKind::kText);
  const Node* const count = argument(id, 4, NodeKind::kInteger);
  if (word == nullptr || word->text != "storage" || type == nullptr || key == nullptr ||
      count == nullptr || count->integer < 0) {
    return bad();
  }
  PickledStorage storage;
  storage.key = key->text;
  storage.n_elems = static_cast<std::uint64_t>(count->integer);
  const std::string_view name = std::string_view(type->text).substr(type->text.find(' ') + 1);
  if (name == "UntypedStorage") {
    storage.is_typed = false;
  } else if (const auto dtype = dtype_of_storage(name)) {
    storage.dtype = *dtype;
  } else {
    return unsupported("the pickle has a torch." + escaped(name) +
                       ", whose elements cfck does not store; convert its tensors in Python");
  }
  std::size_t index = pickle_.storages.size();
  const auto found = storages_.find(storage.key);
  if (found == storages_.end()) {
    storages_.emplace(storage.key, index);
    pickle_.storages.push_back(std::move(storage));
  } else {
    index = found->second;
    const PickledStorage& other = pickle_.storages[index];
    if (other.is_typed != storage.is_typed || other.dtype != storage.dtype ||
        other.n_elems != storage.n_elems) {
      // A storage may be seen as several dtypes; each of them has its own tensors.
      index = pickle_.storages.size();
      pickle_.storages.push_back(std::move(storage));
    }
  }
  Node node;
  node.kind = NodeKind::kStorage;
  node.integer = static_cast<std::int64_t>(index);
  return add(std::move(node));
}

Result<std::vector<std::uint64_t>> PickleCalls::sizes(NodeId tuple) const {
  const Node& node = at(tuple);
  std::vector<std::uint64_t> all;
  if ((node.kind != NodeKind::kTuple && node.kind != NodeKind::kSize) ||
      node.items.size() > kMaxDimensions) {
    return corrupt("a tensor has a shape or strides that are no tuple of at most 64 integers");
  }
  for (const NodeId item : node.items) {
    if (at(item).kind != NodeKind::kInteger || at(item).integer < 0) {
      return corrupt("a tensor has a shape or strides that are not integers from 0 on");
    }
    all.push_back(static_cast<std::uint64_t>(at(item).integer));
  }
  return all;
}

Result<NodeId> PickleCalls::tensor(const Node& arguments, std::string_view version) {
  const bool is_v3 = version == "tensor_v3";
  const std::size_t n_fixed = version == "tensor" ? 4 : is_v3 ? 7 : 6;
  const Node* const storage_node = argument(arguments, 0, NodeKind::kStorage);
  const Node* const first = argument(arguments, 1, NodeKind::kInteger);
  if (storage_node == nullptr || first == nullptr || first->integer < 0 ||
      arguments.items.size() < n_fixed || arguments.items.size() > n_fixed + 1) {
    return bad_arguments("a tensor");
  }
  PickledTensor tensor;
  tensor.storage = static_cast<std::size_t>(storage_node->integer);
  tensor.first_elem = static_cast<std::uint64_t>(first->integer);
  CFCK_TRY_ASSIGN(tensor.shape, sizes(arguments.items[2]));
  CFCK_TRY_ASSIGN(tensor.strides, sizes(arguments.items[3]));
  if (tensor.shape.size() != tensor.strides.size()) return bad_arguments("a tensor");
  if (n_fixed > 4 && !is_empty_or_none(at(arguments.items[5]))) {
    return unsupported("a tensor has backward hooks, which are code; remove them in Python");
  }
  if (arguments.items.size() > n_fixed && !is_empty_or_none(at(arguments.items[n_fixed]))) {
    return unsupported(
        "a tensor is a lazy conjugate or negative, or has other metadata; store "
        "x.resolve_conj().resolve_neg() in Python");
  }
  const PickledStorage& storage = pickle_.storages[tensor.storage];
  tensor.dtype = storage.dtype;
  if (is_v3) {
    const Node* const dtype = argument(arguments, 6, NodeKind::kDType);
    const auto known = dtype == nullptr ? std::nullopt : dtype_of_torch(dtype->text);
    if (!known) {
      return unsupported("a tensor has the dtype " +
                         (dtype == nullptr ? std::string("of none") : "torch." + dtype->text) +
                         ", which cfck does not store; convert it in Python");
    }
    tensor.dtype = *known;
  } else if (!storage.is_typed) {
    return corrupt("a tensor has a storage without a dtype");
  }
  std::uint64_t end_elem = 0;
  std::uint64_t end_bytes = 0;
  const std::uint64_t elem_bytes = bits_per_element(tensor.dtype) / 8;
  const std::uint64_t storage_bytes_each =
      storage.is_typed ? bits_per_element(storage.dtype) / 8 : 1;
  std::uint64_t storage_bytes = 0;
  if (!reach(tensor, end_elem) || !checked_add(end_elem, tensor.first_elem, end_elem) ||
      !checked_mul(end_elem, elem_bytes, end_bytes) ||
      !checked_mul(storage.n_elems, storage_bytes_each, storage_bytes) ||
      end_bytes > storage_bytes) {
    return corrupt("a tensor reaches beyond its storage '" + escaped(storage.key) + "'");
  }
  Node node;
  node.kind = NodeKind::kTensor;
  node.integer = static_cast<std::int64_t>(pickle_.tensors.size());
  pickle_.tensors.push_back(std::move(tensor));
  return add(std::move(node));
}

Result<NodeId> PickleCalls::parameter(const Node& arguments, bool has_state) {
  const std::size_t n_arguments = has_state ? 4 : 3;
  const Node* const requires_grad = argument(arguments, 1, NodeKind::kBool);
  if (arguments.items.size() != n_arguments || requires_grad == nullptr ||
      argument(arguments, 0, NodeKind::kTensor) == nullptr) {
    return bad_arguments("a parameter");
  }
  if (!is_empty_or_none(at(arguments.items[2])) ||
      (has_state && !is_empty_or_none(at(arguments.items[3])))) {
    return unsupported(
        "a parameter has hooks or attributes of its own, which would be lost; remove them in "
        "Python");
  }
  Node node;
  node.kind = NodeKind::kParameter;
  node.integer = requires_grad->integer;
  node.items = {arguments.items[0]};
  return add(std::move(node));
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

Result<void> PickleCalls::build(NodeId object, NodeId state) {
  const Node& dict = at(state);
  const bool is_metadata = at(object).kind == NodeKind::kOrderedDict &&
                           dict.kind == NodeKind::kDict && dict.items.size() == 2 &&
                           at(dict.items[0]).kind == NodeKind::kText &&
                           at(dict.items[0]).text == "_metadata";
  if (!is_metadata) {
    return unsupported(
        "the pickle sets attributes of an object, which would be lost; load it with torch.load in "
        "Python and store what you need of it");
  }
  const NodeId metadata = dict.items[1];
  at(object).has_metadata = true;
  at(object).metadata = metadata;
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
      return {};
    case NodeKind::kTuple:
      if (depth == kMaxKeyDepth) break;
      for (const NodeId item : node.items) CFCK_TRY(check_key(item, depth + 1));
      return {};
    default:
      break;
  }
  return unsupported(
      "a dict or a set has a key that is no string, number, bool, None or tuple of these");
}

}  // namespace cfck::interop

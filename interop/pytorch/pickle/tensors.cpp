// Tensors and storages, as the functions of torch._utils rebuild them.
#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "interop/pytorch/pickle/calls.hpp"
#include "interop/pytorch/pickle/torch_types.hpp"

namespace cfck::interop {
namespace {

constexpr std::size_t kMaxTorchDimensions = 64;  // of torch
constexpr std::string_view kHooks = "has hooks, which are code; remove them in Python";

bool is_empty_or_none(const Node& node) {
  return node.kind == NodeKind::kNone || (node.items.empty() && !is_unknown(node.kind));
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

Error not_stored(std::string_view dtype) {
  return unsupported("is a tensor of dtype torch." + std::string(dtype) +
                     ", which cfck does not store; convert it in Python");
}

bool can_be_negated(const PickledTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kC64:
      return true;
    default:
      return false;
  }
}

// Turns a view of elements into one of the values that they have: real and imaginary part, or two
// values of F4 in a byte. Returns false where they are too many, or F4 is not contiguous.
bool split_elements(PickledTensor& tensor, const TorchType& type) {
  if (type.n_values == 1) return true;
  for (std::uint64_t& stride : tensor.strides) {
    if (!checked_mul(stride, std::uint64_t{2}, stride)) return false;
  }
  if (type.is_split_complex()) {
    tensor.complex_dtype = type.name;
    tensor.shape.push_back(2);
    tensor.strides.push_back(1);
    return true;
  }
  if (tensor.shape.empty()) return false;
  std::uint64_t stride = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    const bool last = i + 1 == tensor.shape.size();
    if (tensor.shape[i] > 1 && tensor.strides[i] != stride * (last ? 2 : 1)) return false;
    if (last && !checked_mul(tensor.shape[i], std::uint64_t{2}, tensor.shape[i])) return false;
    tensor.strides[i] = stride;
    if (!checked_mul(stride, tensor.shape[i], stride)) return false;
  }
  return true;
}

}  // namespace

Result<PickledStorage> PickleCalls::storage_of(const Node& id) const {
  const Node* const type = argument(id, 1, NodeKind::kGlobal);
  const Node* const key = argument(id, 2, NodeKind::kText);
  const Node* const count = argument(id, 4, NodeKind::kInteger);
  if (type == nullptr || key == nullptr || count == nullptr || count->integer < 0) {
    return corrupt("the pickle has a reference that is no storage of PyTorch");
  }
  spend(key->text.size());  // a copy
  PickledStorage storage;
  storage.key = key->text;
  storage.n_elems = static_cast<std::uint64_t>(count->integer);
  const std::string_view name = std::string_view(type->text).substr(type->text.find(' ') + 1);
  if (name != "UntypedStorage") {
    const TorchType* const known = type_of_storage(name);
    if (known == nullptr || !known->dtype) {
      return unsupported("is a tensor of a torch." + escaped(name) +
                         ", whose elements cfck does not store; convert it in Python");
    }
    storage.torch_dtype = known->name;
    storage.elem_bytes = known->elem_bytes();
  }
  // A view of another storage, as files before PyTorch 1.6 have them: (its key, first, count).
  const Node* const view = argument(id, 5, NodeKind::kTuple);
  if (view == nullptr) return storage;
  const Node* const first = argument(*view, 1, NodeKind::kInteger);
  const Node* const n_elems = argument(*view, 2, NodeKind::kInteger);
  if (view->items.size() != 3 || first == nullptr || n_elems == nullptr || first->integer < 0 ||
      n_elems->integer < 0 || first->integer > count->integer ||
      n_elems->integer > count->integer - first->integer) {
    return corrupt("the pickle has a view that does not lie in its storage");
  }
  storage.first_elem = static_cast<std::uint64_t>(first->integer);
  storage.n_elems = static_cast<std::uint64_t>(n_elems->integer);
  return storage;
}

Result<NodeId> PickleCalls::storage(NodeId persistent_id) {
  const Node& id = at(persistent_id);
  const Node* const word = argument(id, 0, NodeKind::kText);
  if (id.kind == NodeKind::kTuple && word != nullptr && word->text == "module" &&
      id.items.size() == 4) {
    return id.items[1];  // a class, with its source code
  }
  if (id.kind != NodeKind::kTuple || id.items.size() < 5 || word == nullptr ||
      word->text != "storage") {
    return corrupt("the pickle has a reference that is no storage of PyTorch");
  }
  auto storage = storage_of(id);
  if (!storage) {
    if (storage.error().code != ErrorCode::kUnsupported) return std::move(storage).error();
    return refused(std::move(storage).error().message, {});
  }
  std::size_t index = pickle_.storages.size();
  const auto found = storages_.find(storage->key);
  const auto is_same = [&](const PickledStorage& other) {
    return other.torch_dtype == storage->torch_dtype && other.n_elems == storage->n_elems &&
           other.first_elem == storage->first_elem;
  };
  if (found != storages_.end() && is_same(pickle_.storages[found->second])) {
    index = found->second;
  } else {
    // A storage may be seen as several dtypes; each of them has its own tensors.
    storages_.try_emplace(storage->key, index);
    pickle_.storages.push_back(*std::move(storage));
  }
  return add_listed(NodeKind::kStorage, index);
}

Result<std::vector<std::uint64_t>> PickleCalls::sizes(NodeId tuple) const {
  const Node& node = at(tuple);
  std::vector<std::uint64_t> all;
  if ((node.kind != NodeKind::kTuple && node.kind != NodeKind::kSize) ||
      node.items.size() > kMaxTorchDimensions) {
    return corrupt("a tensor has a shape or strides that are no tuple of at most 64 integers");
  }
  spend(node.items.size());
  for (const NodeId item : node.items) {
    if (at(item).kind != NodeKind::kInteger || at(item).integer < 0) {
      return corrupt("a tensor has a shape or strides that are not integers from 0 on");
    }
    all.push_back(static_cast<std::uint64_t>(at(item).integer));
  }
  return all;
}

// Gives the tensor its dtype, and its place in the bytes of the storage.
Result<void> PickleCalls::set_values(PickledTensor& tensor, const PickledStorage& storage,
                                     std::string_view torch_dtype) {
  const TorchType* const type = torch_type(torch_dtype);
  if (type == nullptr || !type->dtype) return not_stored(torch_dtype);
  tensor.dtype = *type->dtype;
  const std::uint64_t elem_bytes = type->elem_bytes();
  std::uint64_t end_elem = 0;
  std::uint64_t end_bytes = 0;
  std::uint64_t storage_bytes = 0;
  if (!reach(tensor, end_elem) ||
      !checked_mul(tensor.offset_bytes, elem_bytes, tensor.offset_bytes) ||
      !checked_mul(end_elem, elem_bytes, end_bytes) ||
      !checked_add(end_bytes, tensor.offset_bytes, end_bytes) ||
      !checked_mul(storage.n_elems, storage.elem_bytes, storage_bytes) ||
      end_bytes > storage_bytes) {
    return corrupt("a tensor reaches beyond its storage '" + escaped(storage.key) + "'");
  }
  if (split_elements(tensor, *type)) return {};
  return unsupported("is a tensor of dtype torch." + std::string(torch_dtype) +
                     " that is not contiguous; store x.contiguous() in Python");
}

// (storage, first, shape, strides), then from v2 on requires_grad, hooks; v3: dtype; at last, where
// there is any, a dict of lazy operations.
Result<NodeId> PickleCalls::tensor(const Node& arguments, std::string_view version) {
  const bool is_v3 = version == "tensor_v3";
  const std::size_t n_fixed = version == "tensor" ? 4 : is_v3 ? 7 : 6;
  if (const Node* const why = argument(arguments, 0, NodeKind::kRefused)) {
    return unsupported(std::string(why->text));
  }
  const Node* const storage_node = argument(arguments, 0, NodeKind::kStorage);
  const Node* const first = argument(arguments, 1, NodeKind::kInteger);
  if (storage_node == nullptr || first == nullptr || first->integer < 0 ||
      arguments.items.size() < n_fixed || arguments.items.size() > n_fixed + 1) {
    return bad_arguments("a tensor");
  }
  PickledTensor tensor;
  tensor.storage = static_cast<std::size_t>(storage_node->integer);
  tensor.offset_bytes = static_cast<std::uint64_t>(first->integer);  // in elements, until below
  CFCK_TRY_ASSIGN(tensor.shape, sizes(arguments.items[2]));
  CFCK_TRY_ASSIGN(tensor.strides, sizes(arguments.items[3]));
  if (tensor.shape.size() != tensor.strides.size()) return bad_arguments("a tensor");
  if (n_fixed > 4) {
    const Node* const requires_grad = argument(arguments, 4, NodeKind::kBool);
    tensor.requires_grad = requires_grad != nullptr && requires_grad->integer != 0;
    if (!is_empty_or_none(at(arguments.items[5]))) {
      return unsupported("is a tensor that " + std::string(kHooks));
    }
  }
  const PickledStorage& storage = pickle_.storages[tensor.storage];
  std::string_view torch_dtype = storage.torch_dtype;
  if (is_v3) {
    const Node* const dtype = argument(arguments, 6, NodeKind::kDType);
    if (dtype == nullptr) return bad_arguments("a tensor");
    torch_dtype = dtype->text;
  } else if (torch_dtype.empty()) {
    return corrupt("a tensor has a storage without a dtype");
  }
  CFCK_TRY(set_values(tensor, storage, torch_dtype));
  if (arguments.items.size() > n_fixed) {
    const Node& lazy = at(arguments.items[n_fixed]);
    for (std::size_t i = 0; i + 1 < lazy.items.size(); i += 2) {
      const std::string& what = at(lazy.items[i]).text;
      const Node& flag = at(lazy.items[i + 1]);
      const bool is_known = lazy.kind == NodeKind::kDict && flag.kind == NodeKind::kBool &&
                            (what == "neg" || what == "conj") && can_be_negated(tensor);
      if (!is_known) {
        return unsupported("is a tensor with metadata '" + escaped(what) +
                           "'; store x.clone() in Python");
      }
      (what == "neg" ? tensor.negated : tensor.conjugated) = flag.integer != 0;
    }
  }
  pickle_.tensors.push_back(std::move(tensor));
  return add_listed(NodeKind::kTensor, pickle_.tensors.size() - 1);
}

// (dtype, shape, strides, requires_grad)
Result<NodeId> PickleCalls::meta_tensor(const Node& arguments) {
  const Node* const dtype = argument(arguments, 0, NodeKind::kDType);
  const Node* const requires_grad = argument(arguments, 3, NodeKind::kBool);
  if (dtype == nullptr || requires_grad == nullptr || arguments.items.size() != 4) {
    return bad_arguments("a tensor without values");
  }
  PickledMetaTensor tensor;
  tensor.torch_dtype = torch_type(dtype->text)->name;
  CFCK_TRY_ASSIGN(tensor.shape, sizes(arguments.items[1]));
  CFCK_TRY_ASSIGN(tensor.strides, sizes(arguments.items[2]));
  if (tensor.shape.size() != tensor.strides.size()) return bad_arguments("a tensor without values");
  tensor.requires_grad = requires_grad->integer != 0;
  pickle_.meta_tensors.push_back(std::move(tensor));
  return add_listed(NodeKind::kMetaTensor, pickle_.meta_tensors.size() - 1);
}

Result<NodeId> PickleCalls::layout(const Node& arguments) {
  const Node* const name = argument(arguments, 0, NodeKind::kText);
  if (name == nullptr || arguments.items.size() != 1 || !name->text.starts_with("torch.")) {
    return bad_arguments("a layout");
  }
  Node layout;
  layout.kind = NodeKind::kLayout;
  layout.text = name->text.substr(name->text.find('.') + 1);
  return add(std::move(layout));
}

// (layout, (indices, values, size)), perhaps with is_coalesced; or with two tensors of indices.
Result<NodeId> PickleCalls::sparse_tensor(const Node& arguments) {
  const Node* const layout = argument(arguments, 0, NodeKind::kLayout);
  const Node* const data = argument(arguments, 1, NodeKind::kTuple);
  if (layout == nullptr || data == nullptr || arguments.items.size() != 2) {
    return bad_arguments("a sparse tensor");
  }
  const bool is_coo = layout->text == "sparse_coo";
  const std::size_t n_tensors = is_coo ? 2 : 3;
  for (std::size_t i = 0; i < n_tensors; ++i) {
    if (const Node* const why = argument(*data, i, NodeKind::kRefused)) {
      return unsupported(std::string(why->text));
    }
    if (argument(*data, i, NodeKind::kTensor) == nullptr) return bad_arguments("a sparse tensor");
  }
  const bool has_flag = is_coo && argument(*data, 3, NodeKind::kBool) != nullptr;
  if (data->items.size() != n_tensors + (has_flag ? 2 : 1)) {
    return bad_arguments("a sparse tensor");
  }
  std::vector<NodeId> items = {arguments.items[0]};
  items.insert(items.end(), data->items.begin(), data->items.end());
  if (at(items[1 + n_tensors]).kind != NodeKind::kSize) {
    Node size_argument;
    size_argument.items = {items[1 + n_tensors]};
    CFCK_TRY_ASSIGN(items[1 + n_tensors], size(size_argument));
  }
  return add(NodeKind::kSparse, std::move(items));
}

// (data, requires_grad, hooks), perhaps with attributes.
Result<NodeId> PickleCalls::parameter(const Node& arguments, bool has_state) {
  if (const Node* const why = argument(arguments, 0, NodeKind::kRefused)) {
    return unsupported(std::string(why->text));
  }
  const Node* const requires_grad = argument(arguments, 1, NodeKind::kBool);
  const bool has_data = argument(arguments, 0, NodeKind::kTensor) != nullptr ||
                        argument(arguments, 0, NodeKind::kMetaTensor) != nullptr;
  if (arguments.items.size() != (has_state ? 4U : 3U) || requires_grad == nullptr || !has_data) {
    return bad_arguments("a parameter");
  }
  if (!is_empty_or_none(at(arguments.items[2]))) {
    return unsupported("is a parameter that " + std::string(kHooks));
  }
  Node node;
  node.kind = NodeKind::kParameter;
  node.integer = requires_grad->integer;
  node.items = {arguments.items[0]};
  const NodeId made = add(std::move(node));
  if (has_state) CFCK_TRY(set_attributes(made, arguments.items[3]));
  return made;
}

// (function, class, its arguments, attributes)
Result<NodeId> PickleCalls::typed_tensor(const Node& arguments) {
  const Node* const type = arguments.items.size() == 4 ? &at(arguments.items[1]) : nullptr;
  if (type == nullptr || (type->kind != NodeKind::kGlobal && type->kind != NodeKind::kClass)) {
    return bad_arguments("a tensor with attributes");
  }
  const NodeId type_id = arguments.items[1];
  const Node* const function = argument(arguments, 0, NodeKind::kGlobal);
  const bool nests = function != nullptr && function->text.ends_with("_rebuild_from_type_v2");
  if (nests) return bad_arguments("a tensor with attributes");
  CFCK_TRY_ASSIGN(const NodeId made, call(arguments.items[0], arguments.items[2]));
  const NodeKind kind = at(made).kind;
  const bool is_plain = at(type_id).text == "torch Tensor" ||
                        at(type_id).text == "torch._tensor Tensor" ||
                        at(type_id).text == "torch.nn.parameter Parameter";
  if (at(type_id).kind == NodeKind::kClass) {
    Node object;
    object.kind = NodeKind::kObject;
    object.text = at(type_id).text;
    object.integer = at(type_id).integer;
    object.items = {made, arguments.items[3]};
    return add(std::move(object));
  }
  if (is_unknown(kind)) return made;
  if (!is_plain || (kind != NodeKind::kTensor && kind != NodeKind::kParameter)) {
    return bad_arguments("a tensor with attributes");
  }
  CFCK_TRY(set_attributes(made, arguments.items[3]));
  return made;
}

}  // namespace cfck::interop

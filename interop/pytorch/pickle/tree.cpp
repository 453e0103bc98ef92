#include "interop/pytorch/pickle/tree.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "interop/pytorch/pickle/calls.hpp"
#include "interop/pytorch/pickle/paths.hpp"

namespace cfck::interop {
namespace {

using Kind = CheckpointContainer::Kind;

constexpr std::size_t kMaxDepth = 1000;  // spec/checkpoint.md, section 3
constexpr std::size_t kMaxLeftOut = 100;
// Values that are seen again because their container is in several places, for each byte of the
// pickle: a few bytes may put a container into a container again and again.
constexpr std::uint64_t kRepeatsPerByte = 8;
constexpr std::uint64_t kMinRepeats = 4096;

constexpr std::string_view kWays =
    "take its tensors alone with --only-tensors (load_file(path, only_tensors=True) in Python); "
    "or, "
    "if you trust the file, load it with torch.load in Python and store what you need of it with "
    "cfck.torch.save_checkpoint";

std::optional<Kind> container_kind(const Node& node) {
  switch (node.kind) {
    case NodeKind::kTuple:
      return Kind::kTuple;
    case NodeKind::kList:
      return Kind::kList;
    case NodeKind::kDict:
      return Kind::kDict;
    case NodeKind::kOrderedDict:
      return Kind::kOrderedDict;
    case NodeKind::kCounter:
      return Kind::kCounter;
    case NodeKind::kSet:
      return Kind::kSet;
    case NodeKind::kFrozenset:
      return Kind::kFrozenset;
    case NodeKind::kSparse:
      return Kind::kSparse;
    default:
      return std::nullopt;
  }
}

// A container whose items are being added.
struct Open {
  NodeId id = 0;
  CheckpointContainer container;
  std::size_t next = 0;          // in the node's items
  std::uint64_t first_name = 0;  // of those that are its own
  bool is_repeat = false;        // it was built before: only the names of its tensors are new
  bool in_metadata = false;
};

// A container that was built.
struct Built {
  std::size_t place = 0;  // in Checkpoint::containers
  std::uint64_t n_names = 0;
};

// Walks the values without recursion: they may be nested deeper than the stack.
class TreeBuilder {
 public:
  TreeBuilder(const Pickle& pickle, bool only_tensors)
      : pickle_(pickle),
        only_tensors_(only_tensors),
        left_repeats_(std::clamp(kRepeatsPerByte * pickle.n_bytes, kMinRepeats, kMaxPickledValues)),
        is_open_(pickle.nodes.size()) {}

  Result<PickleTree> run() {
    CFCK_TRY_ASSIGN(std::optional<CheckpointValue> value, start(pickle_.root));
    while (!open_.empty()) {
      CFCK_TRY_ASSIGN(const bool complete, fill());
      if (!complete) continue;
      value = close();
      if (!open_.empty()) put(*std::exchange(value, std::nullopt));
    }
    if (pickle_.unknown && !only_tensors_) {
      return refuse_unknown(*pickle_.unknown, "what the pickle names beside its values");
    }
    tree_.checkpoint.root = *std::move(value);
    return std::move(tree_);
  }

 private:
  const Node& node(NodeId id) const { return pickle_.nodes[id]; }

  Error refuse(const std::string& what) const { return unsupported(path_.shown() + " " + what); }

  // `is_key`: the value is a key, or in one, of the container at the path.
  Error refuse_unknown(NodeId id, const std::string& where, bool is_key = false) const {
    const Node& value = node(id);
    const std::string has = is_key ? " has as a key " : " is ";
    if (value.kind == NodeKind::kRefused) {
      return unsupported(where + (is_key ? " has a key that " : " ") + value.text);
    }
    const std::string what = value.kind == NodeKind::kObject ? "an object of " : "";
    return unsupported(where + has + what + escaped(value.text) +
                       ", which cfck does not know and so never calls; " + std::string(kWays))
        .at_byte(static_cast<std::uint64_t>(value.integer));
  }

  // Counts a value and its characters: a pickle may name a large one again and again, and each time
  // is a copy in the tree.
  void spend(NodeId id) const {
    left_values_ -= left_values_ > 0 ? 1 : 0;
    left_bytes_ -= std::min<std::uint64_t>(left_bytes_, node(id).text.size());
    if (open_.empty() || !open_.back().is_repeat) return;
    left_repeats_ -= left_repeats_ > 0 ? 1 : 0;
  }
  Result<void> check_size() const {
    if (left_values_ == 0) return too_many_values();
    if (left_repeats_ == 0) {
      return limit_exceeded(
          "the pickle has its containers in so many places that its tensors have more names than "
          "cfck lists; load it with torch.load in Python if you trust it");
    }
    if (left_bytes_ > 0) return {};
    return limit_exceeded(
        "the texts and bytes of the pickle take more than 64 MiB; store long ones as tensors");
  }

  // Counts what is left out, but for what an object has that is left out itself.
  void leave_out(const std::string& what) {
    if (repeats() || n_unknown_open_ > 0) return;
    ++tree_.n_left_out;
    if (tree_.left_out.size() < kMaxLeftOut) tree_.left_out.push_back({path_.name(), what});
  }

  // Returns the value of a node; nullopt for a container that was opened.
  Result<std::optional<CheckpointValue>> start(NodeId id) {
    spend(id);
    CFCK_TRY(check_size());
    const Node& value = node(id);
    if (is_unknown(value.kind)) return start_unknown(id);
    if (const auto kind = container_kind(value)) {
      if (!value.has_attributes) return start_container(id, *kind);
      if (is_state_dict(value)) return start_container(id, Kind::kStateDict);
      return refuse(
          "is an OrderedDict with attributes other than _metadata, which would be lost; store "
          "dict(x), and what you need of them separately");
    }
    CFCK_TRY_ASSIGN(CheckpointValue made, plain(id));
    if (!value.has_attributes) return std::optional(std::move(made));
    CFCK_TRY_ASSIGN(auto closed, start_container(id, Kind::kAttributes));
    if (!closed) open_.back().container.metadata = std::move(made);
    return closed;
  }

  // An OrderedDict that Module.state_dict() of PyTorch returned.
  bool is_state_dict(const Node& value) const {
    const Node& attributes = node(value.attributes);
    return value.kind == NodeKind::kOrderedDict && attributes.items.size() == 2 &&
           node(attributes.items[0]).text == "_metadata";
  }

  // Values that are not known are refused, or their parts are looked at for tensors.
  Result<std::optional<CheckpointValue>> start_unknown(NodeId id) {
    if (!only_tensors_) return refuse_unknown(id, path_.shown());
    const Node& value = node(id);
    leave_out(value.kind == NodeKind::kRefused ? value.text.substr(0, value.text.find(';'))
                                               : value.text);
    return start_container(id, Kind::kList);
  }

  bool repeats() const { return !open_.empty() && open_.back().is_repeat; }

  Result<std::optional<CheckpointValue>> start_container(NodeId id, Kind kind) {
    const auto done = done_.find(id);
    const bool is_repeat = done != done_.end();
    const bool has_names = is_repeat && done->second.n_names > 0;
    if (is_repeat && !has_names) {
      return std::optional(CheckpointValue{ContainerReference{done->second.place}});
    }
    if (is_open_[id]) {
      // Objects of classes refer to each other in circles.
      if (only_tensors_) return std::optional(CheckpointValue{});
      return refuse("contains itself; store a tree without cycles");
    }
    if (open_.size() == kMaxDepth) return refuse("is more than 1000 containers deep");
    is_open_[id] = true;
    n_unknown_open_ += is_unknown(node(id).kind) ? 1 : 0;
    Open& opened = open_.emplace_back();
    opened.id = id;
    opened.container.kind = kind;
    opened.first_name = tree_.tensors.size();
    opened.is_repeat = is_repeat;
    path_.push();
    return std::optional<CheckpointValue>();
  }

  // The items of a container: those of the node, or for attributes, those of their dict.
  const Node& items_of(const Open& open) const {
    const Node& source = node(open.id);
    return open.container.kind == Kind::kAttributes ? node(source.attributes) : source;
  }

  // Adds items up to the next container, which it opens. Returns true at the end.
  Result<bool> fill() {
    const std::size_t place = open_.size() - 1;
    const Node& source = items_of(open_[place]);
    const bool is_set = source.kind == NodeKind::kSet || source.kind == NodeKind::kFrozenset;
    const bool keyed = open_[place].container.has_keys();
    while (open_[place].next < source.items.size()) {
      Open& open = open_[place];
      const std::size_t index = open.next++;
      NodeId item = source.items[index];
      if (is_set || keyed) {
        spend(item);
        path_.set_last("", false);
        CFCK_TRY_ASSIGN(CheckpointValue key, key_of(item));
        CFCK_TRY(check_size());
        if (is_set) {
          if (!only_tensors_) open.container.values.push_back(std::move(key));
          continue;
        }
        path_.set_last(is_unknown(node(item).kind) ? node(item).text : checkpoint_step(key));
        if (!only_tensors_ && !open.is_repeat) open.container.keys.push_back(std::move(key));
        item = source.items[open.next++];
      } else {
        path_.set_last(step_of(source, index), !is_unknown(source.kind) || !is_state(item));
      }
      if (open.is_repeat && has_no_names(item)) continue;
      CFCK_TRY_ASSIGN(std::optional<CheckpointValue> value, start(item));
      if (!value) return false;
      put(*std::move(value));
    }
    if (open_[place].container.kind != Kind::kStateDict || open_[place].in_metadata) return true;
    open_[place].in_metadata = true;
    path_.set_last("_metadata");
    CFCK_TRY_ASSIGN(std::optional<CheckpointValue> value, start(node(source.attributes).items[1]));
    if (!value) return false;
    put(*std::move(value));
    return true;
  }

  // Names the items of containers that have no keys.
  std::string step_of(const Node& source, std::size_t index) const {
    if (source.kind != NodeKind::kSparse) return std::to_string(index);
    const std::string& layout = node(source.items[0]).text;
    const bool is_coo = layout == "sparse_coo";
    if (index == (is_coo ? 2U : 3U)) return "values";
    if (is_coo) return "indices";
    const bool by_rows = layout == "sparse_csr" || layout == "sparse_bsr";
    if (index == 1) return by_rows ? "crow_indices" : "ccol_indices";
    return by_rows ? "col_indices" : "row_indices";
  }

  // True for the state of an object: its attributes are named without a step for the dict that has
  // them.
  bool is_state(NodeId item) const {
    const NodeKind kind = node(item).kind;
    return kind == NodeKind::kDict || kind == NodeKind::kTuple || kind == NodeKind::kList;
  }

  // True for values that have no tensors, so that they need not be seen again.
  bool has_no_names(NodeId item) const {
    const Node& value = node(item);
    if (value.has_attributes) return false;
    const bool is_container = container_kind(value).has_value() || is_unknown(value.kind);
    return !is_container && value.kind != NodeKind::kTensor && value.kind != NodeKind::kParameter;
  }

  // Adds a value to the innermost open container.
  void put(CheckpointValue value) {
    Open& open = open_.back();
    if (only_tensors_ || open.is_repeat) return;
    if (open.in_metadata) {
      open.container.metadata = std::move(value);
    } else {
      open.container.values.push_back(std::move(value));
    }
  }

  CheckpointValue close() {
    Open open = std::move(open_.back());
    open_.pop_back();
    path_.pop();
    is_open_[open.id] = false;
    n_unknown_open_ -= is_unknown(node(open.id).kind) ? 1 : 0;
    if (open.is_repeat) return {ContainerReference{done_.at(open.id).place}};
    const std::size_t place = tree_.checkpoint.containers.size();
    if (!only_tensors_) tree_.checkpoint.containers.push_back(std::move(open.container));
    done_.emplace(open.id, Built{place, tree_.tensors.size() - open.first_name});
    return {ContainerReference{place}};
  }

  Result<CheckpointValue> plain(NodeId id);
  Result<CheckpointValue> key_of(NodeId id, int depth = 0);
  CheckpointValue meta_value(const Node& value, bool is_parameter, bool requires_grad) const;
  Result<CheckpointValue> parameter(NodeId id);
  TensorReference reference(NodeId id, TensorReference::Kind kind, bool requires_grad);

  const Pickle& pickle_;
  bool only_tensors_;
  PickleTree tree_;
  mutable std::uint64_t left_values_ = kMaxPickledValues;
  mutable std::uint64_t left_bytes_ = kMaxCheckpointBytes;
  mutable std::uint64_t left_repeats_;
  std::vector<Open> open_;
  std::size_t n_unknown_open_ = 0;
  PicklePath path_;
  std::vector<bool> is_open_;            // by node
  std::map<NodeId, Built> done_;         // containers
  std::map<NodeId, std::string> names_;  // of tensors: the first name
  CheckpointNames record_names_;
};

Result<CheckpointValue> TreeBuilder::plain(NodeId id) {
  const Node& value = node(id);
  switch (value.kind) {
    case NodeKind::kTensor: {
      const bool requires_grad =
          pickle_.tensors[static_cast<std::size_t>(value.integer)].requires_grad;
      return CheckpointValue{reference(id, TensorReference::Kind::kTensor, requires_grad)};
    }
    case NodeKind::kMetaTensor: {
      const auto& tensor = pickle_.meta_tensors[static_cast<std::size_t>(value.integer)];
      if (only_tensors_) leave_out("a tensor without values");
      return meta_value(value, false, tensor.requires_grad);
    }
    case NodeKind::kParameter:
      return parameter(id);
    case NodeKind::kStorage:
      if (!only_tensors_) return refuse("is a storage without a tensor; store a tensor of it");
      leave_out("a storage without a tensor");
      return CheckpointValue{};
    case NodeKind::kGlobal:
      if (!only_tensors_) {
        return refuse("is the class or function " + escaped(value.text) + ", which is no value");
      }
      leave_out(value.text);
      return CheckpointValue{};
    default:
      if (!repeats() && n_unknown_open_ == 0) ++tree_.n_plain;
      return key_of(id);
  }
}

// Plain values, which keys may be too, but for some that no pickle has as a key.
Result<CheckpointValue> TreeBuilder::key_of(NodeId id, int depth) {
  const Node& key = node(id);
  switch (key.kind) {
    case NodeKind::kNone:
      return CheckpointValue{};
    case NodeKind::kBool:
      return CheckpointValue{key.integer != 0};
    case NodeKind::kInteger:
      return CheckpointValue{key.integer};
    case NodeKind::kBigInteger:
      return CheckpointValue{BigInteger{key.text}};
    case NodeKind::kFloat:
      return CheckpointValue{key.real};
    case NodeKind::kComplex:
      return CheckpointValue{std::complex<double>(key.real, key.imaginary)};
    case NodeKind::kText:
      return CheckpointValue{key.text};
    case NodeKind::kBytes:
    case NodeKind::kBytearray:
      return CheckpointValue{CheckpointBytes{key.text, key.kind == NodeKind::kBytearray}};
    case NodeKind::kDType:
      return CheckpointValue{TorchDType{key.text}};
    case NodeKind::kDevice:
      return CheckpointValue{TorchDevice{key.text}};
    case NodeKind::kLayout:
      return CheckpointValue{TorchLayout{key.text}};
    case NodeKind::kSize: {
      TorchSize size;
      for (const NodeId item : key.items) size.sizes.push_back(node(item).integer);
      return CheckpointValue{std::move(size)};
    }
    case NodeKind::kTuple: {
      // Keys of containers were checked. Those of objects that are not known were not.
      if (depth == kMaxKeyDepth) return refuse("has a key of more than 16 nested tuples");
      TupleKey tuple;
      for (const NodeId item : key.items) {
        spend(item);
        CFCK_TRY(check_size());
        CFCK_TRY_ASSIGN(CheckpointValue part, key_of(item, depth + 1));
        tuple.items.push_back(std::move(part));
      }
      return CheckpointValue{std::move(tuple)};
    }
    default:
      if (only_tensors_) return CheckpointValue{key.text};
      return refuse_unknown(id, path_.shown(), true);
  }
}

CheckpointValue TreeBuilder::meta_value(const Node& value, bool is_parameter,
                                        bool requires_grad) const {
  const auto& tensor = pickle_.meta_tensors[static_cast<std::size_t>(value.integer)];
  MetaTensor meta;
  meta.dtype = tensor.torch_dtype;
  meta.shape.assign(tensor.shape.begin(), tensor.shape.end());
  meta.strides.assign(tensor.strides.begin(), tensor.strides.end());
  meta.is_parameter = is_parameter;
  meta.requires_grad = requires_grad;
  return {std::move(meta)};
}

Result<CheckpointValue> TreeBuilder::parameter(NodeId id) {
  const Node& value = node(id);
  const Node& data = node(value.items[0]);
  const bool requires_grad = value.integer != 0;
  if (data.kind == NodeKind::kMetaTensor) {
    if (only_tensors_) leave_out("a parameter without values");
    return meta_value(data, true, requires_grad);
  }
  const DType dtype = pickle_.tensors[static_cast<std::size_t>(data.integer)].dtype;
  const bool integers = dtype == DType::kBool || dtype == DType::kU8 || dtype == DType::kI8 ||
                        dtype == DType::kI16 || dtype == DType::kU16 || dtype == DType::kI32 ||
                        dtype == DType::kU32 || dtype == DType::kI64 || dtype == DType::kU64;
  if (integers && requires_grad && !only_tensors_) {
    return refuse("is a parameter of integers with a gradient");
  }
  return CheckpointValue{reference(id, TensorReference::Kind::kParameter, requires_grad)};
}

// Adds a name for the tensor. The first is that of all references to one tensor, which is one
// object; a parameter is another object than its tensor.
TensorReference TreeBuilder::reference(NodeId id, TensorReference::Kind kind, bool requires_grad) {
  const NodeId tensor_id = node(id).kind == NodeKind::kParameter ? node(id).items[0] : id;
  const auto tensor = static_cast<std::size_t>(node(tensor_id).integer);
  std::string name = record_names_.name(path_.name());
  left_bytes_ -= std::min<std::uint64_t>(left_bytes_, name.size());
  const auto [found, is_first] = names_.emplace(id, name);
  tree_.tensors.push_back({std::move(name), tensor});
  return {kind, found->second, requires_grad, std::string(pickle_.tensors[tensor].complex_dtype)};
}

}  // namespace

Result<PickleTree> tree_of(const Pickle& pickle, bool only_tensors) {
  return TreeBuilder(pickle, only_tensors).run();
}

}  // namespace cfck::interop
